"""Evidential regression: the formula of the paper, digit by digit, and what is refused."""

import math

import pytest
import torch

from nescio import heads, losses
from nescio.core import NescioError, Rng
from nescio.losses import Batch
from nescio.nets.stack import Forward, Stack, stack


def paper(outputs, y, weight):
    """Equations 8 and 9 for one target, with softplus + 1e-6."""
    gamma, *raw = outputs
    nu, excess, beta = (math.log1p(math.exp(value)) + 1e-6 for value in raw)
    alpha = excess + 1
    omega = 2 * beta * (1 + nu)
    nll = (
        0.5 * math.log(math.pi / nu)
        - alpha * math.log(omega)
        + (alpha + 0.5) * math.log((y - gamma) ** 2 * nu + omega)
        + math.lgamma(alpha)
        - math.lgamma(alpha + 0.5)
    )
    return nll + weight * abs(y - gamma) * (2 * nu + alpha)


@pytest.mark.parametrize("weight", [0.0, 0.01, 1.0])
def test_the_loss_is_the_papers(weight):
    torch.manual_seed(0)
    nets = [torch.nn.Linear(2, 4).double() for _ in range(2)]
    x, y = torch.randn(2, 3, 2).double(), torch.randn(2, 3, 1).double()
    batch = Batch(x=x, y=y, points=3, low=x[0, 0], high=x[0, 0])
    rng = Rng(0, (0, 1))
    found = losses.evidential_regression(weight=weight)(
        Forward(Stack(nets[0]), stack(nets), rng), batch, rng
    )
    for member, net in enumerate(nets):
        pairs = zip(net(x[member]).tolist(), y[member, :, 0].tolist(), strict=True)
        truth = sum(paper(outputs, target, weight) for outputs, target in pairs) / 3
        assert found[member].item() == pytest.approx(truth, rel=1e-12)


def test_the_derivative_in_closed_form_is_that_of_autograd():
    loss = losses.evidential_regression(weight=0.3)
    rng = torch.Generator().manual_seed(0)
    outputs = 3 * torch.randn(2, 40, 8, generator=rng).double()
    y = torch.randn(2, 40, 2, generator=rng).double()
    scores, rise = loss.slope(outputs, y)
    truth = loss.score(outputs.requires_grad_(), y)
    torch.testing.assert_close(scores, truth.detach())
    (slope,) = torch.autograd.grad(truth.sum(), outputs)
    torch.testing.assert_close(rise, slope, rtol=1e-8, atol=1e-8)


def test_what_is_refused():
    with pytest.raises(NescioError, match="reads normal_inverse_gamma, not gaussian"):
        losses.evidential_regression(heads.gaussian())
    with pytest.raises(NescioError, match="weight must not be negative"):
        losses.evidential_regression(weight=-1.0)
