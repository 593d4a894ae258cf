"""MC dropout on single digits: one that turns, the most and the least uncertain, their samples."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nescio import models
from nescio.core import Categorical, as_batch, measures
from nescio.data.corruptions import rotation
from nescio.models.model import Model
from nescio.report.plots.look import COLORS, MARKERS, add_title, with_look
from nescio_papers.kit import Findings, InData, Settings
from nescio_papers.robust_deep_learning.dropout_errors import LAST, networks

TURNING, EXTREMES, SAMPLES = (
    "mc-dropout-turning.png",
    "mc-dropout-digits.png",
    "mc-dropout-samples.png",
)
ANGLES = tuple(range(0, 166, 15))
PASSES = 100
SHOWN = 8  # digits in a row
ONE = 1


def findings(settings: Settings, in_dist: InData) -> Findings:
    """Pictures of the network with dropout before the last layer, as in the lecture."""
    model = networks(settings, LAST, in_dist)
    sampler = models.mc_dropout(model.member(0), passes=PASSES, seed=settings.seed)
    x, y = in_dist.test
    turning = _logits(sampler, turned(x[_typical(model, x, y)], ANGLES))
    everything = Categorical(
        torch.cat([_logits(sampler, part).float() for part in x.split(1000)], 1)
    )
    ratio = measures.variation_ratio(everything)
    order = _ordered(ratio, measures.predictive_entropy(everything))
    most, least = order[-SHOWN:].flip(0), order[:SHOWN]
    shown = {"most uncertain": int(most[0]), "least uncertain": int(least[0])}
    labels = everything.labels
    return Findings(
        numbers={
            "angles": list(ANGLES),
            "labels while turning": Categorical(turning).labels.tolist(),
            "mean probability while turning": Categorical(turning).probs.amax(-1).tolist(),
            "variation ratio while turning": measures.variation_ratio(
                Categorical(turning)
            ).tolist(),
            "share of digits with variation ratio 0": float((ratio == 0).double().mean()),
            "error": float((labels != y).double().mean()),
            "error of the most uncertain tenth": float(
                (labels != y)[order[-len(order) // 10 :]].double().mean()
            ),
            "most uncertain": most.tolist(),
            "least uncertain": least.tolist(),
        },
        figures={
            TURNING: _turning_figure(turning),
            EXTREMES: _extremes_figure(as_batch(x), y, labels, ratio, most, least),
            SAMPLES: _samples_figure(as_batch(x), everything, shown),
        },
        captions={
            TURNING: "A 1 that turns, 100 passes at each angle: inputs and outputs of the softmax. "
            f"Labels: {' '.join(map(str, Categorical(turning).labels.tolist()))}.",
            EXTREMES: "Test digits by variation ratio (ties by predictive entropy).",
            SAMPLES: "Probabilities of the passes for the most and the least uncertain digit, and "
            "how often each class is the label.",
        },
    )


def turned(image: Tensor, angles: Sequence[float]) -> Tensor:
    """The image `(C, H, W)` turned counterclockwise by each angle in degrees, zero outside."""
    whole = as_batch(image[None])
    return torch.cat([rotation(degrees=a)(whole, 1) if a else whole for a in angles])


def _typical(model: Model, x: Tensor, y: Tensor) -> int:
    """The 1 of the test set that the network is most confident of."""
    ones = (y == ONE).nonzero()[:, 0]
    failure_score = measures.log_odds(Categorical(_logits(models.plain(model.member(0)), x[ones])))
    return int(ones[failure_score.argmin()])


def _logits(sampler: Any, x: Tensor) -> Tensor:
    logits: Tensor = sampler(x).logits.double()
    return logits


def _ordered(ratio: Tensor, entropy: Tensor) -> Tensor:
    """Digits from least to most uncertain, ties by entropy."""
    by_entropy = entropy.argsort(stable=True)
    return by_entropy[ratio[by_entropy].argsort(stable=True)]


@with_look
def _turning_figure(turning: Tensor) -> Figure:
    """Scatter of three classes: those with the largest mean probability at any angle."""
    probs = turning.softmax(-1)
    chosen = probs.mean(0).amax(0).topk(3).indices.tolist()
    figure = Figure(figsize=(10.8, 4.4), layout="constrained")
    for axis, values, name in zip(
        figure.subplots(1, 2), (turning, probs), ("input", "output"), strict=True
    ):
        for index, label in enumerate(chosen):
            for at, angle in enumerate(ANGLES):
                axis.scatter(
                    angle + 3.0 * (index - 1) + torch.linspace(-1, 1, len(values)),
                    values[:, at, label],
                    s=7,
                    alpha=0.5,
                    color=COLORS[index],
                    marker=MARKERS[index],
                    linewidths=0,
                    label=f"class {label}" if at == 0 else None,
                )
        axis.set(title=f"softmax {name}", xlabel="angle in degrees", xticks=ANGLES[::2])
        axis.legend(fontsize=9, markerscale=2)
    add_title(figure, "A digit 1 that turns: 100 passes of MC dropout at each angle")
    return figure


@with_look
def _extremes_figure(
    x: Tensor, y: Tensor, labels: Tensor, ratio: Tensor, most: Tensor, least: Tensor
) -> Figure:
    figure = Figure(figsize=(10.8, 3.6), layout="constrained")
    axes = figure.subplots(2, len(most))
    for row, chosen in zip(axes, (most, least), strict=True):
        for axis, index in zip(row, chosen.tolist(), strict=True):
            _show(axis, x[index])
            axis.set_title(
                f"{y[index]}, said {labels[index]}\nratio {ratio[index]:.2f}", fontsize=8
            )
    axes[0][0].set_ylabel("most", fontsize=9)
    axes[1][0].set_ylabel("least", fontsize=9)
    add_title(figure, "Most and least uncertain test digits")
    return figure


@with_look
def _samples_figure(x: Tensor, everything: Categorical, shown: Mapping[str, int]) -> Figure:
    figure = Figure(figsize=(10.8, 5.2), layout="constrained")
    axes = figure.subplots(2, 3, width_ratios=(1, 2, 2))
    for row, (name, index) in zip(axes, shown.items(), strict=True):
        one = everything[index]
        _show(row[0], x[index])
        row[0].set_title(name, fontsize=9)
        probs = one.member_probs[:, 0]  # (T, C)
        row[1].boxplot(probs.numpy(), positions=range(10), widths=0.6, sym=".")
        row[1].set(xlabel="class", ylabel="probability", ylim=(-0.02, 1.02))
        votes = probs.argmax(-1).bincount(minlength=10)
        row[2].bar(range(10), votes.numpy(), color=COLORS[0])
        row[2].set(xlabel="class", ylabel="passes", xticks=range(10), ylim=(0, len(probs)))
    add_title(figure, "Samples of MC dropout for one uncertain and one confident digit")
    return figure


def _show(axis: Axes, image: Tensor) -> None:
    axis.imshow(image[0], cmap="gray_r", vmin=0, vmax=1)
    axis.set(xticks=[], yticks=[])
    axis.grid(False)
