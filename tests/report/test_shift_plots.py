"""The plots of a shift show the numbers."""

import io

import numpy as np
import pytest

from nescio.core.results import DataSet, Row
from nescio.evaluation.under_shift import Confident, Entropies, ShiftCurves
from nescio.report.plots import shift_plot

RESULT = {
    "shift": "gaussian_noise",
    "description": "noise of deviation 0.1 a step",
    "samples": 10,
    "strengths": [0.0, 1.0, 2.0],
    "predictors": {
        "one": {"accuracy": [0.9, 0.8, 0.5], "nll": [0.1, 0.4, 2.0], "ece": [0.01, 0.05, 0.3]},
        "two": {"accuracy": [0.95, 0.9, 0.7], "nll": [0.1, 0.2, 1.0], "ece": [0.01, 0.02, 0.2]},
    },
    "sets": {
        "one: adaptive": {
            "covered": [0.9, 0.8, 0.6],
            "low": [0.8, 0.7, 0.5],
            "high": [0.95, 0.9, 0.7],
            "size": [1.1, 1.5, 3.0],
        }
    },
    "guards": {
        "guard": {
            "answered": [0.9, 0.5, 0.0],
            "unsure": [0.1, 0.1, 0.1],
            "ood": [0.0, 0.4, 0.9],
            "risk": [0.01, 0.02, None],
            "low": [0.0, 0.01, None],
            "high": [0.02, 0.05, None],
            "wrong": [0.01, 0.01, 0.0],
        }
    },
}


def shift_curves(*groups):
    """The numbers above as rows."""
    rows = []
    for group in groups or ("predictors", "sets", "guards"):
        for subject, numbers in RESULT[group].items():
            for i, strength in enumerate(RESULT["strengths"]):
                ends = {end: numbers[end][i] for end in ("low", "high") if end in numbers}
                rows += [
                    Row(subject=subject, data=f"strength {strength:g}", metric=key, value=values[i],
                        **(ends if key in ("covered", "risk") else {}))
                    for key, values in numbers.items()
                    if key not in ends
                ]  # fmt: skip
    sets = tuple(
        DataSet(name=f"strength {s:g}", kind="shifted", strength=s) for s in RESULT["strengths"]
    )
    about = {key: RESULT[key] for key in ("shift", "description", "samples")}
    return ShiftCurves(**about, rows=tuple(rows), sets=sets)


def test_a_panel_a_number():
    figure = shift_plot.curves(shift_curves())
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == [
        "accuracy",
        "NLL, nats",
        "calibration error (ECE)",
        "sets that hold the target",
        "mean size of sets",
        "errors among the answers",
        "answered",
        "unsure",
        "called OOD",
    ]
    one, two = figure.axes[0].lines
    assert list(one.get_ydata()) == [0.9, 0.8, 0.5]
    assert list(two.get_xdata()) == [0, 1, 2]
    assert np.isnan(figure.axes[5].lines[0].get_ydata()[2])
    assert [bool(axis.get_legend()) for axis in figure.axes] == [1, 0, 0, 1, 0, 1, 0, 0, 0]
    assert figure.get_suptitle().startswith("Under gaussian noise: noise of deviation")
    figure.savefig(io.BytesIO(), format="png")


def test_a_guard_has_no_predictors_color():
    axes = shift_plot.curves(shift_curves()).axes
    predictors, guards = axes[0].lines, [axis.lines[0] for axis in axes[5:]]
    looks = {(one.get_color(), one.get_linestyle()) for one in predictors}
    assert len(looks) == 2
    for own in guards:
        assert own.get_color() not in {color for color, _ in looks}
        assert own.get_linestyle() not in {dashes for _, dashes in looks}


def test_without_sets_and_guards_only_the_predictors_are_drawn():
    figure = shift_plot.curves(shift_curves("predictors"))
    assert len(figure.axes) == 3


def test_confident_answers_and_entropies():
    levels = np.array([0.0, 0.5])
    found = Confident(levels, np.array([0.5, 0.8]), np.array([1.0, 0.5]), np.array([1.0, 0.2]))
    left, right = shift_plot.confident_answers({"one": found, "two": found}).axes
    assert list(left.lines[0].get_ydata()) == [0.5, 0.8]
    assert list(right.lines[1].get_ydata()) == [1.0, 0.2]
    spread = Entropies(np.array([0, 0.5, 1.0]), np.array([0.9, 0.1]), np.array([0.3, 0.7]))
    figure = shift_plot.entropy_histograms({"M = 1": spread}, in_dist="digits", ood="letters")
    filled, outline = figure.axes[0].patches
    assert list(filled.get_data().values) == [0.9, 0.1]
    assert list(outline.get_data().values) == [0.3, 0.7]
    assert figure.axes[0].get_ylim()[1] == pytest.approx(1.05 * 0.9)
