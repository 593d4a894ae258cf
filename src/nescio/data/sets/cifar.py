"""CIFAR-10 and CIFAR-100 in their binary layout: .bin files, loose or in a .tar archive.

A record is one label byte (two for CIFAR-100: of the group and of the class) and 3072 bytes, the
red, green and blue planes of 32 x 32 pixels, row by row.
"""

import lzma
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data.dataset import Dataset, Part, from_parts
from nescio.data.sets.catalogue import data_folder, entry, lacking, locate

PIXELS = 3 * 32 * 32
BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
DAMAGE = (OSError, EOFError, tarfile.TarError, zlib.error, lzma.LZMAError)


@datasets.register
def cifar10(*, folder: str | None = None, validation: int = 5000, seed: int = 0) -> Dataset:
    """60000 color photographs of 32 x 32 pixels in 10 classes; needs the setting NESCIO_DATA.

    folder: where the folder `cifar10` is; None: where NESCIO_DATA says. It holds the published
      .tar.gz, another .tar, or .bin files; the training batches that are there are read.
    validation: number of training samples, chosen by `seed`, that become validation data.
    seed: seed of the choice of the validation data.
    """
    files = _files("cifar10", folder, (*BATCHES, "test_batch.bin"))
    batches = {name: _records(raw, name, 1) for name, raw in files.items()}
    train = _joined([batches[name] for name in BATCHES if name in batches], 0)
    test = _joined([batches["test_batch.bin"]], 0)
    return from_parts("cifar10", train, test, classes=10, validation=validation, seed=seed)


@datasets.register
def cifar100(
    *, folder: str | None = None, coarse: bool = False, validation: int = 5000, seed: int = 0
) -> Dataset:
    """60000 color photographs of 32 x 32 pixels in 100 classes; needs the setting NESCIO_DATA.

    folder: where the folder `cifar100` is; None: where NESCIO_DATA says. It holds the published
      .tar.gz, another .tar, or .bin files.
    coarse: label by the 20 groups instead of the 100 classes.
    validation: number of training samples, chosen by `seed`, that become validation data.
    seed: seed of the choice of the validation data.
    """
    files = _files("cifar100", folder, ("train.bin", "test.bin"))
    parts = {name: [_records(raw, name, 2)] for name, raw in files.items()}
    label = 0 if coarse else 1
    train, test = (_joined(parts[name], label) for name in ("train.bin", "test.bin"))
    classes = 20 if coarse else 100
    return from_parts("cifar100", train, test, classes=classes, validation=validation, seed=seed)


def _files(name: str, folder: str | None, wanted: tuple[str, ...]) -> dict[str, bytes]:
    """The contents of the .bin files that are there: the last one wanted, and one more."""
    where = data_folder(name, folder)
    paths = {file: path for file in wanted if (path := locate(where, file)) is not None}
    contents = {file: path.read_bytes() for file, path in paths.items()}
    if not contents:
        where = _archive(name, where)
        contents = dict(_members(where, wanted))
    if wanted[-1] not in contents or len(contents) < 2:
        raise lacking(name, where, wanted[0] if wanted[-1] in contents else wanted[-1])
    return contents


def _archive(name: str, where: Path) -> Path:
    """The published archive, or another one if it is the only one."""
    published = locate(where, entry(name).files[0].name)
    others = sorted(where.glob("*.tar*"))
    if published is None and not others:
        raise lacking(name, where, "a .tar archive and .bin files")
    if published is None and len(others) > 1:
        raise NescioError(
            f"{where} holds several archives, {others[0].name} and {others[1].name} among them; "
            "expected one: move the others away"
        )
    return published or others[0]


def _members(archive: Path, wanted: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """The files of an archive in one pass; an .xz is decoded once."""
    try:
        with tarfile.open(archive, "r|*") as files:
            for member in files:
                file = files.extractfile(member) if member.isfile() else None
                if file is not None and Path(member.name).name in wanted:
                    yield Path(member.name).name, file.read()
    except DAMAGE as error:
        raise NescioError(
            f"cannot read {archive}: {error}; it is cut off or damaged: copy it again"
        ) from None


def _records(raw: bytes, name: str, labels: int) -> NDArray[np.uint8]:
    """Records (N, labels + 3072) of a file."""
    size = labels + PIXELS
    if not raw or len(raw) % size:
        raise NescioError(
            f"{name} holds {len(raw)} bytes, expected a multiple of {size}, the bytes of a record; "
            "the file is cut off, or of another layout: copy it again"
        )
    return np.frombuffer(raw, np.uint8).reshape(-1, size)


def _joined(batches: list[NDArray[np.uint8]], label: int) -> Part:
    records = np.concatenate(batches)
    images = np.ascontiguousarray(records[:, -PIXELS:]).reshape(-1, 3, 32, 32)
    return torch.from_numpy(images), torch.from_numpy(records[:, label].astype(np.int64))
