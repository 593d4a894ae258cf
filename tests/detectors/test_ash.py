"""ASH: prune, then scale, binarize or leave; by hand in float64."""

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.detectors import ash, energy
from nescio.detectors.activations import Activations


def by_definition(row, weight, bias, kind, percentile):
    """One input: keep the largest, algorithms 1 to 3 of the paper."""
    kept = np.argsort(row)[round(len(row) * percentile / 100) :]
    pruned = np.zeros_like(row)
    pruned[kept] = row[kept]
    before, after = row.sum(), pruned.sum()
    if kind == "s":
        pruned *= np.exp(before / after)
    if kind == "b":  # which of several zeros are kept must not matter: none is
        pruned[pruned > 0] = before / (pruned > 0).sum()
    return -np.logaddexp.reduce(weight @ pruned + bias)


@pytest.mark.parametrize("kind", ["s", "b", "p"])
@pytest.mark.parametrize("percentile", [0.0, 35.0, 90.0])
def test_the_definition(kind, percentile, toy):
    train, test = toy.train(), toy.test()
    weight, bias = train.weight[0].double().numpy(), train.bias[0].double().numpy()
    rows = test.features["late"][0].double().numpy()
    expected = [by_definition(row, weight, bias, kind, percentile) for row in rows]
    found = ash(train, kind=kind, percentile=percentile)(test)
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-5, atol=1e-4)


def test_pruning_nothing_is_the_energy(toy):
    train = toy.train()
    torch.testing.assert_close(
        ash(train, kind="p", percentile=0)(train), energy()(train), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("kind", ["s", "b", "p"])
def test_equal_features_go_together(kind, toy):
    """The order of equal features, which a sort would depend on, does not matter."""
    net = Activations(
        logits=torch.zeros(1, 2),
        features=torch.tensor([[3.0, 1, 1, 1, 0, 0, 0, 0]]),
        weight=torch.arange(16.0).view(2, 8),
    )
    logits = (
        net.weight[0]
        @ {
            "s": torch.tensor([3.0, 1, 1, 1, 0, 0, 0, 0]) * np.e,
            "b": torch.tensor([1.5, 1.5, 1.5, 1.5, 0, 0, 0, 0]),
            "p": torch.tensor([3.0, 1, 1, 1, 0, 0, 0, 0]),
        }[kind]
    )
    found = ash(net, kind=kind, percentile=75)(net)
    torch.testing.assert_close(found.float(), -logits.logsumexp(-1, keepdim=True))


@pytest.mark.parametrize("kind", ["s", "b", "p"])
def test_features_that_are_all_zero(kind, toy):
    train = toy.train()
    dark = Activations(logits=torch.zeros(2, 4), features={"late": torch.zeros(2, toy.width)})
    expected = -train.bias[0].logsumexp(-1).expand(2)
    torch.testing.assert_close(ash(train, kind=kind)(dark).float(), expected)


@pytest.mark.parametrize("kind", ["s", "b"])
def test_negative_features_have_no_sum_to_share(kind, toy):
    train = toy.train()
    signed = Activations(
        logits=train.logits, features={"f": train.features["early"]}, weight=train.weight
    )
    with pytest.raises(NescioError, match=r"\d+ are negative; use kind=\"p\""):
        ash(signed, kind=kind)
    assert ash(signed, kind="p")(signed).isfinite().all()


def test_bad_options(toy):
    with pytest.raises(NescioError, match="unknown kind of ash 'x'"):
        ash(toy.train(), kind="x")
    with pytest.raises(NescioError, match="at least 0 and below 100, got 100"):
        ash(toy.train(), percentile=100)
    wide = Activations(
        logits=torch.zeros(3, 2), features=torch.ones(3, 1000), weight=torch.ones(2, 1000)
    )
    with pytest.raises(NescioError, match="keeps 1 of 1000 features, and .* may overflow"):
        ash(wide, percentile=99.95)
