"""A world in which every number of a comparison can be worked out by hand."""

import pytest
import torch
from torch import nn


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
def in_dist():
    """Forty points whose label is 0 where x > 0, two of them labeled wrongly."""
    x = torch.linspace(-4, 4, 40)
    points = torch.stack([x, torch.zeros(40)], dim=1)
    labels = (x < 0).long()
    labels[:2] = 0
    return points, labels
