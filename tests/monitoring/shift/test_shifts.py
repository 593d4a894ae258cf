"""Tests of shift: against scipy, scikit-learn and the definitions, and that they see a shift."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency, false_discovery_control, fisher_exact, ks_2samp

from nescio.core import NescioError
from nescio.data import Table, learn_columns, read_table
from nescio.metrics import auroc
from nescio.monitoring import shift
from nescio.monitoring.shift.two_sample import permutation_p


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    return rng.normal(size=(30, 3)), rng.normal(size=(40, 3)) + 0.3


def by_definition(x, y, width):
    """The unbiased estimate, in loops (Gretton et al., 2012, lemma 6)."""

    def mean(one, two, same):
        pairs = [(i, j) for i in range(len(one)) for j in range(len(two)) if not same or i != j]
        values = [np.exp(-np.sum((one[i] - two[j]) ** 2) / (2 * width**2)) for i, j in pairs]
        return np.mean(values)

    return mean(x, x, True) + mean(y, y, True) - 2 * mean(x, y, False)


def test_mmd_is_the_definition_with_the_median_distance(pair):
    x, y = pair
    pooled = np.concatenate(pair)
    every = [np.linalg.norm(a - b) for a, b in itertools.combinations(pooled, 2)]
    found = shift.mmd(x, torch.from_numpy(y))
    assert found.notes["width"] == pytest.approx(np.median(every))
    assert found.statistic == pytest.approx(by_definition(x, y, np.median(every)))
    assert found.samples == (30, 40)
    other = shift.mmd(x, y, width=0.7)
    assert other.statistic == pytest.approx(by_definition(x, y, 0.7))


def test_mmd_of_all_permutations():
    """Six samples have 20 ways to be split: the drawn p-value comes near the whole one."""
    rng = np.random.default_rng(0)
    pooled = rng.normal(size=(6, 2))
    every = []
    for chosen in itertools.combinations(range(6), 3):
        rest = [i for i in range(6) if i not in chosen]
        every.append(by_definition(pooled[list(chosen)], pooled[rest], 1.0))
    whole = np.mean(np.array(every) >= every[0] - 1e-12)
    found = shift.mmd(pooled[:3], pooled[3:], width=1.0, permutations=9999)
    assert found.p_value == pytest.approx(whole, abs=0.02)


def test_linear_mmd_estimates_the_same():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4000, 1)), rng.normal(size=(4000, 1)) + 1
    # E k for two normals: Gaussian integrals with variance 2 and width 1
    within, between = 1 / np.sqrt(3), np.exp(-1 / 6) / np.sqrt(3)
    found = shift.mmd(x, y, width=1.0)
    assert found.notes["method"] == "linear"
    assert found.samples == (4000, 4000)
    assert found.statistic == pytest.approx(2 * within - 2 * between, abs=0.03)
    assert found.p_value == 0.001
    assert shift.mmd(x[:21], y[:30], method="linear").samples == (20, 20)


def test_the_classifier_s_auroc_is_that_of_held_out_samples(pair):
    seen = {}

    def learn(x, y):
        seen["taught"] = x

        def score(rows):
            seen["held"] = rows
            return rows[:, 0]

        return score

    found = shift.classifier_two_sample(*pair, classifier=learn)
    assert found.samples == (15, 20)
    taught, held = ({tuple(row) for row in seen[key]} for key in ("taught", "held"))
    assert not taught & held
    assert taught | held == {tuple(row) for row in np.concatenate(pair)}
    before, after = seen["held"][:15, 0], seen["held"][15:, 0]
    assert found.statistic == pytest.approx(auroc(before, after))


def test_drawn_labels_give_the_p_value_of_the_rank_sum_test():
    from scipy.stats import mannwhitneyu

    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 1)), rng.normal(size=(60, 1)) + 0.3
    held = {}

    def learn(rows, labels):
        del rows, labels

        def score(rows):
            held["rows"] = rows[:, 0]
            return rows[:, 0]

        return score

    found = shift.classifier_two_sample(x, y, classifier=learn, permutations=9999)
    exact = mannwhitneyu(held["rows"][30:], held["rows"][:30], alternative="greater").pvalue
    assert found.p_value == pytest.approx(exact, abs=0.015)


@pytest.mark.parametrize("classifier", ["boosting", "logistic"])
def test_a_classifier_sees_a_shift_and_is_repeatable(classifier):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    y[:, 1] += 1
    found, again = (
        shift.classifier_two_sample(x, y, classifier=classifier, permutations=199) for _ in range(2)
    )
    assert found == again
    assert found.p_value == 1 / 200
    assert found.statistic > 0.65
    other = shift.classifier_two_sample(x, y, classifier=classifier, seed=1)
    assert other.statistic != found.statistic


def test_columns_have_the_p_values_of_scipy():
    rng = np.random.default_rng(0)
    before = read_table(
        {"v": rng.normal(size=200), "c": rng.choice(list("abc"), 200), "same": ["x"] * 200}
    )
    after = read_table(
        {"v": rng.normal(size=150) + 0.5, "c": rng.choice(list("abcc"), 150), "same": ["x"] * 150}
    )
    found = shift.by_column(before, after)
    v, c, same = found.rows
    expected = ks_2samp(before["v"], after["v"])
    assert (v.statistic, v.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    counts = [[int((t["c"] == level).sum()) for level in "abc"] for t in (before, after)]
    table = chi2_contingency(counts, correction=False)
    assert (c.statistic, c.p_value) == pytest.approx((table.statistic, table.pvalue))
    assert (same.statistic, same.p_value) == (0.0, 1.0)
    assert found.shifted() == ["v", "c"]  # c has shifted too: 1/3 against 1/2
    assert found.p_value == v.adjusted == pytest.approx(3 * v.p_value)
    assert [line.split()[0] for line in str(found).splitlines()] == ["column", "v", "c", "same"]


def test_a_small_table_has_the_exact_p_value():
    before = read_table({"c": ["a"] * 8 + ["b"] * 2})
    after = read_table({"c": ["a"] * 1 + ["b"] * 5})
    found = shift.by_column(before, after, draws=20_000)
    exact = fisher_exact([[8, 2], [1, 5]]).pvalue  # the two orders of 2 x 2 tables agree here
    assert found.p_value == pytest.approx(exact, abs=0.005)


def test_missing_values_are_a_test_of_their_own_and_new_levels_count():
    rng = np.random.default_rng(0)
    before = read_table({"v": rng.normal(size=200), "c": ["a", "b"] * 100})
    after = read_table(
        {"v": np.where(rng.random(200) < 0.3, np.nan, rng.normal(size=200)),
         "c": ["a", "new"] * 100}
    )  # fmt: skip
    found = shift.by_column(before, after, columns=learn_columns(before))
    assert [row.test for row in found.rows] == [
        "Kolmogorov-Smirnov", "chi-squared, missing or not", "chi-squared",
    ]  # fmt: skip
    assert found.rows[0].adjusted > 0.05
    assert found.shifted() == ["v", "c"]


def test_arrays_and_mixed_text():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 4)), rng.normal(size=(200, 4))
    y[:, 2] += 1
    assert shift.by_column(x, y).shifted() == ["2"]
    one, two = read_table({"c": [1, 2, 1]}), read_table({"c": ["1", "x", "2"]})
    found = shift.by_column(one, two)
    assert found.rows[0].statistic == pytest.approx(4 / 3)  # 1: 2 against 1, 2: 1, x: 1


def test_corrections():
    rng = np.random.default_rng(0)
    p = rng.random(30) ** 3
    np.testing.assert_allclose(shift.adjust(p, "bh"), false_discovery_control(p))
    order = np.sort(p)
    for value, adjusted in zip(p, shift.adjust(p), strict=True):
        steps = [min(1, (30 - i) * q) for i, q in enumerate(order) if q <= value]
        assert adjusted == pytest.approx(max(steps))
    assert (shift.adjust(p, "bh") <= shift.adjust(p)).all()


def test_equal_statistics_count_as_equal():
    assert permutation_p(0.3, np.array([0.1 + 0.2, 0.1])) == 2 / 3
    assert permutation_p(1.0, np.zeros(99)) == 0.01


def test_constant_batches_have_not_shifted():
    x = np.zeros((10, 2))
    assert shift.mmd(x, x).p_value == 1
    assert shift.classifier_two_sample(x, x, classifier="logistic").p_value == 1
    assert shift.by_column(x, x).p_value == 1
    level = Table({"c": np.full(10, "same")})
    found = shift.by_column(level, level, kinds={"c": "categorical"})
    assert [(row.statistic, row.p_value) for row in found.rows] == [(0, 1)]


def test_what_is_refused(pair):
    x, y = pair
    with pytest.raises(NescioError, match="before has 3 numbers per sample, after 2"):
        shift.mmd(x, y[:, :2])
    with pytest.raises(NescioError, match="after has 1 samples; the test needs at least 2"):
        shift.mmd(x, y[:1])
    with pytest.raises(NescioError, match="before contain NaN"):
        shift.mmd(np.full((5, 2), np.nan), y[:, :2])
    with pytest.raises(NescioError, match="width must be positive"):
        shift.mmd(x, y, width=-1)
    with pytest.raises(NescioError, match='"linear" or None, got'):
        shift.mmd(x, y, method="cubic")
    with pytest.raises(NescioError, match="permutations must be a whole number"):
        shift.mmd(x, y, permutations=0)
    with pytest.raises(NescioError, match="draws must be a whole number"):
        shift.by_column(x, y, draws=0)
    with pytest.raises(NescioError, match='"logistic" or a function, got'):
        shift.classifier_two_sample(x, y, classifier="forest")
    with pytest.raises(NescioError, match="must give 35 numbers, one per row"):
        shift.classifier_two_sample(x, y, classifier=lambda x, y: lambda rows: np.zeros(3))
    with pytest.raises(NescioError, match="two tables, or two arrays"):
        shift.by_column(read_table({"a": [1]}), y)
    with pytest.raises(NescioError, match='"holm" or "bh", got'):
        shift.adjust([0.5], "none")
    with pytest.raises(NescioError, match="from 0 to 1"):
        shift.adjust([1.5])
    with pytest.raises(NescioError, match="real numbers"):
        shift.adjust(["a"], "bh")
    with pytest.raises(NescioError, match="must return a function of rows"):
        shift.classifier_two_sample(x, y, classifier=lambda x, y: None)
    table = read_table({"a": [1, 2, 3]})
    with pytest.raises(NescioError, match="encode tables first"):
        shift.mmd(table, table)
    with pytest.raises(NescioError, match="columns that before lacks: b;"):
        shift.by_column(table, table.changed(b=[1, 2, 3]))


@pytest.mark.parametrize("value", [1.0, 0.3, 7.7])
@pytest.mark.parametrize("sizes", [(10, 10), (3, 3), (25, 25)])
def test_one_odd_sample_is_no_shift(value, sizes):
    """Whichever batch holds it, the statistic is 0: rounding must not tell the orders apart."""
    x, y = (np.full((size, 2), 0.1) for size in sizes)
    y[1] += value
    for seed in range(3):
        for pair in ((x, y), (y, x)):
            found = shift.mmd(*pair, seed=seed)
            assert found.p_value == 1
            assert abs(found.statistic) < 1e-12


def test_few_discrete_samples_have_the_p_value_of_all_orders():
    """Against a plain count over all splits with the definition in fractions of kernel values."""
    from itertools import combinations

    rng = np.random.default_rng(0)
    for _ in range(5):
        pooled = rng.integers(0, 3, (8, 1)).astype(float)
        if len(np.unique(pooled)) == 1:
            continue
        kernel = np.exp(-np.square(pooled - pooled.T) / 2).round(6)  # few digits: exact ties

        def statistic(first, kernel=kernel):
            second = [i for i in range(8) if i not in first]
            within = [sum(kernel[i, j] for i in g for j in g if i != j) / 12
                      for g in (first, second)]  # fmt: skip
            return sum(within) - 2 * kernel[np.ix_(first, second)].mean()

        every = [statistic(list(one)) for one in combinations(range(8), 4)]
        wanted = np.mean([one >= every[0] - 1e-5 for one in every])
        found = shift.mmd(pooled[:4], pooled[4:], width=1.0)
        assert found.p_value == pytest.approx(wanted, abs=1e-12)
        assert found.notes["permutations"] == 69


def test_linear_mmd_of_alike_pairs_is_no_shift():
    x = np.full((40, 1), 0.3)
    y = x.copy()
    y[0] = 0.7
    for seed in range(5):
        assert shift.mmd(x, y, method="linear", seed=seed).p_value > 0.4
    assert shift.mmd(x, x + 0, method="linear").p_value == 1


def test_few_samples_that_a_classifier_tells_apart_have_the_p_value_of_all_orders():
    """Of the 6 orders of two and two labels, one separates them."""
    before, after = np.zeros((4, 1)), np.ones((4, 1))
    found = shift.classifier_two_sample(
        before, after, classifier=lambda *_: lambda rows: rows[:, 0]
    )
    assert (found.statistic, found.notes["permutations"]) == (1.0, 5)
    assert found.p_value == pytest.approx(1 / 6)
    swapped = shift.classifier_two_sample(
        after, before, classifier=lambda *_: lambda rows: rows[:, 0]
    )
    assert (swapped.statistic, swapped.p_value) == (0.0, 1.0)
