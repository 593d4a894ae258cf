"""The words, tables and pictures of a regression's audit, from findings with known numbers."""

from dataclasses import replace
from typing import Any

import pytest

from nescio.core import DataSet
from nescio.evaluation.audit.findings import Separation
from nescio.evaluation.regression import regression_findings as parts
from nescio.metrics import Interval
from nescio.report.audit_report import report_of
from nescio.report.audit_text import audit_text
from nescio.report.plots import regression_plots
from nescio.report.regression_tables import places


def at(value: float, room: float = 0.01) -> Interval:
    return Interval(value, value - room, value + room)


def coverage_curve(**changes: Any) -> parts.CoverageCurve:
    given: dict[str, Any] = {"levels": (0.5, 0.9), "held": (0.5, 0.9), "band": 0.05}
    given |= {"below_median": 0.5, "as_wide": True, "calibrated": True}
    return parts.CoverageCurve(**{**given, **changes})


def quality(held: float, **changes: Any) -> parts.RegressionQuality:
    given: dict[str, Any] = {
        "rmse": at(2.0), "mae": at(1.5), "crps": at(1.0), "nll": at(1.2),
        "moment_matched_nll": at(1.3), "sharpness": at(1.0), "r2": 0.75,
        "coverage": {"0.5": at(0.5), "0.9": at(held), "0.95": at(held)},
        "standardized_error": 1.5, "calibration_error": at(0.1),
        "curve": coverage_curve(held=(0.5, held)),
    }  # fmt: skip
    return parts.RegressionQuality(**{**given, **changes})


def regressor(held: float = 0.7, **changes: Any) -> parts.RegressorFindings:
    methods = {
        "its own": parts.IntervalQuality(coverage=at(held), width=2.0, score=9.0),
        "normalized": parts.IntervalQuality(coverage=at(0.9), width=4.0, score=5.0),
        "residual": parts.IntervalQuality(coverage=at(0.9), width=None, score=None),
    }
    rays = parts.SpreadRays(
        count=10, start=1.0, shrinks=0.4, bounded=0.0, root=0.6, linear=0.0, outrun=1.0,
        undecided=0.0, radius=(1.0, 2.0, 3.0), deviations=None,
    )  # fmt: skip
    attack = [
        parts.UnderAttack(error=e, deviation=0.5, coverage=c) for e, c in ((1, 0.7), (2, 0.2))
    ]
    measures = {"total_variance": Separation(auroc=0.3, aupr=0.4, fpr_at_95_tpr=0.9)}
    given: dict[str, Any] = {
        "members": 1, "head": "gaussian", "fitted_spread": False, "test": quality(held),
        "targets": {}, "deviation": parts.Spread(deviation=0.5, distance=0.8),
        "intervals": parts.IntervalFindings(wanted=0.9, samples=50, methods=methods, skipped={}),
        "spread": parts.SpreadFindings(
            samples=100, rank_correlation=at(0.3), auroc=at(0.6), gain=0.2,
            curve=parts.ErrorCurve(coverage=(0.5, 1.0), error=(0.4, 0.8)),
        ),
        "ood": {"noise": parts.SpreadOnSet(deviation=0.4, distance=3.0, measures=measures)},
        "scaling": parts.SpreadAlongRay(
            alpha=(1.0, 10.0), deviation=(0.5, 1.0), distance=(0.8, 80.0), auroc={}
        ),
        "attack": parts.ErrorAttack(samples=9, before=attack[0], after=attack[1], auroc=0.5),
        "far_field": parts.SpreadFarField(rays={"random directions": rays}),
        "examples": tuple(
            parts.Example(truth=k, mean=k + 0.5, low=k - 1, high=k + 2, deviation=1 + 0.1 * k)
            for k in range(9)
        ),
    }  # fmt: skip
    return parts.RegressorFindings(**{**given, **changes})


def findings(**predictors: parts.RegressorFindings) -> parts.RegressionFindings:
    return parts.RegressionFindings(
        samples=100, features=(3,), seed=0, sets=(DataSet(name="noise", kind="noise", samples=9),),
        held_out="fitted on 50", predictors=predictors or {"network": regressor()},
        baseline=quality(0.9, rmse=at(4.0), nll=at(2.0)), baseline_from="training",
        attack={"radius": 0.05, "steps": 5},
    )  # fmt: skip


def test_the_headline_says_which_way_the_intervals_are_wrong():
    said = report_of(findings()).headline
    assert said.startswith(
        "Overconfident: its 90 % intervals hold 70.0 % of the test values (69.0 % to 71.0 %); its "
        "predicted deviations are too small by a factor of 1.5."
    )
    assert "falls to its smallest value in 40.0 % of random directions" in said
    wide = regressor(0.97, test=quality(0.97, standardized_error=0.5))
    said = report_of(findings(network=wide)).headline
    assert said.startswith("Too cautious: ")
    assert "too large by a factor of 2" in said
    right = regressor(0.9, test=quality(0.9, standardized_error=1.0))
    assert report_of(findings(network=right)).headline.startswith("Calibrated as far as")


def test_a_curve_off_the_band_is_miscalibrated_even_where_90_percent_hold():
    curve = coverage_curve(held=(0.7, 0.9), as_wide=False, calibrated=False)
    off = regressor(0.9, test=quality(0.9, curve=curve))
    said = report_of(findings(network=off)).headline
    assert said.startswith("Miscalibrated, though")
    assert "of other probabilities do not" in said
    curve = coverage_curve(below_median=0.2, calibrated=False)
    aside = regressor(0.9, test=quality(0.9, curve=curve))
    said = report_of(findings(network=aside)).headline
    assert "to one side of its quantiles (20.0 % below the predicted median)" in said


def test_a_few_large_errors_do_not_turn_the_words_around():
    wide = regressor(0.97, test=quality(0.97, standardized_error=3.0))
    assert "factor" not in report_of(findings(network=wide)).headline.split(".")[0]
    narrow = regressor(0.8, test=quality(0.8, standardized_error=0.5))
    assert "factor" not in report_of(findings(network=narrow)).headline.split(".")[0]


def test_the_same_spread_everywhere_is_no_less_certain_off_the_data():
    measures = {"total_variance": Separation(auroc=0.5, aupr=0.5, fpr_at_95_tpr=1.0)}
    same = {"noise": parts.SpreadOnSet(deviation=0.4, distance=3.0, measures=measures)}
    (said,) = report_of(findings(network=regressor(ood=same))).verdict
    assert "noise looks no less certain" in said


def test_predictions_that_overflow_are_named():
    lost = {"noise": parts.SpreadOnSet(deviation=None, distance=None, measures={})}
    found = findings(network=regressor(ood=lost))
    (said,) = report_of(found).verdict
    assert "Its predictions overflow on noise." in said
    assert "less certain" not in said
    assert "its predictions are NaN or infinite on noise" in audit_text(
        found, width=200, styled=False
    )


@pytest.mark.parametrize(
    ("linear", "bounded", "words"),
    [
        (1.0, 0.0, "grows as fast as its mean, which"),
        (0.4, 0.6, "mean in 40.0 % of random"),
        (0.0, 1.0, None),
    ],
)
def test_far_away_only_what_grows_is_said_to_grow(linear, bounded, words):
    rays = parts.SpreadRays(
        count=10, start=1.0, shrinks=0.0, bounded=bounded, root=0.0, linear=linear, outrun=0.0,
        undecided=0.0, radius=(1.0, 2.0, 3.0), deviations=2.0 if linear else None,
    )  # fmt: skip
    one = regressor(far_field=parts.SpreadFarField(rays={"random directions": rays}))
    said = report_of(findings(network=one)).headline
    assert (words in said) if words else ("Infinitely far away" not in said)


def test_the_verdict_names_what_looks_certain_and_the_attack():
    (said,) = report_of(findings()).verdict
    assert said.startswith("network: RMSE 2 (R² 0.75); the mean of the training targets has 4.")
    assert "rank correlation 0.30 (0.29 to 0.31)" in said
    assert "To it, noise looks no less certain than its own data" in said
    assert "raises the error from 1 to 2 standard deviations" in said
    assert "does not notice (AUROC 0.50)" in said


def test_a_network_worse_than_the_mean_is_called_so():
    worse = regressor(test=quality(0.7, rmse=at(5.0), r2=-0.5))
    (said,) = report_of(findings(network=worse)).verdict
    assert "the network is worse than no network" in said
    dense = regressor(test=quality(0.7, nll=at(9.0)))
    (said,) = report_of(findings(network=dense)).verdict
    assert "its densities are worse (NLL 9 against 2)" in said


def test_advice_repairs_intervals_and_asks_for_members_and_a_spread():
    said = report_of(findings()).advice
    assert "`nescio.conformal.normalized`" in said[0]
    assert "70.0 % held before, 90.0 % after, mean width 2 before, 4 after" in said[0]
    assert "deep_ensemble" in said[1]
    assert report_of(findings(network=regressor(members=5))).advice == said[:1]
    alone = report_of(findings(network=regressor(members=5, fitted_spread=True))).advice
    assert "head `gaussian`" in alone[1]


def test_other_predictors_stand_beside_the_first():
    report = report_of(findings(one=regressor(), two=regressor(0.9)))
    assert report.compared == "In brackets, the numbers of one:"
    assert report.verdict[1] == (
        "two: RMSE 2 (2), NLL 1.2 (1.2); its 90 % intervals hold 90.0 % (70.0 %)."
    )


def test_the_tables_have_a_row_for_the_mean_and_infinite_widths():
    text = audit_text(findings(), width=100, styled=False)
    assert "mean of the training targets" in text
    assert "network: residual" in text
    assert "infinite" in text
    assert "network: attacked" in text


def test_a_guard_is_told_with_its_numbers():
    test = parts.AnswersOnTest(
        samples=50, answered=at(0.8), ood=at(0.02), unsure=0.18, misses=2, risk=at(0.05),
        held=at(0.95), width=3.0,
    )  # fmt: skip
    guard = parts.RegressionGuardFindings(
        predictor="network", samples=50, halved=True, false_alarm=0.01, risk=0.1, confidence=0.95,
        miscoverage=0.05, intervals="normalized", holds=True, guarantees=("G",), test=test,
    )  # fmt: skip
    found = replace(findings(), guard=guard)
    said = report_of(found).guard
    assert "can answer 80.0 % of inputs like its test data, with intervals of mean width 3" in said
    assert "at most 10 % miss their value (confidence 95 %)" in said
    none = replace(guard, skipped="too few samples", test=None)
    assert report_of(replace(found, guard=none)).guard == (
        "There is no guard for this network: too few samples."
    )
    assert "What the guard does" in audit_text(found, width=100, styled=False)


@pytest.mark.parametrize("name", report_of(findings()).plots)
def test_every_picture_is_drawn_for_one_and_for_several_predictors(name):
    for found in (findings(), findings(one=regressor(), two=regressor(0.9))):
        figure = getattr(regression_plots, name)(found)
        assert figure.get_suptitle()
        assert all(axis.get_xlabel() for axis in figure.axes)


def test_numbers_of_any_size_have_three_digits():
    assert places([0.0123, 5.0]) == 4
    assert places([250_000.0]) == 0
    assert places([]) == 3
