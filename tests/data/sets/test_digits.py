"""The digits of scikit-learn in three parts."""

import pytest
import torch
from sklearn.datasets import load_digits

from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data import digits


@pytest.fixture(scope="module")
def made():
    return digits()


def test_shapes_sizes_and_range(made):
    sizes = [len(part[0]) for part in (made.train, made.validation, made.test)]
    assert sizes == [1000, 297, 500]
    assert made.features == (1, 8, 8)
    assert made.classes == 10
    assert made.train[0].min() == 0
    assert made.train[0].max() == 1
    assert datasets["digits"] is digits


def test_the_parts_are_the_whole_each_image_once(made):
    images, labels = load_digits(return_X_y=True)
    parts = (made.train, made.validation, made.test)
    ours = torch.cat([torch.cat([x.flatten(1), y[:, None]], dim=1) for x, y in parts])
    whole = torch.cat([torch.tensor(images) / 16, torch.tensor(labels)[:, None]], dim=1).float()
    assert sorted(ours.tolist()) == sorted(whole.tolist())


def test_every_part_has_the_shares_of_the_whole(made):
    shares = torch.tensor(load_digits().target).bincount() / 1797
    for _, y in (made.train, made.validation, made.test):
        assert torch.all((y.bincount() - shares * len(y)).abs() <= 1.5)


def test_the_seed_decides_the_split(made):
    assert torch.equal(digits(seed=0).test[0], made.test[0])
    assert not torch.equal(digits(seed=1).test[0], made.test[0])


def test_a_bad_seed_is_refused():
    with pytest.raises(NescioError, match="`seed` must be in 0"):
        digits(seed=-1)
