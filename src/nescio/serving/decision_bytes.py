"""Decisions as the bytes of an answer, and as columns of the log; a whole batch at a time."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from nescio.guards import Decisions, RegressionDecisions, json_objects

Decided = Decisions | RegressionDecisions
NUMBERS = ("probability", "p_value", "score", "failure_score")
OWN = ("decision", "label", *NUMBERS, "rule", "in_range", "set")  # columns of the log


def json_rows(decisions: Decided) -> list[bytes]:
    """Each decision as the JSON object that `nescio score --out x.jsonl` writes, without `sample`.

    decisions: of a batch.
    """
    return json_objects(decisions.columns())


def arrow_stream(columns: Mapping[str, Any], about: Mapping[str, str] | None = None) -> bytes:
    """Decisions as a stream of Apache Arrow.

    columns: by name, such as those of `Decisions.columns`.
    about: words beside the table; None: there are none.
    """
    import pyarrow as pa

    table = pa.table({name: np.ascontiguousarray(one) for name, one in columns.items()})
    table = table.replace_schema_metadata(about)
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


def _finite(values: list[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]
