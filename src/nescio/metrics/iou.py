"""Intersection over union of the classes of label maps (Jaccard, 1912), as PASCAL VOC measures."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import Counts, Floats, NescioError, Numbers, numbers
from nescio.core.registry import metrics
from nescio.metrics.aligned import aligned, counts


@dataclass(frozen=True, eq=False)
class IoU:
    """Intersection over union of every class, of all samples together.

    confusion: how many samples of each class (row) were given each label (column), `(C, C)`.
    """

    confusion: Counts

    @property
    def by_class(self) -> Floats:
        """Samples of a class that were given its label, over those of either, `(C,)`.

        NaN for a class that neither occurs nor was predicted.
        """
        hits = self.confusion.diagonal()
        union = self.confusion.sum(0) + self.confusion.sum(1) - hits
        found: Floats = np.full(len(hits), np.nan)
        np.divide(hits, union, out=found, where=union > 0)
        return found

    @property
    def mean(self) -> float:
        """The mean over classes, without those that neither occur nor were predicted."""
        return float(np.nanmean(self.by_class))

    @property
    def absent(self) -> tuple[int, ...]:
        """Classes without a sample; one of them that was predicted has IoU 0 and counts."""
        return tuple(int(c) for c in np.flatnonzero(self.confusion.sum(1) == 0))


def iou(
    predicted: Numbers,
    labels: Numbers,
    *,
    classes: int | None = None,
    ignore_index: int | None = None,
) -> IoU:
    """How far predicted and true regions of each class agree: intersection over union.

    Counts are of all samples together, not averaged over images.

    >>> found = iou([0, 0, 1, 1], [0, 1, 1, 255], classes=3, ignore_index=255)
    >>> found.by_class.tolist(), found.mean, found.absent
    ([0.5, 0.5, nan], 0.5, (2,))

    predicted: predicted labels, such as maps `(N, H, W)`, or probabilities with one more axis.
    labels: true classes, of the shape of the predicted labels.
    classes: number of classes; None: of labels one more than the largest, of probabilities the
      columns.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    truth = numbers("labels", labels, axes=None)
    given = numbers("predicted", predicted, axes=None)
    if given.ndim == truth.ndim + 1:
        classes = given.shape[-1] if classes is None else classes
        given = given.argmax(-1)
    given, truth = aligned(("predicted", "labels"), given, truth)
    for name, found in (("predicted", given), ("labels", truth)):
        if found.dtype.kind not in "iu":
            raise NescioError(f"`{name}` must be integers, got {found.dtype}; convert them first")
    keep = counts("labels", truth, ignore_index, 0 if classes is None else classes)
    given, truth = given[keep].astype(np.int64), truth[keep].astype(np.int64)
    size = _size(given, truth, classes)
    pairs = np.bincount(truth * size + given, minlength=size * size)
    return IoU(pairs.reshape(size, size))


@metrics.register
def mean_iou(
    predicted: Numbers,
    labels: Numbers,
    *,
    classes: int | None = None,
    ignore_index: int | None = None,
) -> float:
    """The mean over classes of intersection over union, of classes that occur or were predicted.

    `iou` has the value of each class.

    predicted: predicted labels, such as maps `(N, H, W)`, or probabilities with one more axis.
    labels: true classes, of the shape of the predicted labels.
    classes: number of classes; None: of labels one more than the largest, of probabilities the
      columns.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    return iou(predicted, labels, classes=classes, ignore_index=ignore_index).mean


def _size(given: NDArray[Any], truth: NDArray[Any], classes: int | None) -> int:
    """The number of classes, or an error where a label is none of them."""
    least, most = int(min(given.min(), truth.min())), int(max(given.max(), truth.max()))
    if least < 0 or (classes is not None and most >= classes):
        upper = "" if classes is None else f"..{classes - 1}"
        raise NescioError(
            f"`predicted` and `labels` must be classes from 0{upper}, got {least}..{most}; "
            "renumber them, give classes=, or name the label to leave out by ignore_index"
        )
    return most + 1 if classes is None else classes
