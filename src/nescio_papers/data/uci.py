"""UCI regression sets with the splits of Hernandez-Lobato and Adams (2015), NAME.tar.xz."""

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data import Dataset
from nescio.data.sets.catalogue import data_folder, lacking

DAMAGE = (OSError, EOFError, ValueError, KeyError, tarfile.TarError)


@datasets.register
def uci(*, folder: str | None = None, name: str = "concrete", split: int = 0) -> Dataset:
    """A UCI regression set by name, such as concrete or energy; needs the setting NESCIO_DATA.

    folder: where the folder `uci` with NAME.tar.xz is, in place of the setting.
    split: which of the published splits into training and test rows; there is no validation part.
    """
    where = data_folder("uci", folder)
    path = where / f"{name}.tar.xz"
    if not path.is_file():
        there = ", ".join(
            sorted(one.name.removesuffix(".tar.xz") for one in where.glob("*.tar.xz"))
        )
        raise lacking("uci", where, f"{path.name} (there: {there or 'none'})")
    rows, features, target = (
        _array(path, f"{name}/data/{file}.txt")
        for file in ("data", "index_features", "index_target")
    )
    x = torch.from_numpy(rows[:, features.astype(int).reshape(-1)].astype(np.float32))
    y = torch.from_numpy(rows[:, target.astype(int).reshape(-1)].astype(np.float32))
    chosen = [
        torch.from_numpy(_array(path, f"{name}/data/index_{part}_{split}.txt").astype(np.int64))
        for part in ("train", "test")
    ]
    train, test = ((x[own.reshape(-1)], y[own.reshape(-1)]) for own in chosen)
    return Dataset(name=name, train=train, validation=None, test=test, classes=None)


def _array(path: Path, member: str) -> NDArray[Any]:
    try:
        with tarfile.open(path, "r:xz") as archive:
            file = archive.extractfile(member)
            assert file is not None
            return np.loadtxt(io.BytesIO(file.read()))
    except DAMAGE as error:
        raise NescioError(
            f"cannot read {member} in {path}: {error}; expected the layout of the published splits"
        ) from None
