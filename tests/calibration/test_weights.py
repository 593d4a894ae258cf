"""Vector, matrix and Dirichlet scaling against logistic regression and their own derivatives."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from nescio import calibration
from nescio.calibration import weights
from nescio.core import Categorical, NescioError

NAMES = ["vector", "matrix", "dirichlet"]


def problem(samples=600, members=1, classes=4, seed=0):
    """Logits, and labels drawn from other logits: W z + b."""
    rng = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(members, samples, classes, generator=rng, dtype=torch.float64)
    weight = 0.5 * torch.eye(classes, dtype=torch.float64)
    weight[0, 1], weight[2, 2] = 0.4, 0.9
    shift = torch.linspace(-1, 1, classes, dtype=torch.float64)
    probs = (logits @ weight.T + shift).softmax(-1).mean(0)
    return logits, torch.multinomial(probs, 1, generator=rng)[:, 0], weight, shift


def objective(name, logits, labels, weight, shift, spread, intercept):
    """The penalized likelihood by the book."""
    if name == "dirichlet":
        logits = Categorical(logits).log_probs[None]
    moved = weight * logits if weight.ndim == 1 else logits @ weight.T
    loss = -Categorical(moved + shift).log_prob(labels).mean()
    apart = weight - (weight.mean() if weight.ndim == 1 else weight.diagonal().diag())
    penalty = (apart / spread).square().sum() + (shift / intercept).square().sum()
    return loss + penalty / (2 * len(labels))


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_the_derivatives_of_the_penalized_likelihood_vanish(name, members):
    logits, labels, *_ = problem(members=members)
    state = calibration.fit(name, logits, labels, spread=0.2, shift=0.7).state
    free = [state[key].clone().requires_grad_() for key in ("weight", "intercept")]
    loss = objective(name, logits, labels, *free, 0.2, 0.7)
    for slope in torch.autograd.grad(loss, free):
        assert slope.abs().max() < 2e-6


@pytest.mark.parametrize("name", NAMES)
def test_another_optimizer_finds_no_better(name):
    logits, labels, *_ = problem(samples=200, classes=3)
    state = calibration.fit(name, logits, labels).state
    spread = 0.3 if name == "vector" else 0.1
    size = state["weight"].numel()

    def loss(values):
        free = torch.from_numpy(values)
        weight = free[:size].view_as(state["weight"])
        return objective(name, logits, labels, weight, free[size:], spread, 1.0).item()

    start = np.concatenate([state["weight"].numpy().ravel(), state["intercept"].numpy()])
    rng = np.random.default_rng(0)
    found = minimize(loss, start + 0.3 * rng.standard_normal(len(start)), method="BFGS")
    assert loss(start) <= found.fun + 1e-9
    assert loss(start) == pytest.approx(found.fun, abs=1e-6)


def test_log_probabilities_of_many_classes_take_few_steps(monkeypatch):
    """They have a large mean and move together; in the plain coordinates it took 335 steps."""
    steps, within = [], weights._likelihood
    monkeypatch.setattr(weights, "_likelihood", lambda *a: steps.append(1) or within(*a))
    rng = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(500, 50, generator=rng, dtype=torch.float64)
    labels = torch.multinomial((0.5 * logits).softmax(-1), 1, generator=rng)[:, 0]
    labels[:50] = torch.arange(50)
    calibration.fit("dirichlet", logits, labels)
    assert len(steps) < 200


def test_logits_that_depend_on_each_other_are_fitted():
    """With a prior this wide, only the ridge of the whitening keeps their covariance regular."""
    logits, labels, *_ = problem(samples=300)
    logits[..., 3] = logits[..., 0] - logits[..., 1]
    state = calibration.fit("matrix", logits, labels, spread=1e5, shift=1e5).state
    free = [state[key].clone().requires_grad_() for key in ("weight", "intercept")]
    loss = objective("matrix", logits, labels, *free, 1e5, 1e5)
    for slope in torch.autograd.grad(loss, free):
        assert slope.abs().max() < 1e-5


def test_a_wide_prior_recovers_the_truth():
    logits, labels, weight, shift = problem(samples=40_000, classes=3)
    found = calibration.fit("matrix", logits, labels, spread=10.0, shift=10.0)
    truth = Categorical(logits @ weight.T + shift).probs
    assert (found(logits).probs - truth).abs().mean() < 0.01


def test_a_narrow_prior_is_temperature_scaling():
    logits, labels, *_ = problem()
    heat = calibration.fit("temperature", logits, labels)(logits).probs
    narrow = calibration.fit("vector", logits, labels, spread=1e-4, shift=1e-4)(logits).probs
    torch.testing.assert_close(narrow, heat, rtol=1e-3, atol=1e-4)


def test_on_other_samples_the_prior_helps_where_held_out_samples_are_few():
    rng = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(10_300, 10, generator=rng, dtype=torch.float64)
    labels = torch.multinomial((0.5 * logits).softmax(-1), 1, generator=rng)[:, 0]
    few, rest = slice(0, 300), slice(300, None)

    def loss(**options):
        found = calibration.fit("matrix", logits[few], labels[few], **options)
        return -found(logits[rest]).log_prob(labels[rest]).mean()

    default, loose = loss(), loss(spread=3.0, shift=3.0)
    heat = calibration.fit("temperature", logits[few], labels[few])
    assert default < loose - 0.05
    assert default < -heat(logits[rest]).log_prob(labels[rest]).mean() + 0.1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("option", ["spread", "shift"])
def test_standard_deviations_must_be_positive(name, option):
    logits, labels, *_ = problem(samples=50)
    with pytest.raises(NescioError, match=f"`{option}` must be a number above 0"):
        calibration.fit(name, logits, labels, **{option: 0.0})
