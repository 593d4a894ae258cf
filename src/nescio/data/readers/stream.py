"""Inputs that come a block at a time, and which columns of a table they are."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import (
    Bundle,
    NescioError,
    Shape,
    as_batch,
    as_image_bytes,
    as_tensor,
    joined,
    known_by,
    shape_of,
    unknown,
)

Names = str | int | Sequence[str] | None
SHOWN = 10  # names in a message


def chosen_columns(
    path: Path, known: Sequence[str], columns: Names, without: Names, keep: Names = None
) -> list[int]:
    """Places of the chosen columns, in the order in which they are asked for.

    keep: left out too, unless `columns` has them.
    """
    if columns is not None and without is not None:
        raise NescioError("give columns= or without=, not both")
    if len(set(known)) < len(known):
        raise NescioError(f"{path} has two columns of one name: {', '.join(known)}")
    if columns is not None:
        return places_of(path, known, columns)
    asked = {*places_of(path, known, without), *places_of(path, known, keep)}
    left = [place for place in range(len(known)) if place not in asked]
    if not left:
        raise NescioError(f"{path} has no column left; its columns: {', '.join(known)}")
    return left


def places_of(path: Path, known: Sequence[str], names: Names) -> list[int]:
    """Places of named columns; all that are not there are named."""
    asked = listed(names)
    missing = [name for name in asked if name not in known]
    if not missing:
        return [known.index(name) for name in asked]
    lower = {name.lower(): name for name in known}
    same = [f"{lower[n.lower()]!r} for {n!r}" for n in missing if n.lower() in lower]
    if len(missing) == 1 and not same:
        raise NescioError(f"{path}: {unknown('column', missing[0], known)}")
    several = f"it lacks {len(missing)} columns, {first_of(missing)}"
    what = f"unknown column {missing[0]!r}" if len(missing) == 1 else several
    hint = f"; small and capital letters differ, did you mean {first_of(same)}?" if same else "."
    raise NescioError(f"{path}: {what}{hint} Known: {', '.join(known)}")


def listed(names: Names) -> list[str]:
    """Names as a list: `a,b` are two."""
    if names is None:
        return []
    if isinstance(names, (str, int)):
        return [name.strip() for name in str(names).split(",")]
    return list(names)


def first_of(names: Sequence[str]) -> str:
    """For a message: the first names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


Blocks = Callable[[int, int], Iterator[Any]]  # (first sample, samples per block)
Words = NDArray[np.str_]
Kept = Callable[[int, int], Mapping[str, Words]]  # (first case, samples): columns by name


@dataclass(frozen=True, eq=False, repr=False)
class Stream:
    """Inputs (n, ...) in blocks; NaN and infinity are left in them.

    Blocks are float32, uint8 for images (n, C, H, W), or int64 for whole numbers. All have
    the number of samples asked for, the last one at most.
    """

    name: str
    shape: Shape  # of one input
    total: int | None  # samples, where they are known beforehand
    identity: Mapping[str, Any]  # JSON; what tells these inputs from others
    read: Blocks
    files: Sequence[str] | None = None  # where each sample is a file of its own
    columns: tuple[str, ...] | None = None  # names of the numbers of a row
    bytes_each: int = 4  # of a number
    kept: Kept | None = None  # columns of text that are copied through, of any samples
    unreadable: Mapping[int, str] = field(default_factory=dict)  # samples that are all NaN: why
    sharded: bool = False  # whether other processes can read it, from any sample on

    def __repr__(self) -> str:
        samples = "?" if self.total is None else self.total
        return f"Stream({self.name}: {samples} samples of shape {self.shape})"

    @property
    def sample_bytes(self) -> int:
        """What one sample takes in memory."""
        each = self.shape.values() if isinstance(self.shape, dict) else [self.shape]
        return sum(map(math.prod, each)) * self.bytes_each

    def blocks(self, size: int, *, start: int = 0) -> Iterator[tuple[int, Any]]:
        """The number of the first sample and the inputs of each block of `size` samples."""
        if size < 1 or start < 0:
            raise NescioError(f"a block needs at least one sample, from 0 on; got {size}, {start}")
        for block in self.read(start, size):
            if len(block):
                yield start, self._with_holes(start, block)
                start += len(block)

    def _with_holes(self, start: int, block: Any) -> Any:
        """A block as floats with NaN for samples that could not be read; unchanged without them."""
        holes = [sample - start for sample in self.unreadable if 0 <= sample - start < len(block)]
        if not holes:
            return block
        found = as_batch(block).clone()
        found[holes] = math.nan
        return found

    def changed(self, change: Callable[[Tensor], Tensor], name: str) -> "Stream":
        """The same with each block changed, as images are cropped."""

        def read(start: int, size: int) -> Iterator[Tensor]:
            return (change(block) for block in self.read(start, size))

        _, first = next(self.blocks(1))
        shape = tuple(change(first).shape[1:])
        identity = {**self.identity, "changed": name}
        return replace(self, name=name, shape=shape, identity=identity, read=read)


def array_stream(x: Any, *, name: str = "inputs") -> Stream:
    """Inputs (N, ...) that are in memory already; of several tensors, a checked bundle."""
    if isinstance(x, Bundle):
        digests = {part: _digest(tensor) for part, tensor in x.parts.items()}
        return Stream(
            name,
            shape_of(x),
            len(x),
            {"digest": digests},
            lambda start, size: x[start:].split(size),
            bytes_each=8,
        )
    array: Any = x if isinstance(x, np.ndarray) else as_tensor(x, name)
    if array.ndim < 2 or not math.prod(array.shape):
        raise NescioError(
            f"{name} must have shape (N, ...) and not be empty, got {tuple(array.shape)}; one row "
            "per sample"
        )

    def read(start: int, size: int) -> Iterator[Tensor]:
        for first in range(start, len(array), size):
            yield as_block(name, array[first : first + size])

    return Stream(
        name,
        tuple(array.shape[1:]),
        len(array),
        {"digest": _digest(array)},
        read,
        bytes_each=as_block(name, array[:1]).element_size(),
    )


def as_block(name: str, part: Tensor | NDArray[Any]) -> Tensor:
    """A block as it enters: float32, images of uint8, or other whole numbers, perhaps tokens."""
    x = as_tensor(part, name)
    if x.dtype == torch.uint8:
        return as_image_bytes(x, name)
    if x.is_complex():
        raise NescioError(f"{name} must be real numbers, got {x.dtype}; convert them")
    return x.float() if x.is_floating_point() or x.dtype == torch.bool else x.long()


def same_file(path: Path, **options: Any) -> dict[str, Any]:
    """What tells a file from a changed one: its content, whatever its name and its time."""
    return {**known_by(path), **options}


def exactly(parts: Iterator[Any], size: int) -> Iterator[Any]:
    """Parts of any length as blocks of `size` samples."""
    waiting: list[Any] = []
    count = 0
    for part in parts:
        waiting.append(part)
        count += len(part)
        if count >= size:
            whole = joined(waiting)
            ready = count - count % size
            yield from whole[:ready].split(size)
            waiting, count = [whole[ready:].clone()], count - ready
    if count:
        yield joined(waiting)


def kept_in_order(names: Sequence[str], parts: Callable[[int], Iterator[Words]]) -> Kept:
    """Columns of text by name, from rows (n, columns) as they come from any case on.

    Samples after the last request are read on; others are searched from the start.
    """
    return _KeptInOrder(names=tuple(names), parts=parts)


@dataclass(kw_only=True)
class _KeptInOrder:
    """Columns of text, and how far they were read; a copy in another process starts anew."""

    names: tuple[str, ...]
    parts: Callable[[int], Iterator[Words]]
    at: int = 0
    rest: Words | None = None
    coming: Iterator[Words] | None = None

    def __reduce__(self) -> Any:
        return kept_in_order, (self.names, self.parts)

    def __call__(self, first: int, count: int) -> Mapping[str, Words]:
        if first != self.at or self.coming is None:
            self.rest, self.coming = None, self.parts(first)
        rest = np.empty((0, len(self.names)), str) if self.rest is None else self.rest
        waiting, there = [rest], len(rest)
        while there < count and (part := next(self.coming, None)) is not None:
            waiting.append(part)
            there += len(part)
        whole = np.concatenate(waiting)
        found, self.rest = whole[:count], whole[count:].copy()
        self.at = first + len(found)
        return {name: found[:, place] for place, name in enumerate(self.names)}


def _digest(array: Any) -> str:
    """A fingerprint of numbers in memory, block by block."""
    kind = str(array.dtype).removeprefix("torch.")
    total = hashlib.blake2b(f"{kind}{tuple(array.shape)}".encode(), digest_size=16)
    rows = max(1, (1 << 24) // max(1, math.prod(array.shape[1:])))
    for first in range(0, len(array), rows):
        part = array[first : first + rows]
        part = part.detach().cpu().numpy() if isinstance(part, Tensor) else part
        total.update(np.ascontiguousarray(part).data)
    return total.hexdigest()
