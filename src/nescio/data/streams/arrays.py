"""Inputs of .npy and .npz files, a block at a time; compressed ones are unpacked as they are read.

Files are read, not mapped: mapped pages would count as memory of the process.
"""

import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from nescio.data.archive import DAMAGE, demand
from nescio.data.streams.stream import Stream, as_block, same_file
from nescio.errors import NescioError

LOCAL = 30  # bytes of a zip member's own header, before its name and its extra field
Header = tuple[tuple[int, ...], bool, np.dtype[Any]]  # shape, columns first?, type of numbers


def npy_stream(path: str | Path) -> Stream:
    """The inputs of an .npy file."""
    path = Path(path)

    def opened(stack: ExitStack) -> IO[bytes]:
        return stack.enter_context(path.open("rb"))

    return _stream(path, str(path), opened, same_file(path))


def npz_stream(path: str | Path, *, array: str = "x") -> Stream:
    """The inputs `x` of an .npz file.

    array: the name of the inputs in the file.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as whole:
            demand(path, [name.removesuffix(".npy") for name in whole.namelist()], {array})
            member = whole.getinfo(f"{array}.npy")
    except DAMAGE as error:
        raise _damaged(path, error) from None

    def opened(stack: ExitStack) -> IO[bytes]:
        if member.compress_type != zipfile.ZIP_STORED:
            whole = stack.enter_context(zipfile.ZipFile(path))
            return stack.enter_context(whole.open(member))
        file = stack.enter_context(path.open("rb"))
        file.seek(member.header_offset)
        local = file.read(LOCAL)
        name, extra = (int.from_bytes(local[at : at + 2], "little") for at in (26, 28))
        file.seek(name + extra, 1)
        return file

    return _stream(path, f"{array} in {path}", opened, same_file(path, array=array))


def _stream(
    path: Path, name: str, opened: Callable[[ExitStack], IO[bytes]], identity: dict[str, Any]
) -> Stream:
    try:
        with ExitStack() as stack:
            shape, columns_first, kind = _header(opened(stack))
    except DAMAGE as error:
        raise _damaged(path, error) from None
    if kind.kind not in "biuf":
        raise NescioError(f"{name} must hold real numbers, got {kind}; convert it")
    if len(shape) < 2:
        raise NescioError(
            f"{name} must have shape (N, ...), one row a case, got {shape}; write one number a "
            "case as x[:, None], one case of many numbers as x[None]"
        )
    if not math.prod(shape):
        raise NescioError(f"{name} is empty, shape {shape}; expected (N, ...), at least one case")
    if columns_first:
        raise NescioError(
            f"{name}, shape {shape}, is written column after column, expected row after row; write "
            "it as numpy.ascontiguousarray(x)"
        )

    def read(start: int, size: int) -> Iterator[Tensor]:
        row = kind.itemsize * math.prod(shape[1:])
        try:
            with ExitStack() as stack:
                file = opened(stack)
                _header(file)
                file.seek(start * row, 1)
                for first in range(start, shape[0], size):
                    rows = np.empty((min(size, shape[0] - first), *shape[1:]), kind)
                    yield as_block(name, _filled(rows, file, first))
        except DAMAGE as error:
            raise _damaged(path, error) from None

    image = kind == np.uint8 and len(shape) == 4
    return Stream(name, shape[1:], shape[0], identity, read, bytes_each=1 if image else 4)


def _header(file: IO[bytes]) -> Header:
    """What the file holds; it then stands at the numbers."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, columns_first, kind = read(file)
    return tuple(shape), bool(columns_first), kind


def _filled(rows: NDArray[Any], file: Any, first: int) -> NDArray[Any]:
    """Rows with the next numbers of a file."""
    room = rows.data.cast("B")
    done = 0
    while done < len(room):
        count = file.readinto(room[done:])
        if not count:
            raise EOFError(f"it ends in case {first + done * len(rows) // len(room)}")
        done += count
    return rows


def _damaged(path: Path, error: Exception) -> NescioError:
    if isinstance(error, NescioError):
        return error
    if isinstance(error, FileNotFoundError):
        return NescioError(f"there is no file {path}; check the name")
    return NescioError(
        f"cannot read {path}, it is damaged, cut off or not written by numpy ({error}); write it "
        "again with numpy.save or numpy.savez"
    )
