"""A data set by name or by path."""

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data import cubic, load


def test_by_name_with_options():
    made = load("cubic", points=7, seed=2)
    assert torch.equal(made.train[0], cubic(points=7, seed=2).train[0])


def test_by_path_with_options(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.arange(40.0).reshape(20, 2), y=np.arange(20) % 2)
    first, second = load(str(path)), load(str(path), seed=1)
    assert first.name == "mine"
    assert not torch.equal(first.train[0], second.train[0])


def test_the_data_sets_of_the_papers_are_known_by_name(monkeypatch):
    monkeypatch.delenv("NESCIO_DATA", raising=False)
    with pytest.raises(NescioError, match=r"heart_disease is not part of nescio: set NESCIO_DATA"):
        load("heart_disease")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        NescioError, match=r"unknown data set 'half_moon'; did you mean 'half_moons'"
    ):
        load("half_moon")
    with pytest.raises(
        NescioError, match=r"Known: .*digits.*; the path of an \.npz or \.ts file, a table or"
    ):
        load("numbers")


def test_a_missing_path_is_named():
    with pytest.raises(NescioError, match=r"there is no file nowhere\.npz"):
        load("nowhere.npz")


def test_unknown_options_are_refused(tmp_path):
    with pytest.raises(NescioError, match="'cubic' has no option size; its options: seed, points"):
        load("cubic", size=3)
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.zeros((2, 2)), y=np.arange(2))
    with pytest.raises(NescioError, match="has no option points; its options: seed"):
        load(str(path), points=3)


@pytest.mark.parametrize("name", ["half_moons", "blobs", "cubic", "spiral", "digits"])
def test_every_name_loads_and_has_help(name):
    made = load(name)
    assert made.name == name
    assert made.validation is not None
    assert made.test is not None
    assert datasets.summary(name).endswith(".")
