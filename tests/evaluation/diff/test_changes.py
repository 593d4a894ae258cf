"""Numbers of two audits: pairs by hash, tests that see what is there and little else."""

import numpy as np
import pytest
import torch

from nescio import metrics
from nescio.evaluation.audit.stored_answers import StoredAnswers, _stored
from nescio.evaluation.diff.changes import _mean, _of_guard, _share, judged, of_ood, of_test
from nescio.evaluation.diff.sides import sides_of


def stored(keys, wrong, log_odds, decision=None, nll=None):
    """A set as an audit stores it: in rising order of keys."""
    keys = torch.tensor(keys)
    order = torch.from_numpy(np.argsort(keys.numpy().view(np.uint64), kind="stable"))
    columns = {"wrong": torch.tensor(wrong, dtype=torch.bool), "log_odds": torch.tensor(log_odds)}
    if nll is not None:
        columns["nll"] = torch.tensor(nll)
    letters = None if decision is None else "".join(decision[i] for i in order.tolist())
    return _stored(keys, order, {name: one[order] for name, one in columns.items()}, letters)


def network(rng, samples, *, skill=2.0, keys=None):
    """Answers of a network that is calibrated: wrong with the probability that it says."""
    odds = -np.abs(rng.normal(skill, 1.5, samples))
    wrong = rng.random(samples) > 1 / (1 + np.exp(odds))
    keys = np.arange(samples) * 7919 if keys is None else keys
    decision = np.where(odds < -1, "a", "u").tolist()
    nll = np.where(wrong, -odds, 0.1) + 0.1
    return stored(keys.tolist(), wrong, odds, decision, nll)


def changes(before, after):
    return judged(list(of_test(sides_of(before, after), 0.95)), 0.95)


def test_the_same_answers_show_no_difference():
    one = network(np.random.default_rng(0), 300)
    found = changes(one, one)
    names = ["accuracy", "NLL", "ECE", "AURC", "coverage", "wrong answers"]
    assert [change.name for change in found] == names
    assert all(change.p == 1 and change.difference == 0 for change in found)
    assert {change.word for change in found} == {"no difference shown"}
    assert all(change.paired and change.samples == (300, 300) for change in found)


def test_samples_are_paired_by_their_hash_whatever_their_order():
    rng = np.random.default_rng(0)
    keys, wrong, odds = (
        rng.integers(-(2**62), 2**62, 200),
        rng.random(200) < 0.2,
        rng.normal(size=200),
    )
    order = rng.permutation(200)
    one = stored(keys.tolist(), wrong, odds)
    two = stored(keys[order].tolist(), wrong[order], odds[order])
    sides = sides_of(one, two)
    assert sides.paired
    assert (sides.before["wrong"] == sides.after["wrong"]).all()
    assert (sides.before["log_odds"] == sides.after["log_odds"]).all()


def test_equal_samples_are_paired_as_often_as_both_audits_have_them():
    one = stored([5, 5, 5, 8, 9], [1, 1, 1, 0, 0], [0.0] * 5)
    two = stored([5, 5, 8, 9, 10], [1, 1, 0, 0, 1], [0.0] * 5)
    sides = sides_of(one, two)
    assert sides.before["keys"].tolist() == sides.after["keys"].tolist() == [5, 5, 8, 9]


def test_other_data_are_taken_as_separate_samples():
    rng = np.random.default_rng(0)
    one, two = network(rng, 300), network(rng, 200, keys=10**9 + np.arange(200) * 7919)
    found = changes(one, two)
    assert not any(change.paired for change in found)
    assert {change.samples for change in found if change.name == "accuracy"} == {(300, 200)}
    tests = {change.name: change.test for change in found}
    assert tests["accuracy"] == "Fisher's exact test"
    assert tests["NLL"] == "Welch's test"


def test_twelve_new_errors_are_found_in_pairs_and_not_without():
    rng = np.random.default_rng(0)
    wrong, odds = rng.random(400) < 0.1, rng.normal(-2, 1, 400)
    worse = wrong.copy()
    worse[np.flatnonzero(~wrong)[:12]] = True
    keys = (np.arange(400) * 7919).tolist()
    one, two = stored(keys, wrong, odds), stored(keys, worse, odds)
    accuracy = next(c for c in changes(one, two) if c.name == "accuracy")
    assert accuracy.word == "worse"
    assert accuracy.p == pytest.approx(2 * 0.5**12)
    assert accuracy.difference == pytest.approx(-12 / 400)
    assert accuracy.low <= accuracy.difference <= accuracy.high < 0
    assert next(c for c in changes(two, one) if c.name == "accuracy").word == "better"
    apart = stored((np.array(keys) + 10**9).tolist(), worse, odds)
    assert (
        next(c for c in changes(one, apart) if c.name == "accuracy").word == "no difference shown"
    )


def test_p_values_are_corrected_for_their_number():
    rng = np.random.default_rng(3)
    found = changes(network(rng, 200), network(rng, 200))
    order = {change.name: change for change in found}
    wanted = metrics.holm([change.p for change in order.values()])
    assert [change.adjusted for change in order.values()] == pytest.approx(wanted.tolist())


def test_networks_that_are_equally_good_are_seldom_told_apart():
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(40):
        sides = sides_of(network(rng, 150), network(rng, 150))
        found = [_share("accuracy", "higher", sides, lambda side: ~side["wrong"], 0.95),
                 _mean("NLL", sides, "nll", 0.95), *_of_guard(sides, 0.95)]  # fmt: skip
        alarms += any(change.word != "no difference shown" for change in judged(found, 0.95))
    assert alarms <= 6  # 5 % of 40 are 2; more than 6 have a chance of 0.3 %


def test_only_samples_that_both_guards_decided_are_compared():
    keys = [3, 6, 9, 12, 15, 18]
    one = stored(keys, [0] * 6, [-1.0] * 6, "aauu--")
    two = stored(keys, [0] * 6, [-1.0] * 6, "aaau-a")
    coverage = next(c for c in changes(one, two) if c.name == "coverage")
    assert coverage.samples == (4, 4)
    assert (coverage.before, coverage.after) == (0.5, 0.75)


def test_ood_sets_have_the_auroc_and_the_abstentions():
    rng = np.random.default_rng(0)
    test = network(rng, 300)
    keys = (np.arange(200) * 104729).tolist()
    near, far = rng.normal(-1.5, 1, 200), rng.normal(1, 1, 200)
    before = StoredAnswers(test=test, ood={"x": stored(keys, [0] * 200, far, "o" * 200)})
    after = StoredAnswers(test=test, ood={"x": stored(keys, [0] * 200, near, "a" * 200), "y": test})
    found, missing = of_ood([before, after], sides_of(test, test), 0.95)
    auroc, abstained = judged(found, 0.95)
    assert (auroc.label, auroc.word) == ("AUROC[x]", "worse")
    odds = sides_of(test, test).before["log_odds"]
    exact = metrics.delong_test((odds, np.sort(near)), (odds, np.sort(far)))
    assert auroc.difference == pytest.approx(exact.value)
    assert (abstained.label, abstained.word, abstained.after) == ("abstained[x]", "worse", 0)
    assert missing == ["OOD set 'y': it is only in the second audit"]
