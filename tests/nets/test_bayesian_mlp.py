"""Layers with a distribution over weights: mean in evaluation, sampled outputs in training."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nescio import nets
from nescio.core import Rng, drawing_from, generator, seeded
from nescio.nets.factory import made_by, rebuild
from nescio.nets.mlp import VariationalLinear
from nescio.nets.stack import Forward, Stack, stack

X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def layer():
    with seeded(1):
        one = VariationalLinear(3, 2, spread=0.3).double()
        nn.init.normal_(one.weight_rho, -1.0, 0.5)
        nn.init.normal_(one.bias_rho, -1.0, 0.5)
    return one


def test_evaluation_uses_the_mean_weights():
    one = layer().eval()
    torch.testing.assert_close(one(X), X @ one.weight_mean.T + one.bias_mean)
    assert torch.equal(one(X), one(X))


def test_the_start_is_that_of_a_linear_layer_with_the_spread_asked_for():
    with seeded(4):
        truth = nn.Linear(3, 2)
    with seeded(4):
        one = VariationalLinear(3, 2, spread=0.05)
    assert torch.equal(one.weight_mean, truth.weight)
    assert torch.equal(one.bias_mean, truth.bias)
    torch.testing.assert_close(F.softplus(one.weight_rho), torch.full((2, 3), 0.05))
    torch.testing.assert_close(F.softplus(one.bias_rho), torch.full((2,), 0.05))


@torch.no_grad()
def test_training_samples_outputs_as_if_weights_were_sampled():
    one, count = layer().train(), 40_000
    draw = torch.Generator().manual_seed(2)
    weight, bias = (
        mean + F.softplus(rho) * torch.randn(count, *mean.shape, generator=draw).double()
        for mean, rho in ((one.weight_mean, one.weight_rho), (one.bias_mean, one.bias_rho))
    )
    slow = torch.einsum("nf,kof->kno", X, weight) + bias[:, None]
    with drawing_from(generator(3)):
        fast = one(X.repeat(count, 1)).unflatten(0, (count, len(X)))
    truth = slow.var(0)
    error = (truth / count).sqrt()
    assert ((fast.mean(0) - slow.mean(0)).abs() < 5 * 2**0.5 * error).all()
    assert ((fast.var(0) / truth - 1).abs() < 5 * 2 / count**0.5).all()


def test_every_sample_and_output_has_its_own_noise():
    one = layer().train()
    with drawing_from(generator(3)):
        noise = one(X[:1].repeat(50, 1)) - one.eval()(X[:1])
    assert len(noise.flatten().unique()) == 100


def test_noise_comes_from_the_generator_given_or_from_the_global_one():
    one = layer().train()
    outputs = []
    for _ in range(2):
        with drawing_from(generator(3)):
            outputs.append(one(X))
    assert torch.equal(*outputs)
    with seeded(1):
        first = one(X)
    assert not torch.isclose(first, outputs[0]).any()
    with seeded(1):
        assert torch.equal(one(X), first)


class Wrapped(nn.Module):
    """The same network, in a form that cannot be stacked."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("training", [False, True])
def test_stacked_equals_member_by_member_with_the_same_noise(dropout, training):
    with seeded(2):
        members = [
            nets.bayesian_mlp(3, 2, widths=(4, 5), spread=0.5, dropout=dropout).double()
            for _ in range(3)
        ]
    rng = Rng(7, (0, 1, 4), (2, 3)) if training else None
    x = X.expand(3, *X.shape)
    stacked = Forward(Stack(members[0]), stack(members), rng)
    wrapped = [Wrapped(net) for net in members]
    looped = Forward(Stack(wrapped[0]), stack(wrapped), rng)
    assert stacked.architecture.stacked
    assert not looped.architecture.stacked
    torch.testing.assert_close(stacked(x), looped(x))
    assert torch.equal(stacked(x), stacked(x))
    if training:
        another = Forward(Stack(members[0]), stack(members), Rng(7, (0, 1, 4), (2, 4)))
        assert not torch.isclose(another(x), stacked(x)).any()


def test_the_gradient_reaches_means_and_spreads():
    net = nets.bayesian_mlp(3, 2, widths=(4,), activation="tanh").double().train()
    with drawing_from(generator(0)):
        net(X).square().sum().backward()
    for weight in net.parameters():
        assert weight.grad.isfinite().all()
        assert (weight.grad.abs() > 0).any()


def test_the_network_has_the_layers_of_an_mlp():
    net = nets.bayesian_mlp((2, 3), 4, widths=(8, 5), activation="tanh", dropout=0.25)
    kinds = [type(layer) for layer in net]
    hidden = [VariationalLinear, nn.Tanh, nn.Dropout]
    assert kinds == [nn.Flatten, *hidden, *hidden, VariationalLinear]
    shapes = [tuple(l.weight_mean.shape) for l in net if isinstance(l, VariationalLinear)]
    assert shapes == [(8, 6), (5, 8), (4, 5)]


def test_it_can_be_made_again_with_its_spread():
    net = nets.bayesian_mlp(3, 2, widths=(4,), spread=0.125)
    again = rebuild(made_by(copy.deepcopy(net)))
    assert made_by(again) == made_by(net)
    torch.testing.assert_close(F.softplus(again[0].weight_rho), torch.full((4, 3), 0.125))
