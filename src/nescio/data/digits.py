"""The 8 x 8 handwritten digits that ship with scikit-learn: real images without a download."""

import numpy as np
import torch

from nescio.data.dataset import Dataset, Part
from nescio.errors import NescioError
from nescio.registry import datasets


@datasets.register
def digits(*, seed: int = 0) -> Dataset:
    """1797 handwritten digits of 8 x 8 pixels in [0, 1], split 1000 / 297 / 500 by `seed`."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    if not 0 <= seed < 2**32:
        raise NescioError(f"`seed` must be in 0..2**32 - 1, got {seed}")
    images, labels = load_digits(return_X_y=True)
    x = torch.from_numpy((images / 16).astype(np.float32)).reshape(-1, 1, 8, 8)
    y = torch.from_numpy(labels).long()

    def part(rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Part:
        return x[rows], y[rows]

    train, rest = train_test_split(
        np.arange(len(x)), train_size=1000, stratify=labels, random_state=seed
    )
    validation, test = train_test_split(
        rest, train_size=297, stratify=labels[rest], random_state=seed
    )
    return Dataset("digits", part(train), part(validation), part(test), classes=10)
