"""What is said and drawn of ConfidNet at its plateau, and whether its claim holds."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nescio.report.plots.look import COLORS, GRAY, panels, with_look
from nescio_papers.kit import Claim, Fact, exactly, table
from nescio_papers.robust_deep_learning.stored_facts import RECALLED, between, learned

FIGURE = "confidnet-plateau.png"
ONE, TWO = "stage one", "stage two"
SOURCE = "lecture, ConfidNet"
SMOOTHED = 16  # epochs, of which a mean is taken, at most
RISING = 0.005  # from one mean of average precisions to the next; from here on there is no plateau
# Corbière et al. (2019), table 1, in per cent, and what is different there
PUBLISHED: dict[str, tuple[dict[str, float], str]] = {
    "MNIST": (
        {"maximum probability": 37.70, "ConfidNet": 57.37},
        f"{RECALLED}; Corbière et al.: width 1000, SGD for 100 epochs, heads of up to 500 epochs",
    ),
    "CIFAR-10": (
        {"maximum probability": 45.36, "ConfidNet": 49.94},
        f"{RECALLED}; Corbière et al.: VGG-16, all training images; precision depends on the error",
    ),
}
Numbers = Mapping[str, Any]


def judge(numbers: Mapping[str, Numbers]) -> list[Claim]:
    """Does ConfidNet, at its plateau, find errors better than the maximum probability?"""
    return [_claim(name, one) for name, one in numbers.items() if "stages" in one]


def _claim(name: str, found: Numbers) -> Claim:
    stages, errors = found["stages"], found["errors"]
    what = "AP of errors less that of the maximum probability, points of 1"
    return Claim(
        source=SOURCE,
        sentence=f"ConfidNet: learning the true class probability as model confidence. ({name})",
        facts=[
            between(f"{stage}: {what}", found["gains"][stage], above=0) for stage in (ONE, TWO)
        ],
        needs=[_plateau(stages[ONE]), *learned(name, "test error", found.get("error", math.nan))],
        note="; ".join(
            [f"{stage}: best of {one['epochs']} epochs by validation errors: {one['best']}"
             for stage, one in stages.items()]
            + [f"{errors['training']} training and {errors['validation']} validation errors; "
               "interval over test images, one network"]
        ),
    )  # fmt: skip


def _plateau(stage: Numbers) -> Fact:
    """Has the validation curve of a stage come to rest?"""
    width = smoothing(stage["epochs"])
    return exactly(
        f"{ONE}: rise of the mean AP of validation errors in the last {width} of "
        f"{stage['epochs']} epochs over the {width} before",
        rise(stage["validation"]),
        why="these epochs are counted in full",
        below=RISING,
    )


def smoothing(epochs: int) -> int:
    """Of how many epochs means are taken: a third of all, at most 16."""
    return min(epochs // 3, SMOOTHED)


def rise(curve: Sequence[float]) -> float:
    """The mean of the last epochs of a curve less that of as many before; NaN: below 3 epochs."""
    width = smoothing(len(curve))
    if not width:
        return math.nan
    return fmean(curve[-width:]) - fmean(curve[-2 * width : -width])


def plateau_text(found: Mapping[str, Numbers], patience: int) -> str:
    """A table of both stages, at the epochs that were taken."""
    rows = []
    for name, one in found.items():
        base = one["maximum probability"]
        rows.append([name, "maximum probability", "", f"{100 * base['validation']:.1f}",
                     f"{100 * base['test']:.1f}", ""])  # fmt: skip
        for stage, own in one["stages"].items():
            at, gain = own["best"] - 1, one["gains"][stage]
            rows.append([
                name, f"ConfidNet, {stage}", f"{own['best']} of {own['epochs']}",
                f"{100 * own['validation'][at]:.1f}", f"{100 * own['test'][at]:.1f}",
                f"{100 * gain['value']:+.1f} ({100 * gain['low']:+.1f} to "
                f"{100 * gain['high']:+.1f})",
            ])  # fmt: skip
    header = ["", "score", "epoch", "AP, validation errors", "AP, test errors", "gain"]
    return "\n\n".join(
        [
            "ConfidNet as published: a tenth of the training images validates, and of each stage "
            "the epoch with the best average precision of validation errors is taken; stage one "
            f"ends when {patience} epochs bring nothing better and their mean rises by less than "
            f"{100 * RISING:g} points. In per cent; gains are over the maximum probability on "
            "test errors, with 95 % intervals over test images.",
            "The networks: for MNIST one hidden layer, that of the part `failure`; for CIFAR-10 "
            "the ResNet-20 of the part `calibration`, whose BatchNorm keeps its averages in stage "
            "two.",
            table(header, rows),
        ]
    )


@with_look
def plateau_figure(found: Mapping[str, Numbers]) -> Figure:
    """The precisions by epoch, one panel for each data set; stage two follows stage one."""
    figure, axes = panels(len(found), height=3.6, title="ConfidNet by epoch")
    for axis, (name, one) in zip(axes, found.items(), strict=True):
        start = 0
        for stage, own in one["stages"].items():
            epochs = [start + number for number in range(1, own["epochs"] + 1)]
            for color, part in zip(COLORS, ("validation", "test"), strict=False):
                axis.plot(epochs, own[part], color=color, linewidth=1.6,
                          label=f"{part} errors" if stage == ONE else None)  # fmt: skip
                axis.plot([start + own["best"]], [own[part][own["best"] - 1]], "o", color=color)
            start += own["epochs"]
            if stage == ONE:
                axis.axvline(start + 0.5, color=GRAY, linewidth=1)
        for color, part in zip(COLORS, ("validation", "test"), strict=False):
            axis.axhline(one["maximum probability"][part], color=color, linestyle=":")
        axis.set(xlabel="epoch: stage one, then stage two", ylim=(0, None))
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_title(name, loc="left")
    axes[0].set_ylabel("average precision of errors")
    axes[0].legend(loc="lower right", fontsize=9, frameon=True, edgecolor="none", framealpha=1)
    return figure
