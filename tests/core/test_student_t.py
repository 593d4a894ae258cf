"""Student t predictions and their evidence: against scipy and integrals over the parameters."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from nescio import heads
from nescio.core import NescioError, StudentT
from nescio.core.student_t import log_gamma_step, log_student_t

D = torch.float64


def example(members=3, samples=5, targets=2, seed=0):
    rng = torch.Generator().manual_seed(seed)
    mean, nu, alpha, beta = (
        torch.rand(members, samples, targets, generator=rng, dtype=D) * 3 + 0.1 for _ in range(4)
    )
    return mean, nu, 1 + alpha, beta


def test_the_density_is_scipys_mixture():
    mean, nu, alpha, beta = example()
    prediction = StudentT.from_normal_inverse_gamma(mean, nu, alpha, beta)
    target = torch.randn(5, 2, generator=torch.Generator().manual_seed(1), dtype=D)
    scale = (beta * (1 + nu) / (nu * alpha)).sqrt()
    densities = stats.t.pdf(target.numpy(), 2 * alpha.numpy(), mean.numpy(), scale.numpy())
    expected = np.log(densities.prod(-1).mean(0))
    np.testing.assert_allclose(prediction.log_prob(target).numpy(), expected, rtol=1e-12)


def test_the_density_is_the_integral_over_mean_and_variance():
    mean, nu, alpha, beta, y = 0.7, 1.3, 2.2, 0.8, 1.9

    def joint(variance):  # the mean integrates to a normal of variance (1 + 1 / nu)
        normal = stats.norm.pdf(y, mean, np.sqrt(variance * (1 + 1 / nu)))
        return normal * stats.invgamma.pdf(variance, alpha, scale=beta)

    parameters = (torch.full((1, 1, 1), v, dtype=D) for v in (mean, nu, alpha, beta))
    prediction = StudentT.from_normal_inverse_gamma(*parameters)
    truth = np.log(integrate.quad(joint, 0, np.inf, epsabs=1e-13)[0])
    assert prediction.log_prob(torch.full((1, 1), y, dtype=D)).item() == pytest.approx(truth)


def test_variances_are_the_closed_forms():
    mean, nu, alpha, beta = example()
    prediction = StudentT.from_normal_inverse_gamma(mean, nu, alpha, beta)
    noise, of_mean = beta / (alpha - 1), beta / (nu * (alpha - 1))
    between = mean.var(0, correction=0)
    torch.testing.assert_close(prediction.aleatoric, noise.mean(0))
    torch.testing.assert_close(prediction.epistemic, of_mean.mean(0) + between)
    torch.testing.assert_close(prediction.mixture_variance, (noise + of_mean).mean(0) + between)
    scale = (beta * (1 + nu) / (nu * alpha)).sqrt()
    truth = stats.t.var(2 * alpha.numpy(), scale=scale.numpy())
    np.testing.assert_allclose(prediction.member_variance.numpy(), truth, rtol=1e-12)


def test_infinite_evidence_is_noise_alone():
    one = torch.ones(1, 2, 1)
    prediction = StudentT(mean=one, scale=one, df=4 * one, evidence=one * torch.inf)
    assert prediction.aleatoric.tolist() == [[2.0], [2.0]]
    assert prediction.epistemic.tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("df", [2.001, 3.0, 15.9, 16.1, 1e3, 1e6, 1e12])
@pytest.mark.parametrize("z", [0.0, 1e-3, 2.0, 50.0])
def test_log_density_for_few_and_many_degrees_of_freedom(df, z):
    df, y = (torch.tensor(v, dtype=D) for v in (df, z))
    found = log_student_t(y, torch.zeros((), dtype=D), torch.ones((), dtype=D), df)
    truth = stats.norm.logpdf(z) if df > 1e10 else stats.t.logpdf(z, float(df))
    assert found.item() == pytest.approx(truth, rel=1e-8)
    narrow = log_student_t(y.float(), torch.zeros(()), torch.ones(()), df.float())
    assert narrow.item() == pytest.approx(truth, rel=3e-6)


def test_the_step_of_the_log_gamma_function_against_mpmath():
    mpmath = pytest.importorskip("mpmath")
    for a in (1e-3, 1.0, 7.9, 8.0, 8.1, 30.0, 1e5, 1e9):
        with mpmath.workdps(50):
            truth = mpmath.loggamma(mpmath.mpf(a) + 0.5) - mpmath.loggamma(mpmath.mpf(a))
        found = log_gamma_step(torch.tensor(a, dtype=D)).item()
        assert found == pytest.approx(float(truth), rel=1e-10)
        slope = torch.tensor(a, dtype=D, requires_grad=True)
        log_gamma_step(slope).backward()
        rise = float(mpmath.digamma(a + 0.5) - mpmath.digamma(a))
        assert slope.grad.item() == pytest.approx(rise, rel=1e-8)


def test_cdf_and_quantile_are_scipys():
    mean, nu, alpha, beta = example()
    prediction = StudentT.from_normal_inverse_gamma(mean, nu, alpha, beta)
    target = torch.randn(5, 2, generator=torch.Generator().manual_seed(1), dtype=D)
    law = stats.t(prediction.df.numpy(), prediction.mean.numpy(), prediction.scale.numpy())
    np.testing.assert_allclose(prediction.member_cdf(target).numpy(), law.cdf(target), rtol=1e-10)
    np.testing.assert_allclose(prediction.member_quantile(0.1).numpy(), law.ppf(0.1), rtol=1e-10)


def test_rescaled_is_the_density_in_other_units():
    prediction = StudentT.from_normal_inverse_gamma(*example())
    shift, scale = torch.tensor([3.0, -1.0], dtype=D), torch.tensor([0.5, 20.0], dtype=D)
    moved = prediction.rescaled(shift, scale)
    y = torch.randn(5, 2, generator=torch.Generator().manual_seed(2), dtype=D)
    expected = prediction.log_prob(y) - scale.log().sum()
    torch.testing.assert_close(moved.log_prob(shift + scale * y), expected)
    torch.testing.assert_close(moved.epistemic, prediction.epistemic * scale.square())
    torch.testing.assert_close(moved.aleatoric, prediction.aleatoric * scale.square())


def test_members_and_samples_can_be_chosen_joined_and_pooled():
    prediction = StudentT.from_normal_inverse_gamma(*example())
    assert prediction[1:3].mean.shape == (3, 2, 2)
    assert prediction.choose([0]).members == 1
    again = StudentT.pool([prediction.choose([0]), prediction.choose([1, 2])])
    assert torch.equal(again.df, prediction.df)
    assert StudentT.join([prediction[:2], prediction[2:]]).to(torch.float32).mean.shape == (3, 5, 2)


ONE = torch.ones(1, 1, 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"df": 2 * ONE}, "above 2"),
        ({"scale": -ONE}, "must not be negative"),
        ({"evidence": 0 * ONE}, "evidence positive"),
        ({"mean": ONE / 0}, "finite"),
        ({"df": ONE / 0}, "finite"),
        ({"mean": ONE * torch.nan}, "NaN"),
    ],
)
def test_what_is_refused(fields, message):
    good = {"mean": ONE, "scale": ONE, "df": 3 * ONE, "evidence": ONE}
    with pytest.raises(NescioError, match=message):
        StudentT(**good | fields)


def test_the_head_needs_four_outputs_per_target():
    with pytest.raises(NescioError, match="four outputs per target"):
        heads.normal_inverse_gamma()(torch.zeros(1, 2, 6))


def test_outputs_are_means_then_evidence():
    raw = torch.tensor([[[1.0, 2.0, 0.0, 0.0, -50.0, 50.0, 3.0, 3.0]]], dtype=D)
    prediction = heads.normal_inverse_gamma(floor=0.5)(raw)
    assert prediction.mean.tolist() == [[[1.0, 2.0]]]
    torch.testing.assert_close(prediction.df[0, 0], torch.tensor([3.0, 103.0], dtype=D))
    expected = torch.full((2,), np.log(2) + 0.5, dtype=D)
    torch.testing.assert_close(prediction.evidence[0, 0], expected)


def test_the_divergence_is_the_mean_log_ratio():
    head = heads.normal_inverse_gamma()
    one, two = torch.tensor([[[[0.3, 0.5, 1.0, 0.2]]], [[[-0.4, 1.5, 0.3, 0.8]]]], dtype=D)
    (gamma, nu, alpha, beta), other = _parameters(one), _parameters(two)
    rng = np.random.default_rng(0)
    variance = stats.invgamma.rvs(alpha, scale=beta, size=200_000, random_state=rng)
    mean = gamma + np.sqrt(variance / nu) * rng.standard_normal(200_000)

    def log_density(gamma, nu, alpha, beta):
        noise = stats.invgamma.logpdf(variance, alpha, scale=beta)
        return stats.norm.logpdf(mean, gamma, np.sqrt(variance / nu)) + noise

    ratios = log_density(gamma, nu, alpha, beta) - log_density(*other)
    error = ratios.std() / np.sqrt(len(ratios))
    assert abs(head.divergence(one, two).item() - ratios.mean()) < 4 * error < 0.05


def _parameters(outputs):
    mean, *raw = outputs.flatten().tolist()
    nu, excess, beta = (np.log1p(np.exp(part)) + 1e-6 for part in raw)
    return mean, nu, 1 + excess, beta
