"""The decisions of a log as a table: CSV, JSON lines or Parquet."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import writing_atomically
from nescio.guards import format_of
from nescio.serving.decision_log import DecisionLog
from nescio.serving.log_records import Logged

Columns = dict[str, NDArray[Any]]
ROWS = 10_000  # of a part
WHOLE, TRUTH, NUMBERS = "seq", "in_range picked", "time probability p_value score failure_score"
ORDER = """seq id time replica guard version digest decision label probability p_value score
failure_score rule in_range set more picked propensity""".split()  # noqa: SIM905


def export_decisions(log: DecisionLog, out: Path | str, **filters: Any) -> int:
    """Write decisions to a table, and return their number.

    Times are seconds since 1970, in text with milliseconds.

    log: the decision log.
    out: the file, .csv, .jsonl or .parquet.
    filters: which decisions, as `DecisionLog.decisions` takes them.
    """
    out, count = Path(out), 0
    write, join = format_of(out)
    found = log.decisions(**filters)
    arranged = _same if out.suffix == ".parquet" else _with_milliseconds

    def parts() -> Iterator[bytes]:
        nonlocal count
        while (chunk := list(islice(found, ROWS))) or not count:
            yield write(arranged(columns_of(chunk)), not count)
            count += len(chunk)
            if not chunk:
                return

    with writing_atomically(out) as file:
        join(parts(), file)
    return count


def columns_of(chunk: Sequence[Logged]) -> Columns:
    """The columns of a `chunk` of decisions; a missing number is NaN, a missing text is empty."""
    return {name: _column(name, [getattr(one, name) for one in chunk]) for name in ORDER}


def _same(columns: Columns) -> Columns:
    return columns


def _with_milliseconds(columns: Columns) -> Columns:
    """Columns for text: times with three decimals, as nine figures would be good to 10 s only."""
    return {**columns, "time": np.array([f"{one:.3f}" for one in columns["time"]], dtype=np.bytes_)}


def _column(name: str, values: list[Any]) -> NDArray[Any]:
    if name == WHOLE:
        return np.array(values, dtype=np.int64)
    if name in TRUTH.split():
        return np.array(values, dtype=np.bool_)
    if name in (*NUMBERS.split(), "propensity"):
        return np.array([np.nan if one is None else one for one in values], dtype=np.float64)
    return np.array(["" if one is None else one for one in values], dtype=np.str_)
