"""Part `statements`: every lemma, proposition and theorem, checked on many networks and rays."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import categorical, generator
from nescio.geometry.rays.breakpoints import Rays, ray
from nescio.geometry.rays.far_field import along_axis, far_field
from nescio.geometry.rays.limits import Limits, limits
from nescio.models.model import Model
from nescio.nets.stack import stack
from nescio_papers.kit import Findings, Settings, percent, table
from nescio_papers.know_your_limits.definitions import definition_numbers
from nescio_papers.know_your_limits.hein import dead_pieces, hein_statements
from nescio_papers.know_your_limits.random_networks import (
    MEAN,
    MEMBERS,
    ONE,
    check_ends,
    check_limits,
    check_maps,
    drawn,
    linear,
)
from nescio_papers.know_your_limits.statement import (
    CLEAR,
    CLOSE,
    CORRECTED,
    FALSE,
    PRINTED,
    Statement,
    samples,
    verdict,
)
from nescio_papers.know_your_limits.statement_claims import statement_comparisons
from nescio_papers.know_your_limits.surfaces import ENTROPY, INFORMATION, LEAST, VARIANCE

LEFT = ((1.0, 1.0), (1.0, -1.0))  # no zero entry, and both classes grow alike along x_1
RIGHT = ((1.0, -2.0), (1.0, 1.0))
AT = (1.0, 0.3)
ALONE = "one class alone grows fastest, in each network"


def statements(settings: Settings) -> Findings:
    """All statements of both papers, one row each."""
    rows = {key: asdict(row) for key, row in verdicts(settings).items()}
    counts = {v: sum(r["verdict"] == v for r in rows.values()) for v in (PRINTED, CORRECTED, FALSE)}
    numbers = {
        "statements": rows,
        "counts": counts,
        "dead": dead_pieces(settings),
        "definitions": definition_numbers(settings),
    }
    return Findings(
        numbers=numbers,
        comparisons=statement_comparisons(numbers),
        text=_text(rows, counts, len(list(drawn(settings)))),
    )


@cache
def verdicts(settings: Settings) -> Mapping[str, Statement]:
    """The rows of the table, by a short key."""
    maps, ends, ends_far = check_maps(settings), check_ends(settings), check_limits(settings)
    return {
        **_foundations(maps, ends),
        **_softmax(),
        **_gradients(ends_far, maps["bound of Lemma 6"]["largest"]),
        **hein_statements(settings, ends),
    }


def _foundations(maps: Mapping[str, Any], ends: Mapping[str, Any]) -> dict[str, Statement]:
    right, printed = maps["product with L - l"], maps["product as printed"]
    monotone, axis = maps["monotone"], ends["axis"]
    worst = max(right["largest"], maps["V x + a is the network"]["largest"])
    stays = _stays_bounded()
    return {
        "affine": Statement(
            name="V(x), section 4",
            says="a ReLU network is V x + a on each polytope, with V = W_L prod Phi_l W_(L-l)",
            verdict=verdict(worst, corrected=printed["largest"] > CLEAR),
            needs="Phi_(L-l) in place of Phi_l",
            check=f"the product against the network's own map at {samples(right, 'points')}",
            worst=worst,
            counter="the printed product, where the shapes allow it, is off by up to "
            f"{printed['largest']:.3g}",
            miss=printed["largest"],
        ),
        "monotone": Statement(
            name="Definition 2",
            says="increasing: x <= y if and only if f(x) <= f(y)",
            verdict=verdict(0.0, miss=1.0),
            needs="x <= y implies f(x) <= f(y); as printed it is strict",
            check="f = 0, which the definition means to include",
            worst=None,
            counter="f(1) <= f(0), but 1 > 0",
            miss=1.0,
        ),
        "lemma1": Statement(
            name="Lemma 1",
            says="no zero entry in V: each logit is strictly monotone in each input on the "
            "polytope",
            verdict=verdict(monotone["largest"]),
            needs="",
            check="logits half way to the nearest face against V: "
            f"{samples(monotone, 'moves in pieces without a zero entry')}",
            worst=monotone["largest"],
        ),
        "pup": Statement(
            name="Lemma 2",
            says="scaling one coordinate ends in one polytope for good",
            verdict=verdict(max(axis["largest"], ends["axis, V"]["largest"])),
            needs="the polytope is unbounded only if x_d is not 0: else the point does not move",
            check="network against the last piece beyond the last breakpoint: "
            f"{samples(axis, 'points')}",
            worst=axis["largest"],
            counter="relu(x_1), relu(1 - x_1), relu(x_2), relu(1 - x_2) at (0, 0.5): scaling x_1 "
            f"stays in a piece of width {stays:g}",
        ),
    }


def _stays_bounded() -> float:
    """The width of the piece of (0, 0.5) of four units that bound a unit square."""
    first = nn.Linear(2, 4).double()
    first.weight.data = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]], dtype=torch.float64)
    first.bias.data = torch.tensor([0.0, 1, 0, 1], dtype=torch.float64)
    net = nn.Sequential(first, nn.ReLU(), nn.Linear(4, 2).double())
    result = ray(net, torch.tensor([[0.0, 0.5]]), torch.tensor([[1.0, 0.0]]))
    assert isinstance(result, Rays)
    return float(result.breakpoints(0)[0])


def _softmax() -> dict[str, Statement]:
    """Lemmas 9 and 10, from logits of three classes."""
    others = torch.tensor([0.3, -1.2], dtype=torch.float64)
    worst = max(
        float(_jacobian(torch.cat([torch.tensor([z], dtype=torch.float64), others]))[0].abs().max())
        for z in (-800.0, 800.0)
    )
    together = float(_jacobian(torch.tensor([800.0, 800.0], dtype=torch.float64))[0, 0])
    tied = 1 / _jacobian(_scaled_logits(LEFT, 1e6))[0, 0].item()
    apart = 1 / _jacobian(_scaled_logits(((2.0, 1.0), (1.0, -1.0)), 30.0))[0, 1].item()
    signs = _signs()
    return {
        "softmax": Statement(
            name="Lemma 9",
            says="a softmax output's derivative in any logit goes to 0 as its own logit goes to "
            "+-inf",
            verdict=verdict(worst, corrected=together > CLEAR),
            needs="the other logits stay fixed; in the proof of Proposition 1 they all grow",
            check="the Jacobian at logits of +-800 beside 0.3 and -1.2",
            worst=worst,
            counter=f"two equal logits that grow together: the derivative stays {together:.4g}",
            miss=together,
        ),
        "lemma10": Statement(
            name="Lemma 10",
            says="1 / (derivative of softmax) minus the slope of a logit goes to +inf",
            verdict=verdict(0.0 if signs == 1 else 1.0, miss=abs(tied)),
            needs=f"{ALONE}; then +inf for c = c' and -inf for c not c'",
            check="signs of the inverse derivatives on 200 random rays with one fastest class: "
            f"right on {percent(signs)}",
            worst=None,
            counter=f"V = [[2, 1], [1, -1]] from (1, 0.3): {apart:.2g} at alpha 30 for c not c'; "
            f"with V = [[1, 1], [1, -1]] it stays {tied:.4g}",
            miss=abs(tied),
        ),
    }


def _scaled_logits(rows: tuple[tuple[float, ...], ...], alpha: float) -> Tensor:
    matrix = torch.tensor(rows, dtype=torch.float64)
    return matrix @ torch.tensor([alpha * AT[0], AT[1]], dtype=torch.float64)


def _jacobian(logits: Tensor) -> Tensor:
    """Of the softmax: p_c (1[c = k] - p_k), without a difference that rounds to 0."""
    p = logits.softmax(0)
    rest = torch.stack([torch.cat([p[:c], p[c + 1 :]]).sum() for c in range(len(p))])
    result = -p[:, None] * p
    result[range(len(p)), range(len(p))] = p * rest
    return result


def _signs() -> float:
    """Share of rays where every inverse derivative grows in size, with the corrected sign."""
    source = generator(0, "lemma 10")
    right = []
    for _ in range(200):
        slope, shift = torch.randn(2, 3, generator=source, dtype=torch.float64)
        slope[0] = slope.max() + 0.2  # the fastest
        near, far = (1 / _jacobian(t * slope + shift) for t in (30.0, 60.0))
        sign = 2 * torch.eye(3, dtype=torch.float64) - 1
        right.append(bool(((sign * far > 0) & (far.abs() > near.abs())).all()))
    return sum(right) / len(right)


def _gradients(result: Mapping[str, Any], ratio: float) -> dict[str, Statement]:
    single = _example(LEFT)
    both = _example(LEFT, RIGHT)
    winner = result["winner"]
    still = _not_moving()
    example = "V = [[1, 1], [1, -1]] from (1, 0.3) along x_1"
    two = "that and V = [[1, -2], [1, 1]]"
    value = max(result[name]["value"]["largest"] for name in (ONE, MEAN, *_MEASURES))
    one = (single.class_gradients, single.gradients)
    assert one[0] is not None
    assert one[1] is not None
    assert both.class_gradients is not None
    assert both.gradients is not None
    rows = {
        "prop1": ("Proposition 1", "the gradient of each probability goes to 0", ONE, example,
                  float(one[0].max()), ""),
        "lemma3": ("Lemma 3", "so does that of the largest probability", LEAST, example,
                   float(one[1]["least_confidence"]), "where two classes tie it has no gradient"),
        "lemma4": ("Lemma 4", "so does that of the mean probability of K networks", MEAN, two,
                   float(both.class_gradients.max()), ""),
        "lemma5": ("Lemma 5", "so does that of the class variance", VARIANCE, two,
                   float(both.gradients["class_variance"]), ""),
        "lemma6": ("Lemma 6", "so does that of the predictive entropy", ENTROPY, example,
                   float(one[1]["predictive_entropy"]),
                   "the proof drops a minus sign and takes 1 + log p as bounded; |grad p| is at "
                   f"most 2 max|v| p (here {ratio:.2f} of that), and p log p goes to 0"),
        "lemma7": ("Lemma 7", "so does that of the mutual information", INFORMATION, two,
                   float(both.gradients["mutual_information"]), ""),
    }  # fmt: skip
    made = {key: _row(result, *parts) for key, parts in rows.items()}
    made["prop2"] = Statement(
        name="Proposition 2",
        says="no equal entries in column d: one class gets probability 1",
        verdict=verdict(
            1 - winner["one"][1] / max(1, winner["one"][0]), corrected=still < 1 - CLEAR
        ),
        needs="x_d is not 0; it is enough that " + ALONE.split(",")[0],
        check=f"{winner['one'][1]} of {winner['one'][0]} rays end at probability 1; where x_d < 0 "
        f"the class with the smallest entry wins, on {winner['negative'][1]} of "
        f"{winner['negative'][0]}, the proof's largest on {winner['negative'][2]}",
        worst=0.0,
        counter=f"V = [[1, 1], [2, -1]] at (0, 0.3): the largest probability stays {still:.4f}",
        miss=1 - still,
    )
    made["theorem"] = Statement(
        name="Theorem 1",
        says="every measure converges to a fixed value",
        verdict=verdict(value),
        needs="true for every V, as logits end affine; that gradients vanish does not prove it",
        check="exact limits against the networks far out: "
        f"{samples(result[ENTROPY]['value'], 'rays')}, 1 and {MEMBERS} networks, all measures",
        worst=value,
        counter="a measure of log alpha would pass the proof: its slope is 1e-6 at alpha 1e6, and "
        f"it grew by {math.log(10):.2f} since 1e5",
    )
    return made


_MEASURES = (LEAST, VARIANCE, ENTROPY, INFORMATION)


def _row(
    result: Mapping[str, Any],
    name: str,
    says: str,
    measure: str,
    where: str,
    miss: float,
    also: str,
) -> Statement:
    rows = result[measure]
    printed, kept = rows["printed"], rows["printed and not 0"]
    worst = max(rows["corrected"]["largest"], rows["gradient"]["largest"])
    return Statement(
        name=name,
        says=f"no zero entry in V: {says}" if name == "Proposition 1" else says,
        verdict=verdict(worst, miss=miss),
        needs=ALONE + (f"; {also}" if also else ""),
        check=f"{samples(rows['corrected'], 'rays')} with that: limit 0; of "
        f"{int(printed['samples'])} without a zero entry {int(kept['samples'])} keep a gradient, "
        f"up to {printed['largest']:.3g}",
        worst=worst,
        counter=f"{where}: stays {miss:.4f}",
        miss=miss,
    )


def _example(*matrices: tuple[tuple[float, ...], ...]) -> Limits:
    """Limits along x_1 of networks that are one matrix each."""
    made = [linear(*rows) for rows in matrices]
    model = Model(made[0], stack(made), categorical())
    return limits(model, *along_axis(torch.tensor([AT]), 0))


def _not_moving() -> float:
    """The largest probability at a point whose scaled coordinate is 0."""
    point = torch.tensor([[0.0, AT[1]]], dtype=torch.float64)
    return float(far_field(linear((1.0, 1.0), (2.0, -1.0)), *along_axis(point, 0)).confidence)


def _text(rows: Mapping[str, Mapping[str, Any]], counts: Mapping[str, int], groups: int) -> str:
    shown = ", ".join(f"{count} {name}" for name, count in counts.items())
    about = (
        f"Every statement, checked: {shown}. False as printed: a sample meets every printed "
        f"hypothesis and misses the statement by more than {CLEAR:g}. Checked on {groups} groups "
        f"of {MEMBERS} random networks, half of them with whole numbers as weights, where ties "
        "are frequent and nothing is rounded. Limits are exact, from the last piece of a ray; the "
        f"deviation is from the networks themselves, far out. Below {CLOSE:g} it is rounding. "
        "There is no Lemma 8."
    )
    header = ["statement", "says", "verdict", "true if", "check", "deviation", "counter-example"]
    cells = [
        [
            row["name"],
            row["says"],
            row["verdict"],
            row["needs"] or "–",
            row["check"],
            "–" if row["worst"] is None else f"{row['worst']:.1g}",
            row["counter"] or "–",
        ]
        for row in rows.values()
    ]
    return about + "\n\n" + table(header, cells)
