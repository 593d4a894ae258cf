"""Small data sets that need no download: half-moons, blobs, spiral, cubic, digits."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data.dataset import Dataset, Part


@datasets.register
def digits(*, seed: int = 0) -> Dataset:
    """1797 handwritten digits of 8 x 8 pixels in [0, 1], split 1000 / 297 / 500 by `seed`.

    seed: seed of the split.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    _check_seed(seed)
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


BLOB_MEANS = np.array(  # figure 1 of Ulmer and Cina (2021)
    [
        (0.5, -0.5),
        (0.0, -1.5),
        (-1.3, -1.0),
        (-1.5, 0.0),
        (-0.1, 0.5),
        (-2.5, 0.5),
        (1.5, 0.0),
        (2.0, 1.1),
        (2.0, -1.5),
    ]
)
ARMS = 3
TURN = 8.0  # radians from the inner to the outer end of an arm

Floats = NDArray[np.float64]


@datasets.register
def half_moons(
    *, seed: int = 0, train: int = 500, validation: int = 250, test: int = 250, noise: float = 0.125
) -> Dataset:
    """Two interleaved half circles with Gaussian noise (scikit-learn's make_moons).

    seed: seed of the random draws.
    train, validation, test: number of samples of each part.
    noise: standard deviation of the noise.
    """
    from sklearn.datasets import make_moons

    _at_least("train", train, 2)
    _at_least("validation", validation, 0)
    _at_least("test", test, 0)
    _check_seed(seed)
    _at_least("noise", noise, 0)
    x, y = make_moons(train + validation + test, noise=noise, random_state=seed)

    def part(start: int, stop: int) -> Part:
        return torch.from_numpy(x[start:stop]).float(), torch.from_numpy(y[start:stop]).long()

    known = train + validation
    tested = part(known, known + test) if test else None
    validated = part(train, known) if validation else None
    return Dataset("half_moons", part(0, train), validated, tested, classes=2)


@datasets.register
def blobs(*, seed: int = 1234, points: int = 50) -> Dataset:
    """Nine Gaussian blobs in the plane, `points` in each, with variances from 0.02 to 0.1.

    seed: seed of the random draws.
    points: number of samples of each blob, in each part of the data set.
    """
    rng = _generator(seed, points)
    variance = rng.uniform(0.02, 0.1, BLOB_MEANS.shape)

    def draw(part: Generator) -> Part:
        normal = part.standard_normal((len(BLOB_MEANS), points, 2))
        return _labeled(BLOB_MEANS[:, None] + np.sqrt(variance)[:, None] * normal, part)

    return _dataset("blobs", draw, rng, classes=len(BLOB_MEANS))


@datasets.register
def spiral(*, seed: int = 0, points: int = 1000, noise: float = 0.3) -> Dataset:
    """Three spiral arms in the unit disc, `points` on each, noisier further out.

    seed: seed of the random draws.
    points: number of samples on each arm, in each part of the data set.
    noise: standard deviation of the angle at the center, in radians; twice as much at the rim.
    """
    rng = _generator(seed, points, noise)
    radius = np.linspace(0, 1, points)
    turn = TURN * (np.arange(ARMS)[:, None] + np.linspace(0, 1, points))

    def draw(part: Generator) -> Part:
        theta = turn + noise * part.standard_normal(turn.shape) * (radius + 1)
        return _labeled(np.stack([radius * np.sin(theta), radius * np.cos(theta)], -1), part)

    return _dataset("spiral", draw, rng, classes=ARMS)


@datasets.register
def cubic(
    *, seed: int = 0, points: int = 40, noise: float = 3.0, low: float = -4.0, high: float = 4.0
) -> Dataset:
    """Regression of y = x^3 with Gaussian noise of deviation `noise`, x uniform in [low, high].

    seed: seed of the random draws.
    points: number of samples in each part of the data set.
    noise: standard deviation of the noise of y.
    low, high: range of x.
    """
    rng = _generator(seed, points, noise)
    if not low < high:
        raise NescioError(f"`low` must be below `high`, got {low} and {high}")

    def draw(part: Generator) -> Part:
        x = part.uniform(low, high, (points, 1))
        y = x**3 + noise * part.standard_normal((points, 1))
        return torch.from_numpy(x).float(), torch.from_numpy(y).float()

    return _dataset("cubic", draw, rng, classes=None)


def _dataset(
    name: str, draw: Callable[[Generator], Part], rng: Generator, *, classes: int | None
) -> Dataset:
    train, validation, test = (draw(part) for part in rng.spawn(3))
    return Dataset(name=name, train=train, validation=validation, test=test, classes=classes)


def _labeled(groups: Floats, rng: Generator) -> Part:
    """Points (C, N, F), one group per class, as one shuffled part."""
    classes, points = groups.shape[:2]
    order = rng.permutation(classes * points)
    x = groups.reshape(classes * points, -1)[order]
    return torch.from_numpy(x).float(), torch.from_numpy(order // points)


def _generator(seed: int, points: int, noise: float = 0.0) -> Generator:
    _at_least("seed", seed, 0)
    _at_least("points", points, 1)
    _at_least("noise", noise, 0)
    return np.random.default_rng(seed)


def _check_seed(seed: int) -> None:
    if not 0 <= seed < 2**32:  # what scikit-learn takes
        raise NescioError(f"`seed` must be in 0..2**32 - 1, got {seed}")


def _at_least(name: str, value: float, least: int) -> None:
    if not least <= value < np.inf:  # also NaN
        raise NescioError(f"`{name}` must be finite and at least {least}, got {value}")
