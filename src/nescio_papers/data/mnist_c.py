"""MNIST-C (Mu and Gilmer, 2019): corrupted test digits, one set for each corruption."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import NescioError, unknown
from nescio.core.registry import datasets
from nescio.data import Dataset, as_images
from nescio.data.dataset import Part, only_tests
from nescio.data.readers.arrays import (
    DAMAGE,
    demand,
    only_archive,
    read_array,
    read_arrays,
    targets,
)
from nescio.data.sets.catalogue import data_folder, locate

IMAGES, LABELS = "test_images.npy", "test_labels.npy"


@datasets.register
def mnist_c(*, folder: str | None = None, corruption: str | None = None) -> Dataset:
    """Corrupted MNIST test digits of 28 x 28 pixels, all to test on; needs NESCIO_DATA.

    folder: where the folder `mnist-c` is; None: where NESCIO_DATA says.
    corruption: one of them, by name; None: all of them, one after the other.
    """
    result = corruptions(folder=folder)
    if corruption is not None:
        if corruption not in result:
            raise NescioError(unknown("corruption", corruption, result))
        return only_tests(f"mnist_c {corruption}", result[corruption], classes=10)
    every = [torch.cat(parts) for parts in zip(*result.values(), strict=True)]
    return only_tests("mnist_c", (every[0], every[1]), classes=10)


def corruptions(*, folder: str | None = None) -> dict[str, Part]:
    """Images and labels by corruption: each is a separate shift, or OOD set.

    Read from the published mnist_c.zip, from its folders, each with test_images.npy and
    test_labels.npy, or from an .npz file with one array for each corruption and `labels`.

    folder: where the folder `mnist-c` is; None: where NESCIO_DATA says.
    """
    where = data_folder("mnist_c", folder)
    packed = locate(where, "mnist_c.zip")
    if packed is not None:
        return _in_zip(packed)
    loose = sorted(where.glob(f"*/{IMAGES}")) or sorted(where.glob(f"*/*/{IMAGES}"))
    if loose:
        return {
            path.parent.name: _pair(path, read_array(path), read_array(path.with_name(LABELS)))
            for path in loose
        }
    return _in_npz(only_archive("mnist_c", where))


def _in_zip(path: Path) -> dict[str, Part]:
    try:
        with zipfile.ZipFile(path) as files:
            names = sorted(name for name in files.namelist() if name.endswith(f"/{IMAGES}"))
            pairs = {
                Path(name).parent.name: [
                    np.load(io.BytesIO(files.read(member)), allow_pickle=False)
                    for member in (name, name.replace(IMAGES, LABELS))
                ]
                for name in names
            }
    except (KeyError, *DAMAGE) as error:
        raise NescioError(
            f"cannot read {path}: {error}; fetch it again: nescio data download mnist_c"
        ) from None
    if not pairs:
        raise NescioError(f"{path} holds no folder with {IMAGES}; expected one per corruption")
    return {name: _pair(path, images, labels) for name, (images, labels) in pairs.items()}


def _in_npz(path: Path) -> dict[str, Part]:
    names = set(read_arrays(path, set())[1])
    demand(path, sorted(names), {"labels"})
    arrays, _ = read_arrays(path, names)
    labels = arrays.pop("labels")
    if not arrays:
        raise NescioError(f"{path} holds labels only; expected an array for each corruption")
    return {name: _pair(path, images, labels) for name, images in sorted(arrays.items())}


def _pair(path: Path, images: NDArray[Any], labels: NDArray[Any]) -> Part:
    x, y = as_images(images), targets(f"labels in {path}", labels)
    if x.dtype != torch.uint8 or len(x) != len(y):
        raise NescioError(
            f"expected uint8 images and as many labels in {path}, got {images.dtype} "
            f"{images.shape} and {labels.shape}"
        )
    return x, y
