"""A network that overfits a small, noisy problem, and what it gives for training and test data."""

from dataclasses import dataclass

import pytest
import torch

import nescio
from nescio import nets
from nescio.detectors.activations import Activations
from nescio.models.model import Model


def draw(count, seed):
    """Two blobs that overlap, in eight dimensions."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % 2
    x = torch.randn(count, 8, generator=rng)
    x[:, 0] += 2.4 * y - 1.2
    return x, y


def make_net():
    return nets.mlp(8, 2, widths=(24,), dropout=0.1)


@dataclass(frozen=True)
class Fitted:
    model: Model
    data: tuple
    train: Activations
    test: Activations


@pytest.fixture(scope="session")
def fitted():
    data, test = draw(300, 0), draw(400, 1)
    model = nescio.train(make_net, data, members=2, epochs=60, learning_rate=0.01, progress=False)
    return Fitted(
        model,
        data,
        nescio.observe(model, data, inputs=True, progress=False),
        nescio.observe(model, test, inputs=True, progress=False),
    )


@pytest.fixture(scope="session")
def crossed():
    from nescio.detectors.failure import cross_fit

    return cross_fit(
        make_net, draw(300, 0), folds=3, members=2, epochs=60, learning_rate=0.01, progress=False
    )
