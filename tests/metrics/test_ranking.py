"""Ranking metrics against scikit-learn and against counting every pair."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from nescio.errors import NescioError
from nescio.metrics import Ranking, aupr, auroc, autc, detection_error, fpr_at_tpr, rank
from nescio.metrics import ranking as ranking_module
from nescio.registry import metrics

scores = st.lists(st.integers(-20, 20), min_size=1, max_size=30)


def groups(seed, decimals, inside=301, outside=157):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(0, 1, inside).round(decimals),
        rng.normal(0.8, 1.5, outside).round(decimals),
    )


def labelled(inside, outside):
    truth = np.r_[np.zeros(len(inside)), np.ones(len(outside))]
    return truth, np.r_[inside, outside]


def every_pair(inside, outside):
    inside, outside = np.asarray(inside, float)[:, None], np.asarray(outside, float)[None]
    return float(np.mean((outside > inside) + 0.5 * (outside == inside)))


def first_reaching(truth, score, tpr):
    false, true, _ = roc_curve(truth, score, drop_intermediate=False)
    return false[np.argmax(true >= tpr)]


@pytest.mark.parametrize("decimals", [0, 1, 12])
@pytest.mark.parametrize("seed", range(3))
def test_areas_agree_with_scikit_learn_also_with_ties(seed, decimals):
    inside, outside = groups(seed, decimals)
    truth, score = labelled(inside, outside)
    assert auroc(inside, outside) == pytest.approx(roc_auc_score(truth, score), abs=1e-12)
    assert auroc(inside, outside) == pytest.approx(every_pair(inside, outside), abs=1e-12)
    expected = average_precision_score(truth, score)
    assert aupr(inside, outside) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("decimals", [0, 1, 12])
@pytest.mark.parametrize("tpr", [0.05, 0.5, 0.8, 0.95, 1.0])
def test_fpr_agrees_with_the_roc_curve_in_both_conventions(tpr, decimals):
    inside, outside = groups(7, decimals)
    truth, score = labelled(inside, outside)
    assert fpr_at_tpr(inside, outside, tpr=tpr) == first_reaching(truth, score, tpr)
    accepted = fpr_at_tpr(inside, outside, tpr=tpr, positive="inside")
    assert accepted == first_reaching(1 - truth, -score, tpr)


@pytest.mark.parametrize("decimals", [0, 1, 12])
def test_precision_of_the_inside_class_agrees_with_scikit_learn(decimals):
    inside, outside = groups(4, decimals)
    truth, score = labelled(inside, outside)
    expected = average_precision_score(1 - truth, -score)
    assert aupr(inside, outside, positive="inside") == pytest.approx(expected, abs=1e-12)
    assert rank(inside, outside).aupr_inside == aupr(inside, outside, positive="inside")


@given(scores, scores)
@settings(max_examples=80, deadline=None)
def test_all_are_those_of_every_threshold_in_fractions(inside, outside):
    cases, others = len(inside), len(outside)
    pairs = sum(Fraction((b > a) + (b >= a), 2) for a in inside for b in outside)
    assert auroc(inside, outside) == float(pairs / (cases * others))
    thresholds = sorted({*inside, *outside, 1000})
    false = [Fraction(sum(a >= t for a in inside), cases) for t in thresholds]
    missed = [Fraction(sum(b < t for b in outside), others) for t in thresholds]
    error = min(a + b for a, b in zip(false, missed, strict=True)) / 2
    assert detection_error(inside, outside) == pytest.approx(float(error), abs=1e-15)
    precision = sum(
        Fraction(sum(c >= b for c in outside), sum(c >= b for c in [*inside, *outside]))
        for b in outside
    )
    assert aupr(inside, outside) == pytest.approx(float(precision / others), abs=1e-14)


@given(scores, scores)
@settings(max_examples=80, deadline=None)
def test_autc_is_the_area_under_both_step_curves(inside, outside):
    low, high = min(*inside, *outside), max(*inside, *outside)
    points = sorted({*inside, *outside})
    area = Fraction(0)
    for left, right in pairwise(points):  # for t in (left, right]
        false = Fraction(sum(a >= right for a in inside), len(inside))
        missed = Fraction(sum(b < right for b in outside), len(outside))
        area += (false + missed) / 2 * Fraction(right - left, high - low)
    expected = float(area) if high > low else 0.5
    assert autc(inside, outside) == pytest.approx(expected, abs=1e-14)
    moved = autc(np.array(inside) * 3.0 - 7, np.array(outside) * 3.0 - 7)
    assert moved == pytest.approx(expected, abs=1e-14)


def test_autc_reads_the_scores_not_only_their_order():
    assert autc([0.0, 0.0], [1.0, 1.0]) == 0.0
    assert autc([1.0, 1.0], [0.0]) == 1.0
    assert autc([0.0], [0.1, 1.0]) == pytest.approx((1 - 0.55) / 2)
    assert autc([-1.7e308], [1.7e308, 0.0]) == pytest.approx(0.125)  # no overflow
    with pytest.raises(NescioError, match="2 scores are infinite"):
        autc([0.0, -np.inf], [1.0, np.inf])


def test_the_detection_error_is_the_best_balanced_accuracy():
    inside, outside = groups(2, 1)
    false, true, _ = roc_curve(*labelled(inside, outside), drop_intermediate=False)
    assert detection_error(inside, outside) == pytest.approx((1 - (true - false).max()) / 2)
    assert detection_error([0, 1], [2, 3]) == 0.0
    assert detection_error([2, 3], [0, 1]) == detection_error([1], [1, 1]) == 0.5


@pytest.mark.parametrize("kind", [np.uint8, np.int8, bool, np.float32])
def test_the_mirror_keeps_every_kind_of_number_exact(kind):
    rng = np.random.default_rng(0)
    inside, outside = rng.integers(0, 256, 50).astype(kind), rng.integers(0, 256, 40).astype(kind)
    mirror = rank(inside, outside).mirrored
    assert mirror.auroc == auroc(inside, outside)
    assert mirror.fpr_at_tpr(0.8) == fpr_at_tpr(inside, outside, tpr=0.8, positive="inside")
    assert mirror.detection_error == detection_error(inside, outside)
    expected = aupr(-outside.astype(int), -inside.astype(int))
    assert aupr(inside, outside, positive="inside") == expected


def test_the_two_conventions_by_hand():
    inside, outside = [1, 2, 3, 4], [3, 3, 5, 6, 7]
    assert fpr_at_tpr(inside, outside, tpr=0.6) == 0.0  # t = 5
    assert fpr_at_tpr(inside, outside, tpr=0.8) == 0.5  # t = 3 flags 3 and 4
    assert fpr_at_tpr(inside, outside, tpr=0.5, positive="inside") == 0.0  # t = 2
    assert fpr_at_tpr(inside, outside, tpr=0.75, positive="inside") == 0.4  # t = 3


@pytest.mark.parametrize("percent", range(1, 101))
def test_the_share_of_a_hundred_is_never_one_off(percent):
    hundred = np.arange(100.0)
    caught = rank(hundred, hundred).fpr_at_tpr(percent / 100, "outside")
    accepted = rank(hundred, hundred).fpr_at_tpr(percent / 100, "inside")
    assert caught == accepted == percent / 100


def test_constant_scores_tell_nothing():
    inside, outside = np.zeros(10), np.zeros(30)
    assert auroc(inside, outside) == 0.5
    assert aupr(inside, outside) == 0.75  # the base rate
    assert fpr_at_tpr(inside, outside) == 1.0
    assert fpr_at_tpr(inside, outside, positive="inside") == 1.0
    assert aupr(inside, outside, positive="inside") == 0.25
    assert detection_error(inside, outside) == autc(inside, outside) == 0.5


def test_perfect_and_reversed_scores():
    assert auroc([0, 1], [2, 3]) == aupr([0, 1], [2, 3]) == 1.0
    assert auroc([2, 3], [0, 1]) == 0.0
    assert fpr_at_tpr([0, 1], [2, 3]) == fpr_at_tpr([0, 1], [2, 3], positive="inside") == 0.0


def test_infinite_scores_rank():
    inside, outside = [-np.inf, 0.0, np.inf], [0.0, np.inf, np.inf]
    assert auroc(inside, outside) == pytest.approx(every_pair(inside, outside))
    assert auroc([-np.inf], [np.inf]) == 1.0
    assert fpr_at_tpr(inside, outside, tpr=0.5) == pytest.approx(1 / 3)


@given(scores, scores)
@settings(max_examples=60, deadline=None)
def test_only_the_order_matters(inside, outside):
    before = rank(inside, outside)
    after = rank(np.exp(np.array(inside) / 7.0), np.exp(np.array(outside) / 7.0))
    assert before.auroc == after.auroc == pytest.approx(every_pair(inside, outside))
    assert before.aupr == after.aupr
    for positive in ("outside", "inside"):
        assert before.fpr_at_tpr(0.9, positive) == after.fpr_at_tpr(0.9, positive)


@given(scores, scores)
@settings(max_examples=60, deadline=None)
def test_exchanging_the_sides_gives_the_complement(inside, outside):
    assert auroc(inside, outside) + auroc(outside, inside) == pytest.approx(1.0, abs=1e-15)


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
    inside, outside = np.array([1.0, 2.0, 3.0, 8.0]), np.array([3.0, 4.0, 9.0])
    for metric in (auroc, aupr, fpr_at_tpr):
        value = metric(convert(inside), convert(outside))
        assert type(value) is float
        assert value == metric(inside, outside)
        assert value == metric(convert(inside), outside)  # mixed kinds


def test_inputs_are_left_alone():
    inside, outside = torch.tensor([3.0, 1.0]), np.array([2.0, 0.0])
    rank(inside, outside)
    assert inside.tolist() == [3.0, 1.0]
    assert outside.tolist() == [2.0, 0.0]


def test_float32_is_not_widened():
    ranking = rank(np.ones(3, np.float32), torch.ones(2))
    assert ranking.inside.dtype == ranking.outside.dtype == np.float32


def test_blocks_and_threads_change_nothing(monkeypatch):
    inside, outside = groups(3, 2)
    whole = rank(inside, outside)
    monkeypatch.setattr(ranking_module, "BLOCK", 10)
    monkeypatch.setattr(ranking_module, "THREADED", 100)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    parts = rank(inside, outside)
    assert parts.auroc == whole.auroc
    assert parts.detection_error == whole.detection_error
    assert parts.autc == pytest.approx(whole.autc, abs=1e-15)
    assert parts.aupr == pytest.approx(whole.aupr, abs=1e-15)


@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        ([], [1.0], "`inside` is empty"),
        ([1.0], np.zeros(0), "`outside` is empty"),
        ([1.0, np.nan, np.nan], [1.0], "`inside` holds NaN in 2 of 3 scores"),
        ([1.0], torch.tensor([float("nan"), 1.0]), "`outside` holds NaN"),
        ([[1.0]], [1.0], "`inside` must be one-dimensional, got shape"),
        ([1.0], 3.0, "`outside` must be one-dimensional"),
        (["a"], [1.0], "`inside` must hold real numbers"),
        ([1j], [1.0], "`inside` must hold real numbers"),
        ([[1.0], [1.0, 2.0]], [1.0], "rows of one length"),
    ],
)
def test_bad_scores_are_refused(inside, outside, message):
    for metric in (auroc, aupr, fpr_at_tpr, detection_error, autc):
        with pytest.raises(NescioError, match=message):
            metric(inside, outside)


@pytest.mark.parametrize("tpr", [0.0, -0.1, 1.01, float("nan")])
def test_bad_tpr_is_refused(tpr):
    with pytest.raises(NescioError, match="`tpr` must be above 0 and at most 1"):
        fpr_at_tpr([0.0], [1.0], tpr=tpr)


def test_unknown_positive_is_refused():
    with pytest.raises(NescioError, match="'outside' or 'inside', got 'both'"):
        fpr_at_tpr([0.0], [1.0], positive="both")
    with pytest.raises(NescioError, match="'outside' or 'inside', got 'both'"):
        aupr([0.0], [1.0], positive="both")


def test_a_ranking_of_unsorted_scores_is_refused():
    with pytest.raises(NescioError, match="`outside` is not sorted; make a Ranking with `rank`"):
        Ranking(np.array([0.0, 1.0]), np.array([1.0, 0.0]))


def test_the_metrics_are_registered():
    assert {"auroc", "aupr", "fpr_at_tpr", "detection_error", "autc"} <= set(metrics)
