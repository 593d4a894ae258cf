"""Letters in an .npz file."""

import os

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.data import letters

X = np.random.default_rng(0).integers(0, 256, (52, 4, 3), dtype=np.uint8)
Y = (np.arange(52) % 26).astype(np.uint8)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "letters-az").mkdir()
    np.savez(tmp_path / "letters-az" / "some.npz", x=X, y=Y)
    return tmp_path


def test_all_are_to_test_on(place):
    made = letters(folder=str(place))
    assert made.train[0].shape == (0, 1, 4, 3)
    assert np.array_equal(made.test[0][:, 0].numpy(), X)
    assert made.test[0].dtype == torch.uint8
    assert made.test[1].tolist() == Y.tolist()
    assert made.classes == 26


def test_some_can_be_left_out_and_the_others_keep_their_labels(place):
    made = letters(folder=str(place), without="oISz")
    gone = {"OISZ".index(c): ord(c) - ord("A") for c in "OISZ"}.values()
    assert sorted(set(range(26)) - set(made.test[1].tolist())) == sorted(gone)
    kept = ~np.isin(Y, list(gone))
    assert np.array_equal(made.test[0][:, 0].numpy(), X[kept])
    with pytest.raises(NescioError, match="letters from A to Z, got '37' in it"):
        letters(folder=str(place), without="A73")


def test_what_is_wrong_is_said(place, monkeypatch):
    monkeypatch.delenv("NESCIO_DATA", raising=False)
    with pytest.raises(
        NescioError, match=r"folder letters-az .*, .* images x \(N, 28, 28\) of uint8"
    ):
        letters()
    where = place / "letters-az"
    np.savez(where / "more.npz", x=X)
    with pytest.raises(NescioError, match=r"several .npz files, more.npz and some.npz"):
        letters(folder=str(place))
    (where / "some.npz").unlink()
    with pytest.raises(NescioError, match="lacks y; found x"):
        letters(folder=str(place))
    (where / "more.npz").unlink()
    with pytest.raises(NescioError, match=r"lacks an .npz file; expected there: an .npz file with"):
        letters(folder=str(place))


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no letters")
def test_letters_themselves():
    made = letters()
    assert made.test[0].shape == (2990, 1, 28, 28)
    assert torch.bincount(made.test[1]).tolist() == [115] * 26
    assert len(letters(without="OISZ").test[0]) == 2530
