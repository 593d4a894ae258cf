"""RawRows of a table: what a text stands for, and how rows of cells become numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError

ENCODED = 1 << 12  # rows that are encoded at a time
# What stands for no value in a text; pandas has a mark of its own. "None" may be a level.
MISSING = ("", "?", "NA", "NaN", "nan", "<NA>")


def is_header(cells: Sequence[str]) -> bool:
    """Whether a first row holds names: one is not a number, or they are 0, 1, 2, ... in order.

    So pandas writes columns without names; with its index a column without a name comes first.
    A row of one 0 is a number.
    """
    counted = list(map(str, range(len(cells))))
    index = ["", *counted[:-1]]
    if (len(cells) > 1 and list(cells) == counted) or (len(cells) > 2 and list(cells) == index):
        return True
    return not all(map(is_number, cells))


def is_number(cell: str) -> bool:
    """Whether a text is a number, or stands for no value."""
    try:
        number(cell)
    except ValueError:
        return False
    return True


def number(cell: str) -> float:
    """The number that a text holds; NaN where it stands for no value."""
    if "_" in cell:  # Python reads 1_000 as a number, nobody else does
        raise ValueError(cell)
    return np.nan if cell in MISSING else float(cell)


@dataclass(frozen=True, eq=False)
class RawRows:
    """Rows of cells as they stand: the different ones of each column, and which each row has."""

    different: Mapping[str, Sequence[Any]]
    index: Mapping[str, NDArray[np.intp]]  # (n,) into the different ones

    def __len__(self) -> int:
        return len(next(iter(self.index.values())))

    def __getitem__(self, rows: slice) -> "RawRows":
        return RawRows(self.different, {name: index[rows] for name, index in self.index.items()})

    def split(self, size: int) -> Iterator["RawRows"]:
        """The rows in parts."""
        return (self[start : start + size] for start in range(0, len(self), size))


class Encoder(Protocol):
    """How cells become numbers: `nescio.data.Columns`."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def width(self) -> int: ...

    def numbers(self, rows: Any) -> Tensor: ...

    def manifest(self) -> dict[str, Any]: ...


class CellError(NescioError):
    """A cell that does not hold what its column asks for."""

    def __init__(self, name: str, row: int, cell: str, where: str | None = None) -> None:
        self.name, self.row, self.cell = name, row, cell
        super().__init__(
            f"column {name!r} is continuous, but {where or f'row {row}'} holds {cell!r}; repair "
            "it, leave it empty, or make the column categorical"
        )


def encoded_rows(
    parts: Iterator[RawRows], encode: Encoder, first: int, where: Callable[[int], str]
) -> Iterator[Tensor]:
    """Numbers of rows of cells, a few rows at a time; an error says where in the file it is."""
    for cells in parts:
        for part in cells.split(ENCODED):
            try:
                yield encode.numbers(part)
            except CellError as bad:
                raise CellError(bad.name, bad.row, bad.cell, where(first + bad.row)) from None
            first += len(part)
