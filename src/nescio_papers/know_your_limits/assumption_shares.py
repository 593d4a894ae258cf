"""Part `assumptions`: how often what the statements ask of V is met, ray by ray."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from nescio import nets
from nescio.data import digits
from nescio.geometry.rays.far_field import along_axis, far_field
from nescio.metrics import accuracy
from nescio.models.model import Model
from nescio.report.plots.look import COLORS, add_title, per_cent, with_look
from nescio.training.train import train
from nescio_papers.kit import Claim
from nescio_papers.kit.experiment import Comparison, Findings, Settings
from nescio_papers.kit.shares import percent, share
from nescio_papers.kit.summary import table
from nescio_papers.know_your_limits.blobs import trained_blobs
from nescio_papers.know_your_limits.judging import of_share, over_trainings
from nescio_papers.know_your_limits.models import END, PLAIN, trained, world

FIGURE = "assumptions.png"
PUBLISHED_ZERO = 6.3  # per cent of the points of the paper's figure 1
RARE = 0.05  # of the pairs: an assumption that is broken on more is not rarely broken
STILL, ZERO, EQUAL, TIED = "x_d is 0", "zero entry", "equal entries in column d", "tied top"
MET, SURE, DEAD, OPEN = "all met", "ends at one class", "ends constant", "undecided"
BROKEN = (STILL, ZERO, EQUAL, TIED)
MOONS, BLOBS, DIGITS = "half-moons", "nine blobs", "digits"
WIDTHS = (50, 50)  # of the networks of the digits


def assumptions(settings: Settings) -> Findings:
    """Shares of pairs of a point and a feature, over networks, on three data sets."""
    numbers = broken(settings)
    zero = ", ".join(f"{name} {percent(row[ZERO]['mean'])}" for name, row in numbers.items())
    return Findings(
        numbers=numbers,
        figures={FIGURE: _figure(numbers)},
        captions={
            FIGURE: "Share of pairs of a point and a feature that break each assumption, on the "
            f"last piece of the ray; mean and range over trained networks. A zero entry: {zero}. "
            "A point whose feature is 0 has no ray: it does not move."
        },
        comparisons=[_comparison(numbers)],
        text=_text(numbers),
    )


@cache
def broken(settings: Settings) -> dict[str, Any]:
    """By data set: shares over the networks, with mean, lowest and highest."""
    results = {}
    for name, (networks, x, score) in _worlds(settings).items():
        rows = [of_network(net, x) for net in networks]
        results[name] = {
            "networks": len(networks),
            "pairs": x[0].numel() * len(x),
            "accuracy": score,
            **{key: over_trainings([row[key] for row in rows]) for key in rows[0]},
        }
    return results


def _worlds(settings: Settings) -> dict[str, tuple[Sequence[nn.Module], Tensor, float]]:
    """Trained plain networks, points, and the mean accuracy, by data set."""
    moons, data = trained(settings, END)[PLAIN], world(settings.seed).validation
    blobs, drawn = trained_blobs(settings.seed, 5 if settings.quick else 20)
    images, held = _of_digits(settings)
    few = 10 if settings.quick else 60
    return {
        MOONS: (
            [net.model.member(0) for net in moons],
            data[0],
            float(np.mean([accuracy(net(data[0]).probs, data[1]) for net in moons])),
        ),
        BLOBS: (_members(blobs), drawn[0], _accuracy(blobs, drawn)),
        DIGITS: (_members(images), held[0][:few], _accuracy(images, held)),
    }


def _of_digits(settings: Settings) -> tuple[Model, tuple[Tensor, Tensor]]:
    data = digits(seed=settings.seed)
    assert data.test is not None
    model = train(
        lambda: nets.mlp((1, 8, 8), 10, widths=WIDTHS),
        data.train,
        epochs=10 if settings.quick else 40,
        batch_size=50,
        learning_rate=3e-3,
        members=2 if settings.quick else 5,
        seed=settings.seed,
        progress=False,
    )
    return model.to(torch.float64), data.test


def _members(model: Model) -> list[nn.Module]:
    return [model.member(i) for i in range(model.members)]


@torch.no_grad()
def _accuracy(model: Model, data: tuple[Tensor, Tensor]) -> float:
    labels = model.outputs(data[0].double()).argmax(-1)
    return float((labels == data[1]).double().mean())


def of_network(net: nn.Module, x: Tensor) -> dict[str, float]:
    """Shares of the pairs of a point and a feature, by what holds on the ray's last piece."""
    x = x.double()
    moves = x.flatten(1).T != 0  # (D, N)
    origins, ways = [], []
    for d, rows in enumerate(moves):
        if rows.any():
            origin, way = along_axis(x[rows], d)
            origins.append(origin)
            ways.append(way)
    field = far_field(net, torch.cat(origins), torch.cat(ways), last_region=True)
    last = field.last_region
    assert last is not None
    moving, pairs = len(field.slope), moves.numel()

    def of_all(mask: Any) -> float:
        return float(torch.as_tensor(mask).double().sum()) / pairs

    met = ~last.zero_entries & ~last.duplicate_slopes
    return {
        STILL: 1 - moving / pairs,
        ZERO: of_all(last.zero_entries),
        EQUAL: of_all(last.duplicate_slopes),
        TIED: of_all(last.tied_top),
        MET: of_all(met),
        SURE: of_all(field.confidence == 1),
        "of those that move": share(met.numpy()),
        DEAD: of_all(field.kind == "constant"),
        OPEN: of_all(field.kind == "undecided"),
    }


def _text(numbers: Mapping[str, Any]) -> str:
    header = ["data", "networks", "accuracy", "pairs", *BROKEN, MET, "met, if x_d is not 0", SURE]
    keys = (*BROKEN, MET, "of those that move", SURE)
    cells = [
        [
            name,
            str(row["networks"]),
            f"{row['accuracy']:.3f}",
            str(row["pairs"]),
            *(_range(row[key]) for key in keys),
        ]
        for name, row in numbers.items()
    ]
    about = (
        "Each pair of a point and a feature has a ray along that feature. On its last piece V is "
        "read exactly: a zero entry (Lemma 1, Proposition 1), equal entries in the column of the "
        "feature (Proposition 2), and two classes that grow fastest, which is what matters. Where "
        "the feature is 0 there is no ray. Mean over networks, in brackets lowest and highest; "
        f"rarely means at most {percent(RARE)} of the pairs. A dead last piece, V = 0, breaks "
        "all of them: "
        + ", ".join(f"{name} {percent(row[DEAD]['mean'])}" for name, row in numbers.items())
        + ". Pairs that rounding leaves undecided: "
        + ", ".join(f"{name} {percent(row[OPEN]['mean'])}" for name, row in numbers.items())
        + "."
    )
    return about + "\n\n" + table(header, cells)


def _range(row: Mapping[str, float]) -> str:
    low, high = row["low"], row["high"]
    if low == high:
        return percent(row["mean"])
    return f"{percent(row['mean'])} ({percent(low)} to {percent(high)})"


def assumption_claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """How rarely the assumption on V is broken."""
    still = numbers[DIGITS][STILL]["mean"]
    return [
        Claim(
            source="Ulmer and Cinà, section 7",
            sentence="The assumption that V has no zero entries should rarely be broken for ReLU "
            "networks.",
            facts=[
                of_share(
                    f"pairs of a point and a feature whose last piece has a zero entry, {name}",
                    row[ZERO],
                    below=RARE,
                    points=row["pairs"],
                    count=row["networks"],
                )
                for name, row in numbers.items()
            ],
            note=f"of the digits {percent(still)} of the pairs have no ray at all, as the pixel is "
            "0",
        )
    ]


def _comparison(numbers: Mapping[str, Any]) -> Comparison:
    return Comparison(
        "nine blobs: a zero entry in V (%)",
        PUBLISHED_ZERO,
        100 * numbers[BLOBS][ZERO]["mean"],
        note="theirs of the points of figure 1 and one network, ours of the last pieces of rays "
        f"and {numbers[BLOBS]['networks']} networks",
    )


@with_look
def _figure(numbers: Mapping[str, Any]) -> Figure:
    figure = Figure(figsize=(10.8, 4.6), layout="constrained")
    axis = figure.subplots()
    high = 0.8 / len(numbers)
    for i, (name, row) in enumerate(numbers.items()):
        for j, key in enumerate(BROKEN):
            index = j + (i - (len(numbers) - 1) / 2) * high
            result = row[key]
            axis.barh(
                index, result["mean"], 0.9 * high, color=COLORS[i],
                label=f"{name} ({row['networks']} networks)" if j == 0 else None,
            )  # fmt: skip
            axis.plot([result["low"], result["high"]], [index] * 2, color="black", linewidth=1.2)
            said = percent(result["mean"])
            if result["high"] > result["low"]:
                said += f" (up to {percent(result['high'])})"
            axis.text(result["high"] + 0.008, index, said, va="center", fontsize=9)
    axis.set_yticks(range(len(BROKEN)), BROKEN)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.set(xlabel="pairs of a point and a feature; line: range over networks")
    axis.set_xlim(0, 1.15 * max(row[key]["high"] for row in numbers.values() for key in BROKEN))
    per_cent(axis.xaxis)
    axis.legend(loc="lower right")
    worst = max(numbers, key=lambda name: numbers[name][ZERO]["mean"])
    add_title(
        figure,
        f"Zero entries: on {worst} in {percent(numbers[worst][ZERO]['mean'])} of the pairs on "
        f"average, else in fewer; but {percent(numbers[DIGITS][STILL]['mean'])} of the digits' "
        "pairs do not move at all",
    )
    return figure
