"""Encoded rows of a table taken apart again: numbers, levels, and what is missing or unseen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nescio.core import Inputs, NescioError, as_batch, only_tensor
from nescio.data import Columns
from nescio.data.encoding import FLAGS

Layout = Sequence[Sequence[Any]]  # [kind, width] of each column, as Columns.layout


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
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

    def over(self, width: Tensor) -> "Rows":
        """The same with numbers divided by `width`."""
        return replace(self, values=self.values / width)


def flat_inputs(inputs: Inputs | None) -> Tensor:
    """Inputs `(N, F)` in float64, or an error that says how to keep them."""
    if inputs is None:
        raise NescioError(
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


def as_layout(columns: Columns | None, inputs: Inputs | None) -> Layout:
    """The layout of the columns; without them every input number is a continuous column."""
    if columns is not None:
        return columns.layout
    return [["number", 1]] * flat_inputs(inputs).shape[1]


def column_parts(inputs: Inputs | None, layout: Layout) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Kind, own numbers `(N, ...)` and flags (N, 0 to 2) of each column."""
    x = flat_inputs(inputs)
    widths = [width for _, width in layout]
    if sum(widths) != x.shape[1]:
        raise NescioError(
            f"inputs have {x.shape[1]} numbers, {len(widths)} columns take {sum(widths)}; encode "
            "the rows with the columns that the detector was fitted with"
        )
    for (kind, width), part in zip(layout, x.split(widths, 1), strict=True):
        own = width - FLAGS.get(kind, 0)
        yield kind, part[:, :own], part[:, own:]


def marked(own: Tensor, flags: Tensor) -> Tensor:
    """Levels and flags `(N, K)` of a categorical column, of which each row has exactly one."""
    marks = torch.cat([own, flags], 1)
    if not (((marks == 0) | (marks == 1)).all() and (marks.sum(1) == 1).all()):
        raise NescioError(
            "a categorical column must have one 1 among its levels and flags in each row; encode "
            "the rows with the columns that the detector was fitted with"
        )
    return marks


def read_rows(inputs: Inputs | None, layout: Layout) -> Rows:
    """Encoded inputs by what their numbers mean."""
    parts = list(column_parts(inputs, layout))
    numbers = [(own, flags) for kind, own, flags in parts if kind != "categorical"]
    classes = [(own, flags) for kind, own, flags in parts if kind == "categorical"]
    for own, flags in classes:
        marked(own, flags)
    empty = flat_inputs(inputs)[:, :0]
    none = empty.new_zeros(len(empty), 1)

    def flag(flags: Tensor, index: int) -> Tensor:
        return flags[:, index : index + 1] if flags.shape[1] > index else none

    return Rows(
        values=torch.cat([empty, *(own for own, _ in numbers)], 1),
        missing=torch.cat([empty, *(flag(flags, 0) for _, flags in numbers)], 1),
        unseen=torch.cat([empty, *(flag(flags, 1) for _, flags in numbers)], 1),
        levels=torch.cat([empty, *(own for own, _ in classes)], 1),
        holes=torch.cat([empty, *(flag(flags, 0) for _, flags in classes)], 1),
    )
