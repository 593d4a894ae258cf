"""Neighbors by Gower's coefficient (Gower, 1971): rows with columns of several kinds."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from nescio.core import Inputs, NescioError, as_batch, generator, one_thread, only_tensor, spans
from nescio.core.registry import detectors
from nescio.data import Columns
from nescio.data.encoding import FLAGS
from nescio.detectors.activations import Activations, NoInputsError, View
from nescio.detectors.detector import Detector, State, fitted, scores

PAIRS = 1 << 21  # distances at a time
SMALL = 1 << 22  # differences up to which a second thread would be waited for longer than it helps
LARGE = 1e6  # ranges: what is larger and taken away again would cost the figures of the others
QUERIES = 256  # rows that are compared with a part of the bank at a time
Layout = Sequence[Sequence[Any]]  # [kind, width] of each column, as Columns.layout


@dataclass(frozen=True, eq=False, kw_only=True)
class EncodedRows:
    """Encoded rows, float64; flags are 0 or 1."""

    values: Tensor  # (N, number columns), 0 where there is none
    missing: Tensor  # (N, number columns)
    unseen: Tensor  # (N, number columns)
    levels: Tensor  # (N, all levels)
    holes: Tensor  # (N, categorical columns): missing ones

    @property
    def there(self) -> Tensor:
        """Whether a number is known, 0 or 1."""
        return 1 - self.missing - self.unseen


@detectors.register
def gower(
    train: Activations,
    *,
    columns: Columns | None = None,
    k: int = 5,
    missing: Literal["level", "skip"] = "level",
    unseen: float = 0.0,
    bank: int | None = None,
    seed: int = 0,
) -> Detector:
    """Mean distance to the k nearest training rows, each distance a mean over the columns.

    Of a continuous or ordinal column the distance is the difference over the training range, which
    may exceed 1 outside it (of a constant column, the difference of the encoded numbers); of a
    categorical one 0 for the same level, else 1. An unseen level is at 1 from everything.

    train: activations of the training data, observed with inputs=True.
    columns: how inputs are encoded; None: as the network says, or every number is continuous.
    k: number of nearest training rows.
    missing: "level": two missing values are at 0, a missing one and another at 1; "skip": columns
      that one of the rows lacks are left out of the mean, as Gower does (at 1 where none is left).
    unseen: this times the largest difference from a number that was the same in all training rows
      is added: with 1, a level that they never had counts as much as all columns together, not as
      one.
    bank: number of training rows to keep, drawn at random; None: all.
    seed: seed of the random draws.
    """
    if missing not in ("level", "skip"):
        raise NescioError(f'missing must be "level" or "skip", got {missing!r}')
    layout = as_layout(columns, train)
    x = flat_inputs(train.inputs)
    if bank is not None and (bank < 1 or bank != int(bank)):
        raise NescioError(f"bank must be a whole number of rows from 1 up, got {bank}")
    if not 0 <= unseen < math.inf:
        raise NescioError(f"unseen must be a number from 0 up, got {unseen}")
    same = x.amin(0) == x.amax(0) if unseen else torch.zeros(0)
    known = {"same": same.nonzero()[:, 0], "constant": x[0, same]} if same.any() else {}
    if bank is not None and bank < len(x):
        x = x[torch.randperm(len(x), generator=generator(seed, "bank"))[:bank].sort().values]
    if not 1 <= k <= len(x) or k != int(k):
        raise NescioError(
            f"k must be a whole number in 1..{len(x)}, the number of training rows, got {k}"
        )
    short = x.float()
    bank_rows = short if torch.equal(short.double(), x) else x  # dates and ids need float64
    state = {"bank": bank_rows, "width": _ranges(read_rows(x, layout)), **known}
    options = {"columns": layout, "k": int(k), "missing": missing, "unseen": float(unseen)}
    return fitted("gower", train, options, [state] * train.members)


def _ranges(rows: EncodedRows) -> Tensor:
    """The range of each column of numbers, 1 where they are all the same."""
    absent = rows.there == 0
    low = rows.values.masked_fill(absent, torch.inf).amin(0)
    width = rows.values.masked_fill(absent, -torch.inf).amax(0) - low
    return torch.where(width > 0, width, 1.0)


@scores.named("gower")
def _score(
    view: View, state: State, *, columns: Layout, k: int, missing: str, unseen: float = 0.0
) -> Tensor:
    x, bank = flat_inputs(view.inputs), state["bank"]
    width = state["width"]
    _widths(x, columns)
    if all(kind == "number" for kind, _ in columns):
        read: Callable[[Tensor], Any] = partial(_numbers, width=width)
        far: Callable[[Any, Any], Tensor] = _of_numbers
    else:
        read = partial(read_rows, layout=columns, width=width)
        far = partial(distances, missing=missing)
    with one_thread() if len(x) * bank.numel() < SMALL else nullcontext():
        banks = [read(part) for part in bank.split(PAIRS // QUERIES)]
        means = []
        for part in (x[cut] for cut in spans(len(x), QUERIES)):
            rows, nearest = read(part), x.new_empty((len(part), 0))
            for others in banks:
                both = torch.cat([nearest, far(rows, others)], 1)
                nearest = both.topk(min(k, both.shape[1]), largest=False).values
            means.append(nearest.mean(1))
    result = torch.cat(means)
    if "same" in state:
        result += unseen * (x[:, state["same"]] - state["constant"]).abs().amax(1)
    return result.to(view.logits.dtype)


def _numbers(x: Tensor, width: Tensor) -> Tensor:
    """EncodedRows of nothing but numbers, divided by their ranges."""
    return x.double() / width


def _of_numbers(one: Tensor, two: Tensor) -> Tensor:
    """The same distances, of rows of nothing but numbers."""
    return torch.cdist(one, two, p=1) / one.shape[1]


def distances(one: EncodedRows, two: EncodedRows, missing: str = "level") -> Tensor:
    """Gower's distances `(N, B)` of rows whose numbers are divided by their ranges.

    What depends on flags and levels is a matrix product; only differences need all pairs.
    """
    same = (torch.cat(_same(rows, missing), 1) for rows in (one, two))
    total = _differences(one, two) - next(same) @ next(same).mT
    if missing == "level":
        count = one.values.shape[1] + one.holes.shape[1]
        return (total + count) / count
    known = [1 - torch.cat([rows.missing, rows.holes], 1) for rows in (one, two)]
    counted = known[0] @ known[1].mT
    return torch.where(counted > 0, (total + counted) / counted.clamp_min(1), 1.0)


def _differences(one: EncodedRows, two: EncodedRows) -> Tensor:
    """Sums over the numbers that both rows have, `(N, B)`."""
    there = [rows.there for rows in (one, two)]
    far = torch.cdist(one.values, two.values, p=1)  # p = 1 has one algorithm: exact
    if all(bool(known.all()) for known in there):
        return far
    if max(float(rows.values.abs().max()) for rows in (one, two)) < LARGE:
        # A number that only one of the rows has was counted at its size: that goes off again.
        left = torch.cat([one.values.abs(), 1 - there[0]], 1)
        return far - left @ torch.cat([1 - there[1], two.values.abs()], 1).mT
    columns = zip(one.values.T, two.values.T, there[0].T, there[1].T, strict=True)
    parts = ((a[:, None] - b).abs() * (known[:, None] * other) for a, b, known, other in columns)
    return sum(parts, torch.zeros_like(far))


def _same(rows: EncodedRows, missing: str) -> list[Tensor]:
    """What makes two values not differ by a whole 1, if both rows have it."""
    flags = [rows.missing, rows.holes] if missing == "level" else []
    return [rows.there, rows.levels, *flags]


def flat_inputs(inputs: Inputs | None) -> Tensor:
    """Inputs `(N, F)` in float64, or an error that says how to keep them."""
    if inputs is None:
        raise NoInputsError(
            "this detector reads the inputs, and the activations have none; observe with "
            "inputs=True, or give them: Activations(logits=..., inputs=x)"
        )
    x = as_batch(only_tensor(inputs, "this detector"), torch.float64).flatten(1)
    bad = ~x.isfinite().all(1)
    if bad.any():
        raise NescioError(
            f"inputs are NaN or infinite in {int(bad.sum())} of {len(bad)} samples (first: sample "
            f"{int(bad.nonzero()[0])}); encode a table with holes by learn_columns(...).encode"
        )
    return x


def as_layout(columns: Columns | None, train: Activations) -> Layout:
    """The layout of the columns: as given, as the network encodes them, or one for each number."""
    if columns is not None:
        return columns.layout
    known: Layout | None = train.about.get("columns")
    return known or [["number", 1]] * flat_inputs(train.inputs).shape[1]


def _widths(x: Tensor, layout: Layout) -> list[int]:
    """How many numbers each column takes, or an error where those of the inputs do not fit."""
    widths = [width for _, width in layout]
    if sum(widths) != x.shape[1]:
        raise NescioError(
            f"inputs have {x.shape[1]} numbers, {len(widths)} columns take {sum(widths)}; encode "
            "the rows with the columns that the detector was fitted with"
        )
    return widths


def column_parts(inputs: Inputs | None, layout: Layout) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Kind, own numbers `(N, ...)` and flags (N, 0 to 2) of each column."""
    x = flat_inputs(inputs)
    widths = _widths(x, layout)
    for (kind, width), part in zip(layout, x.split(widths, 1), strict=True):
        own = width - FLAGS.get(kind, 0)
        yield kind, part[:, :own], part[:, own:]


def as_encoded(x: Tensor, layout: Layout) -> Tensor:
    """The nearest rows that an encoding gives: one level or flag, or a number, of each column."""
    rows = []
    for kind, own, flags in column_parts(x, layout):
        known = own if kind == "categorical" else torch.full_like(own, 0.5)  # unless a flag is more
        marks = torch.cat([known, flags], 1)
        chosen = torch.zeros_like(marks).scatter_(1, marks.argmax(1, keepdim=True), 1.0)
        if kind != "categorical":
            chosen[:, :1] *= own
        rows.append(chosen)
    return torch.cat(rows, 1).to(x.dtype)


def marked(own: Tensor, flags: Tensor) -> Tensor:
    """Levels and flags `(N, K)` of a categorical column, of which each row has exactly one."""
    marks = torch.cat([own, flags], 1)
    if not (((marks == 0) | (marks == 1)).all() and (marks.sum(1) == 1).all()):
        raise NescioError(
            "a categorical column must have one 1 among its levels and flags in each row; encode "
            "the rows with the columns that the detector was fitted with"
        )
    return marks


def read_rows(inputs: Inputs | None, layout: Layout, width: Tensor | float = 1.0) -> EncodedRows:
    """Encoded inputs by what their numbers mean, which are divided by `width`."""
    parts = list(column_parts(inputs, layout))
    numbers = [(own, flags) for kind, own, flags in parts if kind != "categorical"]
    classes = [(own, flags) for kind, own, flags in parts if kind == "categorical"]
    for own, flags in classes:
        marked(own, flags)
    empty = flat_inputs(inputs)[:, :0]
    none = empty.new_zeros(len(empty), 1)

    def flag(flags: Tensor, index: int) -> Tensor:
        return flags[:, index : index + 1] if flags.shape[1] > index else none

    return EncodedRows(
        values=torch.cat([empty, *(own for own, _ in numbers)], 1) / width,
        missing=torch.cat([empty, *(flag(flags, 0) for _, flags in numbers)], 1),
        unseen=torch.cat([empty, *(flag(flags, 1) for _, flags in numbers)], 1),
        levels=torch.cat([empty, *(own for own, _ in classes)], 1),
        holes=torch.cat([empty, *(flag(flags, 0) for _, flags in classes)], 1),
    )
