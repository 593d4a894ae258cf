"""ReAct: clip, then energy; by hand in float64."""

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.core import NescioError
from nescio.detectors import energy, react
from nescio.detectors.activations import Activations


@pytest.mark.parametrize("percentile", [50.0, 90.0])
def test_the_definition(percentile, toy):
    train, test = toy.train(), toy.test()
    limit = np.percentile(train.features["late"].double().numpy(), percentile)
    clipped = np.minimum(test.features["late"][0].double().numpy(), limit)
    logits = clipped @ train.weight[0].double().numpy().T + train.bias[0].double().numpy()
    expected = -np.log(np.exp(logits).sum(1))
    found = react(train, percentile=percentile)(test)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_without_clipping_it_is_the_energy(toy):
    train = toy.train()
    torch.testing.assert_close(
        react(train, percentile=100)(train), energy()(train), rtol=1e-5, atol=1e-5
    )


def test_each_network_has_its_own_limit(toy):
    limits = [state["limit"] for state in react(toy.train(members=2)).states]
    assert limits[0] != limits[1]


@pytest.mark.parametrize("name", ["react", "ash", "dice"])
def test_the_last_layer_is_needed(name, toy):
    from nescio import detectors

    make = getattr(detectors, name)
    train = toy.train()
    alone = Activations(logits=train.logits, features=train.features, last="late")
    with pytest.raises(NescioError, match=f"{name} needs the last linear layer"):
        make(alone)
    wrong = Activations(
        logits=train.logits,
        features={"late": train.features["late"][..., :5]},
        weight=train.weight,
    )
    with pytest.raises(NescioError, match="reads 32 features, layer 'late' has 5"):
        make(wrong)
    many = torch.cat([train.weight, train.weight])
    for layer in ({"weight": many}, {"weight": train.weight, "bias": torch.zeros(7)}):
        odd = Activations(logits=train.logits, features={"late": train.features["late"]}, **layer)
        with pytest.raises(NescioError, match="weight and bias must be"):
            make(odd)
    scaled = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3), nn.Hardtanh(-0.1, 0.1))
    seen = nescio.observe(scaled, torch.randn(9, 4))
    with pytest.raises(NescioError, match=f"{name} needs the last linear layer, and what enters"):
        make(seen)
    narrow = Activations(logits=train.logits, features={"late": train.features["late"][..., :5]})
    with pytest.raises(NescioError, match="32|5"):
        make(train)(narrow)


def test_a_percentile_is_a_share(toy):
    with pytest.raises(NescioError, match="from 0 to 100"):
        react(toy.train(), percentile=120)
