"""Part `segmentation`, measured: which pixels are wrong, and where the network is unsure.

Intervals draw frames, not pixels. Differences between kinds of pixels are paired by frame.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio import metrics
from nescio.metrics import Difference, Interval
from nescio.models import UncertaintyMaps
from nescio_papers.robust_deep_learning.segmentation_network import IGNORED, TURNED, Answers

TOTAL, ALEATORIC, EPISTEMIC = "predictive_entropy", "expected_entropy", "mutual_information"
SCORES = ("least_confidence", TOTAL, ALEATORIC, EPISTEMIC)
NAMES = {
    "least_confidence": "least confidence",
    TOTAL: "total: predictive entropy",
    ALEATORIC: "aleatoric: expected entropy",
    EPISTEMIC: "epistemic: mutual information",
}


@dataclass(frozen=True)
class Quality:
    """How good the labels and probabilities of a predictor are, over all labeled pixels."""

    accuracy: float
    mean_iou: Interval
    by_class: tuple[float, ...]
    nll: float
    ece: float

    def numbers(self) -> dict[str, Any]:
        """As plain numbers, for JSON."""
        return {**vars(self), "mean_iou": vars(self.mean_iou), "by_class": list(self.by_class)}


def quality(maps: UncertaintyMaps, y: Tensor, resamples: int) -> Quality:
    """Accuracy, intersection over union with its interval, NLL and ECE."""
    options: Any = {"ignore_index": IGNORED}
    overlap = metrics.iou(maps.labels, y, classes=IGNORED, **options)
    return Quality(
        accuracy=metrics.accuracy(maps.probs, y, **options),  # type: ignore[arg-type]
        mean_iou=metrics.bootstrap_metric(
            metrics.mean_iou, maps.labels, y, classes=IGNORED, resamples=resamples, **options
        ),
        by_class=tuple(overlap.by_class.tolist()),
        nll=metrics.nll(maps.probs, y, **options),  # type: ignore[arg-type]
        ece=metrics.ece(maps.confidence, right(maps, y), **options),
    )


def right(maps: UncertaintyMaps, y: Tensor) -> Any:
    """1 where the label is right, 0 where it is wrong, and the ignore index."""
    return metrics.mark_ignored(maps.labels == y, y, ignore_index=IGNORED)


def wrong(maps: UncertaintyMaps, y: Tensor) -> Any:
    """1 where the label is wrong."""
    return metrics.mark_ignored(maps.labels != y, y, ignore_index=IGNORED)


def ranked(maps: UncertaintyMaps, y: Tensor, resamples: int) -> dict[str, dict[str, Interval]]:
    """How well each measure finds the wrong pixels: AUROC, AURC, AP of errors."""
    mistakes = wrong(maps, y)
    options: Any = {"of": ("auroc", "aurc", "ap_error"), "resamples": resamples}
    options["ignore_index"] = IGNORED
    return {
        name: metrics.bootstrap_selective(getattr(maps, name), mistakes, **options)
        for name in SCORES
    }


def improvement(found: Answers, resamples: int) -> Difference:
    """The mean IoU of MC dropout less that with dropout off."""
    sides = [(maps.labels, found.y) for maps in (found.sampled, found.plain)]
    options: Any = {"classes": IGNORED, "ignore_index": IGNORED, "resamples": resamples}
    return metrics.metric_test(metrics.mean_iou, *sides, **options)


def by_class(maps: UncertaintyMaps, y: Tensor, name: str) -> list[float]:
    """The mean of a measure over the pixels of each true class; NaN for one that is absent."""
    values = getattr(maps, name).double()
    return [float(values[y == index].mean()) for index in range(IGNORED)]


def between(values: Tensor, first: Tensor, second: Tensor) -> Interval:
    """The mean of the first pixels of a frame less that of the second ones, over the frames."""
    one, two = (frame_means(values, mask) for mask in (first, second))
    gaps = (one - two)[(one - two).isfinite()]
    return metrics.bootstrap_mean(gaps) if len(gaps) else Interval(math.nan, math.nan, math.nan)


def frame_means(values: Tensor, mask: Tensor) -> Tensor:
    """The mean over some pixels of each frame `(N,)`; NaN where there are none."""
    kept = torch.where(mask, values.double(), 0.0).flatten(1).sum(1)
    return kept / mask.flatten(1).sum(1)


def of_classes(y: Tensor, classes: Sequence[int]) -> Tensor:
    """The pixels whose true class is one of some."""
    return torch.isin(y, torch.tensor(list(classes), device=y.device))


def edges(y: Tensor) -> Tensor:
    """Labeled pixels beside a pixel of another class."""
    edge = torch.zeros_like(y, dtype=torch.bool)
    down = _differ(y[:, 1:], y[:, :-1])
    across = _differ(y[:, :, 1:], y[:, :, :-1])
    edge[:, 1:] |= down
    edge[:, :-1] |= down
    edge[:, :, 1:] |= across
    edge[:, :, :-1] |= across
    return edge


def _differ(one: Tensor, two: Tensor) -> Tensor:
    return (one != two) & (one != IGNORED) & (two != IGNORED)


def rise(found: Answers, name: str) -> tuple[float, Interval]:
    """A measure on frames upside down: over that on the frames as they are, and the difference."""
    both = found.upside_down, found.sampled[::TURNED]
    turned, usual = (getattr(maps, name).double().flatten(1).mean(1) for maps in both)
    return float(turned.mean() / usual.mean()), metrics.bootstrap_mean(turned - usual)
