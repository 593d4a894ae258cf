"""Numbers held against limits: what passes, what fails, what the data do not tell."""

from dataclasses import replace
from pathlib import Path

import pytest

from nescio import NescioError
from nescio.evaluation.audit.audit_limits import (
    Limit,
    Measured,
    find_limit,
    finding_of,
    limit,
    limits,
)
from nescio.evaluation.audit.default_limits import auroc, ece
from nescio.evaluation.audit.verdict import verdict_of

NARROW, WIDE = 0.01, 0.1
ROOT = Path(__file__).parents[3]


def of(better, attention=None, fail=None, **more):
    return Limit(
        name="n",
        section="s",
        title="t",
        better=better,
        read=lambda found: found,
        attention=attention,
        fail=fail,
        **more,
    )


def about(value, half=0.0):
    return Measured(value=value, low=value - half, high=value + half, samples=100)


@pytest.mark.parametrize(
    ("value", "half", "status", "unclear"),
    [
        (0.02, NARROW, "pass", False),
        (0.04, WIDE, "attention", True),  # the number keeps the limit, its interval does not
        (0.07, NARROW, "attention", False),
        (0.20, NARROW, "fail", False),
        (0.20, 0.08, "attention", False),  # it may be 0.12, and breaks the limit all the same
        (0.20, 0.17, "attention", True),  # it may keep the limit
        (0.05, 0.0, "pass", False),  # the limit itself is kept
    ],
)
def test_a_number_of_which_lower_is_better(value, half, status, unclear):
    one, mirrored = of("lower", 0.05, 0.15), of("higher", -0.05, -0.15)
    measured = about(value, half)
    assert (one.status(measured), one.unclear(measured)) == (status, unclear)
    measured = about(-value, half)
    assert (mirrored.status(measured), mirrored.unclear(measured)) == (status, unclear)


def test_one_limit_that_lies_in_the_interval_is_unclear_on_both_sides():
    one = of("lower", 0.05, 0.05)
    for value in (0.04, 0.06):
        assert one.status(about(value, 0.02)) == "attention"
        assert one.unclear(about(value, 0.02))
    only_fail = of("lower", None, 0.05)
    assert only_fail.status(about(0.06, 0.02)) == "attention"
    assert only_fail.status(about(0.08, 0.02)) == "fail"


def test_a_strict_limit_is_not_kept_by_itself():
    assert of("lower", 0.05, 0.05, strict=True).status(about(0.05)) == "fail"
    assert of("lower", 0.05, 0.05).status(about(0.05)) == "pass"


@pytest.mark.parametrize("value", [None, float("nan")])
def test_what_is_not_known_is_attention(value):
    found = finding_of(of("lower", 0.05, 0.15), Measured(value=value))
    assert (found.status, found.value, found.unclear) == ("attention", None, True)


def test_a_number_beyond_its_interval_counts_too():
    shifted = Measured(value=0.06, low=0.01, high=0.04)  # as of an ECE, which chance raises
    assert of("lower", 0.05).status(shifted) == "attention"


def test_without_a_limit_a_number_does_not_count():
    assert not of("lower").counts
    assert of("lower").status(about(100.0)) == "pass"


def test_names_occur_once_and_unknown_ones_are_listed():
    with pytest.raises(NescioError, match="'ece' is registered twice"):
        limit("ece", section="s", title="t", better="lower")(lambda found: found)
    with pytest.raises(NescioError, match="unknown number 'eec'; did you mean 'ece'.*coverage"):
        find_limit("eec")


@pytest.mark.parametrize("name", limits)
def test_every_number_says_what_it_means_and_what_to_do(name):
    one = limits[name]
    assert one.meaning.endswith(".")
    assert one.advice.endswith(".")
    assert one.title[-1] not in ".?"
    assert one.read.__doc__ or one.read.__name__.startswith("_")
    if one.attention is not None and one.fail is not None:
        looser = max if one.better == "lower" else min
        assert looser(one.attention, one.fail) == one.fail


def test_the_verdict_is_the_worst_finding(overconfident):
    verdict = verdict_of(overconfident)
    by_name = {one.label: one for one in verdict.findings}
    assert by_name["overconfidence"].status == "fail"
    assert verdict.status == "fail"
    assert verdict.exit_code == 3
    assert verdict.findings[0].status == "fail"
    assert len(verdict.shown) <= 7
    assert str(verdict) == verdict.words
    assert verdict.words.startswith("Fail: ")


def test_required_limits_replace_defaults(overconfident):
    loose = replace(overconfident, required=("overconfidence<=0.9", "ece<0.9", "accuracy>0.1"))
    by_name = {one.label: one for one in verdict_of(loose).findings}
    assert by_name["overconfidence"].status == "pass"
    assert by_name["overconfidence"].required == "overconfidence<=0.9"
    assert by_name["accuracy"].required == "accuracy>0.1"
    assert "accuracy" not in {one.name for one in verdict_of(overconfident).findings}


def test_a_required_number_that_was_not_measured_does_not_pass(overconfident):
    wanted = ("coverage>0.5", "abstained[lettres]>0.9", "rmse<1", "auroc[noises]>0.5")
    found = verdict_of(replace(overconfident, required=wanted)).findings
    notes = {one.label: (one.status, one.note) for one in found if one.value is None}
    assert notes == {
        "coverage": ("attention", "not measured in this audit"),
        "abstained[lettres]": ("attention", "not measured in this audit"),
        "rmse": ("attention", "not a number of a classification"),
        "auroc[noises]": ("attention", "there is no 'noises'; did you mean 'noise'"),
    }


def test_a_limit_may_name_a_set_or_its_kind(overconfident):
    found = replace(overconfident, required=("confidence[noise]<0.1", "confidence<0.99"))
    by_label = {one.label: one for one in verdict_of(found).findings}
    assert by_label["confidence[noise]"].required == "confidence[noise]<0.1"
    assert by_label["confidence[far]"].required == "confidence<0.99"


@pytest.mark.parametrize("name", limits)
def test_the_page_of_limits_has_every_number_of_all_audits(name):
    assert f"`{name}`" in (ROOT / "docs" / "guide" / "limits.md").read_text()


def test_a_measure_that_never_varies_hides_no_auroc_below_chance(overconfident):
    found = overconfident
    name, one = next(iter(found.predictors.items()))
    noise = next(part.name for part in found.of_kind("noise"))
    part = one.ood[noise]
    low = {key: replace(each, auroc=0.3) for key, each in part.measures.items()}
    constant = replace(next(iter(low.values())), auroc=0.5)  # as the disagreement of one network
    moved = replace(part, measures=low | {"mutual_information": constant})
    changed = replace(one, ood={**one.ood, noise: moved})
    changed = replace(found, predictors={**found.predictors, name: changed})
    assert auroc(changed)[noise].value == 0.3
    assert limits["auroc"].status(auroc(changed)[noise]) == "attention"


def test_without_resamples_the_calibration_error_is_at_least_the_mean_gap(overconfident):
    found = overconfident
    name, one = next(iter(found.predictors.items()))
    bare = replace(found, predictors={name: replace(one, calibration=None)})
    gap = abs(one.test.mean_max_confidence - one.test.accuracy)
    assert 0 < ece(bare).low < gap <= ece(bare).value + 1e-12
    few = replace(bare, samples=3)  # the same numbers of three samples show nothing
    assert ece(few).low == 0
    assert limits["ece"].status(ece(few)) != "fail"
