"""SVHN, house numbers (Netzer et al., 2011): the published .mat files, or crops in an .npy.xz."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data.dataset import Dataset, Part, from_parts
from nescio.data.readers.arrays import CROPS, demand, read_arrays, read_crops
from nescio.data.sets.catalogue import data_folder, lacking, locate

PUBLISHED = ("train_32x32.mat", "test_32x32.mat")


@datasets.register
def svhn(
    *,
    folder: str | None = None,
    validation: int = 5000,
    test: int | None = None,
    seed: int = 0,
) -> Dataset:
    """99289 color images of 32 x 32 pixels of house numbers; needs the setting NESCIO_DATA.

    folder: where the folder `svhn` is; None: where NESCIO_DATA says. It holds the two published
      .mat files, or crops as NAME_x.npy.xz with NAME_y.npz: where there are several, the one with
      `test` in its name is the test part and the others together are the training part.
    validation: number of training samples, chosen by `seed`, that become validation data.
    test: number of digits of the test part that stay there, about: of crops, those of the first
      photographs join the training part, so that no photograph is in both. None: all stay.
    seed: seed of the choice of the validation data.
    """
    where = data_folder("svhn", folder)
    train, held = _published(where) or _crops(where, test)
    return from_parts("svhn", train, held, classes=10, validation=validation, seed=seed)


def _published(where: Path) -> tuple[Part | None, Part] | None:
    """The training and test parts in the published files; the training file may be missing."""
    train, test = (locate(where, name) for name in PUBLISHED)
    if test is None:
        return None
    return (_read_mat(train) if train else None), _read_mat(test)


def _crops(where: Path, stay: int | None) -> tuple[Part | None, Part]:
    """The training and test parts in files of crops; a single file is the test part.

    stay: how many digits of the test part stay there; None: all.
    """
    files = sorted(where.glob(f"*{CROPS}"))
    if not files:
        raise lacking("svhn", where, PUBLISHED[1])
    tests = [path for path in files if "test" in path.name] if len(files) > 1 else files
    if len(tests) != 1:
        raise NescioError(
            f"{where} holds several {CROPS} files, {files[0].name} and {files[1].name} among them; "
            f"expected one with `test` in its name, got {len(tests)}: rename or move the others"
        )
    parts = [read_crops("svhn", path) for path in files if path not in tests]
    x, y = read_crops("svhn", tests[0])
    first = 0 if stay is None else _boundary(tests[0], len(x), stay)
    parts += [(x[:first], y[:first])] if first else []
    train = (torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])) if parts else None
    return train, (x[first:], y[first:])


def _boundary(path: Path, count: int, stay: int) -> int:
    """How many digits leave the test part so that about `stay` stay, and whole photographs."""
    if not 0 < stay <= count:
        raise NescioError(f"test must be from 1 to {count}, the digits in {path}, got {stay}")
    beside = path.with_name(path.name.replace(CROPS, "_y.npz"))
    arrays, names = read_arrays(beside, {"source_image"})
    demand(beside, names, {"source_image"})
    photographs, first = arrays["source_image"], count - stay
    while 0 < first < count and photographs[first] in photographs[:first]:
        first += 1
    return first


def _read_mat(path: Path) -> Part:
    """Images X (32, 32, 3, N) and labels y (N, 1), in which 10 stands for the digit 0."""
    from scipy.io import loadmat

    try:
        arrays: dict[str, Any] = loadmat(path, variable_names=["X", "y"])
    except Exception as error:  # whatever scipy raises at a damaged file
        raise NescioError(
            f"cannot read {path}: {error}; expected a MATLAB file of version 5: copy it again"
        ) from None
    demand(path, list(arrays), {"X", "y"})
    images, labels = arrays["X"], arrays["y"].reshape(-1)
    if images.ndim != 4 or images.dtype != np.uint8 or len(labels) != images.shape[3]:
        raise NescioError(
            f"expected bytes X (H, W, 3, N) and labels y (N, 1) in {path}, got {images.dtype} "
            f"{images.shape} and {arrays['y'].shape}"
        )
    if labels.min(initial=1) < 1 or labels.max(initial=1) > 10:
        raise NescioError(
            f"labels in {path} must be in 1..10, got {labels.min()}..{labels.max()}; "
            "10 stands for the digit 0"
        )
    x = torch.from_numpy(np.ascontiguousarray(images.transpose(3, 2, 0, 1)))
    return x, torch.from_numpy(labels.astype(np.int64) % 10)
