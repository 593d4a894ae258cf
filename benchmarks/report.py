"""The measurements as a Markdown page and as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.timing import OURS, Benchmark, Numbers

GROWTH = "images/piece-cost.png"
CAPTION = "Cost of a linear region against the number of regions"


@dataclass(frozen=True)
class Result:
    """The numbers of every side, by label, and those of the checks."""

    benchmark: Benchmark
    sides: Mapping[str, Numbers]
    checks: Mapping[str, Numbers]
    options: Mapping[str, Any]  # other than those of the full work

    @property
    def work(self) -> str:
        changed = ", ".join(f"{key} {value}" for key, value in self.options.items())
        return self.benchmark.work + (f" [quick: {changed}]" if changed else "")


def ratios(result: Result) -> dict[str, dict[str, float]]:
    """Peer seconds over nescio seconds, by measure and peer."""
    if OURS.label not in result.sides:
        return {}
    ours = result.sides[OURS.label]
    peers = {label: numbers for label, numbers in result.sides.items() if label != OURS.label}
    return {
        measure: {label: numbers[measure] / ours[measure] for label, numbers in peers.items()}
        for measure in result.benchmark.measures
    }


def table(results: Sequence[Result]) -> str:
    """Work, nescio, peer, ratio."""
    lines = ["| work | nescio | peer | ratio |", "|---|---|---|---|"]
    for result in results:
        lines += _rows(result)
    return "\n".join(lines)


def _rows(result: Result) -> Iterator[str]:
    ours = result.sides.get(OURS.label)
    found = ratios(result)
    for measure in result.benchmark.measures:
        several = len(result.benchmark.measures) > 1
        work = result.work + (f" ({measure})" if several else "")
        if ours and len(result.sides) == 1:
            yield f"| {work}{_count(ours)} | {duration(ours[measure])} | none known | |"
        for label, numbers in result.sides.items():
            if label == OURS.label:
                continue
            own = duration(ours[measure]) if ours else "-"
            ratio = _ratio(found[measure][label]) if ours else "-"
            yield f"| {work} | {own} | {label}: {duration(numbers[measure])} | {ratio} |"


def _count(numbers: Numbers) -> str:
    return f" ({numbers['regions']:,.0f} regions)" if "regions" in numbers else ""


def _ratio(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def duration(value: float) -> str:
    """Seconds or milliseconds with three digits."""
    return f"{value:.3g} s" if value >= 0.1 else f"{1000 * value:.3g} ms"


def page(results: Sequence[Result], machine: Mapping[str, str], date: str) -> str:
    """The whole page."""
    conditions = ", ".join(f"{key} {value}" for key, value in machine.items())
    return "\n\n".join(
        [
            "# Benchmarks",
            f"Measured on {date}: {conditions}. Run them with `make bench`.",
            "A ratio is the peer's time over that of nescio: above 1, nescio is faster. Every "
            "number is a median; every measurement runs in a separate process, and the sides take "
            "turns. Cold is the first call after the imports, warm a later one.",
            table(results),
            *_remarks(results),
            *([f"![{CAPTION}]({GROWTH})"] if growth(results) else []),
        ]
    ) + "\n"  # fmt: skip


def _remarks(results: Sequence[Result]) -> Iterator[str]:
    for result in results:
        if result.benchmark.note and not result.options:
            yield f"{result.work}: {result.benchmark.note}"
        for name, numbers in result.checks.items():
            values = ", ".join(f"{key} {value:.3g}" for key, value in numbers.items())
            yield f"{result.work}: the {name.replace('_', ' ')} check found {values}."


def growth(results: Sequence[Result]) -> dict[int, float]:
    """Nanoseconds per linear region and unit, by the number of regions."""
    found = [result.checks["growth"] for result in results if "growth" in result.checks]
    return {
        int(name.removesuffix(" regions").replace(",", "")): value
        for numbers in found
        for name, value in numbers.items()
        if name.endswith(" regions")
    }


def draw_growth(path: Path, costs: Mapping[int, float]) -> None:
    """The cost of a linear region as networks grow, as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axis = figure.subplots()
    axis.plot(list(costs), list(costs.values()), "o-", color="#0072B2")
    axis.set(
        xscale="log", ylim=(0, 1.15 * max(costs.values())), xlabel="linear regions (log scale)"
    )
    axis.set_ylabel("nanoseconds per region and hidden unit")
    axis.set_title("The cost of a region does not grow with their number", loc="left")
    axis.grid(color="#dddddd")
    axis.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def record(results: Sequence[Result], machine: Mapping[str, str], date: str) -> str:
    """The same as JSON."""
    content = {
        result.benchmark.name: {
            "work": result.work,
            "sides": dict(result.sides),
            "ratios": ratios(result),
            "checks": dict(result.checks),
            "note": result.benchmark.note,
        }
        for result in results
    }
    return json.dumps({"date": date, "machine": dict(machine), "results": content}, indent=2) + "\n"


def write(
    folder: Path, results: Sequence[Result], machine: Mapping[str, str], date: str
) -> list[Path]:
    """Write `benchmarks.md` and `benchmarks.json`, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    costs = growth(results)
    if costs:
        draw_growth(folder / GROWTH, costs)
    files = {
        folder / "benchmarks.md": page(results, machine, date),
        folder / "benchmarks.json": record(results, machine, date),
    }
    for path, text in files.items():
        beside = path.with_name(f".{path.name}.new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    return list(files)
