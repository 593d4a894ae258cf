"""The arrays of an .npz file, read without unpickling anything, as inputs and targets."""

import lzma
import zipfile
import zlib
from collections.abc import Set
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray
from torch import Tensor

from nescio.data.catalogue import lacking
from nescio.errors import NescioError

Arrays: TypeAlias = dict[str, NDArray[Any]]

DAMAGE = (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError)


def read_arrays(path: str | Path, names: Set[str]) -> tuple[Arrays, list[str]]:
    """Those of the arrays `names` that the file has, and the names of all it has."""
    if not Path(path).is_file():
        raise NescioError(f"there is no file {path}; expected the path of an .npz file")
    with open(path, "rb") as file:  # numpy leaves a damaged file open
        archive = _archive(path, file)
        wanted = [name for name in archive.files if name in names]
        return {name: _member(path, archive, name) for name in wanted}, archive.files


def _archive(path: str | Path, file: BinaryIO) -> NpzFile:
    try:
        archive = np.load(file, allow_pickle=False)
    except DAMAGE as error:
        raise NescioError(
            f"{path} is not an .npz file, or is cut off ({error}); write it with numpy.savez"
        ) from None
    if not isinstance(archive, NpzFile):
        raise NescioError(
            f"{path} holds one unnamed array; expected an .npz file with named ones: "
            "write it with numpy.savez"
        )
    return archive


def demand(path: str | Path, found: list[str], needed: Set[str]) -> None:
    """Refuse a file that lacks one of the arrays `needed`."""
    missing = needed - set(found)
    if missing:
        raise NescioError(
            f"{path} lacks {', '.join(sorted(missing))}; found "
            f"{', '.join(sorted(found)) or 'no arrays'}: name the arrays in numpy.savez"
        )


def _member(path: str | Path, archive: NpzFile, name: str) -> NDArray[Any]:
    try:
        array = archive[name]
    except DAMAGE as error:
        if "allow_pickle" in str(error):
            raise NescioError(
                f"{name} in {path} holds pickled objects, which are never loaded; "
                "save it as an array of numbers"
            ) from None
        raise NescioError(
            f"{name} in {path} cannot be read, the file is damaged or cut off ({error}); "
            "write it again"
        ) from None
    return _numbers(f"{name} in {path}", array)


def _numbers(where: str, array: Any) -> NDArray[Any]:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        kind = getattr(array, "dtype", "raw bytes")
        raise NescioError(f"{where} must hold real numbers, got {kind}; convert it")
    return array


def only_archive(name: str, where: Path, ending: str = ".npz") -> Path:
    """The one file of a folder with this ending."""
    found = sorted(where.glob(f"*{ending}"))
    if not found:
        raise lacking(name, where, f"an {ending} file")
    if len(found) > 1:
        raise NescioError(
            f"{where} holds several {ending} files, {found[0].name} and {found[1].name} among "
            "them; expected one: move the others away"
        )
    return found[0]


def read_array(path: Path) -> NDArray[Any]:
    """The array of an .npy file, plain or compressed with xz."""
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            return _numbers(str(path), np.load(file, allow_pickle=False))
    except (lzma.LZMAError, *DAMAGE) as error:
        if isinstance(error, NescioError):
            raise
        raise NescioError(
            f"cannot read {path}: {error}; expected an array of numpy.save: copy it again"
        ) from None


def inputs(where: str, array: NDArray[Any]) -> Tensor:
    """Inputs (N, ...) as float32; uint8 images (N, C, H, W) stay, other uint8 is divided by 255."""
    if array.ndim < 2 or array.size == 0:
        raise NescioError(
            f"{where} must have shape (N, ...) and not be empty, got {array.shape}; one row a case"
        )
    if array.dtype == np.uint8 and array.ndim == 4:
        return torch.from_numpy(array)
    x = _float32(where, array)
    return x.div_(255) if array.dtype == np.uint8 else x


def targets(where: str, array: NDArray[Any]) -> Tensor:
    """Labels (N,) as int64 from integers, targets (N, D) as float32 from floats."""
    if array.size == 0:
        raise NescioError(f"{where} is empty, its shape is {array.shape}; give some cases")
    if array.dtype.kind == "f":
        if array.ndim not in (1, 2):
            raise NescioError(f"{where} must be (N,) or (N, D) targets, got shape {array.shape}")
        return _float32(where, array.reshape(len(array), -1))
    if array.ndim != 1:
        raise NescioError(f"{where} must be (N,) labels, got shape {array.shape}; use one column")
    if array.min() < 0 or array.max() > np.iinfo(np.int64).max:
        raise NescioError(f"{where} must hold labels from 0 up, got {array.min()}..{array.max()}")
    return torch.from_numpy(array.astype(np.int64))


def _float32(where: str, array: NDArray[Any]) -> Tensor:
    with np.errstate(over="ignore"):  # seen as infinity below
        values = array.astype(np.float32)
    if not np.all(np.isfinite(values)):
        raise NescioError(
            f"{where} holds NaN, infinity or a number beyond float32; repair or drop those cases"
        )
    return torch.from_numpy(values)
