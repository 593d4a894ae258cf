"""An audit as one HTML page that needs nothing else: no network, no scripts."""

import shlex
from collections.abc import Sequence
from importlib import resources
from typing import Any

from nescio.evaluation import Findings, RegressionFindings
from nescio.report.audit_report import report_of
from nescio.report.render import html

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


def audit_page(found: Findings | RegressionFindings) -> str:
    """The page as text, with its plots inside."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    source = resources.files("nescio.report").joinpath("page.html").read_text("utf-8")
    page = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page.filters["joined"] = lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%")
    page.filters["table"] = lambda table: Markup(html(table))
    return page.from_string(source).render(_content(found)) + "\n"


def _content(found: Findings | RegressionFindings) -> dict[str, Any]:
    report = report_of(found)
    sentences = zip(found.predictors, report.verdict, strict=True)
    classes: set[int] = set()
    if isinstance(found, Findings):
        classes = {one.classes for one in found.predictors.values()}
    return {
        "found": found,
        "report": report,
        "verdict": [(name, text.removeprefix(f"{name}:").strip()) for name, text in sentences],
        "advice": [_with_code(sentence) for sentence in report.advice],
        "early": report.sections,
        "late": [],
        "plots": _plots(found, report.plots),
        "sets": [one for one in found.sets if one.kind != "far"],
        "classes": sorted(classes),  # none: a regression
        "command": shlex.join(found.command) if found.command else None,
    }


def _with_code(sentence: str) -> list[tuple[str, bool]]:
    """The parts of a sentence, and which of them stood between backticks."""
    return [(part, bool(k % 2)) for k, part in enumerate(sentence.split("`"))]


def _plots(found: Findings | RegressionFindings, names: Sequence[str]) -> list[dict[str, str]]:
    from markupsafe import Markup

    from nescio.report.plots import audit_plots, regression_plots
    from nescio.report.plots.look import svg

    drawers = audit_plots if isinstance(found, Findings) else regression_plots
    shown = []
    for name in names:
        figure = getattr(drawers, name)(found)
        title = " ".join(figure.get_suptitle().split())
        shown.append({"svg": Markup(svg(figure)), "title": title, "caption": CAPTIONS[name]})
    return shown
