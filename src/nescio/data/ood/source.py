"""The data an OOD source is made from: checked once; bytes stay bytes."""

import hashlib
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import Array, NescioError, as_inputs
from nescio.data import random_access


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
        return random_access.orders(
            seed, random_access.SOURCE, np.zeros(1, np.int64), len(self.values)
        ).reshape(-1)


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


# An OOD source as a value: inputs by index, each a function of (seed, index) only.

Make: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.float32]]
BLOCK = 1 << 18  # numbers made at a time: 1 MB, what a core's caches hold


@dataclass(frozen=True, eq=False, kw_only=True)
class OODSource:
    """Inputs that are not of the training distribution, by index.

    Two with equal descriptions give equal inputs. `size` is how many there are; None: endless.
    """

    name: str
    shape: tuple[int, ...]  # of one input
    size: int | None = None
    description: str
    make: Make = field(repr=False)  # indices (n,) -> new inputs (n, *shape), a few at a time

    def __call__(self, indices: Tensor) -> Tensor:
        """The inputs at `indices` (n,), float32 of shape (n, *shape), where the indices live."""
        numbers = self._checked(indices)
        result = np.empty((len(numbers), *self.shape), np.float32)
        step = max(1, BLOCK // math.prod(self.shape))
        for first in range(0, len(numbers), step):
            result[first : first + step] = self.make(numbers[first : first + step])
        return torch.from_numpy(result).to(indices.device)

    def take(self, count: int, start: int = 0) -> Tensor:
        """The inputs `start` to `start + count - 1`."""
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
