"""Images and labels in the IDX format of MNIST, plain or gzipped, from a folder beside the project.

A file is two zero bytes, 8 for unsigned bytes, the number of axes, their big-endian sizes as four
bytes each, and then the bytes, last axis fastest.
"""

import gzip
import math
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.data.dataset import Dataset, Part
from nescio.errors import NescioError
from nescio.registry import datasets

SETTING = "NESCIO_DATA"  # the folder that holds a folder for each data set
FILES = {"train": "train", "test": "t10k"}


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """The array of an IDX file of unsigned bytes; a gzipped file is seen by its first bytes."""
    raw = _bytes(Path(path))
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08" or not raw[3]:
        raise NescioError(
            f"{path} is not an IDX file of unsigned bytes: expected it to begin with 0 0 8 and "
            f"the number of axes, got {list(raw[:4])}"
        )
    start = 4 + 4 * raw[3]
    sizes = [int.from_bytes(raw[i : i + 4], "big") for i in range(4, start, 4)]
    if len(raw) != start + math.prod(sizes):
        raise NescioError(
            f"{path} should hold {' x '.join(map(str, sizes))} bytes after its header of {start}, "
            f"got {len(raw) - start}; the file is cut off or damaged: copy it again"
        )
    return np.frombuffer(raw, np.uint8, offset=start).reshape(sizes)


def _bytes(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise NescioError(f"cannot read {path}: {error}; expected an IDX file") from None


def data_folder(name: str, folder: str | Path | None = None) -> Path:
    """Where the files of a data set are: `name` in `folder`, or in that of the setting."""
    given = folder or os.environ.get(SETTING)
    if not given:
        raise NescioError(
            f"{name} is not part of nescio: set {SETTING} to a folder that holds a folder {name}, "
            "or pass folder=..."
        )
    path = Path(given) / name
    if not path.is_dir():
        raise NescioError(
            f"there is no folder {path}; {SETTING}, or folder=..., must name the folder above it"
        )
    return path


@datasets.register
def mnist(*, folder: str | None = None, validation: int = 5000, seed: int = 0) -> Dataset:
    """70000 handwritten digits of 28 x 28 pixels in [0, 1]; needs the setting NESCIO_DATA.

    folder: where the folder `mnist` with the four IDX files is, in place of the setting.
    validation: how many of the 60000 training cases, chosen by `seed`, are set apart.
    """
    where = data_folder("mnist", folder)
    x, y = _part(where, "train")
    if not 0 <= validation < len(x):
        raise NescioError(f"`validation` must be in 0..{len(x) - 1}, got {validation}")
    if seed < 0:
        raise NescioError(f"`seed` must be 0 or more, got {seed}")
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(x)))
    held, kept = order[:validation].sort().values, order[validation:].sort().values
    apart = (x[held], y[held]) if validation else None
    return Dataset("mnist", (x[kept], y[kept]), apart, _part(where, "test"), classes=10)


def _part(where: Path, part: str) -> Part:
    """Images (N, 1, H, W) in [0, 1] and labels (N,) of one part."""
    images = read_idx(_file(where, f"{FILES[part]}-images-idx3-ubyte"))
    labels = read_idx(_file(where, f"{FILES[part]}-labels-idx1-ubyte"))
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise NescioError(
            f"expected images (N, H, W) and labels (N,) in {where}, got {images.shape} and "
            f"{labels.shape} for the {part} part"
        )
    return _tensor(images)[:, None].float().div_(255), _tensor(labels).long()


def _file(where: Path, name: str) -> Path:
    for path in (where / f"{name}.gz", where / name):
        if path.is_file():
            return path
    raise NescioError(f"{where} lacks {name}.gz; copy the four files of MNIST there")


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(array.copy())  # bytes are read only
