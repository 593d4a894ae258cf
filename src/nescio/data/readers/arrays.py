"""Readers of NumPy files: .npy and .npz, whole or as streams; nothing is ever unpickled.

Streams are read, not mapped: mapped pages would count as memory of the process.
"""

import lzma
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Set
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError, as_image_bytes, check_ignore_index, without_ignored
from nescio.data.dataset import Dataset, Part, split
from nescio.data.images import as_images
from nescio.data.readers.stream import Stream, as_block, same_file
from nescio.data.sets.catalogue import lacking

Arrays: TypeAlias = dict[str, NDArray[Any]]

CROPS = "_x.npy.xz"  # ends the name of a file of images, whose labels are beside it

DAMAGE = (
    OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
    NotImplementedError,
)  # fmt: skip


def read_arrays(path: str | Path, names: Set[str]) -> tuple[Arrays, list[str]]:
    """Those of the arrays `names` that the file has, and the names of all it has."""
    path = Path(path)
    if not path.is_file():
        raise NescioError(f"there is no file {path}; expected the path of an .npz file")
    try:
        with zipfile.ZipFile(path) as archive:
            found = [name.removesuffix(".npy") for name in archive.namelist()]
    except DAMAGE as error:
        with path.open("rb") as file:
            single = file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX
        if single:
            raise NescioError(
                f"{path} holds one unnamed array; expected an .npz file with named ones: "
                "write it with numpy.savez"
            ) from None
        raise NescioError(
            f"{path} is not an .npz file, or is cut off ({error}); write it with numpy.savez"
        ) from None
    return {name: _member(path, name) for name in found if name in names}, found


def demand(path: str | Path, found: list[str], needed: Set[str]) -> None:
    """Refuse a file that lacks one of the arrays `needed`."""
    missing = needed - set(found)
    if missing:
        raise NescioError(
            f"{path} lacks {', '.join(sorted(missing))}; found "
            f"{', '.join(sorted(found)) or 'no arrays'}: name the arrays in numpy.savez"
        )


def _member(path: Path, name: str) -> NDArray[Any]:
    """One array of an .npz file, checked to its last byte."""
    where = f"{name} in {path}"
    with _reading(where), zipfile.ZipFile(path) as archive:
        inner = f"{name}.npy" if f"{name}.npy" in archive.namelist() else name
        with archive.open(inner) as file:
            return _array(where, file)


def _array(where: str, file: IO[bytes]) -> NDArray[Any]:
    """All numbers of a file that stands at the beginning of an array."""
    shape, columns_first, kind = _header(file)
    _check_kind(where, kind)
    flat = np.empty(math.prod(shape), kind)
    if flat.size:
        _filled(flat, file, 0)
    return flat.reshape(shape, order="F" if columns_first else "C")


def _check_kind(where: str, kind: np.dtype[Any]) -> None:
    if kind.hasobject:
        raise NescioError(
            f"{where} holds pickled objects, which are never loaded; save it as an array of numbers"
        )
    if kind.kind not in "biuf":
        words = "number the names, as numpy.unique(names, return_inverse=True)[1] does"
        how = words if kind.kind in "US" else "convert it"
        raise NescioError(f"{where} must hold real numbers, got {kind}; {how}")


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
    with _reading(path), lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        return _array(str(path), cast(IO[bytes], file))


def read_crops(name: str, path: Path) -> Part:
    """Images (N, H, W, 3) in NAME_x.npy.xz, labels y (N,) in NAME_y.npz beside it.

    name: name of the data set, for what to fetch where the labels are missing.
    """
    beside = path.with_name(path.name.replace(CROPS, "_y.npz"))
    if not beside.is_file():
        raise lacking(name, path.parent, f"{beside.name} with the labels y of {path.name}")
    arrays, names = read_arrays(beside, {"y"})
    demand(beside, names, {"y"})
    x, y = as_images(read_array(path)), targets(f"y in {beside}", arrays["y"])
    if len(x) != len(y):
        raise NescioError(f"{path} has {len(x)} images but {beside} {len(y)} labels; one each")
    return x, y


def inputs(where: str, array: NDArray[Any], *, whole: bool = False) -> Tensor:
    """Inputs (N, ...) as float32; uint8 images (N, C, H, W) stay, other uint8 is refused.

    whole: other whole numbers, which may be tokens, become int64.
    """
    if array.ndim < 2 or array.size == 0:
        raise NescioError(
            f"{where} must have shape (N, ...) and not be empty, got {array.shape}; one row per "
            "sample"
        )
    if whole and array.dtype.kind in "iu" and array.dtype != np.uint8:
        return torch.from_numpy(array.astype(np.int64))
    if array.dtype != np.uint8:
        return _float32(where, array)
    return as_image_bytes(torch.from_numpy(array), where)


def targets(where: str, array: NDArray[Any], ignore_index: int | None = None) -> Tensor:
    """Labels of any axes as int64, maps of uint8 as they are; from floats targets (N, D)."""
    if array.size == 0:
        raise NescioError(f"{where} is empty, its shape is {array.shape}; give some cases")
    if array.dtype.kind == "f":
        if array.ndim not in (1, 2):
            raise NescioError(f"{where} must be (N,) or (N, D) targets, got shape {array.shape}")
        return _float32(where, array.reshape(len(array), -1))
    if array.ndim > 2 and array.dtype == np.uint8:
        return torch.from_numpy(array)
    if array.ndim > 1 and array.shape[1] > 1:  # several labels, or one for each step or pixel
        return torch.from_numpy(array.astype(np.int64))
    if array.ndim != 1:
        raise NescioError(f"{where} must be (N,) labels, got shape {array.shape}; use one column")
    own = array if ignore_index is None else array[array != ignore_index]
    if own.min(initial=0) < 0 or array.max() > np.iinfo(np.int64).max:
        raise NescioError(f"{where} must hold labels from 0 up, got {array.min()}..{array.max()}")
    return torch.from_numpy(array.astype(np.int64))


def _float32(where: str, array: NDArray[Any]) -> Tensor:
    with np.errstate(over="ignore"):  # seen as infinity below
        values = array.astype(np.float32)
    if not np.all(np.isfinite(values)):
        raise NescioError(
            f"{where} holds NaN, infinity or a number beyond float32; repair or drop those samples"
        )
    return torch.from_numpy(values)


PARTS = ("train", "validation", "test")


def arrays_of(path: str | Path) -> list[str]:
    """The names of the arrays in a file."""
    return read_arrays(path, set())[1]


def read_npz(path: str | Path, *, whole: bool = False) -> tuple[Tensor, Tensor | None]:
    """Read the inputs `x` and, where the file has them, the targets `y`.

    x becomes float32 (N, ...). uint8 must be images (N, C, H, W) and stays as it is, until the
    batch. Integer y becomes int64 labels (N,), floating-point y float32 targets (N, D).

    path: the .npz file.
    whole: whether other whole numbers in x, such as tokens, become int64.
    """
    arrays, found = read_arrays(path, {"x", "y"})
    demand(path, found, {"x"})
    if "y" in arrays:
        return _pair(path, arrays, "", whole=whole)
    return inputs(f"x in {path}", arrays["x"], whole=whole), None


def dataset_from_npz(
    path: str | Path,
    *,
    seed: int = 0,
    ignore_index: int | None = None,
    tokens: bool = False,
) -> Dataset:
    """Read a data set: `x` and `y` to be split, or `x_train`, `y_train` and further parts.

    `x`, `y` are split 80 / 10 / 10 in an order given by `seed` (below ten samples all are for
    training). Ready parts are `x_train`, `y_train` and, where there are any, `x_validation`,
    `y_validation`, `x_test`, `y_test`; then `seed` changes nothing. Numbers are read as by
    `read_npz`; integer y makes a classification of max + 1 classes, so write counts as floats
    for a regression. Label maps (N, H, W) belong to images (N, C, H, W).

    path: the .npz file.
    seed: seed of the split.
    ignore_index: label of what is left out, not one of the classes; None: nothing is.
    tokens: whether whole numbers in x stay whole, for a network that reads tokens.
    """
    ready = {f"{letter}_{part}" for part in PARTS for letter in "xy"}
    arrays, found = read_arrays(path, {"x", "y"} | ready)
    if not ready & arrays.keys():
        demand(path, found, {"x", "y"})
        whole = _pair(path, arrays, "", whole=tokens, ignore_index=ignore_index)
        parts = dict(zip(PARTS, split(whole, seed), strict=True))
    elif {"x", "y"} & arrays.keys():
        raise NescioError(
            f"{path} holds both whole data and ready parts ({', '.join(sorted(arrays))}); "
            "expected one of the two: leave the other out"
        )
    else:
        demand(path, found, {"x_train", "y_train"})
        own = partial(_pair, path, arrays, whole=tokens, ignore_index=ignore_index)
        parts = {part: _ready(path, arrays, found, part, own) for part in PARTS}
    train = parts["train"]
    assert train is not None
    classes = _classes(path, parts, check_ignore_index(ignore_index))
    return Dataset(
        Path(path).stem,
        train,
        parts["validation"],
        parts["test"],
        classes,
        ignore_index=ignore_index,
    )


def _ready(
    path: str | Path, arrays: Arrays, found: list[str], part: str, read: Callable[[str], Part]
) -> Part | None:
    pair = {f"x_{part}", f"y_{part}"}
    if not pair & arrays.keys():
        return None
    demand(path, found, pair)
    return read(f"_{part}")


def _pair(
    path: str | Path,
    arrays: Arrays,
    suffix: str,
    *,
    whole: bool = False,
    ignore_index: int | None = None,
) -> Part:
    x = inputs(f"x{suffix} in {path}", arrays[f"x{suffix}"], whole=whole)
    y = targets(f"y{suffix} in {path}", arrays[f"y{suffix}"], ignore_index)
    if len(x) != len(y):
        raise NescioError(
            f"x{suffix} and y{suffix} in {path} must have the same length, got {len(x)} "
            f"and {len(y)}"
        )
    return x, y


def _classes(
    path: str | Path, parts: dict[str, Part | None], ignore_index: int | None
) -> int | None:
    targets_given = [part[1] for part in parts.values() if part is not None]
    kinds = {y.dtype for y in targets_given}
    if len(kinds) > 1:
        raise NescioError(
            f"{path} has integer y in one part and floating-point y in another; expected labels "
            "in all parts, or targets in all"
        )
    if kinds == {torch.float32}:
        return None
    classes, samples = 2, 0
    for y in targets_given:  # an ignored label counts as class 0
        labels, counts = without_ignored(y, ignore_index)
        classes = max(classes, 1 + int(labels.max()))
        samples += labels.numel() if counts is None else int(counts.sum())
    if classes > max(2, samples):
        raise NescioError(
            f"y in {path} has labels up to {classes - 1} for {samples} samples; number the classes "
            "0, 1, 2, ... (numpy.unique(y, return_inverse=True) does), or use floats to regress"
        )
    return classes


SKIPPED = 1 << 20  # bytes at a time
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
    with _reading(path), zipfile.ZipFile(path) as whole:
        demand(path, [name.removesuffix(".npy") for name in whole.namelist()], {array})
        member = whole.getinfo(f"{array}.npy")

    def opened(stack: ExitStack) -> IO[bytes]:
        whole = stack.enter_context(zipfile.ZipFile(path))
        return stack.enter_context(whole.open(member))

    return _stream(path, f"{array} in {path}", opened, same_file(path, array=array))


def _stream(
    path: Path, name: str, opened: Callable[[ExitStack], IO[bytes]], identity: dict[str, Any]
) -> Stream:
    with _reading(path), ExitStack() as stack:
        shape, columns_first, kind = _header(opened(stack))
    _check_kind(name, kind)
    if len(shape) < 2:
        raise NescioError(
            f"{name} must have shape (N, ...), one row per sample, got {shape}; write one number a "
            "case as x[:, None], one sample of many numbers as x[None]"
        )
    if not math.prod(shape):
        raise NescioError(f"{name} is empty, shape {shape}; expected (N, ...), at least one sample")
    if columns_first:
        raise NescioError(
            f"{name}, shape {shape}, is written column after column, expected row after row; write "
            "it as numpy.ascontiguousarray(x)"
        )

    def read(start: int, size: int) -> Iterator[Tensor]:
        row = kind.itemsize * math.prod(shape[1:])
        with _reading(path), ExitStack() as stack:
            file = opened(stack)
            _header(file)
            _skip(file, start * row)
            for first in range(start, shape[0], size):
                rows = np.empty((min(size, shape[0] - first), *shape[1:]), kind)
                yield as_block(name, _filled(rows, file, first))

    one = as_block(name, np.zeros((1, *shape[1:]), kind))
    return Stream(name, shape[1:], shape[0], identity, read, bytes_each=one.element_size())


def _header(file: IO[bytes]) -> Header:
    """The header of the file; the position is then at the numbers."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, columns_first, kind = read(file)
    return tuple(shape), bool(columns_first), kind


def _skip(file: IO[bytes], count: int) -> None:
    """Go on; bytes of an archive are read, so that its checksum is of all of them."""
    if not isinstance(file, zipfile.ZipExtFile):
        file.seek(count, 1)
        return
    while count and (read := file.read(min(count, SKIPPED))):
        count -= len(read)


def _filled(rows: NDArray[Any], file: Any, first: int) -> NDArray[Any]:
    """Rows with the next numbers of a file."""
    room = rows.data.cast("B")
    done = 0
    while done < len(room):
        count = file.readinto(room[done:])
        if not count:
            raise EOFError(f"it ends in sample {first + done * len(rows) // len(room)}")
        done += count
    return rows


@contextmanager
def _reading(path: str | Path) -> Iterator[None]:
    try:
        yield
    except NescioError:
        raise
    except FileNotFoundError:
        raise NescioError(f"there is no file {path}; check the name") from None
    except DAMAGE as error:
        raise NescioError(
            f"cannot read {path}, it is damaged, cut off or not written by numpy ({error}); copy "
            "it again, or write it again with numpy.save or numpy.savez"
        ) from None
