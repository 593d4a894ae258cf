"""Precision of errors, risk and coverage: against scikit-learn, all orders of ties, resamples."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from nescio import metrics
from nescio.core import NescioError
from nescio.metrics import ap_error, ap_success, augrc, aurc, auroc, excess_aurc, risk_coverage
from nescio.metrics import bootstrapping as module
from nescio.metrics.selective import STATISTICS


@st.composite
def judged(draw, largest=12):
    """Scores with ties, and errors of both kinds."""
    scores = draw(st.lists(st.integers(-3, 3), min_size=2, max_size=largest))
    wrong = draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    wrong[0], wrong[-1] = True, False
    return np.array(scores, float), np.array(wrong)


def mean_over_orders(scores, wrong):
    """Risks at every coverage, averaged over all orders that the scores allow."""
    curves = []
    for order in itertools.permutations(range(len(scores))):
        if all(scores[i] <= scores[j] for i, j in itertools.pairwise(order)):
            mistakes = np.cumsum(wrong[list(order)])
            curves.append(mistakes / np.arange(1, len(scores) + 1))
    return np.mean(curves, axis=0)


@given(judged())
@settings(deadline=None)
def test_precisions_are_those_of_scikit_learn(sample):
    scores, wrong = sample
    assert ap_error(scores, wrong) == pytest.approx(average_precision_score(wrong, scores))
    assert ap_success(scores, wrong) == pytest.approx(average_precision_score(~wrong, -scores))


@given(judged(6))
@settings(deadline=None, max_examples=40)
def test_the_curve_is_the_mean_over_all_orders_of_ties(sample):
    scores, wrong = sample
    curve = risk_coverage(scores, wrong)
    np.testing.assert_allclose(curve.risk, mean_over_orders(scores, wrong), atol=1e-12)
    np.testing.assert_allclose(curve.coverage, np.arange(1, len(wrong) + 1) / len(wrong))


@given(judged(30))
@settings(deadline=None)
def test_the_area_in_closed_form_is_the_mean_of_the_curve(sample):
    scores, wrong = sample
    assert aurc(scores, wrong) == pytest.approx(risk_coverage(scores, wrong).area, abs=1e-12)
    best = risk_coverage(wrong + np.linspace(0, 0.1, len(wrong)), wrong).area
    assert excess_aurc(scores, wrong) == pytest.approx(aurc(scores, wrong) - best, abs=1e-12)
    assert excess_aurc(scores, wrong) >= -1e-12
    assert excess_aurc(wrong, wrong) == pytest.approx(0, abs=1e-12)


@given(judged(6))
@settings(deadline=None, max_examples=40)
def test_the_generalized_area_is_that_of_the_definition_and_of_the_paper(sample):
    """Trapezoids under the errors among the k most confident, of all N, over all orders of ties."""
    scores, wrong = sample
    count, rate = len(wrong), wrong.mean()
    mistakes = mean_over_orders(scores, wrong) * np.arange(1, count + 1) / count
    area = np.trapezoid([0.0, *mistakes], np.arange(count + 1) / count)
    assert augrc(scores, wrong) == pytest.approx(area, abs=1e-12)
    ranked = auroc(scores[~wrong], scores[wrong])  # Traub et al. (2024), eq. 8
    paper = (1 - ranked) * rate * (1 - rate) + rate**2 / 2
    assert augrc(scores, wrong) == pytest.approx(paper, abs=1e-12)


def test_many_samples_agree_with_the_limit_of_the_perfect_order():
    rng = np.random.default_rng(0)
    scores, wrong = rng.normal(size=200_000), rng.random(200_000) < 0.1
    rate = wrong.mean()
    limit = rate + (1 - rate) * np.log(1 - rate)
    assert aurc(scores, wrong) - excess_aurc(scores, wrong) == pytest.approx(limit, rel=1e-4)
    assert aurc(scores, wrong) == pytest.approx(rate, rel=0.02)  # no information: always the rate


@given(judged(40))
@settings(deadline=None)
def test_the_order_alone_matters(sample):
    scores, wrong = sample
    for metric in (ap_error, ap_success, aurc, augrc, excess_aurc):
        assert metric(scores, wrong) == metric(np.exp(scores) - 5, wrong)


@given(judged(40))
@settings(deadline=None, max_examples=40)
def test_rates_and_areas_are_those_of_the_ranking(sample):
    scores, wrong = sample
    in_dist, ood = scores[~wrong], scores[wrong]
    found = metrics.bootstrap_selective(scores, wrong, of=("auroc", "fpr_at_tpr"), resamples=2)
    assert found["auroc"].value == pytest.approx(roc_auc_score(wrong, scores))
    rate = metrics.fpr_at_tpr(in_dist, ood, positive="in_dist")
    assert found["fpr_at_tpr"].value == pytest.approx(rate)


@given(judged(25), st.integers(0, 5))
@settings(deadline=None, max_examples=25)
def test_resamples_are_the_metrics_of_the_drawn_samples(sample, seed):
    scores, wrong = sample
    values, found = module.resampled({"a": scores, "b": -scores}, wrong, resamples=7, seed=seed)
    counts = np.concatenate(list(module._counted(wrong, 7, seed)))
    assert counts.sum(1).tolist() == [len(wrong)] * 7
    for k, own in enumerate((scores, -scores)):
        for row, count in enumerate(counts):
            rows = np.repeat(np.arange(len(wrong)), count)
            truth = metrics.bootstrap_selective(own[rows], wrong[rows], resamples=2)
            for place, name in enumerate(STATISTICS):
                assert found[k, place, row] == pytest.approx(truth[name].value, abs=1e-12)
                assert values[k, place] == pytest.approx(
                    metrics.bootstrap_selective(own, wrong, resamples=2)[name].value, abs=1e-12
                )


def test_a_resample_of_one_kind_is_drawn_again():
    wrong = np.array([True, *[False] * 4])
    counts = np.concatenate(list(module._counted(wrong, 200, 0)))
    errors = counts @ wrong
    assert errors.min() >= 1
    assert errors.max() < 5


def test_blocks_do_not_change_how_many_there_are(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 20)
    rng = np.random.default_rng(1)
    scores, wrong = rng.normal(size=9), np.arange(9) % 3 == 0
    _, found = module.resampled({"a": scores}, wrong, resamples=11, seed=3)
    assert found.shape == (1, 7, 11)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    in_dist = 0
    for seed in range(60):
        wrong = rng.random(300) < 0.2
        scores = rng.normal(size=300) + 1.5 * wrong
        interval = metrics.bootstrap_selective(
            scores, wrong, of=["auroc"], resamples=200, level=0.9, seed=seed
        )["auroc"]
        in_dist += interval.low <= 0.8555778 <= interval.high  # Phi(1.5 / sqrt 2)
    assert in_dist >= 44  # of 60; fewer has probability 3e-5 at 0.9


def test_bounds_of_what_is_near_its_best_are_basic_in_the_logarithm():
    rng = np.random.default_rng(1)
    wrong = rng.random(400) < 0.1
    scores = rng.normal(size=400) + 2 * wrong
    found = metrics.bootstrap_selective(scores, wrong, resamples=50, seed=2)
    values, drawn = module.resampled({"": scores}, wrong, resamples=50, seed=2)
    for place, name in enumerate(STATISTICS):
        low, high = np.quantile(drawn[0, place], [0.025, 0.975])
        value = values[0, place]
        if name in ("auroc", "ap_success"):
            low, high = 1 - (1 - value) ** 2 / (1 - high), 1 - (1 - value) ** 2 / (1 - low)
        elif name in ("aurc", "augrc", "excess_aurc"):
            low, high = value**2 / high, value**2 / low
        interval = found[name]
        assert (interval.low, interval.high) == pytest.approx((low, high), rel=1e-9)
        assert interval.low < interval.value < interval.high


def test_few_errors_do_not_flatter():
    """About 20 errors of 1000. Percentiles lie above the truth in 11 % of draws, these in 3 %."""
    rng = np.random.default_rng(0)
    above = 0
    for seed in range(150):
        wrong = rng.random(1000) < 0.02
        scores = rng.normal(size=1000) + 2 * wrong
        found = metrics.bootstrap_selective(scores, wrong, of=["auroc"], resamples=100, seed=seed)
        above += found["auroc"].low > 0.9213504  # Phi(2 / sqrt 2)
    assert above <= 10  # more has probability 0.004 at 2.8 %


def test_a_perfect_score_has_one_point_and_a_nearly_perfect_one_bounds():
    wrong = np.arange(50) >= 45
    found = metrics.bootstrap_selective(np.arange(50.0), wrong, resamples=40)
    for name, best in (("auroc", 1), ("ap_success", 1), ("excess_aurc", 0)):
        interval = found[name]
        assert (interval.low, interval.value, interval.high) == pytest.approx((best,) * 3)
    near = metrics.bootstrap_selective(np.roll(np.arange(50.0), 1), wrong, resamples=40)["auroc"]
    assert 0 <= near.low < near.value < near.high < 1  # some resamples miss the one bad error


def test_a_better_score_is_found_better_and_the_same_one_equal():
    rng = np.random.default_rng(0)
    wrong = rng.random(2000) < 0.1
    noise = rng.normal(size=2000)
    good, bad = noise + 3 * wrong, noise + wrong
    found = metrics.selective_test(good, bad, wrong, resamples=100)
    assert found["ap_error"].low > 0
    assert found["ap_error"].p == pytest.approx(2 / 101)
    assert found["aurc"].high < 0
    gap = ap_error(good, wrong) - ap_error(bad, wrong)
    assert found["ap_error"].value == pytest.approx(gap)
    same = metrics.selective_test(good, good, wrong, resamples=10)["ap_error"]
    assert (same.value, same.low, same.high, same.p) == (0, 0, 0, 1)


def test_tensors_and_integers_are_taken():
    scores, wrong = torch.tensor([0.5, 2.0, 1.0]), torch.tensor([0, 1, 0])
    assert ap_error(scores, wrong) == 1.0
    assert ap_error(scores.bfloat16(), wrong.bool()) == 1.0


@pytest.mark.parametrize(
    ("scores", "wrong", "message"),
    [
        ([1, 2], [1, 0, 1], "not of the same samples"),
        ([1.0, np.nan], [1, 0], "holds NaN in 1 of 2"),
        ([1, 2], [0, 2], "true or false"),
        ([1, 2], [0, 0], "all 2 answers are right"),
        ([1, 2], [True, True], "all 2 answers are wrong"),
        ([[1, 2]], [0, 1], "one-dimensional"),
        ([], [], "empty"),
    ],
)
def test_bad_input_is_refused(scores, wrong, message):
    for metric in (ap_error, risk_coverage, metrics.bootstrap_selective):
        with pytest.raises(NescioError, match=message):
            metric(scores, wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": "aurc"}, "list of names"),
        ({"of": ["aucr"]}, "did you mean 'aurc'"),
        ({"tpr": 0}, "tpr"),
        ({"level": 2}, "level"),
        ({"resamples": 1}, "resamples"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(NescioError, match=message):
        metrics.bootstrap_selective([1, 2], [0, 1], **options)


def maps_of_images(seed=0, images=12):
    rng = np.random.default_rng(seed)
    level = rng.random((images, 1, 1))  # the pixels of an image depend on each other
    score = level + 0.2 * rng.random((images, 4, 5)).round(1)
    wrong = (rng.random(score.shape) < 0.5 * level).astype(np.int16)
    wrong[rng.random(score.shape) < 0.2] = 255
    wrong[3] = 255  # an image without labels
    return score, wrong


def test_resamples_of_maps_draw_whole_images():
    score, wrong = maps_of_images()
    values, found = module.resampled({"": score}, wrong, resamples=9, ignore_index=255)
    known = np.delete(np.arange(12), 3)
    unit = np.repeat(np.arange(11), (wrong[known] != 255).sum((1, 2)))
    flags = wrong[wrong != 255].astype(bool)
    counts = np.concatenate(list(module._counted(flags, 9, 0, unit)))
    assert counts.sum(1).tolist() == [11] * 9
    for row, count in enumerate(counts):
        rows = np.repeat(known, count)
        for place, name in enumerate(STATISTICS):
            drawn, truth = score[rows], wrong[rows]
            one = module.resampled(
                {"": drawn[truth != 255]}, truth[truth != 255], of=[name], resamples=2
            )[0][0, 0]
            assert found[0, place, row] == pytest.approx(one, abs=1e-12)
    assert values[0, list(STATISTICS).index("aurc")] == metrics.aurc(score, wrong, ignore_index=255)


def test_intervals_of_maps_are_wider_than_those_of_pixels():
    score, wrong = maps_of_images(images=40)
    options = {"of": ["auroc"], "resamples": 100}
    by_image = metrics.bootstrap_selective(score, wrong, ignore_index=255, **options)["auroc"]
    keep = wrong != 255
    by_pixel = metrics.bootstrap_selective(score[keep], wrong[keep], **options)["auroc"]
    assert by_image.value == by_pixel.value
    assert by_image.high - by_image.low > 1.3 * (by_pixel.high - by_pixel.low)


def test_a_paired_test_of_maps():
    score, wrong = maps_of_images(images=40)
    noise = np.random.default_rng(1).normal(0, 0.5, score.shape)
    found = metrics.selective_test(
        score, score + noise, wrong, of=["auroc"], resamples=100, ignore_index=255
    )["auroc"]
    assert found.low > 0
    assert found.p < 0.05
    same = metrics.selective_test(
        score, 2 * score, wrong, of=["auroc"], resamples=50, ignore_index=255
    )["auroc"]
    assert (same.value, same.p) == (0, 1)


def test_one_image_has_no_interval_and_all_ignored_is_refused():
    score, wrong = maps_of_images()
    wrong[2, 0, :2] = 0, 1
    with pytest.raises(NescioError, match="one image"):
        metrics.bootstrap_selective(score[2:4], wrong[2:4], ignore_index=255)
    with pytest.raises(NescioError, match="all 20 entries"):
        metrics.bootstrap_selective(score[3:4], wrong[3:4], ignore_index=255)
