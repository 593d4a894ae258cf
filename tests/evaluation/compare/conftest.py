"""Worlds in which features, logits and numbers are known: networks of two classes."""

import pytest
import torch
from torch import nn


@pytest.fixture
def net():
    """Features relu((x, -x)) of a plane, logits (x - y, y - x) and a last linear layer."""
    first, last = nn.Linear(2, 4), nn.Linear(4, 2)
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
        first.bias.zero_()
        last.weight.copy_(torch.tensor([[1.0, -1.0, -1.0, 1.0], [-1.0, 1.0, 1.0, -1.0]]))
        last.bias.zero_()
    return nn.Sequential(first, nn.ReLU(), last).eval()


def samples(count, seed):
    """Two clouds, one a class, and their labels."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % 2
    center = torch.where(y[:, None] == 0, torch.tensor([2.0, -2.0]), torch.tensor([-2.0, 2.0]))
    return center + torch.randn(count, 2, generator=draw), y


@pytest.fixture
def train():
    return samples(200, 1)


@pytest.fixture
def in_dist():
    return samples(120, 2)


@pytest.fixture
def ood():
    """A cloud between the classes, and one far away."""
    draw = torch.Generator().manual_seed(3)
    middle, far = torch.randn(80, 2, generator=draw), torch.randn(60, 2, generator=draw)
    return {"middle": 0.5 * middle, "far": far + torch.tensor([9.0, 9.0])}


class Linear(nn.Module):
    """Two classes on (x, y): the logits are (scale * x, 0)."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.scale * x[:, 0]
        return torch.stack([first, torch.zeros_like(first)], dim=1)


@pytest.fixture
def linear():
    return Linear


@pytest.fixture
def labeled():
    """Forty points whose label is 0 where x > 0, two of them labeled wrongly."""
    x = torch.linspace(-4, 4, 40)
    points = torch.stack([x, torch.zeros(40)], dim=1)
    labels = (x < 0).long()
    labels[:2] = 0
    return points, labels
