"""Neighbors by Gower's coefficient (Gower, 1971): rows with columns of several kinds."""

from typing import Literal

import torch
from torch import Tensor

from nescio.core import NescioError, generator
from nescio.core.registry import detectors
from nescio.data import Columns
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, scores
from nescio.detectors.kit.rows import Layout, Rows, as_layout, flat_inputs, read_rows

PAIRS = 1 << 21  # distances at a time
QUERIES = 256  # rows that are compared with a part of the bank at a time


@detectors.register
def gower(
    train: Activations,
    *,
    columns: Columns | None = None,
    k: int = 5,
    missing: Literal["level", "skip"] = "level",
    bank: int | None = None,
    seed: int = 0,
) -> Detector:
    """Mean distance to the k nearest training rows, each distance a mean over the columns.

    Of a continuous or ordinal column the distance is the difference over the training range, which
    may exceed 1 outside it (of a constant column, the difference of the encoded numbers); of a
    categorical one 0 for the same level, else 1. An unseen level is at 1 from everything.
    columns: how inputs are encoded; without it, every input number is a continuous column.
    missing: "level": two missing values are at 0, a missing one and another at 1; "skip": columns
    that one of the rows lacks are left out of the mean, as Gower does (at 1 where none is left).
    bank: the number of training rows to keep, drawn by `seed`; None: all.
    """
    if missing not in ("level", "skip"):
        raise NescioError(f'missing must be "level" or "skip", got {missing!r}')
    layout = as_layout(columns, train.inputs)
    x = flat_inputs(train.inputs)
    if bank is not None and (bank < 1 or bank != int(bank)):
        raise NescioError(f"bank must be a whole number of rows from 1 up, got {bank}")
    if bank is not None and bank < len(x):
        x = x[torch.randperm(len(x), generator=generator(seed, "bank"))[:bank].sort().values]
    if not 1 <= k <= len(x) or k != int(k):
        raise NescioError(
            f"k must be a whole number in 1..{len(x)}, the number of training rows, got {k}"
        )
    state = {"bank": x.float(), "width": _ranges(read_rows(x, layout))}
    options = {"columns": layout, "k": int(k), "missing": missing}
    return fitted("gower", train, options, [state] * train.members)


def _ranges(rows: Rows) -> Tensor:
    """The range of each column of numbers, 1 where they are all the same."""
    absent = rows.there == 0
    low = rows.values.masked_fill(absent, torch.inf).amin(0)
    width = rows.values.masked_fill(absent, -torch.inf).amax(0) - low
    return torch.where(width > 0, width, 1.0)


@scores.named("gower")
def score(view: View, state: State, *, columns: Layout, k: int, missing: str) -> Tensor:
    """Mean distance to the k nearest rows of the bank, in blocks of both."""
    x, bank = flat_inputs(view.inputs), state["bank"]
    banks = [read_rows(part, columns).over(state["width"]) for part in bank.split(PAIRS // QUERIES)]
    means = []
    for part in x.split(QUERIES):
        rows = read_rows(part, columns).over(state["width"])
        nearest = x.new_empty((len(part), 0))
        for others in banks:
            both = torch.cat([nearest, distances(rows, others, missing)], 1)
            nearest = both.topk(min(k, both.shape[1]), largest=False).values
        means.append(nearest.mean(1))
    return torch.cat(means).to(view.logits.dtype)


def distances(one: Rows, two: Rows, missing: str = "level") -> Tensor:
    """Gower's distances `(N, B)` of rows whose numbers are divided by their ranges.

    What depends on flags and levels is a matrix product; only differences need all pairs.
    """
    far = torch.cdist(one.values, two.values, p=1)  # p = 1 has one algorithm: exact
    # A number that only one of the rows has was counted at its size: that goes off again.
    left = [one.values.abs(), 1 - one.there, *_same(one, missing)]
    right = [1 - two.there, two.values.abs(), *_same(two, missing)]
    total = far - torch.cat(left, 1) @ torch.cat(right, 1).mT
    if missing == "level":
        count = one.values.shape[1] + one.holes.shape[1]
        return (total + count) / count
    counted = _known(one) @ _known(two).mT
    return torch.where(counted > 0, (total + counted) / counted.clamp_min(1), 1.0)


def _same(rows: Rows, missing: str) -> list[Tensor]:
    """What makes two values not differ by a whole 1, if both rows have it."""
    flags = [rows.missing, rows.holes] if missing == "level" else []
    return [rows.there, rows.levels, *flags]


def _known(rows: Rows) -> Tensor:
    return 1 - torch.cat([rows.missing, rows.holes], 1)
