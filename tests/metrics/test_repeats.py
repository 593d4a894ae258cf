"""Student's intervals and paired test over repeats, against scipy."""

import numpy as np
import pytest
from scipy import stats

from nescio import NescioError
from nescio.metrics import t_interval, t_test

ONE, TWO = np.random.default_rng(0).normal(size=(2, 7))


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_is_that_of_scipy(level):
    found = t_interval(ONE, level=level)
    truth = stats.ttest_1samp(ONE, 0).confidence_interval(level)
    assert found.value == pytest.approx(ONE.mean())
    assert (found.low, found.high) == pytest.approx((truth.low, truth.high))


def test_the_paired_test_is_that_of_scipy():
    found = t_test(ONE, TWO)
    truth = stats.ttest_rel(ONE, TWO)
    ends = truth.confidence_interval(0.95)
    assert found.p == pytest.approx(truth.pvalue)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))


def test_equal_gaps_of_few_repeats_prove_little():
    zero = np.zeros(5)
    assert t_test(np.full(2, 0.1), zero[:2]).p == 0.5  # the chance of two equal signs
    assert t_test([0.1, 0.3], [0.0, 0.2]).p == 0.5
    assert t_test(np.full(5, 1e-17), zero).p == 1
    assert t_test([0.1, 0.2, 0.3], zero[:3]).p == pytest.approx(0.0742, abs=1e-4)


def test_one_repeat_has_no_interval():
    found = t_interval([0.5])
    assert found.value == 0.5
    assert np.isnan([found.low, found.high]).all()
    assert t_test([0.5], [0.1]).p == 1


def test_what_has_no_mean_is_refused():
    with pytest.raises(NescioError, match="the same repeats, got 2 and 3"):
        t_test([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(NescioError, match="NaN or infinity"):
        t_interval([1.0, np.inf])
    with pytest.raises(NescioError, match="level"):
        t_interval([1.0, 2.0], level=95)
