"""What a data argument stands for: a data set, a file or a folder, and how it is changed.

Data are named by a data set, or the path of an .npz file, a table or a folder of images, and after
colons how they are changed: `cifar10:gray:crop=28`, `letters:without=OISZ`, `test.csv:without=id`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio import data
from nescio.core import NescioError
from nescio.core.registry import YES_NO
from nescio.data import readers
from nescio.data.readers.arrays import arrays_of

SIZED = ("crop", "pad")
CHANGES: dict[str, Any] = {name: getattr(data, name) for name in ("gray", "color", *SIZED)}


@dataclass(frozen=True)
class Named:
    """A data argument, read: where the data come from, options of their reader, changes."""

    source: str
    options: Mapping[str, Any]
    changes: tuple[tuple[str, tuple[Any, ...]], ...]

    @property
    def whole_file(self) -> bool:
        """Whether it is an .npz file of inputs `x` that nobody has split, or a .ts file."""
        if readers.is_ts(self.source):
            return True
        return self.source.endswith(".npz") and "x" in arrays_of(self.source)

    @property
    def table(self) -> bool:
        """Whether it is a .csv or .parquet file."""
        return readers.is_table(self.source)

    @property
    def header(self) -> dict[str, Any]:
        """The option of a .csv that says whether its first row names the columns."""
        return {name: value for name, value in self.options.items() if name == "header"}

    def change(self, x: Tensor) -> Tensor:
        """The inputs after all changes; whole numbers become floats where there are some."""
        x = x.float() if self.changes and x.dtype == torch.int64 else x
        for name, sizes in self.changes:
            x = CHANGES[name](x, *sizes)
        return x

    def read(self, *, whole: bool = False) -> tuple[Tensor, Tensor | None]:
        """All inputs of a whole file, changed, and its targets, if it has any.

        whole: whole numbers, other than images of bytes, stay so; a network may read tokens.
        """
        if readers.is_ts(self.source) and set(self.options) <= {"length"}:
            x, labels = data.read_ts(self.source, **self.options)
            return self.change(x), labels
        if self.options:
            words = ", ".join(f"{name}={value}" for name, value in self.options.items())
            raise NescioError(
                f"{self.source} is taken as a whole here, so nothing can be done with {words}; "
                "leave it out (gray, color, crop=SIZE and pad=SIZE change images)"
            )
        x, y = data.read_npz(self.source, whole=whole)
        return self.change(x), y


def named(text: str) -> Named:
    """Read `NAME:CHANGE:...`; a word that is not a change is an option of the data set."""
    if Path(text).exists():
        return Named(text, {}, ())
    source, *words = text.split(":")
    options, changes = {}, []
    for word in words:
        name, equals, value = word.partition("=")
        if name in CHANGES and (name in SIZED) == bool(equals):
            changes.append((name, (_size(word, value),) if equals else ()))
        elif name and name not in CHANGES and value:
            options[name] = int(value) if value.isdigit() else YES_NO.get(value, value)
        else:
            raise NescioError(
                f"cannot read {word!r} in {text!r}; expected gray, color, crop=SIZE, pad=SIZE or "
                "OPTION=VALUE of the data set, for example cifar10:gray:crop=28"
            )
    return Named(source, options, tuple(changes))


def _size(word: str, text: str) -> tuple[int, int]:
    sides = text.split("x")
    if not all(side.isdigit() for side in sides) or len(sides) > 2:
        raise NescioError(f"{word!r} needs a size in pixels: 28, or 28x32 (height x width)")
    return int(sides[0]), int(sides[-1])
