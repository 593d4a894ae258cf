"""An audit as one HTML page that needs nothing else: no network, no scripts."""

import shlex
from importlib import resources
from typing import Any

from nescio.core.registry import measures
from nescio.evaluation.audit.findings import Findings
from nescio.report.audit_tables import followed, measure_names, ood_names, sections
from nescio.report.audit_words import (
    advice,
    compared,
    headline,
    range_warning,
    scaled,
    telling_measures,
    verdict,
)
from nescio.report.guard_words import guard_sentence, guard_usage
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
}


def audit_page(found: Findings) -> str:
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


def _content(found: Findings) -> dict[str, Any]:
    known = [name for name in measure_names(found) if name in measures]
    sentences = zip(found.predictors, verdict(found), strict=True)
    parts = sections(found)
    return {
        "found": found,
        "headline": headline(found),
        "verdict": [(name, text.removeprefix(f"{name}:").strip()) for name, text in sentences],
        "compared": compared(found),
        "guard": guard_sentence(found),
        "warned": range_warning(found),
        "advice": [_with_code(sentence) for sentence in advice(found)],
        "usage": guard_usage(found),
        "early": [part for part in parts if not part.late],
        "late": [part for part in parts if part.late],
        "plots": _plots(found),
        "attacked": any(found.kind(where) == "adversarial" for where in ood_names(found)),
        "sets": [one for one in found.sets if one.kind != "far"],
        "glossary": {name: measures.summary(name).replace("`", "") for name in known},
        "classes": sorted({one.classes for one in found.predictors.values()}),
        "command": shlex.join(found.command) if found.command else None,
    }


def _with_code(sentence: str) -> list[tuple[str, bool]]:
    """The parts of a sentence, and which of them stood between backticks."""
    return [(part, bool(k % 2)) for k, part in enumerate(sentence.split("`"))]


def _plots(found: Findings) -> list[dict[str, str]]:
    from markupsafe import Markup

    from nescio.report.plots import audit_plots

    wanted = {
        "confidence_along_ray": bool(scaled(found)),
        "separation_along_ray": bool(scaled(found) and telling_measures(found)),
        "far_field": bool(followed(found)),
        "confidence_histograms": True,
        "reliability_diagrams": True,
        "risk_coverage": bool(audit_plots.curves_of(found)),
        "under_shift": found.shift is not None,
    }
    shown = []
    for name in (name for name, draw in wanted.items() if draw):
        figure = getattr(audit_plots, name)(found)
        title = " ".join(figure.get_suptitle().split())
        svg = Markup(audit_plots.svg(figure))
        shown.append({"svg": svg, "title": title, "caption": CAPTIONS[name]})
    return shown
