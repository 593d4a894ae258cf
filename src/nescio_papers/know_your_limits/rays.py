"""Part `rays`: what becomes of each measure when one coordinate of a point grows without end.

Logits are affine far out on a ray, so every measure has a limit there. Its gradient goes to zero
where one class has the largest slope along the ray, and need not where two classes share it.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio_papers.kit import Claim, exactly
from nescio_papers.kit.experiment import Comparison, Findings, Settings
from nescio_papers.kit.shares import at_least, percent, share
from nescio_papers.know_your_limits.judging import ABSENT, Row, of_share, over_trainings
from nescio_papers.know_your_limits.models import END, MANY, PLAIN, SINGLE, Network, trained, world
from nescio_papers.know_your_limits.ray_figures import LAST, figure_of_example, figure_of_rays
from nescio_papers.know_your_limits.statistics import names_of
from nescio_papers.know_your_limits.surfaces import Bools, Field, Floats, fields, slopes

BEFORE = 1e5  # compared with the last factor
SMALL = 1e-6  # a change or a gradient below counts as none
KEPT = 0.95  # of the validation points: the level of the reject option
RAYS = 500  # from 250 points along two axes
REST = 0.95  # of the rays, lowest of all models and measures


def scaled(x: Tensor, dimension: int, alpha: float) -> Tensor:
    """Points with one coordinate times `alpha`; float64."""
    factors = torch.ones(x.shape[1], dtype=torch.float64)
    factors[dimension] = alpha
    return x.double() * factors


def along(
    network: Network, x: Tensor, alphas: Sequence[float], names: Sequence[str], base: float
) -> dict[str, Field]:
    """Measures on the rays: arrays `(dimensions x points, alphas)`."""
    moved = [scaled(x, d, alpha) for alpha in alphas for d in range(x.shape[1])]
    result = fields(network, torch.cat(moved), names, base)
    return {
        name: Field(_rays(f.value, alphas), _rays(f.slope, alphas)) for name, f in result.items()
    }


def _rays(values: Floats, alphas: Sequence[float]) -> Floats:
    return values.reshape(len(alphas), -1).T


def start_points(settings: Settings) -> Tensor:
    """The validation points that rays start from."""
    return world(settings.seed).validation[0][: 60 if settings.quick else 250]


def rays(settings: Settings) -> Findings:
    """Convergence of all measures of all models along the axes, and the counter-example."""
    numbers = {**convergence(settings), "counter-example": counter_example()}
    values, gradients, example = "rays-values.png", "rays-gradients.png", "counter-example.png"
    alphas = np.geomspace(1, LAST, 13 if settings.quick else 25)
    models = trained(settings, END)
    x = start_points(settings)
    result = {
        name: along(models[name][0], x, alphas.tolist(), names_of(name), settings.base)
        for name in (*SINGLE, *MANY)
    }
    moved = _least(numbers, "still")
    gone = _least(numbers, "gradient gone")
    stays = numbers["counter-example"]
    return Findings(
        numbers=numbers,
        figures={
            values: figure_of_rays(alphas, result, settings, gradient=False),
            gradients: figure_of_rays(alphas, result, settings, gradient=True),
            example: figure_of_example(),
        },
        captions={
            values: "Median (thick) and 90 % quantile (thin) of each measure over rays from "
            "validation points, both axes; dotted: the largest possible value. Between alpha 1e5 "
            f"and 1e6 {at_least(moved, 'rays')} move by less than 1e-6, for each model "
            "and measure.",
            gradients: "Norms of the gradients on the same rays: at alpha 1e6 they are below 1e-6 "
            f"on {at_least(gone, 'rays')}, for each model and measure. Values below 1e-12 are "
            "drawn at 1e-12.",
            example: "V = [[1, 1], [1, -1]] has no zero entry, but both classes have the same "
            f"slope along dimension 1: the probabilities stay at {stays['probabilities'][0]:.4f} "
            f"and {stays['probabilities'][1]:.4f}, the gradient norm at {stays['gradient']:.4f}.",
        },
        comparisons=[
            Comparison(
                "limit of the gradient norm in the counter-example",
                0.0,
                stays["gradient"],
                note="Proposition 1 says 0",
            )
        ],
        text=_text(numbers),
    )


@cache
def convergence(settings: Settings) -> dict[str, Any]:
    """Shares of rays that have come to rest, for all models and trainings."""
    models, x = trained(settings, END), start_points(settings)
    return {
        name: ray_numbers(models[name], x, names_of(name), settings.base)
        for name in (*SINGLE, *MANY)
    }


def ray_numbers(
    networks: Sequence[Network], x: Tensor, names: Sequence[str], base: float
) -> dict[str, Any]:
    """What happens on the rays, by measure, over trainings; and what V is like out there."""
    result = [along(network, x, (BEFORE, LAST), names, base) for network in networks]
    held = [fields(network, x, names, base) for network in networks]
    by_measure = {
        name: {
            "still": over_trainings([share(_still(f[name])) for f in result]),
            "gradient gone": over_trainings([share(f[name].slope[:, 1] < SMALL) for f in result]),
            "value at the end": over_trainings(
                [float(np.median(f[name].value[:, 1])) for f in result]
            ),
            "accepted": over_trainings(
                [_accepted(f[name], h[name]) for f, h in zip(result, held, strict=True)]
            ),
        }
        for name in names
    }
    rows = [_limits(network, x) for network in networks]
    ends = {key: over_trainings([row[key] for row in rows]) for key in rows[0]}
    return by_measure | {"limits": ends}


def _accepted(ends: Field, held: Field) -> float:
    """Share of the rays' ends that a reject option accepts which accepts 95 % of the starts."""
    return share(ends.value[:, 1] <= np.quantile(held.value, KEPT))


def _still(field: Field) -> Bools:
    still: Bools = np.abs(field.value[:, 1] - field.value[:, 0]) < SMALL
    return still


def _limits(network: Network, x: Tensor) -> dict[str, float]:
    """V at the end of the rays: zero entries, ties, and who wins for x_d above and below zero."""
    parts = []
    for d in range(x.shape[1]):
        points = scaled(x, d, LAST)
        matrix = slopes(network, points)  # (M, N, C, D)
        with torch.no_grad():
            prediction = network(points)
        signs = x[:, d].double().sign()
        rise = signs[:, None] * matrix[..., d]  # slope of each logit as alpha grows
        ordered = rise.sort(-1).values
        one = prediction.member_log_probs.argmax(-1)
        parts.append(
            {
                "zero entry": (matrix == 0).flatten(2).any(-1).any(0),
                "tie": (ordered[..., -1] == ordered[..., -2]).any(0),
                "sure of one class": prediction.probs.amax(-1) > 0.999,
                "negative": signs < 0,
                "by slope": (rise.argmax(-1) == one).double().mean(0),
                "by the paper's rule": (matrix[..., d].argmax(-1) == one).double().mean(0),
            }
        )
    joined = {key: torch.cat([part[key] for part in parts]).numpy() for key in parts[0]}
    negative = joined["negative"]
    shares = {key: share(joined[key]) for key in ("zero entry", "tie", "sure of one class")}
    for side, mask in (("above", ~negative), ("below", negative)):
        shares[f"winner by slope, x_d {side} 0"] = share(joined["by slope"][mask])
        shares[f"winner by the paper's rule, x_d {side} 0"] = share(
            joined["by the paper's rule"][mask]
        )
    return shares


def counter_example(alphas: Sequence[float] = (1.0, 1e3, 1e6)) -> dict[str, Any]:
    """A matrix without zero entries whose gradient does not vanish, against Proposition 1."""
    matrix = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    x = torch.tensor([[1.0, 0.3]], dtype=torch.float64)
    rows = []
    for alpha in alphas:
        point = scaled(x, 0, alpha).requires_grad_()
        probs = (point @ matrix.T).softmax(-1)
        (slope,) = torch.autograd.grad(probs[0, 0], point)
        first, second = probs[0].tolist()
        rows.append((first, second, float(slope.norm())))
    return {
        "alphas": [float(alpha) for alpha in alphas],
        "probabilities": list(rows[-1][:2]),
        "gradient": rows[-1][2],
        "gradients": [row[2] for row in rows],
        "moved": max(abs(row[0] - rows[0][0]) for row in rows),
    }


def _least(numbers: Mapping[str, Any], key: str) -> float:
    """The smallest mean share over all models and measures."""
    return float(_lowest(numbers, key, (*SINGLE, *MANY))["mean"])


def _lowest(numbers: Mapping[str, Any], key: str, names: Sequence[str]) -> Row:
    """The row with the smallest mean share over the measures of some models."""
    rows = [numbers[name][kind].get(key, ABSENT) for name in names for kind in names_of(name)]
    return min(rows, key=lambda row: float(row["mean"]))


def _text(numbers: Mapping[str, Any]) -> str:
    rows = [
        "| model | measure | moved by less than 1e-6 | gradient below 1e-6 | value at the end |",
        "|---|---|---|---|---|",
    ]
    for name in (*SINGLE, *MANY):
        for kind in names_of(name):
            result = numbers[name][kind]
            cells = [percent(result[key]["mean"]) for key in ("still", "gradient gone")]
            rows.append(
                f"| {name} | {kind} | {' | '.join(cells)} | "
                f"{result['value at the end']['mean']:.3g} |"
            )
    about = (
        "One coordinate of each validation point is multiplied by alpha, from 1 to 1e6; points "
        "with a negative coordinate move to the other side. Rays are counted over all trainings. "
        "What has not come to rest at 1e6 has two slopes that nearly agree, or starts near zero."
    )
    return about + "\n\n" + "\n".join(rows)


def ray_claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """The theorem, the propositions and what follows, on the rays of trained networks."""
    every = (*SINGLE, *MANY)
    limits, stays = numbers[PLAIN]["limits"], numbers["counter-example"]
    shown = ", ".join(f"{value:.4f}" for value in stays["probabilities"])
    rule = [
        percent(limits[f"winner by the paper's rule, x_d {side} 0"]["mean"])
        for side in ("above", "below")
    ]
    gone = of_share(
        "rays with a gradient below 1e-6 at alpha 1e6, lowest of all models and measures",
        _lowest(numbers, "gradient gone", every),
        above=REST,
        points=RAYS,
    )
    return [
        Claim(
            source="Ulmer and Cinà, theorem 1",
            sentence="The networks will converge to fixed uncertainty scores in the limit, for "
            "maximum probability, class variance, predictive entropy and mutual information.",
            facts=[
                of_share(
                    "rays that move by less than 1e-6 from alpha 1e5 to 1e6, lowest of all models "
                    "and measures",
                    _lowest(numbers, "still", every),
                    above=REST,
                    points=RAYS,
                )
            ],
            note="the value converges on every ray, as logits are affine there",
        ),
        Claim(
            source="Ulmer and Cinà, proposition 1",
            sentence="If V has no zero entries, the norm of the gradient of each probability goes "
            "to 0.",
            facts=[
                exactly(
                    "gradient norm with V = [[1, 1], [1, -1]] at alpha 1e6",
                    stays["gradient"],
                    below=SMALL,
                    why="closed form: both classes grow alike, as in the paper's footnote 4",
                    form=".4f",
                )
            ],
            note=f"p stays ({shown}): one class alone must have the largest slope. Of trained "
            f"networks, {gone}",
        ),
        Claim(
            source="Ulmer and Cinà, section 6",
            sentence="If the decision boundaries are not parallel to the axes, by scaling we "
            "eventually escape the green areas and arrive at an area with gradient of magnitude "
            "zero.",
            facts=[gone],
        ),
        Claim(
            source="Ulmer and Cinà, section 6",
            sentence="If the green regions were parallel to the axes then there will be entries "
            "v_cd = 0.",
            facts=[
                exactly(
                    "smallest entry of V = [[1, 1], [1, -1]] in size, whose boundary is parallel "
                    "to an axis",
                    1.0,
                    below=SMALL,
                    why="read off; what is 0 is the difference of the two classes' entries",
                )
            ],
        ),
        Claim(
            source="Ulmer and Cinà, proposition 2",
            sentence="There exists a class whose probability goes to 1.",
            facts=[
                of_share(
                    "rays of the plain network that end above 0.999",
                    limits["sure of one class"],
                    above=0.99,
                    points=RAYS,
                )
            ],
            note="x_d must not be 0; the winner is the class with the largest v_cd where x_d > 0, "
            "with the smallest where x_d < 0 (the rule of the proof is right on "
            f"{rule[0]} and {rule[1]})",
        ),
        Claim(
            source="Ulmer and Cinà, section 7",
            sentence="Since it as hard to flag instances of OOD reliably this way, the "
            "aforementioned methods run a concrete risk of missing OOD samples ...",
            facts=[
                of_share(
                    f"ends at alpha 1e6 that a reject option accepts which keeps 95 % of the data, "
                    f"by the best measure of the {name}",
                    _lowest(numbers, "accepted", [name]),
                    above=1 - KEPT,
                    points=RAYS,
                )
                for name in every
            ],
        ),
    ]
