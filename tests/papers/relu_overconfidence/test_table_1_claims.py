"""The sentences on table 1, judged on the published numbers and on ones with known verdicts."""

import json
import math
from pathlib import Path

import pytest

from nescio.metrics import Interval
from nescio_papers.kit import VERDICTS
from nescio_papers.relu_overconfidence.block_numbers import BlockNumbers, minus, size_of
from nescio_papers.relu_overconfidence.paper import PARTS
from nescio_papers.relu_overconfidence.published import METHODS, TABLE_1
from nescio_papers.relu_overconfidence.stronger import LEAK, STRONG, WRONG_CLASS
from nescio_papers.relu_overconfidence.table_1_claims import claims_of

STORED = Path(__file__).parents[3] / "docs" / "relu-overconfidence" / "results.json"
KEYS = ("mean_max_confidence", "auroc", "fpr_at_95_tpr")


def number(value, half=0.002):
    return {"value": value, "low": max(0.0, value - half), "high": min(1.0, value + half)}


def cell(numbers):
    found = {key: number(v) for key, v in zip(KEYS, numbers, strict=True) if v is not None}
    return {"samples": 10_000, **found}


def as_found(name):
    """The published block in the form of ours, each number with an interval of 0.002."""
    block = TABLE_1[name]
    predictors = {}
    for column in METHODS:
        rows = {row: cell(numbers[column]) for row, numbers in block.rows.items()}
        rows["Adv. Samples, misclassified"] = rows["Adv. Samples"]
        rows[name]["error"] = number(block.errors[column] / 100, 0.0001)
        predictors[column] = {"rows": rows}
    return {"block": name, "predictors": predictors}


HOLDS, PART, FAILS = "holds", "holds in part", "does not hold"


@pytest.mark.parametrize(
    ("block", "verdicts"),
    [
        ("MNIST", [HOLDS, PART, PART, PART, HOLDS, HOLDS, HOLDS, FAILS, HOLDS]),
        ("SVHN", [HOLDS, PART, HOLDS, HOLDS, HOLDS, HOLDS, HOLDS]),
        ("CIFAR-10", [HOLDS, PART, HOLDS, HOLDS, FAILS, HOLDS, HOLDS]),
        ("CIFAR-100", [HOLDS, PART, HOLDS, HOLDS, PART, HOLDS, HOLDS]),
    ],
)
def test_the_papers_own_table_is_judged_by_its_numbers(block, verdicts):
    """Plain networks are not always sure of noise: their means are .46 to .83.

    On MNIST, CEDA does not fail, ACET is not alone, and adversarial samples are not detected.
    """
    found = claims_of(as_found(block))
    assert [claim.verdict for claim in found] == verdicts
    own = {"SVHN": (4, 4, 4), "CIFAR-10": (1, 2, 4), "CIFAR-100": (2, 4, 4), "MNIST": (3, 3, 3)}
    ceda, acet, sets = own[block]
    said = f"in the published table CEDA on {ceda} and ACET on {acet} of {sets}"
    assert sum(said in claim.measured for claim in found) == 1


def by_sentence(numbers, begin):
    (found,) = [one for one in claims_of(numbers) if one.sentence.startswith(begin)]
    return found


def test_networks_that_have_not_learned_test_nothing():
    numbers = as_found("CIFAR-10")
    numbers["predictors"]["ACET"]["rows"]["CIFAR-10"]["error"] = number(0.29)
    only = by_sentence(numbers, "Only ACET")
    assert only.verdict == "not reached here"
    assert "test error of ACET 29.0 %" in only.measured
    assert by_sentence(numbers, "There is almost").verdict == PART  # the difference is the finding
    assert by_sentence(numbers, "The plain").verdict == PART


def test_the_worst_attack_of_each_method_counts():
    """A tie at 0.1 between two attacks on ACET must not pick the one that is blind on CEDA."""
    numbers = as_found("MNIST")
    for column, sure in (("plain", 1.0), ("CEDA", 0.81), ("ACET", 0.1)):
        rows = numbers["predictors"][column]["rows"]
        rows["Adv. Noise"] = cell((1.0 if column == "plain" else 0.1, 0.99, 0.01))
        rows[f"Adv. Noise{LEAK}"] = cell((sure, 1 - sure, sure))
    numbers["predictors"]["ACET"]["rows"][f"Adv. Noise{LEAK}"] = cell((0.1, 0.999, 0.0))
    assert BlockNumbers(numbers).noise_row("CEDA") == f"Adv. Noise{LEAK}"
    assert by_sentence(numbers, "CEDA produces").verdict == HOLDS
    assert by_sentence(numbers, "Only ACET").verdict == HOLDS
    for column in METHODS:  # the judge has all attacks in it, whatever the mean of one says
        rows = numbers["predictors"][column]["rows"]
        rows[f"Adv. Noise{STRONG}"] = cell((0.15, 0.99, 0.0))
    assert by_sentence(numbers, "CEDA produces").verdict == PART


def test_the_judge_says_what_it_counts_and_what_any_answer_would_give():
    numbers = as_found("CIFAR-10")
    for column in METHODS:
        numbers["predictors"][column]["rows"][f"Adv. Noise{STRONG}"] = cell((0.15, 0.99, 0.0))
    assert "if right ones count" not in by_sentence(numbers, "Only ACET").note
    numbers["any_class"] = {"mean_max_confidence": number(0.3)}
    note = by_sentence(numbers, "Only ACET").note
    assert note.startswith("the strong judge takes the best of several attacks for each image; ")
    assert "if right ones count too, ACET's confidence is 0.300 (0.298 to 0.302)" in note


def test_adversarial_samples_are_judged_under_both_objectives():
    numbers = as_found("MNIST")
    for column in METHODS:
        rows = numbers["predictors"][column]["rows"]
        rows["Adv. Samples, misclassified"] = cell((0.13, 0.99, 0.01))
        rows[f"Adv. Samples{WRONG_CLASS}"] = cell((0.96, 0.6, 0.8))
    assert by_sentence(numbers, "ACET achieves on MNIST").verdict == PART
    numbers["predictors"]["ACET"]["rows"][f"Adv. Samples{WRONG_CLASS}"] = {"samples": 0}
    assert by_sentence(numbers, "ACET achieves on MNIST").verdict == HOLDS  # none is left


def test_it_is_said_of_which_network_there_is_one_training():
    numbers = as_found("MNIST")
    numbers["predictors"]["plain, no decay"] = numbers["predictors"]["plain"]
    numbers["by_seed"] = {"plain": {}, "CEDA": {}, "ACET": {}}
    assert "one training of plain, no decay:" in by_sentence(numbers, "It is well known").note
    assert "one training" not in by_sentence(numbers, "Only ACET").note
    numbers["by_seed"] = {}
    assert "one training each:" in by_sentence(numbers, "Only ACET").note


def test_letters_with_and_without_some_of_them_are_one_set():
    numbers = as_found("MNIST")
    for column in METHODS:
        rows = numbers["predictors"][column]["rows"]
        rows["EMNIST without O, I, S, Z"] = rows["EMNIST"]
    improve = by_sentence(numbers, "For the out-of-distribution")
    assert all(fact.what.startswith("share of 3 sets") for fact in improve.facts)


def test_a_pair_on_the_same_inputs_takes_the_place_of_two_intervals():
    numbers = as_found("MNIST")
    found = BlockNumbers(numbers)
    wide = found.less("ACET", "plain", "FMNIST")
    assert wide.value == pytest.approx(0.239 - 0.654)
    assert wide.high - wide.low == pytest.approx(2 * math.hypot(0.002, 0.002))
    pair = {"value": -0.4, "low": -0.41, "high": -0.39}
    numbers["pairs"] = {"ACET less plain": {"FMNIST": {"mean_max_confidence": pair}}}
    assert found.less("ACET", "plain", "FMNIST") == Interval(-0.4, -0.41, -0.39)
    assert found.less("ACET", "plain", "FMNIST", beside="Noise").value != -0.4


def test_a_share_of_none_has_an_interval():
    numbers = as_found("MNIST")
    numbers["predictors"]["ACET"]["rows"]["Noise"]["fpr_at_95_tpr"] = number(0.0, 0.0)
    found = BlockNumbers(numbers).of("ACET", "Noise", "fpr_at_95_tpr")
    assert found.value == found.low == 0
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 10_000), rel=1e-3)
    assert math.isnan(BlockNumbers(numbers).of("ACET", "nowhere").value)


def test_differences_of_intervals():
    assert size_of(Interval(-0.2, -0.3, -0.1)) == Interval(0.2, 0.1, 0.3)
    assert size_of(Interval(0.1, -0.1, 0.3)) == Interval(0.1, 0.0, 0.3)
    found = minus(Interval(0.5, 0.2, 0.9), Interval(0.1, 0.0, 0.5))
    assert (found.value, found.low, found.high) == pytest.approx(
        (0.4, 0.4 - math.hypot(0.3, 0.4), 0.4 + math.hypot(0.4, 0.1))
    )


def test_a_block_without_data_has_no_claims():
    assert claims_of({"block": "SVHN", "absent": "no files"}) == []


def test_results_that_are_stored_can_be_judged_again():
    stored = json.loads(STORED.read_text())["parts"]
    judged = [part for part in PARTS if part.judge is not None and part.name in stored]
    claims = [claim for part in judged for claim in part.judge(stored[part.name]["numbers"])]
    assert len(judged) >= 5
    assert {claim.verdict for claim in claims} <= set(VERDICTS)
    assert "holds" in {claim.verdict for claim in claims}
