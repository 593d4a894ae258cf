"""Decisions as the bytes of an answer, and as columns of the log; a whole batch at a time."""

import math
from typing import Any

import orjson

from nescio.guards import Decisions, RegressionDecisions
from nescio.guards.table_text import json_lines

Decided = Decisions | RegressionDecisions
NUMBERS = ("probability", "p_value", "score", "failure_score")
OWN = ("decision", "label", *NUMBERS, "rule", "in_range", "set")  # columns of the log


def json_rows(decisions: Decided) -> list[bytes]:
    """Each decision as the JSON object that `nescio score --out x.jsonl` writes, without `sample`.

    decisions: of a batch.
    """
    return json_lines(decisions.columns()).splitlines()


def entry_columns(decisions: Decided) -> dict[str, list[Any]]:
    """The columns of the log's entries by name, each with one value per decision.

    decisions: of a batch.
    """
    columns = decisions.columns()
    count = len(decisions)
    nothing = [None] * count
    found: dict[str, list[Any]] = {
        "decision": columns["decision"].tolist(),
        "label": list(map(str, columns["label"].tolist())) if "label" in columns else [""] * count,
        "rule": columns["rule"].tolist(),
        "in_range": columns["in_range"].tolist(),
        "set": columns["set"].tolist() if "set" in columns else nothing,
    }
    for name in NUMBERS:
        found[name] = _finite(columns[name].tolist()) if name in columns else nothing
    more = {name: _finite(columns[name].tolist()) for name in columns if name not in OWN}
    rows = zip(*more.values(), strict=True) if more else ()
    texts = [orjson.dumps(dict(zip(more, row, strict=True))).decode() for row in rows]
    return {**found, "more": texts or nothing}


def _finite(values: list[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]
