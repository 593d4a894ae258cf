"""Rows of comparisons as nested numbers, for the pages and claims of a paper."""

from typing import Any

from nescio.core import to_json
from nescio.evaluation import Comparison, ShiftCurves

COUNTS = ("samples", "blind", "fit_seconds", "score_seconds_per_1000", "bytes")  # no intervals


def rows_of(found: Comparison, subject: str) -> dict[str, Any]:
    """Numbers of a subject by data set and metric: a number, or one with its interval."""
    rows: dict[str, Any] = {}
    for row in found.rows:
        if row.subject == subject and row.value is not None:
            number = {"value": row.value, "low": row.low, "high": row.high}
            rows.setdefault(row.data, {})[row.metric] = (
                row.value if row.metric in COUNTS else number
            )
    return rows


def nested(found: Comparison) -> dict[str, Any]:
    """Everything: about, data sets by name, predictors with their rows, published numbers."""
    published: dict[str, Any] = {}
    for row in found.rows:
        if row.published is not None:
            cells = published.setdefault(row.data, {}).setdefault(row.subject, {})
            cells[row.metric] = row.published
    return {
        **{key: value for key, value in to_json(found.about).items() if key != "subjects"},
        "sets": {one.name: to_json(one) for one in found.sets},
        "predictors": {name: {"rows": rows_of(found, name)} for name in found.subjects},
        "published": published,
    }


def curves_of(found: ShiftCurves) -> dict[str, Any]:
    """Values at each strength by subject and metric."""
    curves: dict[str, Any] = {}
    for row in found.rows:
        curves.setdefault(row.subject, {}).setdefault(row.metric, []).append(row.value)
    return {"shift": found.shift, "strengths": found.strengths, "subjects": curves}
