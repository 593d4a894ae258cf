"""Risk control of label maps: against brute force, and validity over many draws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from nescio.conformal import control_risk, fewest_images
from nescio.conformal.risk_control import TOLERANCE, largest_mean, p_value
from nescio.core import NescioError


def losses(score, wrong, threshold, ignored=255):
    """The loss of each image with labels, pixel by pixel."""
    found = []
    for one, marks in zip(score, wrong, strict=True):
        pairs = [(s, w) for s, w in zip(one.flat, marks.flat, strict=True) if w != ignored]
        if pairs:
            found.append(sum(w for s, w in pairs if s < threshold) / len(pairs))
    return np.array(found)


def images(seed=0, count=40, shape=(3, 4)):
    rng = np.random.default_rng(seed)
    level = rng.beta(1, 4, (count, 1, 1))  # errors of an image come together
    score = np.round(rng.random((count, *shape)), 1)  # with ties
    wrong = (rng.random(score.shape) < level + 0.3 * score).astype(int)
    wrong[rng.random(score.shape) < 0.2] = 255
    wrong[1] = 255  # no label at all
    return score, wrong


@given(st.integers(0, 50), st.sampled_from([0.03, 0.1, 0.3, 0.9]))
@settings(deadline=None, max_examples=25)
def test_the_threshold_is_the_largest_one_of_brute_force(seed, risk):
    score, wrong = images(seed)
    found = control_risk(score, wrong, risk=risk, ignore_index=255)
    count = len(losses(score, wrong, 1.0))
    assert found.images == count == 39

    def bound(threshold):
        return (losses(score, wrong, threshold).sum() + 1) / (count + 1)

    candidates = [*np.unique(score), math.inf]
    best = max(t for t in candidates if bound(t) <= risk + 1e-12)
    assert found.threshold == pytest.approx(best, rel=2 * TOLERANCE)
    assert found.threshold <= best
    assert found.mean_loss == pytest.approx(losses(score, wrong, found.threshold).mean())
    assert found.mean_loss <= found.limit
    assert found.error == pytest.approx(losses(score, wrong, math.inf).mean())


def test_the_expected_loss_of_a_new_image_is_at_most_the_risk():
    risk, draws, mean = 0.1, 400, []
    for seed in range(draws):
        score, wrong = images(seed, count=31)
        found = control_risk(score[:30], wrong[:30], risk=risk, ignore_index=255)
        mean.extend(losses(score[30:], wrong[30:], found.threshold))
    error = np.std(mean) / math.sqrt(draws)
    assert np.mean(mean) <= risk + 2 * error
    assert np.mean(mean) >= risk - 2 / 30 - 2 * error  # and not much less: it is used


def test_with_a_confidence_few_calibration_sets_exceed_the_risk():
    risk, exceeded = 0.15, []
    score, wrong = images(10_000, count=4000)
    known = np.where(labeled := (wrong != 255).sum((1, 2)), labeled, np.nan)
    for seed in range(150):
        own = images(seed, count=60)
        found = control_risk(*own, risk=risk, confidence=0.9, ignore_index=255)
        lost = ((score < found.threshold) & (wrong == 1)).sum((1, 2)) / known
        exceeded.append(np.nanmean(lost) > risk)
    assert np.mean(exceeded) <= 0.1 + 2 * math.sqrt(0.09 / 150)


def test_the_limit_of_the_confidence_inverts_the_p_value():
    for images_, risk, confidence in ((59, 0.05, 0.95), (200, 0.1, 0.9), (1000, 0.02, 0.99)):
        limit = largest_mean(images_, risk, confidence)
        assert p_value(limit, images_, risk) <= 1 - confidence
        assert p_value(limit + 1e-6, images_, risk) > 1 - confidence
        assert limit < largest_mean(images_, risk)
    exact = brentq(lambda r: math.exp(-200 * kl(r, 0.1)) - 0.05, 1e-9, 0.1 - 1e-9)
    assert largest_mean(200, 0.1, 0.95) >= exact - 1e-9


def kl(p, q):
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def test_how_many_images_are_needed():
    for risk in (0.05, 0.1, 0.02):
        least = fewest_images(risk)
        assert largest_mean(least, risk) == pytest.approx(0, abs=1e-12)
        with pytest.raises(NescioError, match=f"it takes {least} even"):
            largest_mean(least - 1, risk)
        least = fewest_images(risk, 0.95)
        assert (1 - risk) ** least <= 0.05 < (1 - risk) ** (least - 1)
        with pytest.raises(NescioError, match=f"confidence of 0.95: it takes {least} even"):
            largest_mean(least - 1, risk, 0.95)


def test_all_right_answers_everything_and_all_wrong_nothing():
    score, wrong = images()
    right = np.where(wrong == 255, 255, 0)
    found = control_risk(score, right, risk=0.05, ignore_index=255)
    assert (found.threshold, found.coverage, found.mean_loss) == (math.inf, pytest.approx(1), 0)
    found = control_risk(np.zeros_like(score), np.ones_like(wrong), risk=0.05)
    assert (found.coverage, found.mean_loss) == (0, 0)


def test_infinite_scores_are_never_answered():
    score, wrong = np.random.default_rng(0).random((40, 5, 5)), np.zeros((40, 5, 5), bool)
    score[:, 0, 0], wrong[:, 0, 0] = math.inf, True
    found = control_risk(score, wrong, risk=0.03)
    assert (found.threshold, found.mean_loss) == (math.inf, 0)
    assert found.coverage == pytest.approx(24 / 25)


def test_bad_input_is_refused():
    score, wrong = images()
    with pytest.raises(NescioError, match="all 36 entries of `wrong` are ignored"):
        control_risk(score[:3], np.full_like(wrong[:3], 255), risk=0.5, ignore_index=255)
    with pytest.raises(NescioError, match="true or false"):
        control_risk(score, wrong, risk=0.5)
    with pytest.raises(NescioError, match="would leave nothing out; mark what is ignored"):
        control_risk(score, wrong == 1, risk=0.5, ignore_index=255)  # ignored ones would be right
    with pytest.raises(NescioError, match="ignore_index=0 is a class"):
        control_risk(score, (wrong == 1).astype(int), risk=0.5, ignore_index=0)
    with pytest.raises(NescioError, match="for each pixel"):
        control_risk(score[:, 0, 0], wrong[:, 0, 0], risk=0.5)
    with pytest.raises(NescioError, match="NaN"):
        control_risk(np.full_like(score, np.nan), wrong, risk=0.5, ignore_index=255)
    with pytest.raises(NescioError, match="risk must lie between"):
        control_risk(score, wrong, risk=5, ignore_index=255)
    with pytest.raises(NescioError, match="confidence must lie between"):
        control_risk(score, wrong, risk=0.5, confidence=1, ignore_index=255)
