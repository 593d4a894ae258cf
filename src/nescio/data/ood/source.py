"""OOD sources by index: the value, and those of data at hand: stored, scaled, mixtures."""

import hashlib
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import Array, NescioError, as_inputs
from nescio.core.registry import ood_sources
from nescio.data import random_access as draw
from nescio.data.random_access import Indices


@dataclass(frozen=True, eq=False)
class Source:
    """Inputs (N, ...) as float32, or images (N, C, H, W) as bytes of which 255 is 1."""

    values: NDArray[Any]
    text: str  # shape, type and digest

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.values.shape[1:]

    def order(self, seed: int) -> NDArray[np.int64]:
        """All indices of inputs in an order given by `seed`."""
        return draw.orders(seed, draw.SOURCE, np.zeros(1, np.int64), len(self.values)).reshape(-1)


def as_source(x: Array, *, images: bool) -> Source:
    """`x` as a source; `images` demands (N, C, H, W)."""
    tensor = as_inputs(x, "x", keep_bytes=True)
    if images and tensor.ndim != 4:
        raise NescioError(
            f"x must be images (N, C, H, W), got {tuple(tensor.shape)}; "
            "a gray image needs a channel axis: x[:, None]"
        )
    values = tensor.contiguous().cpu().numpy()
    sizes = "x".join(map(str, values.shape))
    return Source(values, f"{sizes} {values.dtype} {digest(values)}")


def floats(values: NDArray[Any]) -> NDArray[np.float32]:
    """Bytes as numbers in [0, 1]; floats as they are."""
    if values.dtype != np.uint8:
        return values
    result = values.astype(np.float32)
    result /= np.float32(255)
    return result


def shown(values: NDArray[np.float32]) -> str:
    """A number, or the digest of several, for a description."""
    return repr(float(values)) if values.ndim == 0 else digest(values)


def digest(values: NDArray[Any]) -> str:
    """A short digest of an array's numbers."""
    return hashlib.blake2b(np.ascontiguousarray(values).data, digest_size=8).hexdigest()


Make: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.float32]]
BLOCK = 1 << 18  # numbers made at a time: 1 MB, what a core's caches hold


@dataclass(frozen=True, eq=False, kw_only=True)
class OODSource:
    """Inputs that are not of the training distribution, by index.

    Two with equal descriptions give equal inputs.

    name: name of the inputs, for tables.
    shape: shape of one input.
    size: number of inputs; None: endless.
    description: everything that the inputs depend on, as text.
    make: a function of indices (n,) that gives new inputs (n, *shape), a few at a time.
    """

    name: str
    shape: tuple[int, ...]
    size: int | None = None
    description: str
    make: Make = field(repr=False)

    def __call__(self, indices: Tensor) -> Tensor:
        """The inputs at `indices` (n,), float32 of shape (n, *shape), where the indices live."""
        numbers = self._checked(indices)
        result = np.empty((len(numbers), *self.shape), np.float32)
        step = max(1, BLOCK // math.prod(self.shape))
        for first in range(0, len(numbers), step):
            result[first : first + step] = self.make(numbers[first : first + step])
        return torch.from_numpy(result).to(indices.device)

    def take(self, count: int, start: int = 0) -> Tensor:
        """The inputs `start` to `start + count - 1`.

        count: number of inputs.
        start: index of the first.
        """
        if count < 1 or start < 0:
            raise NescioError(
                f"expected a count of 1 or more from a start of 0 or more, got {count} from {start}"
            )
        return self(torch.arange(start, start + count))

    def _checked(self, indices: Tensor) -> NDArray[np.int64]:
        if not isinstance(indices, Tensor) or indices.dtype != torch.int64 or indices.ndim != 1:
            raise NescioError(
                f"the indices of {self.name!r} must be an int64 tensor of shape (n,), got "
                f"{_what(indices)}; use torch.tensor([...]), or .take(count)"
            )
        numbers: NDArray[np.int64] = indices.detach().cpu().numpy()
        if len(numbers) and numbers.min() < 0:
            raise NescioError(
                f"the indices of {self.name!r} must be 0 or more, got {numbers.min()}"
            )
        if self.size is not None and len(numbers) and numbers.max() >= self.size:
            raise NescioError(
                f"{self.name!r} has {self.size} inputs, numbered 0..{self.size - 1}; "
                f"there is no number {numbers.max()}: ask for fewer"
            )
        return numbers


def as_seed(seed: int) -> int:
    """A seed, or an error."""
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if number < 0:
        raise NescioError(f"`seed` must be a whole number, 0 or more, got {seed!r}")
    return number


def _what(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    return type(value).__name__


def as_images(shape: Sequence[int]) -> tuple[int, int, int]:
    """The shape of one image (channels, height, width), or an error."""
    sizes = tuple(map(int, shape))
    if len(sizes) != 3 or min(sizes) < 1:
        raise NescioError(f"`shape` must be (channels, height, width), got {tuple(shape)}")
    return sizes


@ood_sources.register
def another(x: Array, name: str) -> OODSource:
    """Inputs of another data set, in its order.

    Whether its classes overlap with those of the training data is for you to know.

    x: the inputs, `(N, ...)`.
    name: name of the data set, for tables.
    """
    source = as_source(x, images=False)
    text = f"another({source.text}, {name!r})"
    make, size = partial(_rows, source.values), len(source.values)
    return OODSource(name=name, shape=source.shape, size=size, description=text, make=make)


def _rows(values: NDArray[Any], indices: Indices) -> NDArray[np.float32]:
    return floats(values[indices])


@ood_sources.register
def mixture(ood_sources: Sequence[OODSource], weights: Sequence[int] | None = None) -> OODSource:
    """Several OOD sources in turn, in exact shares.

    Of k sources, index i is number i // k of source i mod k. Where one of them ends, the
    mixture ends.

    ood_sources: the sources, with inputs of one shape.
    weights: whole numbers that give some sources more turns: (2, 1) takes two inputs of the first,
      one of the second, and so on. None: one each.
    """
    parts = tuple(ood_sources)
    if not parts:
        raise NescioError("a mixture needs at least one OOD source, got none")
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        raise NescioError(
            "all parts of a mixture must have inputs of one shape, got "
            + ", ".join(f"{part.name!r} {part.shape}" for part in parts)
        )
    turns = _turns(weights, len(parts))
    starts = np.concatenate([[0], np.cumsum(turns)])
    ends = [
        part.size // turn * int(starts[-1]) + int(start) + part.size % turn
        for part, turn, start in zip(parts, turns, starts, strict=False)
        if part.size is not None
    ]
    shares = "" if weights is None else f", weights={turns}"
    return OODSource(
        name=" + ".join(part.name for part in parts),
        shape=parts[0].shape,
        size=min(ends, default=None),
        description=f"mixture({', '.join(part.description for part in parts)}{shares})",
        make=partial(_make_mixture, parts, starts),
    )


def _turns(weights: Sequence[int] | None, count: int) -> list[int]:
    if weights is None:
        return [1] * count
    try:
        turns = [operator.index(weight) for weight in weights]
    except TypeError:
        turns = []
    if len(turns) != count or min(turns) < 1:
        raise NescioError(
            f"`weights` must be {count} whole numbers, 1 or more each, got {weights!r}; "
            "(1, 3) is a quarter and three quarters"
        )
    return turns


def _make_mixture(
    parts: tuple[OODSource, ...], starts: NDArray[np.int64], indices: Indices
) -> NDArray[np.float32]:
    result = np.empty((len(indices), *parts[0].shape), np.float32)
    rounds, turn = np.divmod(indices, starts[-1])
    for part, start, end in zip(parts, starts, starts[1:], strict=False):
        rows = np.flatnonzero((start <= turn) & (turn < end))
        if len(rows):
            result[rows] = part.make(rounds[rows] * (end - start) + turn[rows] - start)
    return result


@ood_sources.register
def scaled(ood: OODSource, factor: float) -> OODSource:
    """Inputs of another OOD source `ood` times `factor`; they leave its range on purpose.

    As in Hein et al. (2019), table 2.
    """
    if not abs(factor) <= float(np.finfo(np.float32).max):
        raise NescioError(f"`factor` must be finite in float32, got {factor}")
    name, text = f"{factor:g} * {ood.name}", f"scaled({ood.description}, {float(factor)})"
    make = partial(_make_scaled, ood, np.float32(factor))
    return replace(ood, name=name, description=text, make=make)


def _make_scaled(ood: OODSource, factor: np.float32, indices: Indices) -> NDArray[np.float32]:
    return ood.make(indices) * factor


PIECE = 4096  # made at a time


@ood_sources.register
def stored(ood: OODSource, count: int, *, start: int = 0) -> OODSource:
    """Images of another OOD source, made once and rounded to bytes.

    For training, where an image comes back in every epoch. One byte per pixel stays in memory.

    ood: the source of the images, in [0, 1].
    count: number of images.
    start: index of the first.
    """
    if len(ood.shape) != 3:
        raise NescioError(f"only images (C, H, W) are stored as bytes, got {ood.shape}")
    if count < 1 or start < 0:
        raise NescioError(f"expected a count of 1 or more from 0 or more, got {count} from {start}")
    values = np.empty((count, *ood.shape), np.uint8)
    for first in range(0, count, PIECE):
        last = min(first + PIECE, count)
        made = ood(torch.arange(start + first, start + last)).numpy()
        if made.min() < 0 or made.max() > 1:
            raise NescioError(f"{ood.name!r} leaves the range [0, 1] that bytes can hold")
        values[first:last] = np.rint(255 * made)
    text = f"stored({ood.description}, {count=}, {start=})"
    make = partial(_rows, values)
    return OODSource(name=ood.name, shape=ood.shape, size=count, description=text, make=make)
