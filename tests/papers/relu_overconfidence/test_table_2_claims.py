"""The sentences on table 2 and on the cost of ACET, judged on made numbers."""

import math

import pytest
import torch
from scipy.stats import binom

from nescio_papers.relu_overconfidence import acet_cost
from nescio_papers.relu_overconfidence.table_2 import median_interval
from nescio_papers.relu_overconfidence.table_2_claims import claims_of

HOLDS, PART, FAILS = "holds", "holds in part", "does not hold"


def column(median, cut, *, rays=1000, wrong=50):
    """One network as it is stored: JSON has no infinity."""
    never = float(math.isinf(median))
    stored = None if never else median
    same = {"rays": rays, "median": stored, "never": never, "overconfident": cut}
    same["median_interval"] = [stored, stored] if never else [0.9 * median, 1.1 * median]
    return {**same, "test": {"images": 10_000, "wrong": wrong}, "grid": same}


def verdicts(name, **columns):
    return [claim.verdict for claim in claims_of({"blocks": {name: columns}})]


def test_claims_on_factors_follow_the_numbers():
    few, many = column(1.5, 0.99), column(2e6, 0.0)
    assert verdicts("MNIST", plain=few, CEDA=many, ACET=many) == [HOLDS] * 4
    never = column(math.inf, 0.0)
    assert verdicts("MNIST", plain=few, CEDA=few, ACET=never) == [PART, "open", HOLDS, HOLDS]
    same = column(9.9, 0.5)
    assert verdicts("CIFAR-10", plain=same, CEDA=same, ACET=column(5.0, 0.5))[1] == "open"
    less = column(5.0, 0.9)
    assert verdicts("CIFAR-10", plain=same, CEDA=less, ACET=less)[1] == FAILS


def test_two_factors_that_are_not_found_are_not_compared():
    few, never = column(1.5, 0.99), column(math.inf, 0.0)
    assert verdicts("MNIST", plain=never, CEDA=never, ACET=never)[1] == "open"
    unsure = {**never, "median": 5.0, "median_interval": [4.0, None]}
    assert verdicts("MNIST", plain={**unsure, "grid": unsure}, CEDA=never, ACET=never)[1] == "open"
    assert verdicts("MNIST", plain=few, CEDA=never, ACET=never)[1] == HOLDS


def test_what_a_grid_does_not_reach_may_lie_beyond_it():
    never = {**column(math.inf, 0.0), "rays": 2}
    assert verdicts("SVHN", plain=never, CEDA=never, ACET=never)[0] == "open"


def test_a_small_share_cannot_be_much_less():
    """0.3 % against none says nothing."""
    small, none = column(8.0, 0.003), column(40.0, 0.0)
    assert verdicts("CIFAR-10", plain=small, CEDA=none, ACET=none)[2] == "not reached here"
    large = column(8.0, 0.99)
    assert verdicts("CIFAR-10", plain=large, CEDA=none, ACET=column(40.0, 0.9))[2] == FAILS


def test_a_network_that_has_not_learned_tests_nothing():
    good, bad = column(8.0, 0.99), column(40.0, 0.0, wrong=2900)
    assert set(verdicts("CIFAR-10", plain=good, CEDA=good, ACET=bad)) == {"not reached here"}


def test_few_exact_rays_leave_the_verdict_to_the_grid():
    one = {**column(8.0, 0.99), "rays": 2, "median": 1e9}
    far = column(45.0, 0.03)
    assert verdicts("SVHN", plain=one, CEDA=far, ACET=far)[1] == HOLDS


def test_the_interval_of_a_median_is_of_order_statistics():
    values = torch.arange(1, 101).double()
    low, high = median_interval(values[torch.randperm(100)])
    assert low + high == 101
    assert binom.cdf(low - 1, 100, 0.5) <= 0.025 < binom.cdf(low + 1, 100, 0.5)
    assert median_interval(torch.tensor([3.0])) == [3.0, 3.0]


def costs(ours, forty, gap):
    each = {
        "ACET": [{"mean_max_confidence": 0.10 + s / 1000, "error": 0.02} for s in range(3)],
        "ACET, 40 steps": [
            {"mean_max_confidence": 0.10 + s / 1000 - gap + s / 10_000, "error": 0.02}
            for s in range(3)
        ],
    }
    seconds = {
        "plain": [1.0, 1.0, 1.0],
        "ACET": [ours, ours, 1.01 * ours],
        "ACET, 40 steps": [forty, forty, 1.01 * forty],
    }
    return {"each": each, "seconds": seconds, "epochs": 5, "images": 10_000}


def test_the_affordable_attack_is_cheap_and_no_worse():
    (claim,) = acet_cost.claims_of(costs(2, 30, gap=0.0))
    assert claim.verdict == HOLDS
    assert acet_cost.claims_of(costs(2, 30, gap=0.1))[0].verdict == PART
    assert acet_cost.claims_of(costs(9, 30, gap=0.1))[0].verdict == FAILS
    assert acet_cost.claims_of(costs(2, 3, gap=0.0))[0].verdict == "not reached here"
    assert acet_cost.claims_of({"absent": "no MNIST"}) == []
    assert acet_cost.gaps(costs(2, 30, gap=0.1))["error"].value == pytest.approx(0)
