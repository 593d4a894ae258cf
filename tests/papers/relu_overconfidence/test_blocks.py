"""The data of the blocks where some of them are missing, and how long each column trains."""

import lzma
from dataclasses import replace

import numpy as np
import pytest
import torch

from nescio.evaluation.compare import Absent
from nescio_papers import Settings
from nescio_papers.relu_overconfidence import blocks, budgets, cells, methods
from nescio_papers.relu_overconfidence.budgets import FULL, QUICK

QUICKLY = Settings(quick=True)


def write_digits(root, name, count, **more):
    """Black crops, which take no room, labeled 0 to 9 in turn."""
    where = root / "svhn"
    where.mkdir(exist_ok=True)
    with lzma.open(where / f"{name}_x.npy.xz", "wb", preset=0) as file:
        np.save(file, np.zeros((count, 32, 32, 3), np.uint8))
    np.savez(where / f"{name}_y.npz", y=np.arange(count) % 10, **more)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    return tmp_path


def test_house_numbers_of_one_photograph_are_not_in_both_parts(root):
    write_digits(root, "test", 2050, source_image=np.arange(2050) // 4)
    found = blocks.in_data(blocks.BLOCKS["SVHN"], FULL)  # the test file alone is cut
    assert (len(found.train[0]), len(found.test[0])) == (52, 1998)
    write_digits(root, "more", 30)
    assert len(blocks.all_images("svhn", options={**blocks.NUMBERS, "seed": 1}).train[0]) == 82
    ood = blocks.ood_images(blocks.COLOR["SVHN"], 10_000)
    assert len(ood) == 2050  # for other networks all of them are OOD


def test_too_few_house_numbers_are_named(root):
    write_digits(root, "test", 20, source_image=np.arange(20))
    found = blocks.in_data(blocks.BLOCKS["SVHN"], FULL)
    assert isinstance(found, Absent)
    assert "test must be from 1 to 20" in found.why
    assert len(blocks.ood_images(blocks.COLOR["SVHN"], 10_000)) == 20


def test_without_cifar10_its_rows_say_how_to_get_it(root):
    for source in (blocks.GRAY["grayCIFAR-10"], blocks.COLOR["CIFAR-10"]):
        found = blocks.ood_images(source, 5)
        assert isinstance(found, Absent)
        assert "nescio data download cifar10" in found.why
    found = blocks.in_data(blocks.BLOCKS["CIFAR-10"], FULL)
    assert isinstance(found, Absent)
    found = blocks.ood_images(blocks.COLOR[blocks.TINY], 5)
    assert "classes.tsv" in found.why


class Counted:
    """Training images by number alone."""

    train = (range(20), range(20))


def test_a_second_round_takes_the_time_of_both(monkeypatch, tmp_path):
    block, first = blocks.BLOCKS["SVHN"], methods.FIRST_ROUND
    trained = {}

    def fake(run, folder):
        column = folder.name
        trained[column] = len(trained) + 1.0
        return cells.Trained(column, trained[column])

    monkeypatch.setattr(cells, "timed_training", fake)
    image = torch.zeros(20, 3, 32, 32, dtype=torch.uint8)
    data = cells.InData((image, torch.zeros(20)), (image, torch.zeros(20)), 10)
    settings = Settings(quick=True, folder=tmp_path)
    found = cells.trained(settings, block, methods.ACET, data)
    assert list(trained) == ["plain", cells.slug(first), "acet"]
    assert found.seconds == 2 + 3  # of plain there is a column of its own
    assert cells.trained(settings, block, methods.CEDA, data).seconds == trained["ceda"]


def test_a_column_trains_as_its_recipe_or_its_budget_says(monkeypatch):
    color = blocks.BLOCKS["CIFAR-10"]
    recipe = replace(methods.COLOR, own={methods.ACET: {"epochs": 16, "learning_rate": 0.02}})
    monkeypatch.setitem(methods.RECIPES, "CIFAR-10", recipe)
    plan = cells.plan_of(Settings(), color, methods.ACET)
    assert (plan.epochs, plan.images) == (16, FULL.train["CIFAR-10"])
    assert plan.options["learning_rate"] == 0.02
    assert "epochs" not in plan.options
    assert cells.plan_of(Settings(), color, methods.PLAIN).epochs == FULL.epochs["CIFAR-10"]
    assert cells.plan_of(QUICKLY, color, methods.ACET).epochs == QUICK.epochs["CIFAR-10"]
    lenet = cells.plan_of(Settings(), blocks.BLOCKS["MNIST"], methods.LENET_ACET)
    assert (lenet.images, lenet.epochs) == (20_000, 4)
    seeds = [len(cells.seeds_of(Settings(), blocks.BLOCKS["MNIST"], n)) for n in ("ACET", "LeNet")]
    assert seeds == [5, 3]
    assert len(cells.seeds_of(Settings(), color, "ACET")) == 1
    words = cells.difference(Settings(), blocks.BLOCKS["SVHN"], Counted())
    assert "ACET: 20 images, 11 epochs from the network of ACET, first round; " in words
    assert "ACET, first round: 20 images, 26 epochs from the network of plain" in words
    assert budgets.budget(Settings()) is FULL
