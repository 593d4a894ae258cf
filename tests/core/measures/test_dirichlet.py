"""Measures of Dirichlets against scipy, sampling and limits."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions

from nescio.core import (
    Categorical,
    Dirichlet,
    NescioError,
    expected_entropy,
    mutual_information,
    predictive_entropy,
)
from nescio.core.measures import class_variance, differential_entropy, expected_pairwise_kl

ALPHAS = torch.tensor(
    [
        [[1.0, 1.0, 1.0], [0.5, 2.0, 4.0], [20.0, 1.0, 3.0]],
        [[2.0, 1.0, 1.0], [3.0, 0.7, 1.0], [0.3, 9.0, 3.0]],
    ],
    dtype=torch.float64,
)


def sampled(alpha, draws=40_000):
    """The same prediction as a mixture of draws from the members."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        probs = distributions.Dirichlet(alpha).sample((draws,))
    return Categorical.from_probs(probs.flatten(0, 1))


@pytest.mark.parametrize(
    "measure", [predictive_entropy, expected_entropy, mutual_information, class_variance]
)
@pytest.mark.parametrize("members", [1, 2])
def test_measures_are_those_of_many_draws(measure, members):
    alpha = ALPHAS[:members]
    torch.testing.assert_close(
        measure(Dirichlet.from_alpha(alpha)), measure(sampled(alpha)), rtol=0.02, atol=2e-3
    )


@pytest.mark.parametrize("members", [1, 2])
def test_pairwise_divergence_is_that_of_many_pairs_of_draws(members):
    alpha = ALPHAS[:members, 2:] + 2  # bounded divergences, for a small sampling error
    score, truth = (expected_pairwise_kl(p) for p in (Dirichlet.from_alpha(alpha), sampled(alpha)))
    torch.testing.assert_close(score, truth, rtol=0.05, atol=0)


def test_total_is_data_plus_knowledge_uncertainty():
    prediction = Dirichlet.from_alpha(ALPHAS)
    parts = expected_entropy(prediction) + mutual_information(prediction)
    torch.testing.assert_close(predictive_entropy(prediction), parts, rtol=0, atol=1e-13)


def test_differential_entropy_is_that_of_scipy_averaged_over_members():
    truth = [[stats.dirichlet(sample).entropy() for sample in member] for member in ALPHAS.numpy()]
    expected = torch.tensor(np.mean(truth, axis=0))
    torch.testing.assert_close(differential_entropy(Dirichlet.from_alpha(ALPHAS)), expected)


@pytest.mark.parametrize("precision", [1e3, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_knowledge_uncertainty_of_sharp_dirichlets_falls_with_their_precision(precision, dtype):
    alpha = precision * torch.tensor([[[0.2, 0.3, 0.5]]], dtype=dtype)
    information = mutual_information(
        Dirichlet.from_alpha(alpha)
    ).item()  # -> (C - 1) / (2 precision)
    assert information == pytest.approx(1 / precision, rel=5e-3)


@pytest.mark.parametrize("precision", [1e14, 1e16, 1e20])
def test_information_is_not_negative_however_sharp(precision):
    alpha = precision * torch.tensor([[[0.2, 0.3, 0.5], [0.9, 0.05, 0.05]]], dtype=torch.float64)
    assert (mutual_information(Dirichlet.from_alpha(alpha)) >= 0).all()


def test_the_limit_of_a_sharp_dirichlet_is_its_mean():
    probs = torch.tensor([[[0.2, 0.3, 0.5]], [[0.7, 0.2, 0.1]]], dtype=torch.float64)
    sharp, limit = Dirichlet.from_alpha(1e9 * probs), Categorical.from_probs(probs)
    for measure in (predictive_entropy, expected_entropy, mutual_information, class_variance):
        torch.testing.assert_close(measure(sharp), measure(limit), rtol=0, atol=1e-8)


def pairwise_kl_by_pairs(alpha):
    """The mean over all pairs of members of E KL(p || q), p and q drawn from each."""
    mean = alpha / alpha.sum(-1, keepdim=True)
    own = torch.digamma(alpha + 1) - torch.digamma(alpha.sum(-1, keepdim=True) + 1)
    logs = torch.digamma(alpha) - torch.digamma(alpha.sum(-1, keepdim=True))
    pairs = [
        (mean[i] * (own[i] - logs[j])).sum(-1) for i in range(len(alpha)) for j in range(len(alpha))
    ]
    return torch.stack(pairs).mean(0)


def test_pairwise_divergence_of_a_sharp_and_a_flat_member_is_not_clamped():
    alpha = torch.tensor([[[0.5, 0.6, 0.7]], [[30.0, 25.0, 20.0]], [[0.2, 0.1, 0.3]]]).double()
    score = expected_pairwise_kl(Dirichlet.from_alpha(alpha))
    torch.testing.assert_close(score, pairwise_kl_by_pairs(alpha), rtol=1e-12, atol=0)
    draws = torch.Generator().manual_seed(0)
    alpha = torch.rand(4, 400, 3, dtype=torch.float64, generator=draws).mul(6).exp() / 50
    score = expected_pairwise_kl(Dirichlet.from_alpha(alpha))
    torch.testing.assert_close(score, pairwise_kl_by_pairs(alpha), rtol=1e-10, atol=0)


def _entropy_by_mpmath(alpha):
    mp = pytest.importorskip("mpmath")
    with mp.workdps(250):
        a = [mp.mpf(value) for value in alpha]
        total, count = sum(a), len(a)
        value = sum(mp.loggamma(one) for one in a) - mp.loggamma(total)
        value += (total - count) * mp.digamma(total)
        return float(value - sum((one - 1) * mp.digamma(one) for one in a))


@pytest.mark.parametrize(
    "alpha",
    [[1e12, 2e12, 3.0], [1e15, 1.0, 1.0], [1e30, 3e30, 2e29, 5.0], [1e100, 1e-3],
     [19.9, 20.1, 21.0], [0.01, 40.0, 1e6]],
)  # fmt: skip
def test_differential_entropy_of_large_concentrations(alpha):
    found = differential_entropy(Dirichlet.from_alpha(torch.tensor([[alpha]], dtype=torch.float64)))
    assert float(found) == pytest.approx(_entropy_by_mpmath(alpha), rel=1e-12, abs=1e-11)


@pytest.mark.parametrize("size", [1e10, 1e13, 1e20, 1e200])
def test_knowledge_uncertainty_of_large_concentrations(size):
    prediction = Dirichlet.from_alpha(
        torch.tensor([[[size, 2 * size, 5 * size]]], dtype=torch.float64)
    )
    truth = 2 / (2 * 8 * size)  # (C - 1) / (2 precision)
    assert float(mutual_information(prediction)) == pytest.approx(truth, rel=1e-6)


def test_a_precision_that_overflows_is_refused():
    with pytest.raises(NescioError, match="finite"):
        Dirichlet.from_alpha(torch.full((1, 1, 3), 3e38))
