"""DICE: the largest contributions stay; by hand in float64."""

import importlib

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.detectors import dice, energy

last_layer = importlib.import_module("nescio.detectors.last_layer")


@pytest.mark.parametrize("sparsity", [0.3, 0.9])
def test_the_definition(sparsity, toy, monkeypatch):
    monkeypatch.setattr(last_layer, "NUMBERS", 1000)  # several blocks
    train, test = toy.train(), toy.test()
    weight = train.weight[0].double().numpy()
    contribution = weight * train.features["late"][0].double().numpy().mean(0)
    gone = round(sparsity * weight.size)
    threshold = np.sort(contribution, axis=None)[gone]
    sparse = np.where(contribution >= threshold, weight, 0)
    assert (sparse == 0).sum() == gone
    logits = test.features["late"][0].double().numpy() @ sparse.T + train.bias[0].double().numpy()
    expected = -np.logaddexp.reduce(logits, axis=1)
    np.testing.assert_allclose(dice(train, sparsity=sparsity)(test), expected, rtol=1e-5)


def test_all_weights_are_the_energy(toy):
    train = toy.train()
    torch.testing.assert_close(
        dice(train, sparsity=0)(train), energy()(train), rtol=1e-5, atol=1e-5
    )


def test_equal_contributions_are_still_cut_to_the_share(toy):
    from nescio.detectors.activations import Activations

    flat = Activations(
        logits=torch.zeros(3, 2), features=torch.ones(3, 10), weight=torch.ones(2, 10)
    )
    assert int((dice(flat, sparsity=0.25).states[0]["weight"] == 0).sum()) == 5


@pytest.mark.parametrize("sparsity", [-0.1, 1.0])
def test_a_sparsity_is_a_share(sparsity, toy):
    with pytest.raises(NescioError, match="sparsity must be at least 0 and below 1"):
        dice(toy.train(), sparsity=sparsity)
