"""Labels that count: all but those that equal the ignore index, one that is not a class.

A label map marks pixels without a class, such as the edge of an object, by a separate number:
255, -100, or one more than the last class. Whatever reads labels leaves these out, and does so
here.
"""

import operator
from typing import TypeVar

import torch
from torch import Tensor

from nescio.core.errors import NescioError
from nescio.core.prediction import Classification, check_labels

P = TypeVar("P", bound=Classification)
CHUNK = 1 << 22  # labels that are checked at a time


def check_ignore_index(ignore_index: object, classes: int | None = None) -> int | None:
    """An ignore index as an integer: None, or a number that is none of the `classes`."""
    if ignore_index is None:
        return None
    try:
        index = operator.index(ignore_index)  # type: ignore[arg-type]
    except TypeError:
        index = None
    if index is None or isinstance(ignore_index, bool):
        raise NescioError(f"ignore_index must be a whole number or None, got {ignore_index!r}")
    if classes is not None and 0 <= index < classes:
        raise NescioError(
            f"ignore_index={index} is a class: with {classes} classes the labels are 0 to "
            f"{classes - 1}; mark labels to leave out by another number, such as {classes} or 255, "
            "or give the network fewer outputs"
        )
    return index


def without_ignored(labels: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor | None]:
    """Labels with class 0 where they are ignored, and which ones count; None: all do."""
    if ignore_index is None:
        return labels, None
    counts = _differ(labels, ignore_index)
    return torch.where(counts, labels, 0), counts


def _differ(labels: Tensor, index: int) -> Tensor:
    """Where labels are not the index; torch would wrap one that their type does not hold."""
    if labels.is_floating_point() or labels.dtype == torch.bool:
        return labels != index
    ends = torch.iinfo(labels.dtype)
    if ends.min <= index <= ends.max:
        return labels != index
    return torch.ones_like(labels, dtype=torch.bool)


def check_counted(
    labels: Tensor, classes: int, shape: tuple[int, ...] | torch.Size, ignore_index: int | None
) -> Tensor:
    """Which labels count, of the given shape; those must be classes, and there must be some."""
    index = check_ignore_index(ignore_index, classes)
    valid, counts = without_ignored(labels, index)
    if labels.shape != tuple(shape) or not len(labels):
        check_labels(valid, classes, shape)
    for part in valid.split(max(1, CHUNK // max(1, valid[:1].numel()))):  # bytes become integers
        check_labels(part, classes, part.shape)
    if counts is None:
        return torch.ones_like(labels, dtype=torch.bool)
    if not counts.any():
        raise NescioError(
            f"all {labels.numel()} labels are ignored: each is ignore_index={index}; give data "
            "with some labels"
        )
    return counts


def counted(prediction: P, labels: Tensor, *, ignore_index: int | None = None) -> tuple[P, Tensor]:
    """The prediction of the labels that count, `(M, n, C)`, and these labels `(n,)`.

    Without an ignore index both are as they were.

    >>> from nescio.core import Categorical
    >>> p = Categorical(torch.zeros(1, 2, 3, 4, 5))  # 2 images of 3 x 4 pixels, 5 classes
    >>> y = torch.zeros(2, 3, 4, dtype=torch.long)
    >>> y[0, 0] = 255
    >>> some, labels = counted(p, y, ignore_index=255)
    >>> some.batch_shape, labels.shape
    (torch.Size([20]), torch.Size([20]))
    """
    if ignore_index is None:
        return prediction, check_labels(labels, prediction.classes, prediction.batch_shape)
    counts = check_counted(labels, prediction.classes, prediction.batch_shape, ignore_index)
    return prediction[counts.to(prediction.device)], labels[counts].long()


def mean_per_sample(
    values: Tensor, labels: Tensor | None = None, *, ignore_index: int | None = None
) -> Tensor:
    """The mean of a measure over the pixels or steps of each sample, `(N,)` from `(N, *axes)`.

    >>> entropy, y = torch.tensor([[1.0, 2.0, 6.0]]), torch.tensor([[0, 1, 255]])
    >>> mean_per_sample(entropy), mean_per_sample(entropy, y, ignore_index=255)
    (tensor([3.]), tensor([1.5000]))

    values: values of the measure, `(N, *axes)`.
    labels: labels of the same shape, needed with `ignore_index`; None: all values count.
    ignore_index: the label of what is left out of the mean; None: nothing is.
    """
    if (labels is None) != (ignore_index is None):
        raise NescioError("give both labels and ignore_index, or neither: pixels to leave out")
    weight = torch.ones_like(values)
    if labels is not None:
        if labels.shape != values.shape:
            raise NescioError(
                f"labels have shape {tuple(labels.shape)}, the measure {tuple(values.shape)}; one "
                "label for each value"
            )
        kept = without_ignored(labels, check_ignore_index(ignore_index))[1]
        weight = weight if kept is None else kept.to(values)
    counts = weight.flatten(1).sum(1)
    if (counts == 0).any():
        raise NescioError(
            f"sample {int((counts == 0).nonzero()[0])} has no label that counts; leave it out"
        )
    return torch.where(weight > 0, values, 0.0).flatten(1).sum(1) / counts


def check_axes(labels: Tensor, outputs: Tensor) -> None:
    """Refuse labels `(N, *axes)` that have other axes than the outputs, `(N, *axes, C)`."""
    axes, own = tuple(outputs.shape[1:-1]), tuple(labels.shape[1:])
    if axes == own:
        return
    if not axes:
        raise NescioError(
            f"class labels must be integers of shape (samples,), got {labels.dtype} "
            f"{tuple(labels.shape)}; one-hot rows become labels by .argmax(1); for a label per "
            "pixel or step the network must return (samples, classes, ...)"
        )
    returned = (outputs.shape[-1], *axes)
    hint = "resize one of them, the outputs by torch.nn.functional.interpolate for example"
    if returned[:-1] == own:
        hint = "where the classes are on the last axis, give nescio.nets.classes_last(net)"
    elif own == (1, *axes):
        hint = "leave out the axis of length 1: labels[:, 0]"
    raise NescioError(
        f"labels of shape {tuple(labels.shape)} need a network that returns (samples, classes, "
        f"{', '.join(map(str, own)) or 'nothing more'}), it returned (samples, "
        f"{', '.join(map(str, returned))}); {hint}"
    )
