"""Under no shift, a test at level a gives an alarm in a share a of the batches: by simulation."""

import numpy as np
import pytest
from scipy.stats import binom

from nescio.data import read_table
from nescio.monitoring import shift

RUNS = 300
MORE = 1000  # of what costs little
LEVEL = 0.1


def numbers(rng):
    """Two batches from one distribution: skewed, with ties."""
    return [np.round(rng.gamma(1.0, size=(rows, 2)), 1) for rows in (16, 24)]


def linear_logistic(x, y):
    """A classifier that costs nothing: the difference of the means."""
    direction = x[y == 1].mean(0) - x[y == 0].mean(0)
    return lambda rows: rows @ direction


TESTS = {
    "mmd": lambda pair, seed: shift.mmd(*pair, permutations=49, seed=seed),
    "mmd-linear": lambda pair, seed: shift.mmd(*pair, permutations=49, seed=seed, method="linear"),
    "classifier": lambda pair, seed: shift.classifier_two_sample(
        *pair, permutations=49, seed=seed, classifier=linear_logistic
    ),
}


def alarms(p_values):
    return int((np.array(p_values) <= LEVEL).sum())


@pytest.mark.parametrize("name", TESTS)
def test_the_level_of_an_exact_test(name):
    p = [TESTS[name](numbers(np.random.default_rng(run)), run).p_value for run in range(MORE)]
    low, high = binom.ppf([0.0005, 0.9995], MORE, LEVEL)
    assert low <= alarms(p) <= high
    assert 0.45 < np.mean(p) < 0.55


@pytest.mark.parametrize("correction", ["holm", "bh"])
def test_the_level_of_all_columns_together(correction):
    p = []
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        tables = [
            read_table(
                {
                    "v": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)),
                    "w": rng.normal(size=rows),
                    "c": rng.choice(list("aaaaaabbbc"), rows),
                    "d": rng.integers(0, 2, rows),
                }
            )
            for rows in (30, 50)
        ]
        kinds = {"v": "continuous", "w": "continuous", "c": "categorical", "d": "categorical"}
        found = shift.by_column(*tables, kinds=kinds, correction=correction, draws=199, seed=run)
        assert len(found.rows) in (4, 5)
        p.append(found.p_value)
    assert alarms(p) <= binom.ppf(0.9995, RUNS, LEVEL)
    assert alarms(p) >= 5  # not an idle test


def test_small_tables_are_exact_where_the_limit_is_not():
    p = []
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        tables = [read_table({"c": rng.choice(list("abcdefgh"), rows)}) for rows in (8, 60)]
        found = shift.by_column(*tables, kinds={"c": "categorical"}, draws=199, seed=run)
        p.append(found.p_value)
    low, high = binom.ppf([0.0005, 0.9995], RUNS, LEVEL)
    assert low <= alarms(p) <= high
