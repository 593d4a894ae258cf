"""Ranking metrics against scikit-learn and against counting every pair."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from nescio.core import NescioError
from nescio.core.registry import metrics
from nescio.metrics import Ranking, aupr, auroc, autc, detection_error, fpr_at_tpr, rank
from nescio.metrics import ranking as ranking_module

scores = st.lists(st.integers(-20, 20), min_size=1, max_size=30)


def groups(seed, decimals, in_dist=301, ood=157):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(0, 1, in_dist).round(decimals),
        rng.normal(0.8, 1.5, ood).round(decimals),
    )


def labeled(in_dist, ood):
    truth = np.r_[np.zeros(len(in_dist)), np.ones(len(ood))]
    return truth, np.r_[in_dist, ood]


def every_pair(in_dist, ood):
    in_dist, ood = np.asarray(in_dist, float)[:, None], np.asarray(ood, float)[None]
    return float(np.mean((ood > in_dist) + 0.5 * (ood == in_dist)))


def first_reaching(truth, score, tpr):
    false, true, _ = roc_curve(truth, score, drop_intermediate=False)
    return false[np.argmax(true >= tpr)]


@pytest.mark.parametrize("decimals", [0, 1, 12])
@pytest.mark.parametrize("seed", range(3))
def test_areas_agree_with_scikit_learn_also_with_ties(seed, decimals):
    in_dist, ood = groups(seed, decimals)
    truth, score = labeled(in_dist, ood)
    assert auroc(in_dist, ood) == pytest.approx(roc_auc_score(truth, score), abs=1e-12)
    assert auroc(in_dist, ood) == pytest.approx(every_pair(in_dist, ood), abs=1e-12)
    expected = average_precision_score(truth, score)
    assert aupr(in_dist, ood) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("decimals", [0, 1, 12])
@pytest.mark.parametrize("tpr", [0.05, 0.5, 0.8, 0.95, 1.0])
def test_fpr_agrees_with_the_roc_curve_in_both_conventions(tpr, decimals):
    in_dist, ood = groups(7, decimals)
    truth, score = labeled(in_dist, ood)
    assert fpr_at_tpr(in_dist, ood, tpr=tpr) == first_reaching(truth, score, tpr)
    accepted = fpr_at_tpr(in_dist, ood, tpr=tpr, positive="in_dist")
    assert accepted == first_reaching(1 - truth, -score, tpr)


@pytest.mark.parametrize("decimals", [0, 1, 12])
def test_precision_of_the_in_dist_class_agrees_with_scikit_learn(decimals):
    in_dist, ood = groups(4, decimals)
    truth, score = labeled(in_dist, ood)
    expected = average_precision_score(1 - truth, -score)
    assert aupr(in_dist, ood, positive="in_dist") == pytest.approx(expected, abs=1e-12)
    assert rank(in_dist, ood).aupr_in_dist == aupr(in_dist, ood, positive="in_dist")


@given(scores, scores)
@settings(max_examples=80, deadline=None)
def test_all_are_those_of_every_threshold_in_fractions(in_dist, ood):
    samples, others = len(in_dist), len(ood)
    pairs = sum(Fraction((b > a) + (b >= a), 2) for a in in_dist for b in ood)
    assert auroc(in_dist, ood) == float(pairs / (samples * others))
    thresholds = sorted({*in_dist, *ood, 1000})
    false = [Fraction(sum(a >= t for a in in_dist), samples) for t in thresholds]
    missed = [Fraction(sum(b < t for b in ood), others) for t in thresholds]
    error = min(a + b for a, b in zip(false, missed, strict=True)) / 2
    assert detection_error(in_dist, ood) == pytest.approx(float(error), abs=1e-15)
    precision = sum(
        Fraction(sum(c >= b for c in ood), sum(c >= b for c in [*in_dist, *ood])) for b in ood
    )
    assert aupr(in_dist, ood) == pytest.approx(float(precision / others), abs=1e-14)


@given(scores, scores)
@settings(max_examples=80, deadline=None)
def test_autc_is_the_area_under_both_step_curves(in_dist, ood):
    low, high = min(*in_dist, *ood), max(*in_dist, *ood)
    points = sorted({*in_dist, *ood})
    area = Fraction(0)
    for left, right in pairwise(points):  # for t in (left, right]
        false = Fraction(sum(a >= right for a in in_dist), len(in_dist))
        missed = Fraction(sum(b < right for b in ood), len(ood))
        area += (false + missed) / 2 * Fraction(right - left, high - low)
    expected = float(area) if high > low else 0.5
    assert autc(in_dist, ood) == pytest.approx(expected, abs=1e-14)
    moved = autc(np.array(in_dist) * 3.0 - 7, np.array(ood) * 3.0 - 7)
    assert moved == pytest.approx(expected, abs=1e-14)


def test_autc_reads_the_scores_not_only_their_order():
    assert autc([0.0, 0.0], [1.0, 1.0]) == 0.0
    assert autc([1.0, 1.0], [0.0]) == 1.0
    assert autc([0.0], [0.1, 1.0]) == pytest.approx((1 - 0.55) / 2)
    assert autc([-1.7e308], [1.7e308, 0.0]) == pytest.approx(0.125)  # no overflow
    with pytest.raises(NescioError, match="2 scores are infinite"):
        autc([0.0, -np.inf], [1.0, np.inf])


def test_the_detection_error_is_the_best_balanced_accuracy():
    in_dist, ood = groups(2, 1)
    false, true, _ = roc_curve(*labeled(in_dist, ood), drop_intermediate=False)
    assert detection_error(in_dist, ood) == pytest.approx((1 - (true - false).max()) / 2)
    assert detection_error([0, 1], [2, 3]) == 0.0
    assert detection_error([2, 3], [0, 1]) == detection_error([1], [1, 1]) == 0.5


@pytest.mark.parametrize("kind", [np.uint8, np.int8, bool, np.float32])
def test_the_mirror_keeps_every_kind_of_number_exact(kind):
    rng = np.random.default_rng(0)
    in_dist, ood = rng.integers(0, 256, 50).astype(kind), rng.integers(0, 256, 40).astype(kind)
    mirror = rank(in_dist, ood).mirrored
    assert mirror.auroc == auroc(in_dist, ood)
    assert mirror.fpr_at_tpr(0.8) == fpr_at_tpr(in_dist, ood, tpr=0.8, positive="in_dist")
    assert mirror.detection_error == detection_error(in_dist, ood)
    expected = aupr(-ood.astype(int), -in_dist.astype(int))
    assert aupr(in_dist, ood, positive="in_dist") == expected


def test_the_two_conventions_by_hand():
    in_dist, ood = [1, 2, 3, 4], [3, 3, 5, 6, 7]
    assert fpr_at_tpr(in_dist, ood, tpr=0.6) == 0.0  # t = 5
    assert fpr_at_tpr(in_dist, ood, tpr=0.8) == 0.5  # t = 3 flags 3 and 4
    assert fpr_at_tpr(in_dist, ood, tpr=0.5, positive="in_dist") == 0.0  # t = 2
    assert fpr_at_tpr(in_dist, ood, tpr=0.75, positive="in_dist") == 0.4  # t = 3


@pytest.mark.parametrize("percent", range(1, 101))
def test_the_share_of_a_hundred_is_never_one_off(percent):
    hundred = np.arange(100.0)
    caught = rank(hundred, hundred).fpr_at_tpr(percent / 100, "ood")
    accepted = rank(hundred, hundred).fpr_at_tpr(percent / 100, "in_dist")
    assert caught == accepted == percent / 100


def test_constant_scores_tell_nothing():
    in_dist, ood = np.zeros(10), np.zeros(30)
    assert auroc(in_dist, ood) == 0.5
    assert aupr(in_dist, ood) == 0.75  # the base rate
    assert fpr_at_tpr(in_dist, ood) == 1.0
    assert fpr_at_tpr(in_dist, ood, positive="in_dist") == 1.0
    assert aupr(in_dist, ood, positive="in_dist") == 0.25
    assert detection_error(in_dist, ood) == autc(in_dist, ood) == 0.5


def test_perfect_and_reversed_scores():
    assert auroc([0, 1], [2, 3]) == aupr([0, 1], [2, 3]) == 1.0
    assert auroc([2, 3], [0, 1]) == 0.0
    assert fpr_at_tpr([0, 1], [2, 3]) == fpr_at_tpr([0, 1], [2, 3], positive="in_dist") == 0.0


def test_infinite_scores_rank():
    in_dist, ood = [-np.inf, 0.0, np.inf], [0.0, np.inf, np.inf]
    assert auroc(in_dist, ood) == pytest.approx(every_pair(in_dist, ood))
    assert auroc([-np.inf], [np.inf]) == 1.0
    assert fpr_at_tpr(in_dist, ood, tpr=0.5) == pytest.approx(1 / 3)


@given(scores, scores)
@settings(max_examples=60, deadline=None)
def test_only_the_order_matters(in_dist, ood):
    before = rank(in_dist, ood)
    after = rank(np.exp(np.array(in_dist) / 7.0), np.exp(np.array(ood) / 7.0))
    assert before.auroc == after.auroc == pytest.approx(every_pair(in_dist, ood))
    assert before.aupr == after.aupr
    for positive in ("ood", "in_dist"):
        assert before.fpr_at_tpr(0.9, positive) == after.fpr_at_tpr(0.9, positive)


@given(scores, scores)
@settings(max_examples=60, deadline=None)
def test_exchanging_the_sides_gives_the_complement(in_dist, ood):
    assert auroc(in_dist, ood) + auroc(ood, in_dist) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    "convert",
    [
        list,
        np.float32,
        np.float16,
        np.int64,
        np.uint8,
        lambda values: torch.tensor(values, requires_grad=True),
        lambda values: torch.tensor(values).bfloat16(),
        lambda values: torch.tensor(values).int(),
        lambda values: np.repeat(values, 2)[::2],
    ],
)
def test_every_kind_of_array_gives_the_same_python_float(convert):
    in_dist, ood = np.array([1.0, 2.0, 3.0, 8.0]), np.array([3.0, 4.0, 9.0])
    for metric in (auroc, aupr, fpr_at_tpr):
        value = metric(convert(in_dist), convert(ood))
        assert type(value) is float
        assert value == metric(in_dist, ood)
        assert value == metric(convert(in_dist), ood)  # mixed kinds


def test_inputs_are_left_alone():
    in_dist, ood = torch.tensor([3.0, 1.0]), np.array([2.0, 0.0])
    rank(in_dist, ood)
    assert in_dist.tolist() == [3.0, 1.0]
    assert ood.tolist() == [2.0, 0.0]


def test_float32_is_not_widened():
    ranking = rank(np.ones(3, np.float32), torch.ones(2))
    assert ranking.in_dist.dtype == ranking.ood.dtype == np.float32


def test_blocks_and_threads_change_nothing(monkeypatch):
    in_dist, ood = groups(3, 2)
    whole = rank(in_dist, ood)
    monkeypatch.setattr(ranking_module, "BLOCK", 10)
    monkeypatch.setattr(ranking_module, "THREADED", 100)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    parts = rank(in_dist, ood)
    assert parts.auroc == whole.auroc
    assert parts.detection_error == whole.detection_error
    assert parts.autc == pytest.approx(whole.autc, abs=1e-15)
    assert parts.aupr == pytest.approx(whole.aupr, abs=1e-15)


@pytest.mark.parametrize(
    ("in_dist", "ood", "message"),
    [
        ([], [1.0], "`in_dist` is empty"),
        ([1.0], np.zeros(0), "`ood` is empty"),
        ([1.0, np.nan, np.nan], [1.0], "`in_dist` holds NaN in 2 of 3 scores"),
        ([1.0], torch.tensor([float("nan"), 1.0]), "`ood` holds NaN"),
        ([[1.0]], [1.0], "`in_dist` must be one-dimensional, got shape"),
        ([1.0], 3.0, "`ood` must be one-dimensional"),
        (["a"], [1.0], "`in_dist` must hold real numbers"),
        ([1j], [1.0], "`in_dist` must hold real numbers"),
        ([[1.0], [1.0, 2.0]], [1.0], "rows of one length"),
    ],
)
def test_bad_scores_are_refused(in_dist, ood, message):
    for metric in (auroc, aupr, fpr_at_tpr, detection_error, autc):
        with pytest.raises(NescioError, match=message):
            metric(in_dist, ood)


@pytest.mark.parametrize("tpr", [0.0, -0.1, 1.01, float("nan")])
def test_bad_tpr_is_refused(tpr):
    with pytest.raises(NescioError, match="`tpr` must be above 0 and at most 1"):
        fpr_at_tpr([0.0], [1.0], tpr=tpr)


def test_unknown_positive_is_refused():
    with pytest.raises(NescioError, match="'ood' or 'in_dist', got 'both'"):
        fpr_at_tpr([0.0], [1.0], positive="both")
    with pytest.raises(NescioError, match="'ood' or 'in_dist', got 'both'"):
        aupr([0.0], [1.0], positive="both")


def test_a_ranking_of_unsorted_scores_is_refused():
    with pytest.raises(NescioError, match="`ood` is not sorted; make a Ranking with `rank`"):
        Ranking(np.array([0.0, 1.0]), np.array([1.0, 0.0]))


def test_the_metrics_are_registered():
    assert {"auroc", "aupr", "fpr_at_tpr", "detection_error", "autc"} <= set(metrics)


@pytest.mark.parametrize("kind", [bool, np.int64])
def test_a_truth_in_place_of_scores_is_refused(kind):
    scores, is_ood = np.array([0.1, 0.7, 0.4]), np.array([0, 1, 0]).astype(kind)
    for pair in ((scores, is_ood), (is_ood, scores)):
        with pytest.raises(NescioError, match="those of OOD samples, got scores and flags"):
            auroc(*pair)
    assert auroc(np.array([0, 1]), np.array([1, 2])) == 0.875
