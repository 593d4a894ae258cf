"""An audit as one HTML page that needs nothing else: no network, no scripts."""

import shlex
from importlib import resources
from typing import Any

from nescio.core.registry import measures
from nescio.evaluation.answers import ADVERSARIAL
from nescio.report.audit_tables import (
    CALIBRATION_COLUMNS,
    CALIBRATION_NOTE,
    FAILURE_COLUMNS,
    FAILURE_NOTE,
    FAR_COLUMNS,
    QUALITY_COLUMNS,
    QUALITY_NOTE,
    READING,
    Result,
    Separation,
    attack_notes,
    calibration_notes,
    calibration_rows,
    confidence_rows,
    decimal,
    failure_notes,
    failure_rows,
    far_kinds,
    far_rows,
    followed,
    guard_notes,
    guard_rows,
    guard_sentence,
    guard_usage,
    measure_names,
    not_followed,
    ood_names,
    quality_rows,
    separation_rows,
)
from nescio.report.audit_tables import COLUMNS as GUARD_COLUMNS
from nescio.report.audit_words import (
    advice,
    compared,
    headline,
    range_warning,
    scaled,
    telling_measures,
    verdict,
)

MISSING = "–"
CAPTIONS = {
    "confidence_along_ray": "Every test input is multiplied by a growing factor, so it leaves the "
    "data along a ray. A predictor that knows its limits falls to the dashed line; one that stays "
    "at the top is sure of inputs it has never seen anything like.",
    "separation_along_ray": "How well a measure tells the scaled inputs from the test data. Below "
    "0.5, far away looks more certain than the data. A measure that is constant, such as the "
    "mutual information of a single network, stays at 0.5.",
    "far_field": "Above: how far a ray must go until the predictor is 99.9 % sure (solid) or 95 % "
    "sure (dotted), as the share of rays that are there by a factor; 1 is the distance of the "
    "data, and the left edge is “from the start”. A line that ends below 100 % has rays that never "
    "get there. Below: the last place where the network bends. Exact: found on the affine pieces "
    "of the network, not on a grid.",
    "confidence_histograms": "A row for each set; a bar of full height holds all its samples. The "
    "number at the right is the share in the last bin. The dotted line is what “I do not know” "
    "would be: one over the number of classes.",
    "reliability_diagrams": "Points below the dashed line are surer than right. Gray is where they "
    "would lie, in 95 of 100 samples, if the bin were as right as it is sure; the lines are "
    "exact 95 % bounds. Where a bin holds few samples, a point may lie far off by chance.",
    "risk_coverage": "Only the surest answers are given: from the right to the left, fewer inputs "
    "are answered and fewer answers are wrong. The dashed line is what the guard promises.",
    "under_shift": "The same samples at each strength; 0 is the data as they are. A predictor that "
    "knows its limits loses confidence as fast as accuracy, so that its calibration error stays "
    "low. The guard promises nothing here: it should answer less.",
}


def audit_page(result: Result) -> str:
    """The page as text, with its plots inside."""
    from jinja2 import Environment, StrictUndefined

    source = resources.files("nescio.report").joinpath("page.html").read_text("utf-8")
    page = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page.filters["joined"] = lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%")
    return page.from_string(source).render(_content(result)) + "\n"


def _content(result: Result) -> dict[str, Any]:
    known = [name for name in measure_names(result) if name in measures]
    command = result.get("command")
    return {
        "headline": headline(result),
        "verdict": [_split(text, name) for name, text in _by_name(result)],
        "compared": compared(result),
        "guard": guard_sentence(result),
        "warned": range_warning(result),
        "advice": [_with_code(sentence) for sentence in advice(result)],
        "guard_columns": GUARD_COLUMNS,
        "guard_rows": guard_rows(result),
        "guard_notes": guard_notes(result),
        "guard_reading": READING,
        "guarantees": (result.get("guard") or {}).get("guarantees", []),
        "usage": guard_usage(result),
        "held_out": result.get("held_out"),
        "calibration_columns": CALIBRATION_COLUMNS,
        "calibration": calibration_rows(result, missing=MISSING),
        "calibration_note": CALIBRATION_NOTE,
        "calibration_notes": calibration_notes(result),
        "failure_columns": FAILURE_COLUMNS,
        "failure": failure_rows(result, missing=MISSING),
        "failure_note": FAILURE_NOTE,
        "failure_notes": failure_notes(result),
        "columns": QUALITY_COLUMNS,
        "quality_note": QUALITY_NOTE,
        "rows": quality_rows(result, missing=MISSING),
        "sureness": confidence_rows(result, missing=MISSING) if ood_names(result) else [],
        "plots": _plots(result),
        "predictors": list(result["predictors"]),
        "far_columns": FAR_COLUMNS,
        "far": {kind: far_rows(result, kind, missing=MISSING) for kind in far_kinds(result)},
        "not_followed": not_followed(result),
        "attack_notes": attack_notes(result),
        "attacked": any(where.startswith(ADVERSARIAL) for where in ood_names(result)),
        "separations": {where: _shaded(result, where) for where in ood_names(result)},
        "glossary": {name: measures.summary(name).replace("`", "") for name in known},
        "classes": sorted({found["classes"] for found in result["predictors"].values()}),
        "members": {name: found["members"] for name, found in result["predictors"].items()},
        "samples": result["samples"],
        "sets": result.get("sets", {}),
        "seed": result.get("seed"),
        "version": result.get("nescio"),
        "command": shlex.join(command) if isinstance(command, (list, tuple)) else command,
    }


def _by_name(result: Result) -> list[tuple[str, str]]:
    return list(zip(result["predictors"], verdict(result), strict=True))


def _split(text: str, name: str) -> tuple[str, str]:
    """The name that a sentence starts with, and the rest."""
    return name, text.removeprefix(f"{name}:").strip()


def _with_code(sentence: str) -> list[tuple[str, bool]]:
    """The pieces of a sentence, and which of them stood between backticks."""
    return [(piece, bool(k % 2)) for k, piece in enumerate(sentence.split("`"))]


def _plots(result: Result) -> list[dict[str, str]]:
    from markupsafe import Markup

    from nescio.report.plots import audit_plots

    draw = {}
    if scaled(result):
        draw["confidence_along_ray"] = audit_plots.confidence_along_ray
        if telling_measures(result):
            draw["separation_along_ray"] = audit_plots.separation_along_ray
    if followed(result):
        draw["far_field"] = audit_plots.far_field
    draw["confidence_histograms"] = audit_plots.confidence_histograms
    draw["reliability_diagrams"] = audit_plots.reliability_diagrams
    if failure_rows(result, missing=MISSING):
        draw["risk_coverage"] = audit_plots.risk_coverage
    if "strengths" in result.get("shift", {}):
        draw["under_shift"] = audit_plots.under_shift
    shown = []
    for name, make in draw.items():
        figure = make(result)
        title = " ".join(figure.get_suptitle().split())
        shown.append(
            {"svg": Markup(audit_plots.svg(figure)), "title": title, "caption": CAPTIONS[name]}
        )
    return shown


def _shaded(result: Result, where: str) -> list[tuple[str, list[dict[str, str]]]]:
    rows = separation_rows(result, where)
    return [(measure, [_cell(numbers) for numbers in cells]) for measure, cells in rows]


def _cell(numbers: Separation) -> dict[str, str]:
    """Text and shade of a cell: blue above chance, orange below, the stronger the further."""
    side = 0.0 if numbers.auroc is None else 2 * numbers.auroc - 1
    return {
        "auroc": decimal(numbers.auroc, 3, missing=MISSING),
        "fpr": decimal(numbers.fpr, 3, missing=MISSING),
        "side": "above" if side >= 0 else "below",
        "shade": f"{min(abs(side), 1):.2f}",
    }
