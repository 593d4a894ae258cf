"""The default detector against every single one: `python -m benchmarks.default_detector`.

Options: [--held-back | --design] [--only WORDS] [--cache FOLDER] [--output FOLDER].

For each network of benchmarks/held_back.py a guard is made with its default detector, and every
other detector is fitted with its defaults on the same training data; all score the same test
samples and OOD sets. A run writes default-detector.json, and the tables of it as Markdown.
"""

import argparse
import inspect
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import nescio
from benchmarks.held_back import CASES, Case, Material, trained
from benchmarks.timing import ROOT
from nescio.core import NescioError, quiet, write_json
from nescio.core.registry import detectors
from nescio.metrics import auroc

DEFAULT = "default"
NEEDS_MORE = ("measured", "combined")  # than a name
OF_TABLES = ("gower", "smoothed_density")  # they compare inputs column by column
FALSE_ALARM = 0.01
Cells = dict[str, dict[str, dict[str, float]]]  # detector -> OOD set -> AUROC and share found


def main() -> None:
    options = _options()
    path = options.output / "default-detector.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for case in CASES:
        if options.part not in (None, case.held_back):
            continue
        if options.only and not any(word in case.name for word in options.only):
            continue
        print(case.name, flush=True)
        results[case.name] = _judged(case, options.cache)
        options.output.mkdir(parents=True, exist_ok=True)
        write_json(path, results)
        (options.output / "default-detector-tables.md").write_text(_tables(results))
    print(_tables(results))


def _judged(case: Case, cache: Path) -> dict[str, Any]:
    material = case.material()
    net = trained(case, material, cache)
    start = time.perf_counter()
    with quiet():
        options: dict[str, Any] = {"progress": False, "repeats": case.table}
        guard = nescio.guard(net, material.calibration, train=material.train, **options)
        fit = time.perf_counter() - start
        sets = {"test": material.test, **material.ood}
        found = {name: guard(x).score for name, x in sets.items()}
    cells: Cells = {DEFAULT: _cells(found)}
    for name, scores in _singles(case, net, material):
        cells[name] = _cells(scores)
        print(f"  {name:22s}", _line(cells[name]), flush=True)
    print(f"  {DEFAULT:22s}", _line(cells[DEFAULT]), guard.detector.about.get("chosen"), flush=True)
    chosen = guard.detector.about.get("chosen", {})
    return {"held_back": case.held_back, "fit_seconds": fit, "chosen": chosen, "cells": cells}


def _singles(
    case: Case, net: nn.Module, material: Material
) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """The scores of each detector with its defaults."""
    options: dict[str, Any] = {"inputs": True, "progress": False}
    train = nescio.observe(net, material.train, **options)
    sets = {"test": material.test, **material.ood}
    seen = {name: nescio.observe(net, x, **options) for name, x in sets.items()}
    for name, build in detectors.items():
        if name in NEEDS_MORE or (name in OF_TABLES and not case.table):
            continue
        fits = "train" in inspect.signature(build).parameters
        try:
            detector = build(train) if fits else build()
            yield name, {key: detector(rows) for key, rows in seen.items()}
        except NescioError as error:
            print(f"  {name}: {error}")


def _cells(scores: Mapping[str, Tensor]) -> dict[str, dict[str, float]]:
    test = scores["test"].double()
    limit = test.quantile(1 - FALSE_ALARM)
    return {
        name: {
            "auroc": float(auroc(test, found.double())),
            "found": float((found.double() > limit).double().mean()),
        }
        for name, found in scores.items()
        if name != "test"
    }


def _line(cells: Mapping[str, Mapping[str, float]]) -> str:
    return "  ".join(f"{name} {cell['auroc']:.3f}" for name, cell in cells.items())


def _tables(results: Mapping[str, Any]) -> str:
    """Ranks of all detectors, and the default beside the best of each set."""
    lines: list[str] = []
    for held_back, title in ((True, "Held back"), (False, "Used for the design")):
        own = {name: one["cells"] for name, one in results.items() if one["held_back"] is held_back}
        if own:
            lines += [f"## {title}", "", *_ranks(own), "", *_each(own), ""]
    return "\n".join(lines)


def _ranks(own: Mapping[str, Cells]) -> list[str]:
    whole = [(case, ood) for case, cells in own.items() for ood in cells[DEFAULT]]
    names = sorted({name for cells in own.values() for name in cells})
    everywhere = [n for n in names if all(n in cells for cells in own.values())]

    def row(name: str) -> tuple[float, float, float, str]:
        areas = [own[case][name][ood]["auroc"] for case, ood in whole]
        gaps = [
            max(cells[ood]["auroc"] for cells in own[case].values()) - own[case][name][ood]["auroc"]
            for case, ood in whole
        ]
        found = [own[case][name][ood]["found"] for case, ood in whole]
        return sum(areas) / len(areas), min(areas), max(gaps), f"{sum(found) / len(found):.3f}"

    rows = sorted(((row(name), name) for name in everywhere), reverse=True)
    head = "| rank | detector | mean AUROC | lowest | furthest below the best | found at 1 % |"
    lines = [head, "|---:|---|---:|---:|---:|---:|"]
    for rank, ((mean, low, gap, found), name) in enumerate(rows, 1):
        shown = f"**{name}**" if name == DEFAULT else f"`{name}`"
        lines.append(f"| {rank} | {shown} | {mean:.3f} | {low:.3f} | {gap:.3f} | {found} |")
    return lines


def _each(own: Mapping[str, Cells]) -> list[str]:
    lines = ["| network | OOD set | default | best single | it is | default finds at 1 % |"]
    lines.append("|---|---|---:|---:|---|---:|")
    for case, cells in own.items():
        for ood, cell in cells[DEFAULT].items():
            singles = {name: rows[ood]["auroc"] for name, rows in cells.items() if name != DEFAULT}
            best = max(singles, key=lambda name: singles[name])
            lines.append(
                f"| {case} | {ood} | {cell['auroc']:.3f} | {singles[best]:.3f} | `{best}` | "
                f"{cell['found']:.3f} |"
            )
    return lines


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--held-back", dest="part", action="store_true", default=None)
    parser.add_argument("--design", dest="part", action="store_false")
    parser.add_argument("--only", nargs="*", default=[], help="words in the names of networks")
    parser.add_argument("--cache", type=Path, default=ROOT / ".venv" / "networks")
    parser.add_argument("--output", type=Path, default=ROOT / "docs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
