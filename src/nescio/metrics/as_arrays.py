"""What every metric takes: numbers from numpy, lists or torch, checked once at the door."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from nescio.core import NescioError

Numbers: TypeAlias = ArrayLike | Tensor
Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]


def numbers(name: str, values: Numbers, *, axes: int) -> NDArray[Any]:
    """`values` as an array with `axes` axes and at least one entry; half precision widens."""
    try:
        array = from_torch(values) if isinstance(values, Tensor) else np.asarray(values)
    except ValueError as error:
        raise NescioError(
            f"`{name}` must be an array or a list of numbers with rows of one length: {error}"
        ) from None
    if array.dtype.kind not in "biuf":
        raise NescioError(f"`{name}` must hold real numbers, got {array.dtype}; convert it first")
    if array.ndim != axes:
        expected = "one-dimensional" if axes == 1 else f"of {axes} axes"
        raise NescioError(f"`{name}` must be {expected}, got shape {array.shape}; reshape it first")
    if array.size == 0:
        raise NescioError(
            f"`{name}` is empty (shape {array.shape}); give at least one sample to measure"
        )
    if array.dtype.kind == "f" and array.dtype.itemsize < 4:
        return array.astype(np.float32)
    return array


def check_level(level: float) -> None:
    """Refuse a level that is not a share."""
    if not 0 < level < 1:
        raise NescioError(f"`level` must be between 0 and 1, got {level}; 0.95 is usual")


def from_torch(values: Tensor) -> NDArray[Any]:
    """A tensor as an array; half precision widens."""
    small = values.is_floating_point() and values.element_size() < 4  # numpy has no bfloat16
    array: NDArray[Any] = (values.float() if small else values).detach().cpu().numpy()
    return array
