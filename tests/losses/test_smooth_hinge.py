"""The smooth hinge: its formula, its limit, and a convex function with two derivatives."""

import math

import pytest
import torch

from nescio import heads, losses
from nescio.core import NescioError

Z = torch.tensor([[[2.0, -1.0, 0.5], [0.3, 0.2, 0.1]]], dtype=torch.float64)  # (1, 2, 3)
Y = torch.tensor([[0, 2]])


def test_each_other_class_adds_a_softened_hinge():
    t = 0.3
    truth = [
        sum(t * math.log1p(math.exp((1 - (z[y] - z[c])) / t)) for c in range(3) if c != y)
        for z, y in zip(Z[0].tolist(), Y[0].tolist(), strict=True)
    ]
    found = losses.smooth_hinge(temperature=t).score(Z, Y)[0]
    assert found.tolist() == pytest.approx(truth, rel=1e-14)


def test_one_logit_and_two_classes_have_the_published_loss():
    f, y = torch.tensor([[[0.4], [-2.0]]], dtype=torch.float64), torch.tensor([[1, 1]])
    one = losses.smooth_hinge(heads.binary(), temperature=0.1).score(f, y)
    two = losses.smooth_hinge(temperature=0.1).score(torch.cat([0 * f, f], -1), y)
    published = 0.1 * torch.log1p(((1 - f[..., 0]) / 0.1).exp())
    torch.testing.assert_close(one, published)
    torch.testing.assert_close(two, published)


def test_it_goes_to_the_hinge():
    margins = Z[0, 0, 0] - Z[0, 0, 1:]
    hinge = (1 - margins).clamp_min(0).sum()
    found = losses.smooth_hinge(temperature=1e-6).score(Z, Y)[0, 0]
    assert float(found) == pytest.approx(float(hinge), abs=1e-5)


def test_it_is_convex():
    def score(z):
        return losses.smooth_hinge(temperature=0.5).score(z[None, None], Y[:, :1]).sum()

    hessian = torch.autograd.functional.hessian(score, Z[0, 0])
    assert torch.linalg.eigvalsh(hessian)[0] > -1e-14
    assert hessian.norm() > 0.1


def test_what_it_does_not_take():
    with pytest.raises(NescioError, match="temperature must be positive"):
        losses.smooth_hinge(temperature=0)
    with pytest.raises(NescioError, match="logits of classes"):
        losses.smooth_hinge(heads.gaussian())
