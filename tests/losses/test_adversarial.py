"""Adversarial training: steps of a share of each feature's range along the sign of the gradient."""

import pytest
import torch
from torch import nn

from nescio import losses
from nescio.core import NescioError, Rng
from nescio.losses import Batch
from nescio.nets.stack import Forward, Stack, stack

LOW = torch.tensor([-5.0, 0.0, 2.0], dtype=torch.float64)
HIGH = torch.tensor([5.0, 0.1, 2.0], dtype=torch.float64)
RNG = Rng(0, (0, 1))


class Spy:
    """A forward that remembers its inputs."""

    def __init__(self, net, members=2):
        self.forward = Forward(Stack(net), stack([net] * members))
        self.seen = []

    def __call__(self, x):
        self.seen.append(x.detach())
        return self.forward(x)

    @property
    def parameters(self):
        return self.forward.parameters


def batch(seed=0):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 6, 3, generator=rng, dtype=torch.float64)
    return Batch(x=x, y=torch.randint(2, (2, 6), generator=rng), points=6, low=LOW, high=HIGH)


def linear(weights):
    net = nn.Linear(3, 2).double()
    net.weight.data = torch.tensor(weights, dtype=torch.float64)
    return net


def test_the_step_by_hand_with_features_of_different_range():
    spy, data = Spy(linear([[1.0, -2.0, 3.0], [0.0, 0.0, 3.0]])), batch()
    losses.adversarial(losses.nll(), share=0.01)(spy, data, RNG)
    clean, moved = spy.seen
    # the loss of label 0 grows against w0 - w1 = (1, -2, 0), that of label 1 along it
    sign = torch.where(data.y == 0, -1.0, 1.0)[..., None] * torch.tensor([1.0, -1.0, 0.0])
    step = sign * torch.tensor([0.1, 0.001, 0.0], dtype=torch.float64)
    torch.testing.assert_close(clean, data.x, rtol=0, atol=0)
    torch.testing.assert_close(moved, data.x + step, rtol=0, atol=1e-15)


def test_the_value_is_the_average_of_clean_and_moved():
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    spy, data, base = Spy(net), batch(), losses.nll()
    value = losses.adversarial(base, share=0.1)(spy, data, RNG)
    there = Batch(x=spy.seen[1], y=data.y, points=6, low=LOW, high=HIGH)
    clean, moved = base(spy.forward, data, RNG), base(spy.forward, there, RNG)
    torch.testing.assert_close(value, (clean + moved) / 2)
    assert (moved > clean).all()


def test_no_step_without_a_share():
    spy, data = Spy(linear([[1.0, -2.0, 3.0], [0.0, 0.0, 3.0]])), batch()
    value = losses.adversarial(losses.nll(), share=0.0)(spy, data, RNG)
    torch.testing.assert_close(value, losses.nll()(spy.forward, data, RNG))


def test_the_moved_inputs_are_constants_for_the_weights():
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    spy, data, base = Spy(net), batch(), losses.nll()
    leaves = [t.requires_grad_() for t in spy.forward.tensors.values()]
    slopes = torch.autograd.grad(losses.adversarial(base)(spy, data, RNG).sum(), leaves)
    there = Batch(x=spy.seen[1], y=data.y, points=6, low=LOW, high=HIGH)
    by_hand = (base(spy.forward, data, RNG) + base(spy.forward, there, RNG)).sum() / 2
    for slope, own in zip(slopes, torch.autograd.grad(by_hand, leaves), strict=True):
        torch.testing.assert_close(slope, own)


def test_the_batch_itself_stays_as_it_was():
    data = batch()
    kept = data.x.clone()
    losses.adversarial(losses.nll())(Spy(linear([[1.0, 2, 3], [0.0, 0, 3]])), data, RNG)
    assert torch.equal(data.x, kept)
    assert not data.x.requires_grad


@pytest.mark.parametrize("share", [-0.1, float("nan")])
def test_negative_shares_are_refused(share):
    with pytest.raises(NescioError, match="share must not be negative"):
        losses.adversarial(losses.nll(), share=share)
