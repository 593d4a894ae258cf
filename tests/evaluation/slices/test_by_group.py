"""Accuracy by group."""

import numpy as np
import pytest
from scipy.stats import fisher_exact

from nescio import NescioError
from nescio.conformal import binomial_interval
from nescio.core import from_json, to_json
from nescio.evaluation import GroupTable, by_group
from nescio.metrics import ece, holm


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    site = rng.choice(["a", "b", "c"], 600, p=[0.5, 0.4, 0.1])
    wrong = rng.random(600) < np.where(site == "c", 0.4, 0.1)
    return wrong, site, rng.choice(["x", "y"], 600), rng.uniform(0.7, 1, 600)


def test_numbers_against_their_definitions(data):
    wrong, site, other, confidence = data
    tables = by_group(wrong, {"site": site, "other": other}, confidence=confidence)
    p = []
    for labels, name in [(site, "a"), (site, "b"), (site, "c"), (other, "x"), (other, "y")]:
        mine = labels == name
        table = [[(wrong & mine).sum(), (~wrong & mine).sum()],
                 [(wrong & ~mine).sum(), (~wrong & ~mine).sum()]]  # fmt: skip
        p.append(fisher_exact(table, alternative="greater").pvalue)
    corrected = holm(p)
    table = tables["site"]
    assert (table.groups, table.tests) == (3, 5)
    worst = table.rows[0]
    mine = site == "c"
    assert worst == table.worst
    assert (worst.name, worst.samples) == ("c", mine.sum())
    assert worst.p == pytest.approx(corrected[2])
    assert worst.worse
    assert worst.accuracy == binomial_interval(int((~wrong & mine).sum()), int(mine.sum()))
    assert worst.at_once.low < worst.accuracy.low
    assert worst.others == pytest.approx((~wrong[~mine]).mean())
    assert worst.gap == pytest.approx((~wrong[~mine]).mean() - (~wrong[mine]).mean())
    assert worst.ece == ece(confidence[mine], ~wrong[mine])
    gap = worst.overconfidence
    assert gap.value == pytest.approx(confidence[mine].mean() - (~wrong[mine]).mean())
    assert gap.low < gap.value < gap.high
    assert not any(row.worse for row in tables["other"].rows)


def test_tables_are_json(data):
    wrong, site, _, confidence = data
    table = by_group(wrong, {"site": site}, confidence=confidence)["site"]
    assert from_json(GroupTable, to_json(table)) == table


def test_ten_thousand_classes_are_cut_to_the_worst():
    rng = np.random.default_rng(0)
    label = np.arange(40_000) % 10_000
    wrong = (rng.random(40_000) < 0.1) | (label == 7)
    table = by_group(wrong, {"class": label}, names=[str(k) for k in range(10_001)])["class"]
    assert (table.groups, len(table.rows)) == (10_000, 200)
    assert table.rows[0].accuracy.value == 0
    assert table.absent == ("10000",)


def test_errors_of_numbers_have_a_mean(data):
    wrong, site, _, _ = data
    errors = np.arange(600.0)
    row = by_group(wrong, {"site": site}, errors=errors)["site"].rows[0]
    assert row.mean_error.value == pytest.approx(errors[site == "c"].mean())
    assert row.mean_error.low < row.mean_error.value < row.mean_error.high


def test_one_group_is_compared_with_nothing():
    row = by_group([0, 1], {"site": ["a", "a"]})["site"].rows[0]
    assert (row.p, row.others, row.gap) == (1.0, None, 0.0)


def test_false_alarms_are_rare():
    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(300):
        tables = by_group(rng.random(400) < 0.1, {"g": rng.integers(0, 20, 400)})
        alarms += any(row.worse for row in tables["g"].rows)
    assert alarms / 300 < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 300)


@pytest.mark.parametrize(
    ("labels", "words"), [(["a"], "one label per sample"), (range(100), "coarser column")]
)
def test_bad_groups(labels, words):
    with pytest.raises(NescioError, match=words):
        by_group(np.arange(100) % 2, {"g": list(labels)})


def test_the_lowest_accuracy_is_listed_among_many_groups():
    groups = np.repeat(np.arange(401), [20] * 400 + [1])
    wrong = np.zeros(len(groups))
    wrong[: 20 * 300 : 2] = 1  # 300 groups are half wrong, which is clearer than one wrong sample
    wrong[-1] = 1
    table = by_group(wrong, {"site": groups})["site"]
    assert (len(table.rows), table.worst.name, table.worst.accuracy.value) == (200, "400", 0.0)
