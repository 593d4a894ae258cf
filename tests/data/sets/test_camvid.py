"""CamVid from files like the published ones, written here, and the shared ones where they are."""

import lzma
import os

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.data import CAMVID_CLASSES, camvid, load

RNG = np.random.default_rng(0)


def write(place, part, count, labels=None):
    images = RNG.integers(0, 256, (count, 9, 12, 3), dtype=np.uint8)
    maps = RNG.integers(0, 12, (count, 9, 12), dtype=np.uint8) if labels is None else labels
    with lzma.open(place / "camvid" / f"camvid_{part}_12x9_x.npy.xz", "wb") as file:
        np.save(file, images)
    np.savez(place / "camvid" / f"camvid_{part}_12x9_y.npz", labels=maps)
    return images, maps


@pytest.fixture
def place(tmp_path):
    (tmp_path / "camvid").mkdir()
    return tmp_path


def test_frames_and_maps(place):
    images, maps = write(place, "train", 6)
    write(place, "val", 3)
    made = camvid(folder=str(place))
    assert made.train[0].shape == (6, 3, 9, 12)
    assert np.array_equal(made.train[0].permute(0, 2, 3, 1).numpy(), images)
    assert np.array_equal(made.train[1].numpy(), maps)
    assert (made.classes, made.ignore_index, made.validation) == (11, 11, None)
    assert len(CAMVID_CLASSES) == 11
    split = load("camvid", folder=str(place), validation=2)
    assert [len(part[0]) for part in (split.train, split.validation, split.test)] == [4, 2, 3]


def test_files_that_are_missing_or_do_not_fit_are_said(place):
    with pytest.raises(NescioError, match=r"lacks one file camvid_train_\*_x\.npy\.xz, it has 0"):
        camvid(folder=str(place))
    write(place, "train", 4, labels=np.zeros((4, 9, 11), np.uint8))
    with pytest.raises(NescioError, match="a label of uint8 for each pixel"):
        camvid(folder=str(place))
    write(place, "train", 4)
    write(place, "val", 2, labels=np.full((2, 9, 12), 11, np.uint8))
    with pytest.raises(NescioError, match="all labels in the test part of 'camvid' are ignored"):
        camvid(folder=str(place))
    with pytest.raises(NescioError, match="NESCIO_DATA"):
        camvid(folder=str(place / "camvid"))


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set")
def test_the_shared_files():
    try:
        made = load("camvid")
    except NescioError as error:
        pytest.skip(str(error))
    assert made.train[0].shape == (367, 3, 90, 120)
    assert made.test[1].shape == (101, 90, 120)
    road = (made.train[1] == CAMVID_CLASSES.index("road")).double().mean((0, 2))
    assert road[60:].mean() > 0.5  # the road is below
    assert road[:30].max() < 0.05
    assert made.train[1].dtype == torch.uint8
