"""One network as it is, and networks that were trained apart."""

import pytest
import torch
from torch import nn

from nescio import heads
from nescio.core import Categorical, Gaussian, NescioError
from nescio.models import ensemble, plain

X = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))


def net():
    return nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3)
    )


def test_plain_is_the_network_in_evaluation_mode():
    one = net().train()
    prediction = plain(one)(X)
    assert isinstance(prediction, Categorical)
    assert prediction.members == 1
    assert one.training
    torch.testing.assert_close(prediction.logits[0], one.eval()(X))


def test_an_ensemble_averages_probabilities_of_its_networks():
    nets = [net() for _ in range(3)]
    prediction = ensemble(nets)(X)
    expected = torch.stack([one.eval()(X).softmax(-1) for one in nets]).mean(0)
    torch.testing.assert_close(prediction.probs, expected)
    assert prediction.members == 3


@pytest.mark.parametrize("size", [1, 4, 100])
def test_the_batch_size_does_not_matter(size):
    model = ensemble([net() for _ in range(2)])
    torch.testing.assert_close(model.outputs(X, batch_size=size), model.outputs(X))


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("last", [nn.Linear(4, 3), nn.Sequential(nn.Softmax(-1), nn.Linear(4, 3))])
def test_a_first_layer_that_overwrites_does_not_reach_the_inputs(members, last):
    one, x = nn.Sequential(nn.LeakyReLU(0.5, inplace=True), last), X.clone()
    outputs = ensemble([one] * members).outputs(x)
    assert torch.equal(x, X)
    torch.testing.assert_close(outputs, one(X.clone()).expand(members, -1, -1))


def test_another_head_reads_the_same_outputs():
    one = nn.Linear(4, 2)
    prediction = plain(one, head=heads.gaussian())(X)
    assert isinstance(prediction, Gaussian)
    torch.testing.assert_close(prediction.mean[0], one(X)[:, :1])
    assert ensemble([one, nn.Linear(4, 2)], head=heads.gaussian())(X).members == 2


def test_later_changes_of_the_network_do_not_reach_the_model():
    one = nn.Linear(4, 3)
    model = plain(one)
    before = model(X).logits
    nn.init.zeros_(one.weight)
    assert torch.equal(model(X).logits, before)


def test_only_networks_are_read():
    with pytest.raises(NescioError, match="plain reads an nn.Module, got function"):
        plain(lambda x: x)
    with pytest.raises(NescioError, match="list of networks"):
        ensemble(nn.Sequential(nn.Linear(4, 3)))
    with pytest.raises(NescioError, match="list of networks"):
        ensemble([])


def test_networks_of_other_architectures_and_predictors_are_pooled():
    wide = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 3))
    narrow, x = nn.Linear(4, 3), torch.randn(6, 4)
    pooled = ensemble([wide, plain(narrow), ensemble([narrow, narrow])])(x)
    assert pooled.members == 4
    torch.testing.assert_close(pooled.logits[0], wide(x))
    torch.testing.assert_close(pooled.logits[3], narrow(x))
    with pytest.raises(NescioError, match="do not fit together"):
        ensemble([narrow, nn.Linear(4, 2)])(x)
