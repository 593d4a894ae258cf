"""Expected NLL and Brier are smallest at the true distribution only; absolute error is not."""

import pytest
import torch
from torch import Tensor

from nescio import losses

CLASSES = 3


def truths() -> list[Tensor]:
    """Random distributions with a clear mode, on the grid of steps of 0.05."""
    source = torch.Generator().manual_seed(0)
    found = []
    while len(found) < 6:
        counts = torch.multinomial(torch.ones(CLASSES), 20, replacement=True, generator=source)
        counts = torch.bincount(counts, minlength=CLASSES)
        if counts.min() > 0 and counts.sort().values[-1] > counts.sort().values[-2]:
            found.append(counts.double() / 20)
    return found


def forecasts() -> Tensor:
    """All distributions over three classes in steps of 0.05, without the edges."""
    steps = torch.arange(1, 20, dtype=torch.float64)
    pairs = torch.cartesian_prod(steps, steps) / 20
    pairs = pairs[pairs.sum(1) < 1 - 1e-9]
    return torch.cat([pairs, 1 - pairs.sum(1, keepdim=True)], dim=1)


def expected(score, p: Tensor, q: Tensor) -> Tensor:
    """Mean score of forecasts `(N, C)` when labels follow q."""
    labels = torch.arange(CLASSES).expand(1, len(p), CLASSES)
    logits = p.log()[None, :, None].expand(1, len(p), CLASSES, CLASSES)
    each = score(logits.reshape(1, -1, CLASSES), labels.reshape(1, -1))
    return (each.reshape(len(p), CLASSES) * q).sum(1)


def absolute(logits: Tensor, labels: Tensor) -> Tensor:
    one_hot = torch.nn.functional.one_hot(labels, CLASSES)
    return (logits.softmax(-1) - one_hot).abs().sum(-1)


PROPER = {"nll": losses.nll().score, "brier": losses.brier().score}


@pytest.mark.parametrize("name", PROPER)
@pytest.mark.parametrize("q", truths(), ids=lambda q: str(q.tolist()))
def test_the_truth_alone_is_best_on_a_grid(name: str, q: Tensor) -> None:
    p = forecasts()
    scores = expected(PROPER[name], p, q)
    order = scores.argsort()
    assert torch.allclose(p[order[0]], q)
    assert scores[order[1]] > scores[order[0]] + 1e-4


@pytest.mark.parametrize("name", PROPER)
@pytest.mark.parametrize("q", truths(), ids=lambda q: str(q.tolist()))
def test_the_gradient_vanishes_at_the_truth_and_nowhere_else(name: str, q: Tensor) -> None:
    def slope(p: Tensor) -> float:
        logits = p.log().clone().requires_grad_()
        (found,) = torch.autograd.grad(
            expected(PROPER[name], logits.softmax(-1)[None], q).sum(), logits
        )
        return found.norm().item()

    assert slope(q) < 1e-12
    others = [p for p in forecasts()[::7] if not torch.allclose(p, q)]
    assert min(slope(p) for p in others) > 1e-4


@pytest.mark.parametrize("name", PROPER)
def test_descent_from_anywhere_ends_at_the_truth(name: str) -> None:
    q = truths()[0]
    logits = torch.randn(
        8, CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    for _ in range(3000):
        logits.requires_grad_()
        loss = expected(PROPER[name], logits.softmax(-1), q).sum()
        (slope,) = torch.autograd.grad(loss, logits)
        logits = (logits - slope).detach()
    assert torch.allclose(logits.softmax(-1), q.expand(8, -1), atol=1e-6)


@pytest.mark.parametrize("q", truths(), ids=lambda q: str(q.tolist()))
def test_absolute_error_prefers_certainty_of_the_mode_to_the_truth(q: Tensor) -> None:
    corners = torch.eye(CLASSES, dtype=torch.float64).clamp(min=1e-12)
    p = torch.cat([forecasts(), corners])
    scores = expected(absolute, p, q)
    best = p[scores.argmin()]
    assert best.argmax() == q.argmax()
    assert best.max() > 1 - 1e-9
    truth = expected(absolute, q[None], q).item()
    assert scores.min().item() < truth - 0.05
    assert truth == pytest.approx((2 - 2 * q.square().sum()).item())
