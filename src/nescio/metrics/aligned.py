"""Values and the truth about them: maps count pixel by pixel, and ignored labels do not count.

Every metric with a truth (`labels`, `correct` or `wrong`) reads its arrays here. They may have more
axes, `(N, H, W)` and probabilities `(N, H, W, C)`. Where the truth equals the ignore index, nothing
is known, and the entry is left out.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, Numbers, check_ignore_index, numbers


def mark_ignored(flags: Numbers, labels: Numbers, *, ignore_index: int) -> NDArray[Any]:
    """`correct` or `wrong` as 1 and 0, and the ignore index where the label is ignored.

    >>> mark_ignored([True, False, False], [3, 1, 255], ignore_index=255).tolist()
    [1, 0, 255]

    flags: whether each answer is correct, or whether it is wrong, of any shape.
    labels: true classes, of the same shape.
    ignore_index: label of the samples to leave out.
    """
    index = check_ignore_index(ignore_index, 2)
    assert index is not None  # it was given
    truth, marks = numbers("flags", flags, axes=None), numbers("labels", labels, axes=None)
    if truth.shape != marks.shape:
        raise NescioError(
            f"`flags` have shape {truth.shape}, `labels` {marks.shape}; they must be of the same "
            "samples"
        )
    small = np.iinfo(np.int16).min <= index <= np.iinfo(np.int16).max
    return np.where(marks == index, index, truth).astype(np.int16 if small else np.int64)


def aligned(
    names: tuple[str, str], values: Numbers, truth: Numbers, *, width: bool = False
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Values `(n,)`, or with `width` `(n, C)`, and the truth `(n,)`: further axes are flattened."""
    given, known = numbers(names[0], values, axes=None), numbers(names[1], truth, axes=None)
    if known.ndim <= 1:
        given = numbers(names[0], given, axes=1 + width)
    known = numbers(names[1], known, axes=given.ndim - width)
    if given.shape[: known.ndim] != known.shape:
        raise NescioError(
            f"`{names[0]}` of shape {given.shape} and `{names[1]}` of shape {known.shape} are not "
            "of the same samples; expected one entry per sample, or per pixel"
        )
    return given.reshape(-1, *given.shape[known.ndim :]), known.reshape(-1)


def counts(name: str, truth: NDArray[Any], ignore_index: int | None, classes: int) -> Any:
    """Which entries count, `(n,)`, or a slice of all of them."""
    index = check_ignore_index(ignore_index, classes)
    if index is None:
        return slice(None)
    keep = truth != index
    if not keep.any():
        raise NescioError(
            f"all {len(truth)} entries of `{name}` are ignored: each is ignore_index={index}; give "
            "samples with labels"
        )
    return keep


def counted_samples(
    names: tuple[str, str], values: Numbers, truth: Numbers, ignore_index: int | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Numbers and whether each is right, or wrong, `(n,)` each, of what counts."""
    given, known = aligned(names, values, truth)
    if ignore_index is not None and known.dtype == bool:
        raise NescioError(
            f"`{names[1]}` is true or false everywhere, so ignore_index={ignore_index} would leave "
            f"nothing out; mark what is ignored: mark_ignored({names[1]}, labels, "
            f"ignore_index={ignore_index})"
        )
    keep = counts(names[1], known, ignore_index, 2)
    return given[keep], known[keep]
