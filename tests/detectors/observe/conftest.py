"""Small networks of several kinds, and data for them."""

import pytest
import torch
from torch import nn


class Residual(nn.Module):
    """A block that writes in place and uses one ReLU twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.relu(self.norm(self.conv(x))) + x)


class Images(nn.Module):
    """Convolutions, a residual block, dropout; the last linear layer gives the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.block = Residual()
        self.unused = nn.Linear(3, 3)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(36, 7), nn.ReLU(), nn.Dropout(0.5))
        self.fc = nn.Linear(7, 3)

    def forward(self, x):
        return self.fc(self.head(self.block(self.features(x))))


@pytest.fixture
def net():
    torch.manual_seed(3)
    made = Images().train()
    with torch.no_grad():
        made.block.norm.running_mean.normal_()
        made.block.norm.running_var.uniform_(0.5, 2)
    return made


@pytest.fixture
def x():
    return torch.rand(23, 2, 8, 8, generator=torch.Generator().manual_seed(4))


@pytest.fixture
def y():
    return torch.arange(23) % 3
