"""Arrays in the .npy format: bodies, and single inputs that are kept; nothing is unpickled."""

import io
import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from nescio.serving.body_limits import UNREADABLE, WRONG_INPUTS, BodyError

HEADER = 1 << 13  # bytes of a header, at most


def is_npy(body: bytes) -> bool:
    """Whether a `body` begins as a .npy file does."""
    return body.startswith(npy.MAGIC_PREFIX)


def read_npy(body: bytes) -> NDArray[Any]:
    """The array of a `body`, which is not copied; its bytes are all there and no more."""
    start = _start(body)
    try:
        shape, columns_first, kind = _read_header(body[:start])
    except Exception as error:  # NumPy reads a damaged header as Python, and so fails in any way
        raise BodyError(
            UNREADABLE,
            f"the body cannot be read as .npy ({error}); write it with numpy.save",
        ) from None
    if kind.hasobject or kind.names is not None or kind.subdtype is not None:
        raise BodyError(WRONG_INPUTS, f"the array must hold real numbers, got {kind}")
    size = math.prod(shape) * kind.itemsize
    if len(body) - start != size or min(shape, default=1) < 0:
        raise BodyError(
            UNREADABLE,
            f"the .npy file should have {size} bytes of numbers of shape {shape}, it has "
            f"{len(body) - start}; it was cut off, or is not one array",
        )
    if not size:
        return np.empty(shape, kind)
    flat = np.frombuffer(body, kind, offset=start)
    return flat.reshape(shape, order="F" if columns_first else "C")


def _start(body: bytes) -> int:
    """Where the numbers begin, as far as a header may reach."""
    wide = 2 if body[6:7] == b"\1" else 4
    return min(8 + wide + int.from_bytes(body[8 : 8 + wide], "little"), HEADER)


@lru_cache(maxsize=256)
def _read_header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type of the numbers; the same header comes often."""
    file = io.BytesIO(header)
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, columns_first, kind = read(file, max_header_size=HEADER)
    if file.tell() != len(header):
        raise ValueError("its header does not end where it says")
    return tuple(shape), bool(columns_first), kind


def npy_bytes(array: NDArray[Any]) -> bytes:
    """An `array` as a .npy file."""
    return _header(array.dtype.str, array.shape) + np.ascontiguousarray(array).tobytes()


@lru_cache(maxsize=64)
def _header(kind: str, shape: tuple[int, ...]) -> bytes:
    room = io.BytesIO()
    about = {"descr": kind, "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(room, about)
    return room.getvalue()
