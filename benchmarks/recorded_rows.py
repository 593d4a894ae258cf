"""Rows of a benchmark, printed as they come and kept in docs/."""

import argparse
import datetime
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.timing import ROOT, machine
from nescio.core import write_json

Parts = Callable[[bool], Mapping[str, Iterable[Any]]]  # rows by key; whether few runs are enough


def record(name: str, description: str | None, parts: Parts) -> None:
    """Read the options, print the rows of all parts, and write them to NAME.json."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("--quick", action="store_true", help="few runs, to see that all works")
    parser.add_argument("--output", type=Path, help=f"folder for {name}.json")
    options = parser.parse_args()
    started = time.perf_counter()
    content: dict[str, Any] = {"date": datetime.date.today().isoformat(), "machine": machine()}
    for key, rows in parts(options.quick).items():
        content[key] = []
        for row in rows:
            print(row, flush=True)
            content[key].append(row)
    content["seconds"] = round(time.perf_counter() - started)
    folder = options.output or (None if options.quick else ROOT / "docs")
    if folder is not None:
        write_json(folder / f"{name}.json", content)
