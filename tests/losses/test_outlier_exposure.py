"""Outlier exposure: the published expression, and its published weight."""

import inspect

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from torch import nn

from nescio import NescioError, losses
from nescio.core import Rng
from nescio.data.ood import another
from nescio.losses import Batch
from nescio.losses.with_ood import turns
from nescio.nets.stack import Forward, Stack, stack


def situation():
    net = nn.Linear(3, 5).double()
    x, y = torch.rand(1, 6, 3).double(), torch.randint(5, (1, 6))
    batch = Batch(x=x, y=y, points=6, low=x.amin((0, 1)), high=x.amax((0, 1)))
    rng = Rng(0, (0,))
    return net, Forward(Stack(net), stack([net]), rng), batch, rng


def test_it_is_half_the_logsumexp_minus_the_mean_of_the_logits():
    """The expression of the published code: -(mean(z) - logsumexp(z)), times 0.5."""
    outliers = another(torch.rand(20, 3), "outliers")
    net, forward, batch, rng = situation()
    value = losses.outlier_exposure(losses.nll(), outliers)(forward, batch, rng)
    z = net(outliers(turns(outliers, batch, rng, 1.0, None).index[0]).double()).detach().numpy()
    truth = 0.5 * (logsumexp(z, -1) - z.mean(-1)).mean()
    logits = net(batch.x[0]).detach().numpy()
    right = logits[np.arange(6), batch.y[0].numpy()]
    truth += (logsumexp(logits, -1) - right).mean()
    assert value.item() == pytest.approx(truth, rel=1e-12)


def test_its_weight_is_the_published_one():
    assert inspect.signature(losses.outlier_exposure).parameters["weight"].default == 0.5


def test_it_is_refused_without_outliers():
    with pytest.raises(NescioError, match="must be an OOD source"):
        losses.outlier_exposure(losses.nll(), torch.rand(5, 3))
