"""Bootstrap intervals against a brute-force bootstrap of the same draws, scipy, and coverage."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from nescio import metrics
from nescio.core import NescioError
from nescio.metrics import Interval, bootstrap_mean, bootstrap_ranking
from nescio.metrics import resampling as module

scores = st.lists(st.integers(-4, 4), min_size=1, max_size=12)


def draws(samples, resamples, seed, stream):
    """The indices of all resamples at once."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stream,))))
    return rng.integers(samples, size=(resamples, samples), dtype=np.int32)


def brute_force(in_dist, ood, metric, *, resamples, seed, level=0.95):
    """Each resample written out and given to a metric."""
    in_dist, ood = np.sort(np.asarray(in_dist, float)), np.sort(np.asarray(ood, float))
    found = [
        metric(in_dist[first], ood[second])
        for first, second in zip(
            draws(len(in_dist), resamples, seed, 0),
            draws(len(ood), resamples, seed, 1),
            strict=True,
        )
    ]
    return np.quantile(found, [(1 - level) / 2, (1 + level) / 2])


def bounds(interval):
    return [interval.low, interval.high]


def labeled(in_dist, ood):
    return np.r_[np.zeros(len(in_dist)), np.ones(len(ood))], np.r_[in_dist, ood]


def area(in_dist, ood):
    return roc_auc_score(*labeled(in_dist, ood))


def average_precision(in_dist, ood):
    return average_precision_score(*labeled(in_dist, ood))


def first_reaching(in_dist, ood):
    truth, score = labeled(in_dist, ood)
    false, true, _ = roc_curve(truth, score, drop_intermediate=False)
    return false[np.argmax(true >= 0.95)]


def gap(in_dist, ood, *, scale):
    """AUTC on a given scale."""
    return (1 - (np.mean(ood) - np.mean(in_dist)) / scale) / 2


def first_accepting(in_dist, ood):
    return first_reaching(-np.asarray(ood), -np.asarray(in_dist))


def groups(decimals, in_dist=70, ood=43):
    rng = np.random.default_rng(5)
    return rng.normal(0, 1, in_dist).round(decimals), rng.normal(1, 1.5, ood).round(decimals)


@pytest.mark.parametrize("decimals", [0, 1, 12])
def test_a_brute_force_bootstrap_with_scikit_learn_gives_the_same_bounds(decimals):
    pair = groups(decimals)
    options = {"resamples": 60, "seed": 3}
    found = bootstrap_ranking(*pair, **options)
    accepting = bootstrap_ranking(*pair, positive="in_dist", **options)["fpr_at_tpr"]
    expected = {name: brute_force(*pair, metric, **options) for name, metric in (
        ("auroc", area), ("aupr", average_precision), ("fpr_at_tpr", first_reaching),
    )}  # fmt: skip
    for name, interval in found.items():
        assert bounds(interval) == pytest.approx(expected[name], abs=1e-12)
    assert bounds(accepting) == pytest.approx(brute_force(*pair, first_accepting, **options))


ALL = ("auroc", "aupr", "fpr_at_tpr", "detection_error", "autc")


@settings(deadline=None, max_examples=30)
@given(scores, scores, st.sampled_from([0.3, 0.5, 0.95, 1.0]), st.integers(0, 3))
@example([0, 0, 0, 0, -1], [0] * 8 + [1, 1], 0.3, 1)  # an end beside the value, by rounding
def test_any_scores_agree_with_the_metrics_of_each_resample(in_dist, ood, tpr, seed):
    options = {"resamples": 15, "seed": seed}
    for positive in ("ood", "in_dist"):
        found = bootstrap_ranking(in_dist, ood, of=ALL, tpr=tpr, positive=positive, **options)
        own = {"aupr": {"positive": positive}, "fpr_at_tpr": {"positive": positive, "tpr": tpr}}
        assert list(found) == list(ALL)
        for name in ALL:
            metric = partial(getattr(metrics, name), **own.get(name, {}))
            assert found[name].value == pytest.approx(metric(in_dist, ood), abs=1e-15)
            if name == "detection_error":
                assert 0 <= found[name].low <= found[name].value <= found[name].high <= 0.5
                continue
            if name == "autc":
                metric = partial(gap, scale=np.ptp([*in_dist, *ood]) or 1.0)
            expected = brute_force(in_dist, ood, metric, **options)
            assert bounds(found[name]) == pytest.approx(expected, abs=1e-12)


def test_the_mean_agrees_with_a_brute_force_bootstrap():
    values = np.random.default_rng(0).gamma(2, size=50)
    found = bootstrap_mean(values, resamples=200, seed=4, level=0.8)
    means = [values[rows].mean() for rows in draws(50, 200, 4, 0)]
    assert found.value == pytest.approx(values.mean())
    assert bounds(found) == pytest.approx(np.quantile(means, [0.1, 0.9]))


def test_an_error_rate_has_the_quantiles_of_the_binomial():
    wrong = np.zeros(400)
    wrong[:40] = 1
    found = bootstrap_mean(wrong, resamples=20000)
    expected = stats.binom.ppf([0.025, 0.975], 400, 0.1) / 400
    assert bounds(found) == pytest.approx(expected, abs=1.01 / 400)


def test_scipy_gives_bounds_as_far_from_its_own_as_two_seeds_are():
    in_dist, ood = groups(12, 300, 200)
    ours = bounds(bootstrap_ranking(in_dist, ood, resamples=4000)["auroc"])

    def statistic(first, second, axis):
        return (second[..., None, :] > first[..., :, None]).mean((-1, -2))

    theirs = stats.bootstrap(
        (in_dist, ood),
        statistic,
        n_resamples=2000,
        method="percentile",
        batch=50,
        random_state=1,
    ).confidence_interval
    assert ours == pytest.approx([theirs.low, theirs.high], abs=0.004)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    truth = stats.norm.cdf(1 / np.sqrt(2))  # P(N(1, 1) > N(0, 1))
    rng = np.random.default_rng(1)
    covered, rounds = 0, 300
    for seed in range(rounds):
        in_dist, ood = rng.normal(0, 1, 80), rng.normal(1, 1, 60)
        found = bootstrap_ranking(in_dist, ood, level=0.9, resamples=200, seed=seed)["auroc"]
        covered += found.low <= truth <= found.high
    assert 0.85 <= covered / rounds <= 0.94  # 0.9, three standard errors of 0.017 and some bias


def test_blocks_do_not_change_the_numbers(monkeypatch):
    pair, values = groups(1), np.random.default_rng(2).random(37)
    whole, mean = bootstrap_ranking(*pair, resamples=50), bootstrap_mean(values, resamples=50)
    monkeypatch.setattr(module, "BLOCK", 1)
    apart = bootstrap_ranking(*pair, resamples=50)
    assert bootstrap_mean(values, resamples=50) == mean
    for name in whole:  # a sum of fractions may round in another order
        assert bounds(apart[name]) == pytest.approx(bounds(whole[name]), abs=1e-14)


def test_a_seed_repeats_and_another_differs():
    pair = groups(12)
    first = bootstrap_ranking(*pair, resamples=50, seed=1)
    assert bootstrap_ranking(*map(torch.tensor, pair), resamples=50, seed=1) == first
    assert bootstrap_ranking(*pair, resamples=50, seed=2) != first


@pytest.mark.parametrize(
    ("in_dist", "ood", "value", "rate"),
    [
        ([0.0], [1.0], 1.0, 0.0),
        ([1.0, 1.0, 1.0], [1.0, 1.0], 0.5, 1.0),
        ([2.0, 3.0], [0.0, 1.0, 1.5], 0.0, 1.0),
        ([-np.inf, -np.inf], [0.0, np.inf], 1.0, 0.0),
    ],
)
def test_where_no_resample_differs_the_interval_is_a_point(in_dist, ood, value, rate):
    found = bootstrap_ranking(in_dist, ood, resamples=20)
    assert found["auroc"] == Interval(value, value, value)
    assert found["fpr_at_tpr"] == Interval(rate, rate, rate)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: bootstrap_mean([]), "`values` is empty"),
        (lambda: bootstrap_mean([0.0, np.nan]), "NaN or infinity"),
        (lambda: bootstrap_mean([[[1.0]]]), "of 2 axes"),
        (lambda: bootstrap_mean([1.0], level=1.0), "`level` must be between 0 and 1, got 1.0"),
        (lambda: bootstrap_mean([1.0], resamples=1), "`resamples` must be a whole number from 2"),
        (lambda: bootstrap_mean([1.0], resamples=True), "`resamples`"),
        (lambda: bootstrap_mean([1.0], seed=-1), "`seed` must be a whole number from 0"),
        (lambda: bootstrap_ranking([0.0, np.nan], [1.0]), "`in_dist` holds NaN"),
        (lambda: bootstrap_ranking([0.0], []), "`ood` is empty"),
        (lambda: bootstrap_ranking([0.0], [1.0], tpr=0.0), "`tpr` must be above 0"),
        (lambda: bootstrap_ranking([0.0], [1.0], positive="in"), "`positive` must be"),
        (lambda: bootstrap_ranking([0.0], [1.0], of=["auc"]), "unknown ranking metric 'auc'"),
        (lambda: bootstrap_ranking([0.0], [1.0], of="auroc"), "`of` must be a list of names"),
        (lambda: bootstrap_ranking([0.0], [np.inf], of=["autc"]), "1 scores are infinite"),
    ],
)
def test_bad_input_is_refused(call, said):
    with pytest.raises(NescioError, match=said):
        call()


@pytest.mark.parametrize(("gap", "sizes"), [(0.5, (200, 200)), (2.0, (60, 150)), (3.5, (200, 100))])
def test_the_detection_error_is_held_about_as_often_as_guaranteed(gap, sizes):
    """The percentiles held it in 50 to 85 %. 60 draws: 95 % less four standard errors is 84 %."""
    rng, truth, held = np.random.default_rng(0), stats.norm.cdf(-gap / 2), 0
    for seed in range(60):
        pair = rng.normal(size=sizes[0]), rng.normal(gap, 1, size=sizes[1])
        found = bootstrap_ranking(*pair, of=["detection_error"], resamples=100, seed=seed)
        found = found["detection_error"]
        held += found.low <= truth <= found.high
        assert 0 <= found.low <= found.value <= found.high <= 0.5
    assert held / 60 >= 0.84


def test_the_mean_of_several_draws_holds_the_noise_of_the_draws():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(6, 1))  # all samples of a draw share it
    table = shared + 0.1 * rng.normal(size=(6, 400))
    alone, every = bootstrap_mean(table[0]), bootstrap_mean(table)
    assert every.value == alone.value
    assert alone.high - alone.low < 0.05
    assert every.low == pytest.approx(shared.min(), abs=0.05)
    assert every.high == pytest.approx(shared.max(), abs=0.05)
    assert bootstrap_mean(table[:1]) == alone
