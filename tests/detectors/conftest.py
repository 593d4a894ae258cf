"""A network whose classes light up features of their own, and inputs that light up all by half."""

import pytest
import torch
from torch import nn

from nescio.detectors.activations import Activations

CLASSES, EACH = 4, 8
WIDTH = CLASSES * EACH


def draw(count, seed):
    """Inputs `(N, 32)` and their labels: eight numbers of each class stand out."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % CLASSES
    x = 0.7 * torch.randn(count, WIDTH, generator=rng)
    x += 4.0 * torch.eye(CLASSES)[labels].repeat_interleave(EACH, 1)
    return x, labels


def draw_off(count, seed):
    """Inputs of no class: all numbers are between those of one's own class and of another."""
    rng = torch.Generator().manual_seed(seed)
    return 2.0 + 0.4 * torch.randn(count, WIDTH, generator=rng)


def make_net(member=0):
    rng = torch.Generator().manual_seed(member)
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    with torch.no_grad():
        net[0].weight.copy_(torch.eye(WIDTH))
        net[0].bias.fill_(0.05)
        own = torch.eye(CLASSES).repeat_interleave(EACH, 1)
        net[2].weight.copy_(0.8 * own - 0.25)
        for weights in (net[0].weight, net[2].weight):
            weights += 0.04 * torch.randn(weights.shape, generator=rng)
        net[2].bias.copy_(0.1 * torch.randn(CLASSES, generator=rng))
    return net.requires_grad_(False)


def look(x, labels=None, *, members=1, dtype=torch.float32):
    """Activations of the toy networks by hand."""
    nets = [make_net(member) for member in range(members)]
    early = torch.stack([net[0](x) for net in nets])
    late = early.relu()
    return Activations(
        logits=torch.stack([net[2](f) for net, f in zip(nets, late, strict=True)]).to(dtype),
        features={"early": early.to(dtype), "late": late.to(dtype)},
        labels=labels,
        inputs=x,
        weight=torch.stack([net[2].weight for net in nets]),
        bias=torch.stack([net[2].bias for net in nets]),
        last="late",
        answers=tuple(nets),
    )


@pytest.fixture(scope="session")
def toy():
    """Functions and activations: training data, test data, and data that is off."""

    class Toy:
        classes, width = CLASSES, WIDTH
        draw = staticmethod(draw)
        draw_off = staticmethod(draw_off)
        make_net = staticmethod(make_net)
        look = staticmethod(look)

        def train(self, members=1, dtype=torch.float32):
            return look(*draw(400, 1), members=members, dtype=dtype)

        def test(self, members=1, dtype=torch.float32, count=120):
            return look(*draw(count, 2), members=members, dtype=dtype)

        def off(self, members=1, dtype=torch.float32):
            return look(draw_off(120, 3), members=members, dtype=dtype)

        def faint(self, members=1):
            """Inputs near nothing at all."""
            return look(0.05 * draw(120, 3)[0], members=members)

    return Toy()
