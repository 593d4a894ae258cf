"""Half precision: the answer is right, or refused where numbers overflow."""

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, detectors
from nescio.models import ensemble, mc_dropout, plain

HALVES = (torch.float16, torch.bfloat16)


def network(kind, outputs=3):
    torch.manual_seed(0)
    layers = nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, outputs)
    return nn.Sequential(*layers).to(kind)


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e4, 1e5, 1e30])
def test_half_precision_is_right_or_refused(kind, scale):
    net, x = network(kind), scale * torch.randn(6, 4)
    callers = {
        "plain": lambda: plain(net)(x).log_probs,
        "ensemble": lambda: ensemble([net, net])(x).log_probs,
        "mc dropout": lambda: mc_dropout(net, passes=3)(x).log_probs,
        "observe": lambda: nescio.observe(net, x).logits,
        "scorer": lambda: nescio.scorer(net, detectors.energy())(x),
    }
    with torch.no_grad():
        truth = net.eval()(x.to(kind))
    for name, call in callers.items():
        if not truth.isfinite().all():
            with pytest.raises(NescioError, match=r"NaN|inf"):
                call()
            continue
        found = call()
        assert found.dtype == torch.float32, name
        assert found.isfinite().all(), name
    if truth.isfinite().all():
        torch.testing.assert_close(plain(net)(x).log_probs, truth.float().log_softmax(1))


def test_squares_of_half_precision_do_not_overflow():
    net = network(torch.float16, outputs=1)
    with torch.no_grad():
        net[3].bias.fill_(3e4)  # its square is beyond float16
    other = network(torch.float16, outputs=1)
    found = ensemble([net, other], head="fixed_variance")(torch.randn(5, 4))
    assert found.mixture_variance.isfinite().all()
    torch.testing.assert_close(
        found.mixture_variance, torch.full((5, 1), 2.25e8), rtol=1e-2, atol=0
    )
