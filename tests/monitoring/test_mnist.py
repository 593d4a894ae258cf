"""MNIST, then rotated or corrupted MNIST: the alarm comes within a stated number of digits."""

import os
from pathlib import Path

import pytest
import torch

import nescio_papers.data
from nescio import data
from nescio.data import corruptions
from nescio.monitoring import monitor

ROOT = Path(os.environ.get("NESCIO_DATA", "/nowhere"))
pytestmark = pytest.mark.skipif(
    not (ROOT / "mnist").is_dir() or not (ROOT / "mnist-c-dev").is_dir(),
    reason="needs MNIST and MNIST-C: set NESCIO_DATA to a folder with mnist and mnist-c-dev",
)
CALM = 3000  # digits before the change
WITHIN = {  # digits after it; measured in three orders, then rounded up
    "brightness": 10,
    "dotted_line": 30,
    "glass_blur": 150,
    "rotate": 200,
    "shot_noise": 60,
    "rotation 45": 300,
    "rotation 60": 120,
}


def pixels(x):
    return x.flatten(1).double() / (255 if x.dtype == torch.uint8 else 1)


@pytest.fixture(scope="module")
def score():
    """What the 40 first principal components of 4,000 digits do not explain."""
    x = pixels(data.mnist(validation=0).train[0][:4000])
    mean = x.mean(0)
    axes = torch.linalg.eigh((x - mean).T @ (x - mean)).eigenvectors[:, -40:]

    def far(images):
        gap = pixels(images) - mean
        return (gap.square().sum(1) - (gap @ axes).square().sum(1)).sqrt()

    return far


@pytest.fixture(scope="module")
def digits():
    """Test digits that are in none of the corrupted sets, in a random order: three parts."""
    rest = data.mnist(validation=0).test[0][3000:]
    order = torch.randperm(len(rest), generator=torch.Generator().manual_seed(0))
    return rest[order].split([2000, CALM, len(rest) - 2000 - CALM])


@pytest.fixture(scope="module")
def calm(digits, score):
    return monitor(score(digits[0])).update(score(digits[1]))


@pytest.fixture(scope="module")
def changed(digits):
    found = {name: x[:1000] for name, (x, _) in nescio_papers.data.corruptions().items()}
    return found | {f"rotation {15 * s}": corruptions.rotation()(digits[2], s) for s in (3, 4)}


def test_digits_as_they_were_raise_no_alarm(calm, digits, score):
    assert calm.alarm is None
    assert calm.update(score(digits[2])).alarm is None


def test_the_order_of_mnist_itself_is_a_drift(score):
    """The second 5,000 test digits are of other writers than the first."""
    test = data.mnist(validation=0).test[0]
    found = monitor(score(test[:2000])).update(score(test[2000:]))
    assert found.alarm is not None
    assert found.alarm > 3000


@pytest.mark.parametrize("name", WITHIN)
def test_changed_digits_raise_it_soon(name, calm, changed, score):
    found = calm.update(score(changed[name]))
    assert found.alarm is not None
    assert CALM <= found.alarm < CALM + WITHIN[name]
