"""Mean AUROCs: against DeLong for one OOD set, and against resampling for several."""

import numpy as np
import pytest
from scipy import stats

from nescio import metrics
from nescio.evaluation.compare.areas import Areas, first_places, mean_areas


def draws(seed, detectors=3, samples=150, sizes=(90, 60)):
    """Scores of detectors that see the same hidden value, each with noise of its own."""
    draw = np.random.default_rng(seed)
    hidden = [draw.normal(size=samples), *(1.2 + draw.normal(size=size) for size in sizes)]
    blur = [0.2 + k for k in range(detectors)]
    noisy = [[h + b * draw.normal(size=len(h)) for h in hidden] for b in blur]
    return [(sides[0], sides[1:]) for sides in noisy]


def test_one_out_set_is_delongs():
    scores = [(in_dist, [outs[0].round(1)]) for in_dist, outs in draws(0)]  # with ties
    found = mean_areas(scores)
    pairs = [(in_dist, outs[0]) for in_dist, outs in scores]
    values, covariance = metrics.delong_covariance(pairs)
    assert found.values == pytest.approx(values)
    assert found.covariance == pytest.approx(covariance)
    for place, pair in enumerate(pairs):
        expected = metrics.delong_interval(*pair, level=0.9, logit=True)
        assert vars(found.interval(place, 0.9)) == pytest.approx(vars(expected))
    named = dict(zip("abc", pairs, strict=True))
    p, _ = found.first(0.95)
    assert p == pytest.approx(list(metrics.against_best(named).values()))


def test_a_mean_over_out_sets_is_the_mean_and_varies_as_resamples_do():
    scores = draws(1)
    found = mean_areas(scores)
    each = [[metrics.auroc(in_dist, out) for out in outs] for in_dist, outs in scores]
    assert found.values == pytest.approx(np.mean(each, axis=1))
    draw, again = np.random.default_rng(2), []
    for _ in range(1500):
        rows = [draw.integers(len(side), size=len(side)) for side in (scores[0][0], *scores[0][1])]
        resampled = [
            (in_dist[rows[0]], [out[r] for out, r in zip(outs, rows[1:], strict=True)])
            for in_dist, outs in scores
        ]
        again.append([np.mean([metrics.auroc(i, o) for o in outs]) for i, outs in resampled])
    spread = np.cov(np.array(again).T)
    assert found.covariance == pytest.approx(spread, rel=0.2, abs=2e-5)


def test_in_data_that_are_shared_keep_a_mean_from_becoming_surer():
    in_dist, outs = draws(3, detectors=1, sizes=(4000,))[0]
    one, two = mean_areas([(in_dist, outs)]), mean_areas([(in_dist, [outs[0], outs[0]])])
    inner = one.covariance[0, 0] - np.var(outs_placed(in_dist, outs[0]), ddof=1) / 4000
    assert two.covariance[0, 0] > inner  # the inside part does not shrink
    assert two.values == pytest.approx(one.values)


def outs_placed(in_dist, ood):
    return np.searchsorted(np.sort(in_dist), ood) / len(in_dist)


def test_perfect_and_constant_scores_have_intervals_of_one_point():
    found = mean_areas([(np.zeros(5), [np.ones(4)]), (np.zeros(5), [np.zeros(4)])])
    assert found.values.tolist() == [1.0, 0.5]
    assert vars(found.interval(0, 0.95)) == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert vars(found.interval(1, 0.95)) == {"value": 0.5, "low": 0.5, "high": 0.5}
    p, first = found.first(0.95)
    assert p.tolist() == [1.0, 0.0]
    assert first == [True, False]


def test_nobody_is_first_where_nobody_is_set_apart():
    areas = Areas(np.array([0.9, 0.89]), np.diag([0.01, 0.01]))
    assert areas.first(0.95)[1] == [False, False]
    assert Areas(np.array([0.9]), np.ones((1, 1))).first(0.95)[1] == [False]


def test_p_values_are_corrected_for_all_pairs():
    areas = Areas(np.array([0.9, 0.85, 0.8]), np.diag([4e-4, 4e-4, 4e-4]))
    single = [2 * stats.norm.sf(gap / np.sqrt(8e-4)) for gap in (0.05, 0.1, 0.05)]
    p, first = areas.first(0.95)
    assert p == pytest.approx([1.0, *metrics.holm(single)[:2]])
    assert first == [True, True, False]


def test_first_places_take_any_test():
    p, first = first_places(np.array([0.5, 0.9]), lambda i, j: 0.01 * (i + j), 0.95)
    assert p.tolist() == [0.01, 1.0]
    assert first == [False, True]
