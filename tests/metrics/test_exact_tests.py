"""Exact tests of errors, against scipy, enumeration and permutation."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, fisher_exact

from nescio import NescioError
from nescio.metrics import excess_test, holm, overconfidence_test, poisson_binomial


def test_without_strata_it_is_fishers_exact_test():
    rng = np.random.default_rng(0)
    for _ in range(20):
        wrong, inside = rng.random(60) < 0.3, rng.random(60) < 0.4
        table = [[(wrong & inside).sum(), (~wrong & inside).sum()],
                 [(wrong & ~inside).sum(), (~wrong & ~inside).sum()]]  # fmt: skip
        expected = fisher_exact(table, alternative="greater").pvalue
        assert excess_test(wrong, inside) == pytest.approx(expected, rel=1e-9, abs=1e-11)


def test_with_strata_errors_are_exchanged_within_them():
    rng = np.random.default_rng(1)
    strata = rng.integers(0, 3, 40)
    wrong, inside = rng.random(40) < 0.2 + 0.2 * strata, rng.random(40) < 0.3
    inside[:3] = wrong[:3] = True
    observed, count, rounds = (wrong & inside).sum(), 0, 20_000
    shuffled = wrong.copy()
    for _ in range(rounds):
        for layer in range(3):
            rows = np.flatnonzero(strata == layer)
            shuffled[rows] = wrong[rng.permutation(rows)]
        count += (shuffled & inside).sum() >= observed
    p = excess_test(wrong, inside, strata)
    assert abs(count / rounds - p) < 5 * np.sqrt(p * (1 - p) / rounds)


def test_poisson_binomial_is_the_sum_over_all_outcomes():
    chances = np.array([0.0, 0.1, 0.25, 0.5, 0.9, 1.0, 0.3])
    law = np.zeros(len(chances) + 1)
    for outcome in product((0, 1), repeat=len(chances)):
        law[sum(outcome)] += np.prod(np.where(outcome, chances, 1 - chances))
    np.testing.assert_allclose(poisson_binomial(chances), law, atol=1e-14)


@pytest.mark.parametrize("count", [1, 2, 3, 1000, 4097])
def test_equal_chances_are_binomial(count):
    law = poisson_binomial(np.full(count, 0.07))
    np.testing.assert_allclose(law, binom.pmf(np.arange(count + 1), count, 0.07), atol=1e-13)


def test_overconfidence_is_a_tail_of_the_errors():
    confidence, wrong = np.full(50, 0.9), np.arange(50) < 12
    assert overconfidence_test(confidence, wrong) == pytest.approx(binom.sf(11, 50, 0.1), rel=1e-6)
    assert overconfidence_test(confidence, np.zeros(50)) == 1.0
    assert overconfidence_test([1.0, 1.0], [1, 0]) <= 1e-11  # certain, and wrong


def test_weights_shift_the_level_between_tests():
    p = np.array([0.02, 0.04, 0.03])
    np.testing.assert_allclose(holm(p, [2, 2, 2]), holm(p))
    heavy = holm(p, [100, 1, 1])
    assert heavy[0] == pytest.approx(0.0204)
    assert heavy[1] > 0.05
    rng = np.random.default_rng(0)  # any false alarm among uniform p-values: at most the level
    alarms = [holm(rng.random(5), [8, 4, 2, 1, 1]).min() <= 0.05 for _ in range(4000)]
    assert np.mean(alarms) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 4000)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: excess_test([0, 2], [0, 1]), "0 or 1"),
        (lambda: excess_test([0, 1], [0, 1, 1]), "one value per sample"),
        (lambda: overconfidence_test([0.5], [0, 1]), "one of each"),
        (lambda: poisson_binomial([1.5]), "from 0 to 1"),
        (lambda: holm([0.1, 0.2], [1, 0]), "above 0"),
        (lambda: holm([0.1, 0.2], [1]), "2 weights"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(NescioError, match=words):
        call()
