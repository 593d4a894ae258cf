"""Decisions as the bytes of an answer, and as columns of the log; a whole batch at a time."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from nescio.guards import Decisions, RegressionDecisions
from nescio.guards.table_text import EDGES, POWERS, json_lines

Decided = Decisions | RegressionDecisions
NUMBERS = ("probability", "p_value", "score", "failure_score")
OWN = ("decision", "label", *NUMBERS, "rule", "in_range", "set")  # columns of the log
FEW = 300  # decisions that Python writes sooner than whole columns are written
TIE = 1e-5  # of the last figure: whole columns may be rounded the other way so near to a half
RARE = {"nan": "null", "inf": "1e999", "-inf": "-1e999"}  # as JSON has no words for them
TRUTH = ("false", "true")


def json_rows(decisions: Decided) -> list[bytes]:
    """Each decision as the JSON object that `nescio score --out x.jsonl` writes, without `sample`.

    decisions: of a batch.
    """
    columns = decisions.columns()
    if len(decisions) > FEW or _has_ties(columns):
        return json_lines(columns).splitlines()
    marks = (json.dumps(name, ensure_ascii=False).replace("%", "%%") for name in columns)
    form = "{" + ",".join(f"{mark}:%s" for mark in marks) + "}"
    texts = map(_texts, columns.values())
    return [(form % row).encode() for row in zip(*texts, strict=True)]


def arrow_stream(decisions: Decided) -> bytes:
    """The decisions as a stream of Apache Arrow, with the columns of `nescio score`.

    decisions: of a batch.
    """
    import pyarrow as pa

    columns = decisions.columns()
    table = pa.table({name: np.ascontiguousarray(one) for name, one in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


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


def _has_ties(columns: Mapping[str, NDArray[Any]]) -> bool:
    """Whether a number is so near to the middle of two texts that only one way of writing counts.

    Text has nine figures; that of whole columns is computed from products, whose rounding may
    decide there.
    """
    floats = [one for one in columns.values() if one.dtype.kind == "f"]
    size = np.abs(np.stack(floats)) if floats else np.zeros((0, 0))
    usual = size[(size >= EDGES[0]) & (size < EDGES[-1] * 10)]
    figures = usual * POWERS[len(POWERS) - np.searchsorted(EDGES, usual, "right")]
    return bool((np.abs(figures - np.floor(figures) - 0.5) < TIE).any())


def _texts(values: NDArray[Any]) -> list[str]:
    """A column as JSON."""
    kind, given = values.dtype.kind, values.tolist()
    if kind == "f":
        texts = [f"{value:.9g}" for value in given]
        return [RARE.get(text, text) for text in texts]
    if kind == "b":
        return [TRUTH[value] for value in given]
    if kind == "U":
        words = {word: json.dumps(word, ensure_ascii=False) for word in set(given)}
        return [words[word] for word in given]
    return list(map(str, given))


def _finite(values: list[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]
