"""MNIST and its family in IDX files: digits, fashion, Kuzushiji, letters."""

import gzip
import math
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data.dataset import Dataset, Part, from_parts, only_tests
from nescio.data.images import as_images
from nescio.data.readers.arrays import demand, only_archive, read_arrays, targets
from nescio.data.sets.catalogue import data_folder, lacking, locate

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@datasets.register
def letters(*, folder: str | None = None, without: str = "") -> Dataset:
    """Handwritten capital letters of 28 x 28 pixels, A to Z as 0 to 25, all to test on.

    folder: where the folder `letters-az` with the .npz file is, in place of NESCIO_DATA.
    without: letters to leave out; OISZ look like the digits 0, 1, 5, 2.
    """
    where = data_folder("letters", folder)
    path = only_archive("letters", where)
    arrays, names = read_arrays(path, {"x", "y"})
    demand(path, names, {"x", "y"})
    x, y = as_images(arrays["x"]), targets(f"y in {path}", arrays["y"])
    return only_tests("letters", leave_out((x, y), without), classes=26)


def leave_out(part: Part, without: str) -> Part:
    """A part of letters A to Z, labeled 0 to 25, without some; the others keep their labels."""
    wrong = sorted(set(without.upper()) - set(ALPHABET))
    if wrong:
        raise NescioError(f"`without` takes letters from A to Z, got {''.join(wrong)!r} in it")
    if not without:
        return part
    x, y = part
    rest = ~torch.isin(y, torch.tensor([ALPHABET.index(letter) for letter in without.upper()]))
    return x[rest], y[rest]


Reader = Callable[[str], NDArray[np.uint8]]  # the array of a file by its name without .gz


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """The array of an IDX file `path` of unsigned bytes; plain or gzipped."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise NescioError(f"cannot read {path}: {error}; expected an IDX file") from None
    return parse_idx(raw, str(path))


def parse_idx(raw: bytes, name: str) -> NDArray[np.uint8]:
    """The array in the bytes of an IDX file; `name` is for the messages.

    Two zero bytes, 8 for unsigned bytes, the number of axes, their big-endian sizes as four bytes
    each, and then the bytes, last axis fastest.
    """
    raw = _unpacked(raw, name)
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08" or not raw[3]:
        raise NescioError(
            f"{name} is not an IDX file of unsigned bytes: expected it to begin with 0 0 8 and "
            f"the number of axes, got {list(raw[:4])}"
        )
    start = 4 + 4 * raw[3]
    sizes = [int.from_bytes(raw[i : i + 4], "big") for i in range(4, start, 4)]
    if len(raw) != start + math.prod(sizes):
        raise NescioError(
            f"{name} should hold {' x '.join(map(str, sizes))} bytes after its header of {start}, "
            f"got {len(raw) - start}; the file is cut off or damaged: copy it again"
        )
    return np.frombuffer(raw, np.uint8, offset=start).reshape(sizes)


def _unpacked(raw: bytes, name: str) -> bytes:
    try:
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise NescioError(
            f"cannot read {name}: {error}; expected an IDX file: copy it again"
        ) from None


@datasets.register
def mnist(*, folder: str | None = None, validation: int = 5000, seed: int = 0) -> Dataset:
    """70000 handwritten digits of 28 x 28 pixels; needs the setting NESCIO_DATA.

    folder: where the folder `mnist` with the four IDX files is; None: where NESCIO_DATA says.
    validation: number of training samples, chosen by `seed`, that become validation data.
    seed: seed of the choice of the validation data.
    """
    return _family("mnist", folder, validation, seed)


@datasets.register
def fashion_mnist(*, folder: str | None = None, validation: int = 5000, seed: int = 0) -> Dataset:
    """70000 pictures of clothes of 28 x 28 pixels; needs the setting NESCIO_DATA.

    folder: where the folder `fashion-mnist` with the four IDX files is; None: where NESCIO_DATA
      says.
    validation: number of training samples, chosen by `seed`, that become validation data.
    seed: seed of the choice of the validation data.
    """
    return _family("fashion_mnist", folder, validation, seed)


@datasets.register
def kuzushiji_mnist(*, folder: str | None = None, validation: int = 5000, seed: int = 0) -> Dataset:
    """70000 cursive Japanese characters of 28 x 28 pixels; needs the setting NESCIO_DATA.

    folder: where the folder `kuzushiji-mnist` is; None: where NESCIO_DATA says. It holds the four
      IDX files, or the published kmnist-PART-imgs.npz and kmnist-PART-labels.npz, of which the two
      of the training part may be missing.
    validation: number of training samples, chosen by `seed`, that become validation data.
    seed: seed of the choice of the validation data.
    """
    where = data_folder("kuzushiji_mnist", folder)
    if locate(where, "kmnist-test-imgs.npz") is None:
        return _family("kuzushiji_mnist", folder, validation, seed)
    absent = not any(where.rglob("kmnist-train-*.npz"))
    train = None if absent else _kuzushiji_part(where, "train")
    test = _kuzushiji_part(where, "test")
    return from_parts("kuzushiji_mnist", train, test, classes=10, validation=validation, seed=seed)


def _kuzushiji_part(where: Path, part: str) -> Part:
    """Images and labels in two .npz files, each with one array."""

    def read(kind: str) -> NDArray[np.uint8]:
        name = f"kmnist-{part}-{kind}.npz"
        path = locate(where, name)
        if path is None:
            raise lacking("kuzushiji_mnist", where, name)
        arrays, names = read_arrays(path, {"arr_0"})
        demand(path, names, {"arr_0"})
        return arrays["arr_0"]

    return _part(*_pair(where, part, read("imgs"), read("labels")))


@datasets.register
def emnist_letters(
    *, folder: str | None = None, without: str = "", validation: int = 5000, seed: int = 0
) -> Dataset:
    """145600 handwritten letters of 28 x 28 pixels, upright, A to Z as 0 to 25.

    folder: where the folder `emnist` is; None: where NESCIO_DATA says.
    without: letters to leave out; OISZ look like the digits 0, 1, 5, 2.
    validation: number of training samples, chosen by `seed`, that become validation data.
    seed: seed of the choice of the validation data.
    """
    where = data_folder("emnist_letters", folder)
    read = _zipped(where) or _loose("emnist_letters", where)

    def part(name: str) -> Part:
        images, labels = _idx_pair(where, read, f"emnist-letters-{name}")
        if labels.min(initial=1) < 1:
            raise NescioError(f"labels in {where} must be in 1..26, got 0; expected EMNIST letters")
        upright = images.transpose(0, 2, 1)  # the files hold them column by column
        return leave_out(_part(upright, labels - 1), without)

    train, test = part("train"), part("test")
    return from_parts("emnist_letters", train, test, classes=26, validation=validation, seed=seed)


def _family(name: str, folder: str | None, validation: int, seed: int) -> Dataset:
    """A data set of the four files of MNIST."""
    where = data_folder(name, folder)
    read = _loose(name, where)

    train, test = (_part(*_idx_pair(where, read, part)) for part in ("train", "t10k"))
    return from_parts(name, train, test, classes=10, validation=validation, seed=seed)


Pair = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def _idx_pair(where: Path, read: Reader, part: str) -> Pair:
    return _pair(where, part, read(f"{part}-images-idx3-ubyte"), read(f"{part}-labels-idx1-ubyte"))


def _pair(where: Path, part: str, images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> Pair:
    """Images (N, H, W) and labels (N,) that fit together."""
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise NescioError(
            f"expected images (N, H, W) and labels (N,) in {where}, got {images.shape} and "
            f"{labels.shape} for the part {part}; the files do not belong together"
        )
    return images, labels


def _part(images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> Part:
    return _tensor(images)[:, None], _tensor(labels).long()


def _loose(name: str, where: Path) -> Reader:
    """A reader of files in a folder, gzipped or plain."""

    def read(file: str) -> NDArray[np.uint8]:
        path = locate(where, f"{file}.gz") or locate(where, file)
        if path is None:
            raise lacking(name, where, f"{file}.gz")
        return read_idx(path)

    return read


def _zipped(where: Path) -> Reader | None:
    """A reader of files in the published archive of EMNIST, if it is there."""
    archive = locate(where, "gzip.zip")
    if archive is None:
        return None

    def read(file: str) -> NDArray[np.uint8]:
        try:
            with zipfile.ZipFile(archive) as files:
                raw = files.read(f"gzip/{file}.gz")
        except (KeyError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise NescioError(
                f"cannot read gzip/{file}.gz in {archive}: {error}; "
                "fetch it again: nescio data download emnist_letters"
            ) from None
        return parse_idx(raw, f"{archive}/{file}.gz")

    return read


def _tensor(array: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(array.copy(order="C"))  # bytes are read only
