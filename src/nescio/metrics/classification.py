"""Numbers about class probabilities: MMC, accuracy, Brier, NLL.

Sums are in float64, block by block, so large float32 tables are never copied whole. Of maps, every
pixel is a sample; labels that equal `ignore_index` are left out.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, Numbers, numbers
from nescio.core.registry import metrics
from nescio.metrics.aligned import aligned, counts

TOLERANCE = 1e-4  # on a row's sum: float32 softmax over thousands of classes stays below it
BLOCK = 1 << 18  # entries of one float64 block


@metrics.register
def mean_max_confidence(probs: Numbers) -> float:
    """Mean of the largest probability of each sample (MMC), from 1/C to 1.

    probs: predicted probabilities, `(N, C)`, or `(N, H, W, C)` of maps.
    """
    table = numbers("probs", probs, axes=2 if np.ndim(probs) < 3 else None)
    table = table.reshape(-1, table.shape[-1])
    return sum(float(block.max(axis=1).sum()) for _, block in checked_blocks(table)) / len(table)


@metrics.register
def accuracy(probs: Numbers, labels: Numbers, *, ignore_index: int | None = None) -> float:
    """Share of samples whose most probable class is the label; the first class wins a tie.

    probs: predicted probabilities, `(N, C)`, or `(N, H, W, C)` of maps.
    labels: true classes, `(N,)`, or `(N, H, W)` of maps.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    return _mean(probs, labels, ignore_index, lambda block, own: block.argmax(axis=1) == own)


@metrics.register
def brier(probs: Numbers, labels: Numbers, *, ignore_index: int | None = None) -> float:
    """Squared distance from the one-hot label, summed over classes, mean over samples (0 to 2).

    probs: predicted probabilities, `(N, C)`, or `(N, H, W, C)` of maps.
    labels: true classes, `(N,)`, or `(N, H, W)` of maps.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    return _mean(probs, labels, ignore_index, _squared_distance)


@metrics.register
def nll(probs: Numbers, labels: Numbers, *, ignore_index: int | None = None) -> float:
    """Mean -log probability of the label, in nats; infinite where a label has probability 0.

    probs: predicted probabilities, `(N, C)`, or `(N, H, W, C)` of maps.
    labels: true classes, `(N,)`, or `(N, H, W)` of maps.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    return _mean(probs, labels, ignore_index, _surprise)


def _squared_distance(block: NDArray[np.float64], wanted: NDArray[Any]) -> NDArray[np.float64]:
    block[np.arange(len(block)), wanted] -= 1.0  # the block is a copy
    return np.asarray(np.einsum("nc,nc->n", block, block))


def _surprise(block: NDArray[np.float64], wanted: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(block[np.arange(len(block)), wanted]))


def _mean(
    probs: Numbers,
    labels: Numbers,
    ignore_index: int | None,
    measure: Callable[[NDArray[np.float64], NDArray[Any]], NDArray[Any]],
) -> float:
    table, wanted, keep = labeled(probs, labels, ignore_index)
    total, count = 0.0, 0
    for rows, block in checked_blocks(table):
        some = slice(None) if isinstance(keep, slice) else keep[rows]  # in blocks: nothing is large
        values = measure(block[some], wanted[rows][some])
        total, count = total + float(values.sum()), count + len(values)
    return total / count


def labeled(
    probs: Numbers, labels: Numbers, ignore_index: int | None = None
) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """Probabilities `(n, C)`, labels `(n,)` that index their columns, and which of them count."""
    table, wanted = aligned(("probs", "labels"), probs, labels, width=True)
    if wanted.dtype.kind not in "iu":
        raise NescioError(f"`labels` must be integers, got {wanted.dtype}; convert them first")
    keep = counts("labels", wanted, ignore_index, table.shape[1])
    some = wanted[keep]
    if some.min() < 0 or some.max() >= table.shape[1]:
        raise NescioError(
            f"`labels` must be in 0..{table.shape[1] - 1}, the columns of `probs`, got "
            f"{some.min()}..{some.max()}; renumber the labels, or name the one to leave out by "
            "ignore_index"
        )
    return table, wanted, keep


def checked_labels(
    probs: Numbers, labels: Numbers, ignore_index: int | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Probabilities `(n, C)` and labels `(n,)` of what counts."""
    table, wanted, keep = labeled(probs, labels, ignore_index)
    return table[keep], wanted[keep]


def checked_blocks(table: NDArray[Any]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Blocks of rows as checked float64 copies."""
    if table.shape[1] < 2:
        raise NescioError(
            f"`probs` must have two or more columns, got shape {table.shape}; "
            "for one column p of two classes stack 1 - p and p"
        )
    step = max(1, BLOCK // table.shape[1])
    for start in range(0, len(table), step):
        rows = slice(start, start + step)
        block = table[rows].astype(np.float64)
        _check(block, start)
        yield rows, block


def _check(block: NDArray[np.float64], start: int) -> None:
    sums = block.sum(axis=1)
    if not np.all(np.isfinite(sums)):
        row = start + int(np.argmin(np.isfinite(sums)))
        raise NescioError(f"`probs` holds NaN or infinity in row {row}; repair or drop the row")
    off = np.abs(sums - 1.0)
    if block.min() < 0 or block.max() > 1 + TOLERANCE:
        raise NescioError(
            f"`probs` must be in [0, 1], got {block.min():g} to {block.max():g}; "
            "if these are logits, apply a softmax"
        )
    if off.max() > TOLERANCE:
        row = int(off.argmax())
        raise NescioError(
            f"every row of `probs` must sum to 1 (within {TOLERANCE:g}), row {start + row} sums "
            f"to {sums[row]:g}; apply the softmax in float32 over all classes"
        )
