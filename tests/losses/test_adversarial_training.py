"""Adversarial training on labels: the base loss at the points found, and what it is good for."""

import pytest
import torch
from torch import nn

from nescio import NescioError, attacks, heads, losses, nets, train
from nescio.attacks import Ascent
from nescio.core import Rng
from nescio.losses import Batch
from nescio.nets.stack import Forward, Stack, stack

MEMBERS, SAMPLES, FEATURES, CLASSES = 2, 6, 3, 4


class Recording(Stack):
    def __init__(self, net):
        super().__init__(net)
        self.training = []

    def __call__(self, tensors, x, rng=None):
        if rng is not None:
            self.training.append(x.detach().clone())
        return super().__call__(tensors, x, rng)


def situation():
    made = [nn.Linear(FEATURES, CLASSES).double() for _ in range(MEMBERS)]
    x = torch.rand(MEMBERS, SAMPLES, FEATURES).double()
    y = torch.randint(CLASSES, (MEMBERS, SAMPLES))
    batch = Batch(x=x, y=y, points=20, low=x.amin((0, 1)), high=x.amax((0, 1)))
    rng = Rng(3, tuple(range(MEMBERS)), (0, 0))
    return made, Forward(Recording(made[0]), stack(made), rng), batch, rng


def test_it_is_the_base_loss_at_points_of_the_ball_where_it_is_higher():
    made, forward, batch, rng = situation()
    clean = losses.nll()(forward, batch, rng)
    forward.architecture.training.clear()
    values = losses.adversarial_training(losses.nll())(forward, batch, rng)
    (moved,) = forward.architecture.training
    assert (moved - batch.x).abs().max() <= 0.3 + 1e-12
    assert moved.min() >= 0
    assert moved.max() <= 1
    for member, net in enumerate(made):
        truth = nn.functional.cross_entropy(net(moved[member]), batch.y[member])
        torch.testing.assert_close(values[member], truth)
    assert (values > clean).all()


def test_two_classes_in_one_layer_have_a_closed_form():
    """The worst point is the corner of the cube against the label, cut to the box."""
    net = nn.Linear(FEATURES, 2).double()
    x, y = torch.rand(1, SAMPLES, FEATURES).double(), torch.randint(2, (1, SAMPLES))
    batch, rng = Batch(x=x, y=y, points=20, low=x.amin((0, 1)), high=x.amax((0, 1))), Rng(0, (0,))
    forward = Forward(Recording(net), stack([net]), rng)
    losses.adversarial_training(losses.nll(), attack=Ascent(radius=0.1, steps=5))(
        forward, batch, rng
    )
    gap = net.weight[1] - net.weight[0]
    toward = torch.where(y[0] == 0, 1.0, -1.0)[:, None]
    best = (x[0] + 0.1 * (toward * gap).sign()).clamp(0, 1)
    torch.testing.assert_close(forward.architecture.training[0][0], best.detach())


@pytest.mark.parametrize(("clean", "still"), [(0.0, 0), (0.5, 3), (1.0, 6)])
def test_a_share_of_the_batch_stays_clean(clean, still):
    _, forward, batch, rng = situation()
    losses.adversarial_training(losses.nll(), clean=clean)(forward, batch, rng)
    (moved,) = forward.architecture.training
    assert torch.equal(moved[:, :still], batch.x[:, :still])
    assert (moved[:, still:] != batch.x[:, still:]).any(-1).all()


def test_it_withstands_a_label_attack_that_beats_plain_training():
    """One feature is often right, with a wide margin; many weak ones are always right together."""
    y = torch.arange(300) % 2
    sign = (2.0 * y - 1)[:, None]
    strong = 0.5 + 0.35 * sign * torch.where(torch.rand(300, 1) < 0.9, 1.0, -1.0)
    x = torch.cat([strong, 0.5 + 0.05 * sign + 0.05 * torch.randn(300, 30)], 1).clamp(0, 1)
    options = {"epochs": 60, "batch_size": 30, "learning_rate": 3e-2, "progress": False}
    attack = Ascent(radius=0.15, steps=5, best=False)
    accuracy = {}
    for name, loss in (
        ("plain", losses.nll()),
        ("robust", losses.adversarial_training(losses.nll(), attack=attack)),
    ):
        model = train(lambda: nets.mlp(31, 2, widths=(16,)), (x, y), loss=loss, **options)
        found = attacks.adversarial_samples(model, x, y, radius=0.15, steps=30, step=None)
        accuracy[name] = (model(found.x).labels == y).float().mean().item()
    assert accuracy["plain"] < 0.2
    assert accuracy["robust"] > 0.8


def test_inputs_ood_the_box_are_refused_and_not_cut():
    _, forward, batch, rng = situation()
    wide = Batch(x=5 * batch.x - 2, y=batch.y, points=20, low=batch.low, high=batch.high)
    with pytest.raises(NescioError, match=r"outside the box \[0.0, 1.0\]; give the attack"):
        losses.adversarial_training(losses.nll())(forward, wide, rng)
    attack = Ascent(radius=0.3, steps=10, step=0.075, low=-2.0, high=3.0)
    losses.adversarial_training(losses.nll(), attack=attack)(forward, wide, rng)


def test_bad_options_are_refused():
    with pytest.raises(NescioError, match=r"clean must be in \[0, 1\], got 2"):
        losses.adversarial_training(losses.nll(), clean=2)
    with pytest.raises(NescioError, match="reads class logits; the gaussian head"):
        losses.adversarial_training(losses.nll(heads.gaussian()))
