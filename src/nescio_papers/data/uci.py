"""UCI regression sets with the splits of Hernandez-Lobato and Adams (2015), NAME.tar.xz."""

import io
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data import Dataset
from nescio.data.sets.catalogue import data_folder, lacking

DAMAGE = (OSError, EOFError, ValueError, KeyError, tarfile.TarError)
Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class SplitTable:
    """A table, and its published splits into training and test rows.

    name: name of the set.
    x: inputs, `(N, F)`.
    y: targets, `(N, 1)`.
    rows: indices of the training and test rows of each split; together all rows, once.
    """

    name: str
    x: Tensor
    y: Tensor
    rows: tuple[Pair, ...]

    def __len__(self) -> int:
        return len(self.rows)


@datasets.register
def uci(*, folder: str | None = None, name: str = "concrete", split: int = 0) -> Dataset:
    """A UCI regression set by name, such as concrete or energy; needs the setting NESCIO_DATA.

    folder: where the folder `uci` with NAME.tar.xz is; None: where NESCIO_DATA says.
    name: name of the set.
    split: which of the published splits into training and test rows; there is no validation part.
    """
    found = uci_splits(name, folder=folder, only=[split])
    train, test = ((found.x[own], found.y[own]) for own in found.rows[0])
    return Dataset(name=name, train=train, validation=None, test=test, classes=None)


def uci_splits(
    name: str, *, folder: str | None = None, only: Sequence[int] | None = None
) -> SplitTable:
    """A set with its published splits; each must be a partition of the rows.

    name: name of the set.
    folder: where the folder `uci` with NAME.tar.xz is; None: where NESCIO_DATA says.
    only: numbers of the splits to read; None: all.
    """
    path = uci_file(name, folder)
    texts = _texts(path)

    def array(file: str) -> NDArray[Any]:
        return _array(texts, path, f"{name}/data/{file}.txt")

    rows, features, target = map(array, ("data", "index_features", "index_target"))
    numbers = range(int(array("n_splits"))) if only is None else only
    splits = []
    for number in numbers:
        parts = (array(f"index_{part}_{number}").astype(np.int64) for part in ("train", "test"))
        train, test = (torch.from_numpy(part.reshape(-1)) for part in parts)
        _check_partition(train, test, len(rows), f"split {number} of {name}")
        splits.append((train, test))
    x, y = (
        torch.from_numpy(rows[:, own.astype(int).reshape(-1)].astype(np.float32))
        for own in (features, target)
    )
    return SplitTable(name=name, x=x, y=y, rows=tuple(splits))


def uci_file(name: str, folder: str | None = None) -> Path:
    """The archive of a set, or an error that says what is missing.

    name: name of the set.
    folder: where the folder `uci` with NAME.tar.xz is; None: where NESCIO_DATA says.
    """
    where = data_folder("uci", folder)
    path = where / f"{name}.tar.xz"
    if not path.is_file():
        there = sorted(one.name.removesuffix(".tar.xz") for one in where.glob("*.tar.xz"))
        raise lacking("uci", where, f"{path.name} (there: {', '.join(there) or 'none'})")
    return path


def _check_partition(train: Tensor, test: Tensor, samples: int, name: str) -> None:
    every = torch.cat([train, test])
    if len(every) and (every.min() < 0 or every.max() >= samples):
        raise NescioError(
            f"{name} has rows {int(every.min())} to {int(every.max())}, the table {samples} rows"
        )
    counts = torch.bincount(every, minlength=samples)
    if not len(train) or not len(test) or (counts != 1).any():
        raise NescioError(
            f"{name} is not a partition of the {samples} rows: {len(train)} training and "
            f"{len(test)} test rows, {int((counts > 1).sum())} rows twice or more and "
            f"{int((counts == 0).sum())} in neither part"
        )


def _texts(path: Path) -> dict[str, bytes]:
    """The files of an archive, read in one pass: it cannot be entered in the middle."""
    try:
        with tarfile.open(path, "r:xz") as archive:
            files = [one for one in archive if one.isfile() and one.name.endswith(".txt")]
            return {one.name: archive.extractfile(one).read() for one in files}  # type: ignore[union-attr]
    except DAMAGE as error:
        raise NescioError(f"cannot read {path}: {error}; expected a .tar.xz archive") from None


def _array(texts: dict[str, bytes], path: Path, member: str) -> NDArray[Any]:
    try:
        return np.loadtxt(io.BytesIO(texts[member]))
    except DAMAGE as error:
        raise NescioError(
            f"cannot read {member} in {path}: {error}; expected the layout of the published splits"
        ) from None
