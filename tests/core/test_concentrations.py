"""Functions of concentrations against mpmath: from 1e-8 to 1e12, alone, mixed, and nearly equal."""

import math
import random

import mpmath
import pytest
import torch

from nescio.core import (
    Dirichlet,
    NescioError,
    expected_entropy,
    measure_all,
    mutual_information,
    predictive_entropy,
)
from nescio.core import concentrations as c
from nescio.core.measures import (
    class_variance,
    differential_entropy,
    expected_pairwise_kl,
    negative_log_precision,
)

DIGITS = 80


def oracle(logs):
    """Every measure of one Dirichlet, from its definition, with 80 digits."""
    with mpmath.workdps(DIGITS):
        a = [mpmath.exp(mpmath.mpf(one)) for one in logs]
        total, classes = sum(a), len(a)
        p = [one / total for one in a]
        entropy = -sum(one * mpmath.log(one) for one in p)
        rises = [mpmath.digamma(total + 1) - mpmath.digamma(one + 1) for one in a]
        expected = sum(one * rise for one, rise in zip(p, rises, strict=True))
        spread = sum(mpmath.loggamma(one) - (one - 1) * mpmath.digamma(one) for one in a)
        spread += (total - classes) * mpmath.digamma(total) - mpmath.loggamma(total)
        return {
            predictive_entropy: entropy,
            expected_entropy: expected,
            mutual_information: entropy - expected,
            differential_entropy: spread,
            expected_pairwise_kl: (classes - 1) / total,
            class_variance: sum(one * (1 - one) for one in p) / (total + 1) / classes,
            negative_log_precision: -mpmath.log(total),
        }


def kl_oracle(logs, others):
    with mpmath.workdps(DIGITS):
        a, b = ([mpmath.exp(mpmath.mpf(one)) for one in row] for row in (logs, others))
        value = mpmath.loggamma(sum(a)) - mpmath.loggamma(sum(b))
        for x, y in zip(a, b, strict=True):
            value += mpmath.loggamma(y) - mpmath.loggamma(x)
            value += (x - y) * (mpmath.digamma(x) - mpmath.digamma(sum(a)))
        return value


def gap(found, truth, least=0.0):
    """The relative error; the absolute one over `least` below that."""
    return abs(float((mpmath.mpf(float(found)) - truth) / (max(abs(truth), least) or 1)))


def cases(low, high, count, seed=0):
    """Log concentrations: independent, at the ends and in the middle, all near each other."""
    draws, low, high = random.Random(seed), math.log(low), math.log(high)
    rows = []
    for number in range(count):
        base, classes = draws.uniform(low, high), draws.choice([2, 3, 10])
        kinds = [
            lambda: draws.uniform(low, high),
            lambda base=base: draws.choice([low, high, 0.0, base]),
            lambda base=base: min(high, max(low, base + draws.gauss(0, 1))),
        ]
        rows.append([kinds[number % 3]() for _ in range(classes)])
    return rows


@pytest.mark.parametrize(("low", "high"), [(1e-6, 1e8), (1e-8, 1e12)])
def test_measures_have_all_digits_for_small_large_and_mixed_concentrations(low, high):
    for logs in cases(low, high, 45):
        prediction = Dirichlet(torch.tensor([[logs]], dtype=torch.float64))
        for measure, truth in oracle(logs).items():
            least = 1.0 if measure is negative_log_precision else 0.0
            assert gap(measure(prediction), truth, least) < 1e-12, (measure.__name__, logs)


@pytest.mark.parametrize(("low", "high", "limit"), [(1e-6, 1e8, 1e-9), (1e-8, 1e12, 1e-8)])
def test_divergences_have_eight_digits(low, high, limit):
    draws = random.Random(1)
    for logs in cases(low, high, 36):
        for scale in (1e-5, 0.1, 3.0):
            others = [one + draws.gauss(0, scale) for one in logs]
            pair = [Dirichlet(torch.tensor([[row]], dtype=torch.float64)) for row in (logs, others)]
            assert gap(pair[0].kl(pair[1]), kl_oracle(logs, others)) < limit, (logs, others)


@pytest.mark.parametrize("logs", [[-14.0, 18.0], [5.0, 5.0, 5.0], [-14.0, -14.0], [18.0, 0.0]])
def test_divergences_where_one_concentration_or_all_change(logs):
    for others in ([logs[0] + 1, *logs[1:]], [one + 0.3 for one in logs]):
        pair = [Dirichlet(torch.tensor([[row]], dtype=torch.float64)) for row in (logs, others)]
        assert gap(pair[0].kl(pair[1]), kl_oracle(logs, others)) < 1e-8
    assert pair[0].kl(pair[0]).item() == 0


def test_numbers_of_the_divergence_from_the_flat_dirichlet():
    """It grows like (K - 1) / 2 log(precision), and is not proportional to its reciprocal."""
    flat = Dirichlet(torch.zeros(1, 1, 5, dtype=torch.float64))
    for precision, truth in ((5, 0.0), (50, 3.12), (500, 7.61), (5000, 12.21)):
        even = Dirichlet(torch.full((1, 1, 5), math.log(precision / 5), dtype=torch.float64))
        assert even.kl(flat).item() == pytest.approx(truth, abs=0.006)
    sharp = [Dirichlet(torch.full((1, 1, 5), v, dtype=torch.float64)) for v in (60.0, 61.0)]
    assert (sharp[1].kl(flat) - sharp[0].kl(flat)).item() == pytest.approx(2.0, abs=1e-12)


@pytest.mark.parametrize("logs", [[1e4, 1e4 - 1, 0.0], [900.0, -900.0, 3.0], [1e6, 5e5, -1e6]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_concentrations_far_beyond_the_floats(logs, dtype):
    prediction = Dirichlet(torch.tensor([[logs]], dtype=dtype))
    for measure in (predictive_entropy, expected_entropy, mutual_information, class_variance):
        assert 0 <= measure(prediction).item() < math.log(3)
    assert negative_log_precision(prediction).item() == pytest.approx(-max(logs), rel=1e-4)
    entropy = differential_entropy(prediction).item()
    assert entropy == -math.inf if min(logs) < -700 else math.isfinite(entropy)
    assert not mutual_information(prediction).isnan().any()


@pytest.mark.parametrize("members", [1, 2])
def test_no_measure_is_nan_at_any_log_concentrations(members):
    sizes = [-1e30, -1e5, -800.0, -30.0, 0.0, 30.0, 800.0, 1e5, 1e30]
    logs = torch.cartesian_prod(*[torch.tensor(sizes)] * 3)
    prediction = Dirichlet(torch.stack([logs, logs.flip(0)][:members]))
    for name, score in measure_all(prediction).items():
        assert not score.isnan().any(), name


def test_tiny_concentrations_sit_in_the_corners():
    prediction = Dirichlet(torch.full((1, 1, 4), -1000.0, dtype=torch.float64))
    assert mutual_information(prediction).item() == pytest.approx(math.log(4))
    assert expected_entropy(prediction).item() == 0
    assert differential_entropy(prediction).item() == -math.inf
    assert prediction.kl(Dirichlet(torch.zeros(1, 1, 4).double())).item() == math.inf


@pytest.mark.parametrize("measure", list(oracle([0.0, 1.0])))
def test_float32_concentrations_are_computed_in_float64(measure):
    for logs in cases(1e-6, 1e8, 20):
        single = torch.tensor([[logs]])
        least = 1.0 if measure is negative_log_precision else 0.0
        truth = oracle(single[0, 0].tolist())[measure]
        assert gap(measure(Dirichlet(single)), truth, least) < 3e-7


def test_members_that_agree_add_nothing_and_near_ones_hardly_anything():
    logs = torch.tensor([[[18.0, 17.0, 3.0]]], dtype=torch.float64)
    alone = mutual_information(Dirichlet(logs))
    both = mutual_information(Dirichlet(logs.repeat(2, 1, 1)))
    torch.testing.assert_close(both, alone, rtol=1e-12, atol=0)
    with mpmath.workdps(DIGITS):
        pair = [[18.0, 17.0, 3.0], [18.0001, 17.0, 3.0]]
        means = [[mpmath.exp(v) / sum(map(mpmath.exp, row)) for v in row] for row in pair]
        mixed = [(x + y) / 2 for x, y in zip(*means, strict=True)]
        parts = [oracle(row)[mutual_information] for row in pair]
        terms = [p * mpmath.log(p / m) for row in means for p, m in zip(row, mixed, strict=True)]
        truth = (sum(parts) + sum(terms)) / 2
    found = mutual_information(Dirichlet(torch.tensor(pair, dtype=torch.float64)[:, None]))
    assert gap(found, truth) < 1e-8


def test_the_mean_of_confident_members_is_exact():
    logs = torch.tensor([[[18.0, -14.0]], [[10.0, -14.0]]], dtype=torch.float64)
    truth = sum(1 / (1 + mpmath.exp(v)) for v in (32, 24)) / 2
    found = Dirichlet(logs).log_probs[0]
    assert gap(found[0], mpmath.log1p(-truth)) < 1e-14
    assert gap(found[1], mpmath.log(truth)) < 1e-14


@pytest.mark.parametrize("a", [1e-8, 1e-3, 0.5, 1.46, 7.0, 19.99, 20.01, 1e3, 1e9])
def test_special_functions_against_mpmath(a):
    log = torch.tensor(math.log(a), dtype=torch.float64)
    with mpmath.workdps(DIGITS):
        x = mpmath.exp(mpmath.mpf(log.item()))
        psi, slope = mpmath.digamma(x), mpmath.psi(1, x)
        truths = [
            (c.excess, psi + 1 / x - mpmath.log(x)),
            (c.lack, psi - mpmath.log(x)),
            (c.scaled_lack, x * (psi - mpmath.log(x))),
            (c.curvature, x * (x * slope - 1)),
            (lambda v: c.trigamma(v.exp()), slope),
        ]
        slow = mpmath.loggamma(x) - x * mpmath.log(x) + x
        together = (slow, truths[1][1], truths[2][1], x * slope, truths[3][1])
    for function, truth in truths:
        assert gap(function(log), truth) < 1e-13
    for found, truth in zip(c.gammas(log), together, strict=True):
        assert gap(found, truth) < 5e-13


def test_only_dirichlets_of_the_same_classes_are_compared():
    two, three = (Dirichlet(torch.zeros(1, 1, n)) for n in (2, 3))
    with pytest.raises(NescioError, match="same classes"):
        two.kl(three)
