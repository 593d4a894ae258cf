"""The smooth calibration error against sums over all samples and images of them."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from nescio.core import NescioError
from nescio.metrics import calibration_errors as module
from nescio.metrics import ece, smooth_ece


def samples(count=300, power=2.0, seed=0):
    rng = np.random.default_rng(seed)
    sure = rng.uniform(0, 1, count)
    return sure, rng.uniform(size=count) < sure**power


def brute_force(sure, right, width, points=2001):
    """The trapezoidal rule over a kernel with its mirror images, case by case."""
    t = np.linspace(0, 1, points)[:, None]
    mirrors = [sign * sure + shift for shift in range(-6, 7, 2) for sign in (-1, 1)]
    kernel = sum(np.exp(-(((t - place) / width) ** 2) / 2) for place in mirrors)
    density = kernel / (width * math.sqrt(2 * math.pi)) @ (right - sure) / len(sure)
    return np.trapezoid(np.abs(density), t[:, 0])


@pytest.mark.parametrize("width", [0.02, 0.1, 0.5])
def test_the_area_is_that_of_kernels_with_their_mirror_images(width):
    sure, right = samples()
    expected = brute_force(sure, right, width)
    assert smooth_ece(sure, right, bandwidth=width) == pytest.approx(expected, rel=1e-4)


def test_the_bandwidth_equals_the_error():
    sure, right = samples()
    found = smooth_ece(sure, right)
    expected = brentq(lambda width: brute_force(sure, right, width) - width, 0.01, 1)
    assert found == pytest.approx(expected, rel=1e-4)
    assert smooth_ece(sure, right, bandwidth=found) == pytest.approx(found, rel=1e-6)


def test_one_gap_everywhere_is_that_gap():
    sure = np.full(1000, 0.8)
    assert smooth_ece(sure, np.arange(1000) < 500) == pytest.approx(0.3, abs=1e-4)


def test_calibrated_samples_have_a_small_error_that_falls_with_their_number():
    rng = np.random.default_rng(0)
    small, large = (rng.uniform(0, 1, n) for n in (1000, 100_000))
    errors = [smooth_ece(s, rng.uniform(size=len(s)) < s) for s in (small, large)]
    assert errors[1] < errors[0] < 0.05
    assert errors[1] < 0.01


def test_it_does_not_jump_where_the_binned_error_does():
    """The example of the paper: two confidences about one half, moved by a little."""
    right = np.arange(1000) % 2
    for shift in (-1e-4, 1e-4):
        sure = np.where(right == 1, 0.5 - shift, 0.5 + shift)
        assert smooth_ece(sure, right) < 0.03
    apart = np.where(right == 1, 0.5 + 1e-4, 0.5 - 1e-4)
    assert ece(apart, right, bins=2) > 0.4
    assert smooth_ece(apart, right) < 0.03


def test_perfect_and_hopeless_answers():
    assert smooth_ece(np.ones(10), np.ones(10)) == pytest.approx(0, abs=1e-9)
    assert smooth_ece(np.ones(10), np.zeros(10)) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("count", [9, 11, 18, 20, 21, 25, 50])
def test_all_sure_and_wrong_is_1(count):
    """Mean residuals of 1 / count add up to a little more than 1."""
    assert smooth_ece(np.ones(count), np.zeros(count)) == pytest.approx(1)


def test_blocks_do_not_matter(monkeypatch):
    sure, right = samples()
    whole = smooth_ece(sure, right)
    monkeypatch.setattr(module, "BLOCK", 7)
    assert smooth_ece(sure, right) == pytest.approx(whole, rel=1e-10)


def test_bad_input_is_refused():
    with pytest.raises(NescioError, match="`bandwidth` must be"):
        smooth_ece([0.5], [1], bandwidth=0)
    with pytest.raises(NescioError, match="without NaN"):
        smooth_ece([math.nan], [1])
