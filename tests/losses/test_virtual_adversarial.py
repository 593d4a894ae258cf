"""Virtual adversarial training: the worst direction, within the radius, without labels."""

import pytest
import torch
from torch import nn

from nescio import heads, losses
from nescio.core import NescioError, Rng
from nescio.losses import Batch, Loss
from nescio.nets.stack import Forward, Stack, stack

LOW, HIGH = torch.tensor([-5.0, 0.0, 2.0]).double(), torch.tensor([5.0, 0.1, 4.0]).double()
RNG = Rng(0, (0, 1))
HEADS = [heads.categorical(), heads.dirichlet(), heads.gaussian(), heads.double_exponential()]


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


def net(outputs=2):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, outputs)).double()


def batch(y=None):
    share = torch.rand(2, 6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x = LOW + share * (HIGH - LOW)
    return Batch(
        x=x, y=torch.zeros(2, 6, dtype=torch.long) if y is None else y, points=6, low=LOW, high=HIGH
    )


def silent(head):
    """A base without a data term, so that only the virtual term is left."""
    return Loss(
        description="none",
        head=head,
        score=lambda outputs, y: outputs[..., 0],
        step=lambda f, b, r: torch.zeros(2),
    )


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)
def test_labels_are_never_read(head):
    garbage = torch.full((2, 6), -100)
    loss = losses.virtual_adversarial(silent(head))
    spy = Spy(net(4))
    leaves = [t.requires_grad_() for t in spy.forward.tensors.values()]
    one = torch.autograd.grad(loss(spy, batch(garbage), RNG).sum(), leaves)
    two = torch.autograd.grad(loss(spy, batch(), RNG).sum(), leaves)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert one[0].abs().max() > 0


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)
@pytest.mark.parametrize("iterations", [1, 3])
def test_the_offset_has_the_length_of_the_radius_in_units_of_the_range(head, iterations):
    spy, data = Spy(net(4)), batch()
    loss = losses.virtual_adversarial(silent(head), radius=0.07, iterations=iterations)
    loss(spy, data, RNG)
    offset = (spy.seen[-1] - data.x) / (HIGH - LOW)
    torch.testing.assert_close(offset.norm(dim=-1), torch.full((2, 6), 0.07).double())
    assert len(spy.seen) == iterations + 2


def test_the_worst_direction_of_a_linear_classifier_is_found():
    linear = nn.Linear(3, 2).double()
    linear.weight.data = torch.tensor([[1.0, -50.0, 2.0], [0.0, 10.0, -1.0]]).double()
    spy, data = Spy(linear), batch()
    losses.virtual_adversarial(silent(heads.categorical()), radius=0.2)(spy, data, RNG)
    offset = (spy.seen[-1] - data.x) / (HIGH - LOW)
    worst = (linear.weight[0] - linear.weight[1]).detach() * (HIGH - LOW)
    cosine = torch.nn.functional.cosine_similarity(offset, worst.expand_as(offset), dim=-1)
    torch.testing.assert_close(cosine.abs(), torch.ones_like(cosine), rtol=0, atol=1e-6)


def test_the_found_direction_is_worse_than_random_ones():
    spy, data, head = Spy(net()), batch(), heads.categorical()
    found = losses.virtual_adversarial(silent(head), radius=0.1, iterations=2)(spy, data, RNG)
    clean = spy.forward(data.x)
    rng = torch.Generator().manual_seed(5)
    for _ in range(20):
        direction = torch.randn(2, 6, 3, generator=rng, dtype=torch.float64)
        offset = 0.1 * direction / direction.norm(dim=-1, keepdim=True) * (HIGH - LOW)
        random = head.divergence(clean, spy.forward(data.x + offset)).mean(1)
        assert (found > random).all()


@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
def test_the_term_is_added_with_its_weight_and_is_not_negative(weight):
    forward, data, base = Spy(net()).forward, batch(), losses.nll()
    value = losses.virtual_adversarial(base, weight=weight)(forward, data, RNG)
    term = losses.virtual_adversarial(silent(base.head))(forward, data, RNG)
    assert (term > 0).all()
    torch.testing.assert_close(value, base(forward, data, RNG) + weight * term)


def test_the_clean_answers_are_constants_for_the_weights():
    spy, data, head = Spy(net()), batch(), heads.categorical()
    leaves = [t.requires_grad_() for t in spy.forward.tensors.values()]
    term = losses.virtual_adversarial(silent(head))(spy, data, RNG)
    slopes = torch.autograd.grad(term.sum(), leaves)
    clean, moved = spy.forward(data.x).detach(), spy.forward(spy.seen[-1])
    by_hand = torch.autograd.grad(head.divergence(clean, moved).mean(1).sum(), leaves)
    for slope, own in zip(slopes, by_hand, strict=True):
        torch.testing.assert_close(slope, own, rtol=1e-9, atol=1e-12)


def test_a_flat_network_has_no_worst_direction_and_no_term():
    flat = nn.Linear(3, 2).double()
    nn.init.zeros_(flat.weight)
    loss = losses.virtual_adversarial(silent(heads.categorical()))
    assert (loss(Spy(flat).forward, batch(), RNG) == 0).all()


@pytest.mark.parametrize("options", [{"radius": 0}, {"weight": -1}, {"iterations": 0}])
def test_options_are_checked(options):
    with pytest.raises(NescioError, match=next(iter(options))):
        losses.virtual_adversarial(losses.nll(), **options)
