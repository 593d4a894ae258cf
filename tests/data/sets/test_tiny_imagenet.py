"""Tiny-ImageNet from files written here, and the list of classes against the shared file."""

import lzma
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.data import load, tiny_imagenet
from nescio.data.sets.catalogue import home
from nescio.data.sets.download import presence
from nescio.data.sets.tiny_imagenet import LIKE_CIFAR10

X = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
LINES = "0\tn02123045\ttabby, tabby cat\n1\tn07749582\tlemon\n2\tn03796401\tmoving van\n"


@pytest.fixture
def place(tmp_path):
    where = tmp_path / "tiny-imagenet"
    where.mkdir()
    with lzma.open(where / "some_x.npy.xz", "wb") as file:
        np.save(file, X)
    np.savez(where / "some_y.npz", y=np.array([0, 1, 2, 1, 1, 0], np.uint8))
    (where / "classes.tsv").write_text(LINES)
    return tmp_path


def test_all_are_to_test_on(place):
    made = load("tiny_imagenet", folder=str(place))
    assert made.train[0].shape == (0, 3, 32, 32)
    assert np.array_equal(made.test[0].permute(0, 2, 3, 1).numpy(), X)
    assert (made.test[1].tolist(), made.classes) == ([0, 1, 2, 1, 1, 0], 3)


def test_classes_like_those_of_cifar10_can_be_left_out(place):
    made = tiny_imagenet(folder=str(place), without="cifar10")
    assert made.test[1].tolist() == [1, 1, 1]  # the lemons keep their label
    assert np.array_equal(made.test[0].permute(0, 2, 3, 1).numpy(), X[[1, 3, 4]])
    with pytest.raises(NescioError, match="classes are left out 'cifar100'"):
        tiny_imagenet(folder=str(place), without="cifar100")


def test_what_is_wrong_is_said(place):
    where = place / "tiny-imagenet"
    np.savez(where / "some_y.npz", y=np.array([0, 1, 2, 1, 3, 0]))
    with pytest.raises(NescioError, match=r"must be below 3, the lines of classes.tsv, got 3"):
        tiny_imagenet(folder=str(place))
    np.savez(where / "some_y.npz", y=np.array([0, 1]))
    with pytest.raises(NescioError, match=r"has 6 images but .*some_y.npz 2 labels"):
        tiny_imagenet(folder=str(place))
    (where / "classes.tsv").write_text("0\tn02123045\n")
    with pytest.raises(NescioError, match="a line for each label, 0, 1, 2"):
        tiny_imagenet(folder=str(place))
    (where / "classes.tsv").unlink()
    with pytest.raises(NescioError, match=r"lacks classes.tsv; expected there: NAME_x.npy.xz"):
        tiny_imagenet(folder=str(place))


def test_the_list_names_classes_of_cifar10():
    known = {"bird", "cat", "deer", "dog", "frog", "automobile", "truck", "ship"}
    assert {text.split(" ")[0] for text in LIKE_CIFAR10.values()} == known


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set")
def test_tiny_imagenet_itself():
    where = home("tiny_imagenet")
    if where is None:
        pytest.skip("there is no folder tiny-imagenet")
    lines = (Path(where) / "classes.tsv").read_text().splitlines()
    names = dict(line.split("\t")[1:] for line in lines)
    for number, text in LIKE_CIFAR10.items():  # the number and the name belong together
        assert text.partition("(")[2].rstrip(")") in names[number]
    whole, strict = tiny_imagenet(), tiny_imagenet(without="cifar10")
    assert whole.test[0].shape == (3000, 3, 32, 32)
    gone = [label for label, number in enumerate(names) if number in LIKE_CIFAR10]
    assert len(gone) == 28
    kept = ~torch.isin(whole.test[1], torch.tensor(gone))
    assert torch.equal(strict.test[0], whole.test[0][kept])
    assert presence("tiny_imagenet") == "yes"
