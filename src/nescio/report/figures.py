"""The figures of an audit in their sections: each with a caption and the tables of its data."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from nescio.evaluation import Findings, RegressionFindings
from nescio.report.audit_section import Drawing, Section
from nescio.report.figure_tables import TABLES

PLACES = {  # of figures: the section
    "reliability_diagrams": "calibration",
    "risk_coverage": "failure",
    "confidence_histograms": "confidence",
    "under_shift": "shift",
    "confidence_along_ray": "scaled inputs",
    "separation_along_ray": "scaled inputs",
    "far_field": "far field",
    "adversarial_examples": "stability",
    "coverage_curves": "calibration",
    "intervals_by_prediction": "intervals",
    "spread_and_error": "failure",
    "error_by_coverage": "failure",
    "spread_along_ray": "scaled inputs",
}
TITLES = {  # of sections that consist of figures
    "shift": "Under shift",
    "scaled inputs": "Away from the data along a ray",
    "confidence": "Confidence",
    "stability": "How stable the answers are",
    "failure": "Are its errors found?",
    "calibration": "Calibration",
    "intervals": "Intervals",
    "far field": "Infinitely far away",
}
CAPTIONS = {
    "confidence_along_ray": "Every test input is multiplied by a growing factor, so it leaves the "
    "data along a ray. A predictor that knows its limits falls to the dashed line; one that stays "
    "at the top is confident on inputs unlike anything in its training data.",
    "separation_along_ray": "How well a measure tells the scaled inputs from the test data. Below "
    "0.5, far away looks more certain than the data. A measure that is constant, such as the "
    "mutual information of a single network, stays at 0.5.",
    "far_field": "Above: how far a ray must go until the confidence is 99.9 % (solid) or 95 % "
    "(dotted), as the share of rays that are there by a factor; 1 is the distance of the data, and "
    "the left edge is “from the start”. A line that ends below 100 % has rays that never get "
    "there. Below: the last point where the network bends. Exact: computed on the linear regions "
    "of the network, not on a grid.",
    "confidence_histograms": "A row for each set; a bar of full height holds all its samples. The "
    "number at the right is the share in the last bin. The dotted line is what “I do not know” "
    "would be: one over the number of classes.",
    "reliability_diagrams": "Points below the dashed line are more confident than accurate. Gray "
    "is where they would lie, in 95 of 100 samples, if the accuracy of the bin were its "
    "confidence; the lines are exact 95 % bounds. Where a bin holds few samples, a point may lie "
    "far off by chance.",
    "risk_coverage": "Only the most confident answers are given: from the right to the left, fewer "
    "inputs are answered and fewer answers are wrong. The dashed line is what the guard "
    "guarantees.",
    "under_shift": "The same samples at each strength; 0 is the data as they are. A predictor that "
    "knows its limits loses confidence as fast as accuracy, so that its calibration error stays "
    "low. The guard guarantees nothing here: it should answer less.",
    "adversarial_examples": "Above, test images with the answer and its confidence; below them a "
    "change, magnified (gray where nothing changes), and the image with it, which is answered "
    "otherwise. The changes are made by an attack that knows the network.",
    "coverage_curves": "Below the dashed line, intervals hold fewer test values than they say: the "
    "predictor is overconfident. Above it, it is too cautious. Gray is where the whole line would "
    "lie, in 95 of 100 samples, if it were calibrated.",
    "intervals_by_prediction": "Some test samples in rising order of the predicted mean. Of ten "
    "intervals of 90 %, one should miss its value.",
    "spread_and_error": "Where the spread is right, two thirds of the samples lie below the dashed "
    "line and 95 % below the dotted one, at every predicted deviation.",
    "error_by_coverage": "Only the predictions of the smallest predicted deviation are used: from "
    "the right to the left fewer, and their errors should be smaller. A flat line: the deviation "
    "tells nothing about the errors.",
    "spread_along_ray": "Every test input is multiplied by a growing factor, so it leaves the data "
    "along a ray. The mean runs away in a straight line. A predictor that knows its limits has a "
    "deviation that grows at least as fast, on these scales as steeply.",
}


def with_figures(
    found: Findings | RegressionFindings, sections: Sequence[Section], names: Sequence[str]
) -> list[Section]:
    """The sections with the figures that belong to each; some consist of figures only."""
    drawn = {name: drawing(found, name) for name in names}
    own = {place: [drawn[n] for n in names if PLACES[n] == place] for place in PLACES.values()}
    placed = [
        replace(part, drawings=[*own.pop(part.name, ()), *part.drawings]) for part in sections
    ]
    more = [
        Section(name=place, title=TITLES[place], drawings=figures)
        for place, figures in own.items()
        if figures
    ]
    return [*placed, *more]


def drawing(found: Findings | RegressionFindings, name: str) -> Drawing:
    """A figure of the audit by its name."""
    draw = partial(_drawn, found, name)
    return Drawing(draw=draw, caption=CAPTIONS[name], tables=TABLES[name](found))


def _drawn(found: Findings | RegressionFindings, name: str) -> Any:
    from nescio.report.plots import audit_plots, regression_plots

    drawers = audit_plots if isinstance(found, Findings) else regression_plots
    return getattr(drawers, name)(found)
