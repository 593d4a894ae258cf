"""Paired tests against all pairs counted, a written-out bootstrap, and false alarms held."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nescio import metrics
from nescio.core import NescioError
from nescio.metrics import Difference, against_best, bootstrap_test, delong_test, holm
from nescio.metrics.paired import normal_difference, resampled_difference

chances = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def three(in_dist=70, ood=45):
    """Three detectors of the same samples, with ties."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, in_dist), rng.normal(1, 1.5, ood)
    noisy = [(a + s * rng.normal(size=in_dist), b + s * rng.normal(size=ood)) for s in (0, 1, 2)]
    return [(x.round(1), y.round(1)) for x, y in noisy]


def draws(samples, resamples, seed, stream):
    """The indices of all resamples at once."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stream,))))
    return rng.integers(samples, size=(resamples, samples), dtype=np.int32)


def test_delong_is_the_normal_test_of_the_difference():
    first, second, _ = three()
    gaps = [  # of both AUROCs, for each pair of samples
        (b[None] > a[:, None]) + 0.5 * (b[None] == a[:, None]) for a, b in (first, second)
    ]
    gap = gaps[0] - gaps[1]
    error = np.sqrt(gap.mean(0).var(ddof=1) / 45 + gap.mean(1).var(ddof=1) / 70)
    found = delong_test(first, second, level=0.9)
    assert found.value == pytest.approx(gap.mean(), abs=1e-14)
    assert found.p == pytest.approx(2 * stats.norm.sf(abs(found.value) / error), rel=1e-9)
    reach = stats.norm.ppf(0.95) * error
    assert [found.low, found.high] == pytest.approx([found.value - reach, found.value + reach])
    turned = delong_test(second, first, level=0.9)
    assert turned.value == -found.value
    assert turned.p == pytest.approx(found.p, rel=1e-12)


def test_equal_detectors_do_not_differ():
    first = three()[0]
    twice = (2 * first[0], 2 * first[1])
    assert delong_test(first, twice).p == 1.0
    assert delong_test(first, twice).value == 0.0
    for found in bootstrap_test(first, twice, resamples=20).values():
        assert found == Difference(value=0.0, low=0.0, high=0.0, p=1.0)


def test_where_no_sample_varies_the_difference_is_certain():
    perfect, constant = ([0, 0], [1, 1]), ([0, 0], [0, 0])
    assert delong_test(perfect, constant) == Difference(value=0.5, low=0.5, high=0.5, p=0.0)


def test_the_test_holds_its_false_alarms():
    rng = np.random.default_rng(4)
    rounds, alarms = 500, 0
    for _ in range(rounds):
        a, b = rng.normal(0, 1, 60), rng.normal(1, 1, 60)
        pair = [(a + rng.normal(size=60), b + rng.normal(size=60)) for _ in range(2)]
        alarms += delong_test(*pair).p < 0.05
    assert 0.02 <= alarms / rounds <= 0.08  # 0.05, three standard errors of 0.01


@pytest.mark.parametrize("positive", ["ood", "in_dist"])
def test_the_paired_bootstrap_written_out(positive):
    first, second, _ = three(in_dist=30, ood=20)
    options = {"resamples": 60, "seed": 5}
    names = ("auroc", "aupr", "fpr_at_tpr", "detection_error", "autc")
    found = bootstrap_test(first, second, of=names, positive=positive, level=0.8, **options)
    own = {name: {"positive": positive} for name in ("aupr", "fpr_at_tpr")}
    for name in names:
        gaps = []
        for rows, columns in zip(draws(30, 60, 5, 0), draws(20, 60, 5, 1), strict=True):
            one, two = (
                (1 - (b[columns].mean() - a[rows].mean()) / np.ptp([*a, *b])) / 2  # scale of all
                if name == "autc"
                else getattr(metrics, name)(a[rows], b[columns], **own.get(name, {}))
                for a, b in (first, second)
            )
            gaps.append(one - two)
        assert [found[name].low, found[name].high] == pytest.approx(
            np.quantile(gaps, [0.1, 0.9]).tolist(), abs=1e-12
        )
        rarer = min(sum(g <= 0 for g in gaps), sum(g >= 0 for g in gaps))
        assert found[name].p == pytest.approx(min(1, 2 * (rarer + 1) / 61), abs=0.04)


def test_a_clear_difference_is_found_by_both():
    rng = np.random.default_rng(0)
    in_dist, ood = rng.normal(0, 1, 400), rng.normal(2, 1, 300)
    blind = (rng.normal(size=400), rng.normal(size=300))
    assert delong_test((in_dist, ood), blind).p < 1e-10
    for found in bootstrap_test((in_dist, ood), blind, resamples=200).values():
        assert found.p == pytest.approx(2 / 201)


def step_down(values, alpha):
    """Which are rejected at a level, as Holm wrote it: until the first that is not."""
    rejected = set()
    for place, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        if values[i] * (len(values) - place) > alpha:
            break
        rejected.add(i)
    return rejected


@given(chances, st.floats(0.001, 0.999))
@settings(max_examples=100, deadline=None)
def test_holm_rejects_what_the_step_down_procedure_does(values, alpha):
    corrected = holm(values)
    assert {i for i, p in enumerate(corrected) if p <= alpha} == step_down(values, alpha)
    assert np.all(corrected >= values)
    assert np.all(corrected <= np.minimum(1, np.array(values) * len(values) + 1e-300))


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9]).tolist() == [0.9]


def test_the_best_is_compared_with_all_and_corrected():
    detectors = dict(zip("abc", three(), strict=True))
    found = against_best(detectors)
    tests = {
        pair: delong_test(detectors[pair[0]], detectors[pair[1]]).p
        for pair in combinations("abc", 2)
    }
    corrected = dict(zip(tests, holm(list(tests.values())), strict=True))
    assert found == pytest.approx(
        {"a": 1.0, "b": corrected["a", "b"], "c": corrected["a", "c"]}, rel=1e-9
    )


def test_of_a_rate_the_smallest_is_best():
    rng = np.random.default_rng(0)
    good = (rng.normal(size=200), rng.normal(4, 1, 200))
    blind = (rng.normal(size=200), rng.normal(size=200))
    for name in ("fpr_at_tpr", "detection_error", "autc", "aupr"):
        found = against_best({"blind": blind, "good": good}, of=name, resamples=100)
        assert found == pytest.approx({"blind": 2 / 101, "good": 1.0})


def test_one_detector_is_the_best():
    assert against_best({"only": three()[0]}) == {"only": 1.0}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: delong_test(([0, 1], [1, 2]), ([0, 1, 2], [1, 2])), "same samples in the same"),
        (lambda: bootstrap_test(([0], [1]), ([0], [1, 2])), r"got \(1, 1\) and \(1, 2\)"),
        (lambda: bootstrap_test(([0], [1]), ([0], [np.nan])), "NaN in 1 of 1"),
        (lambda: bootstrap_test(([0], [1]), ([0], [2]), of=["nll"]), "unknown ranking metric"),
        (lambda: against_best({}), "there are no detectors"),
        (lambda: against_best({"a": ([0, 1], [1, 2])}, of="nll"), "unknown ranking metric"),
        (lambda: holm([0.5, 1.5]), "from 0 to 1, got 0.5 to 1.5"),
        (lambda: holm([0.5, np.nan]), "from 0 to 1"),
        (lambda: holm([]), "`p` is empty"),
    ],
)
def test_bad_input_is_refused(call, said):
    with pytest.raises(NescioError, match=said):
        call()


def test_rounding_is_no_difference():
    """The gap of every resample is some 1e-17 of one sign: equal, not significant."""
    gaps = np.full(500, 3e-17)
    found = resampled_difference(np.array([0.5 + 6e-17, 0.5]), np.stack([gaps, 0 * gaps]), 0.95)
    assert found.p == 1
    areas = np.array([0.5 + 1.2e-16, 0.5])
    assert normal_difference(areas, np.zeros((2, 2)), 0, 1, 0.95).p == 1
