"""The data an out-distribution is made from: checked once, bytes kept as bytes."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.checks import Array, as_inputs
from nescio.data import bits
from nescio.errors import NescioError


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
        """All numbers of inputs in an order given by `seed`."""
        return bits.orders(seed, bits.SOURCE, np.zeros(1, np.int64), len(self.values)).reshape(-1)


def as_source(x: Array, *, images: bool) -> Source:
    """`x` as a source; `images` demands (N, C, H, W)."""
    tensor = as_inputs(x, "x", keep_bytes=True)
    if images and tensor.ndim != 4:
        raise NescioError(
            f"x must be images (N, C, H, W), got {tuple(tensor.shape)}; "
            "a grey image needs a channel axis: x[:, None]"
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
