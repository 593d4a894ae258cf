"""Logits with noise: the exact mean softmax by quadrature, and derivatives by torch's gradcheck."""

import numpy as np
import pytest
import torch

import nescio
from nescio import NescioError, heads, losses, nets
from nescio.core.noisy_logits import fixed_noise, log_mean_softmax, noisy_nll


def mean_softmax(logits, deviation):
    """The exact mean: P(X_j is largest) for independent X_c = logit + noise + Gumbel noise.

    Its density and distribution function are Gauss-Hermite sums, the rest one integral.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(48)
    x = np.linspace(-30, 40, 3001)
    above = x[None, :, None] - logits[:, None, None] - deviation[:, None, None] * nodes
    below = (np.exp(-np.exp(-above)) @ weights) / weights.sum()  # (C, x)
    density = (np.exp(-above - np.exp(-above)) @ weights) / weights.sum()
    others = [np.delete(below, j, 0).prod(0) for j in range(len(logits))]
    return np.array([np.trapezoid(f * g, x) for f, g in zip(density, others, strict=True)])


@pytest.mark.parametrize("classes", [2, 5, 11])
def test_many_draws_give_the_exact_mean(classes):
    rng = np.random.default_rng(classes)
    logits, deviation = 2 * rng.normal(size=classes), rng.uniform(0.1, 2, classes)
    truth = mean_softmax(logits, deviation)
    assert truth.sum() == pytest.approx(1, abs=1e-9)
    pairs = 2000
    both = (torch.tensor(values)[None, None] for values in (logits, deviation))
    found = log_mean_softmax(*both, fixed_noise(pairs, classes)).exp()[0, 0].numpy()
    assert np.abs(found - truth).max() < 0.5 / np.sqrt(2 * pairs)  # a mean of shares
    noise = fixed_noise(5, classes)
    torch.testing.assert_close(noise.square().mean(0), torch.ones(classes, dtype=torch.float64))


def test_without_spread_it_is_the_softmax():
    logits = 3 * torch.randn(2, 4, 5, 6, dtype=torch.float64)
    logs = log_mean_softmax(logits, torch.zeros_like(logits), fixed_noise(3, 6))
    torch.testing.assert_close(logs, logits.log_softmax(-1))
    far = torch.full_like(logits, -60)  # softplus of it is 0 beside the floor
    outputs = torch.cat([logits, far], -1)
    probs = heads.gaussian_logits(floor=1e-12)(outputs).member_probs
    torch.testing.assert_close(probs, logits.softmax(-1), atol=1e-6, rtol=0)


def drawn(seed):
    source = torch.Generator().manual_seed(seed)
    return lambda shape: torch.randn(2, *shape, generator=source, dtype=torch.float64)


@pytest.mark.parametrize("batch", [(7,), (2, 3, 2)])
def test_the_loss_in_training_and_its_derivatives(batch):
    labels = torch.randint(4, (2, *batch))
    logits = torch.randn(2, *batch, 4, dtype=torch.float64, requires_grad=True)
    deviation = (0.2 + torch.rand_like(logits)).detach().requires_grad_()
    score = noisy_nll(logits, deviation, labels, 3, drawn(1))
    draw = drawn(1)
    noise = [draw((4, *batch)).movedim(1, -1) for _ in range(3)]
    each = [(logits + s * deviation * e).softmax(-1) for e in noise for s in (1, -1)]
    truth = -torch.stack(each).mean(0).gather(-1, labels[..., None])[..., 0].log()
    torch.testing.assert_close(score, truth)
    torch.autograd.gradcheck(lambda z, s: noisy_nll(z, s, labels, 3, drawn(1)), (logits, deviation))


def test_far_logits_do_not_overflow():
    logits = torch.tensor([[[1000.0, -1000.0, 0.0]]], requires_grad=True)
    deviation = torch.full_like(logits, 0.1).requires_grad_()
    noise = [torch.ones(1, 3, 1)]
    score = noisy_nll(logits, deviation, torch.tensor([[1]]), 1, lambda _: noise[0])
    assert score.item() == pytest.approx(2000, rel=1e-4)
    slopes = torch.autograd.grad(score.sum(), [logits, deviation])
    assert all(slope.isfinite().all() for slope in slopes)


@pytest.mark.parametrize("samples", [1, 3, 0, True, 2.0])
def test_samples_come_in_pairs(samples):
    with pytest.raises(NescioError, match="samples must be an even number"):
        heads.gaussian_logits(samples=samples)


def test_an_odd_number_of_outputs_is_refused():
    with pytest.raises(NescioError, match="two outputs per class"):
        heads.gaussian_logits()(torch.zeros(1, 2, 5))


def test_noise_in_the_labels_becomes_spread():
    """Labels are a coin toss on one side: probabilities are even there and clear elsewhere."""
    draws = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(400, 1, generator=draws) - 1
    toss = torch.randint(2, (400,), generator=draws)
    y = torch.where(x[:, 0] > 0, toss, 0)
    options = {"epochs": 40, "learning_rate": 0.02, "seed": 1}
    model = nescio.train(lambda: nets.mlp(1, 4), (x, y), head="gaussian_logits", **options)
    probs = model(torch.tensor([[0.7], [-0.7]])).probs
    assert probs[0, 1].item() == pytest.approx(0.5, abs=0.12)
    assert probs[1, 1].item() < 0.05


def test_a_member_in_a_stack_draws_what_it_draws_alone(tmp_path):
    x, y = torch.randn(40, 3), torch.randint(3, (40,))
    loss = losses.nll(heads.gaussian_logits(samples=4))
    both, alone = (
        nescio.train(lambda: nets.mlp(3, 6), (x, y), loss=loss, members=which, epochs=2)
        for which in (2, [1])
    )
    torch.testing.assert_close(both(x).member_probs[1], alone(x).member_probs[0])
    twin = nescio.train(lambda: nets.mlp(3, 6), (x, y), loss=loss, members=[1], epochs=2)
    assert torch.equal(twin(x).probs, alone(x).probs)  # the noise is a function of the seed
    both.save(tmp_path / "model")
    again = nescio.load(tmp_path / "model")
    assert again.head.options == {"samples": 4, "floor": 1e-6}
    assert torch.equal(again(x).probs, both(x).probs)
