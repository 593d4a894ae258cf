"""Made-up image files that networks learn in seconds."""

import gzip

import numpy as np
import pytest


def write_idx(path, array):
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    raw = bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()
    path.write_bytes(gzip.compress(raw, 1))


def squares(count, rng):
    """Ten classes told apart by where a bright square is."""
    y = np.arange(count) % 10
    x = rng.integers(0, 60, (count, 28, 28), dtype=np.uint8)
    for sample, label in enumerate(y):
        row, column = 14 * (label // 5), 5 * (label % 5)
        x[sample, row + 2 : row + 10, column : column + 6] = 230
    return x, y.astype(np.uint8)


@pytest.fixture(scope="session")
def image_files():
    """Writes MNIST, Fashion-MNIST, letters and CIFAR-10 into a folder, in their own formats."""

    def write(root, *, train, test, letters):
        rng = np.random.default_rng(0)
        for name in ("mnist", "fashion-mnist"):
            (root / name).mkdir()
            for part, count in (("train", train), ("t10k", test)):
                x, y = squares(count, rng)
                x = 255 - x if name == "fashion-mnist" else x
                write_idx(root / name / f"{part}-images-idx3-ubyte.gz", x)
                write_idx(root / name / f"{part}-labels-idx1-ubyte.gz", y)
        (root / "letters-az").mkdir()
        drawn = rng.integers(0, 256, (letters, 28, 28), dtype=np.uint8)
        np.savez(root / "letters-az" / "letters.npz", x=drawn, y=np.arange(letters) % 26)
        (root / "cifar10").mkdir()
        for name, count in (("data_batch_1.bin", 60), ("test_batch.bin", 30)):
            records = rng.integers(0, 256, (count, 3073), dtype=np.uint8)
            records[:, 0] = np.arange(count) % 10
            (root / "cifar10" / name).write_bytes(records.tobytes())
        return root

    return write
