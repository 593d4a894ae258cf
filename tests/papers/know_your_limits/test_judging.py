"""Intervals of numbers over trainings, and verdicts on numbers that are stored."""

import json
import math
from pathlib import Path

import pytest

from nescio_papers import named
from nescio_papers.kit import A_SHARE, sample
from nescio_papers.know_your_limits.blob_claims import blob_claims
from nescio_papers.know_your_limits.claims import surface_claims
from nescio_papers.know_your_limits.definitions import (
    _equal_column,
    _mixed,
    _signs_of_size,
    _slopes,
)
from nescio_papers.know_your_limits.judging import (
    ABSENT,
    counted,
    half_width,
    of_difference,
    of_number,
    of_orders,
    of_share,
    over_trainings,
)
from nescio_papers.know_your_limits.limit_claims import limit_claims
from nescio_papers.know_your_limits.medical_claims import medical_claims
from nescio_papers.know_your_limits.models import ANCHORED, BUDGETS, END, ENSEMBLE, PAPER
from nescio_papers.know_your_limits.random_networks import linear
from nescio_papers.know_your_limits.surfaces import INFORMATION

STORED = Path(__file__).parents[3] / "docs" / "know-your-limits" / "results.json"
VALUES, OTHERS = [0.2, 0.5, 0.3, 0.25, 0.4], [0.1, 0.35, 0.2, 0.2, 0.3]


def stored(part):
    return json.loads(STORED.read_text())["parts"][part]["numbers"]


def starting(claims, words):
    """The one claim whose sentence begins so."""
    (found,) = [claim for claim in claims if claim.sentence.startswith(words)]
    return found


def without_values(values):
    row = over_trainings(values)
    row.pop("values")
    return row


def test_the_interval_is_students_and_a_bound_on_it_where_values_are_absent():
    exact = sample(VALUES).half
    assert half_width(over_trainings(VALUES)) == pytest.approx(exact)
    assert exact < half_width(without_values(VALUES)) < 1.5 * exact
    two = [0.1, 0.3]  # here the bound is reached
    assert half_width(without_values(two), 2) == pytest.approx(sample(two).half)
    assert half_width(without_values([0.1]), 1) == math.inf
    assert of_number("n", over_trainings([0.1]), below=1).verdict == "open"


def test_a_share_stays_a_share_and_one_that_never_varies_has_a_binomial_interval():
    found = of_share("s", over_trainings([0.9, 1.0, 0.8]), above=0.5, points=10)
    assert found.high == 1
    same = of_share("s", over_trainings([0.0] * 5), below=0.05, points=100)
    assert same.low == 0
    assert same.high == pytest.approx(0.0362, abs=1e-4)  # Clopper and Pearson: 1 - 0.025^(1/100)
    assert same.verdict == "holds"
    assert of_share("s", ABSENT, below=0.05, points=100).verdict == "open"


def test_differences_are_paired_and_never_too_sure():
    one, two = over_trainings(VALUES), over_trainings(OTHERS)
    paired = of_difference("d", one, two, above=0)
    half = (sample(VALUES) - sample(OTHERS)).half
    assert paired.high - paired.value == pytest.approx(half)
    stored = of_difference("d", without_values(VALUES), without_values(OTHERS), above=0)
    apart = of_difference("d", one, two, above=0, paired=False)
    assert half < apart.high - apart.value < stored.high - stored.value
    assert of_difference("d", one, one, above=0, step=0.1).high == pytest.approx(0.1)


def test_numbers_are_no_finer_than_they_were_measured():
    found = of_number("n", over_trainings([0.0, 0.0]), below=0.5, step=0.25)
    assert (found.low, found.high) == (-0.25, 0.25)
    ends = of_number("n", over_trainings([0.0, 1.0]), below=2, within=A_SHARE)
    assert (ends.low, ends.high) == (0, 1)


def test_shares_and_areas_stay_between_0_and_1():
    zero = [0.0] * 4 + [0.3]
    ring = {"ring_below_tenth": over_trainings([0.2, 1.0, 1.0])}
    claims = blob_claims({"zero_of_starts": zero, "starts": ring})
    for share in (claims[0].facts[0], claims[3].facts[0]):
        assert 0 <= share.low < share.high <= 1
    column = {"v": {"10000": {"mean": 0.1}}, "w": {"10000": {"mean": 0.9}}}
    names = ("ensemble: entropy", "knn")
    areas = {name: {"mean": 0.5, "low": 0.4, "high": 0.6} for name in names}
    world = {"auroc": areas, "scaled": dict.fromkeys(names, column)}
    (area,) = medical_claims({"made up": world})[0].facts
    assert (area.low, area.high) == (0, 1)


def test_orders_of_magnitude_are_compared_training_by_training():
    far, near = over_trainings([1e-20, 1e-12, 0.0]), over_trainings([1e-6, 1e-4, 1e-5])
    found = of_orders("o", far, near, below=0)
    assert found.value == pytest.approx((-14 - 8 - 295) / 3)
    assert of_orders("o", without_values([1.0]), near, below=0).verdict == "open"


def test_a_count_has_its_binomial_interval():
    found = counted("c", 9, 20, below=0.05)
    assert found.verdict == "does not hold"
    assert (found.low, found.high) == pytest.approx((0.2306, 0.6847), abs=1e-4)


def test_stored_numbers_of_every_part_are_judged():
    records = json.loads(STORED.read_text())["parts"]
    verdicts = {}
    for part in named("know-your-limits").parts:
        for claim in part.judge(records[part.name]["numbers"]) if part.judge else ():
            assert claim.facts
            verdicts[claim.source, claim.sentence[:20]] = claim.verdict
    exact = {source: verdict for (source, _), verdict in verdicts.items()}
    assert exact["Ulmer and Cinà, theorem 1"] == "holds"
    assert exact["Ulmer and Cinà, proposition 1"] == "does not hold"
    assert exact["Ulmer and Cinà, lemmas 3 to 7"] == "does not hold"
    assert exact["Ulmer and Cinà, section 3.3"] == "does not hold"  # entropy of one class alone
    assert exact["Ulmer and Cinà, lemma 9 and figure 4"] == "holds"
    assert exact["Ulmer and Cinà, proof of proposition 1"] == "does not hold"
    assert len(verdicts) > 35


def flat_everywhere(numbers, budget, share):
    """The numbers with this share of flat points for all models and measures of a budget."""
    for measures in numbers[budget].values():
        for row in measures.values():
            row["far and flat"] = over_trainings([share - 0.01, share, share + 0.01])
    return numbers


@pytest.mark.parametrize(
    "words",
    ["For a single network there exist", "Turning to predictions", "For all metrics, we see"],
)
def test_flat_regions_are_judged_with_both_budgets(words):
    numbers = stored("surfaces")
    for budget in BUDGETS:
        flat_everywhere(numbers, budget, 0.9)
    flat = [f for f in starting(surface_claims(numbers), words).facts if "below 0.001" in f.what]
    assert {budget for budget in BUDGETS for f in flat if budget in f.what} == set(BUDGETS)
    assert {f.verdict for f in flat} == {"holds"}
    flat_everywhere(numbers, PAPER, 0.1)
    claim = starting(surface_claims(numbers), words)
    assert claim.verdict == "holds in part"
    for f in claim.facts:
        if "below 0.001" in f.what:
            assert f.verdict == ("does not hold" if PAPER in f.what else "holds")


def test_gradients_are_judged_by_the_measure_that_fits_least():
    numbers = flat_everywhere(stored("surfaces"), END, 0.9)
    numbers[END][ENSEMBLE][INFORMATION]["far and flat"] = over_trainings([0.1, 0.11, 0.12])
    far = over_trainings([5.0, 5.1, 5.2])
    numbers[END][ANCHORED][INFORMATION]["steep: from a boundary"] = far
    facts = starting(surface_claims(numbers), "For all metrics, we see").facts
    failed = {f.what for f in facts if END in f.what and f.verdict == "does not hold"}
    assert len(facts) == 12
    assert len(failed) == 2
    assert all(INFORMATION in what for what in failed)


def test_the_anchored_ensemble_is_compared_with_the_plain_one():
    numbers = stored("exact-limits")
    claim = starting(limit_claims(numbers), "The fact that the anchored ensemble")
    assert "like the vanilla ensemble" in claim.sentence
    assert len(claim.facts) == 2
    rows = numbers["methods"]
    rows[ANCHORED]["10"] = rows[ENSEMBLE]["10"]
    claim = starting(limit_claims(numbers), "The fact that the anchored ensemble")
    assert [f.value for f in claim.facts] == [0, 0]
    assert claim.verdict == "open"


def test_definition_3_and_footnote_4():
    assert _signs_of_size() == 2  # |x_1| + x_2 has no zero entry and is not monotone
    assert not _mixed(_slopes(linear((1.0, -2.0), (3.0, 4.0))))
    column = _equal_column(0)
    assert column["along"] < 1e-14
    assert column["across"] > 1e-3
