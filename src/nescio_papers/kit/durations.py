"""How long parts take: seconds that were measured on two cores, for a quick and a full run.

`python -m nescio_papers.kit.durations FOLDER...` reads them off folders with results.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from nescio.core import write_json
from nescio_papers.kit.experiment import Experiment

MEASURED = Path(__file__).with_name("seconds.json")


@cache
def measured() -> dict[str, dict[str, dict[str, float]]]:
    """Seconds by experiment, part, and "quick" or "full"."""
    found: dict[str, dict[str, dict[str, float]]] = json.loads(MEASURED.read_text("utf-8"))
    return found


def expected(experiment: Experiment, *, quick: bool, only: Iterable[str] | None = None) -> float:
    """Seconds that parts take; those that were never measured count as none.

    experiment: the experiment.
    quick: whether it is a quick run.
    only: names of parts; by default all.
    """
    return sum(one for one in _each(experiment, quick, only) if one is not None)


def timed(experiment: Experiment, *, quick: bool, only: Iterable[str] | None = None) -> bool:
    """Whether all of the parts were measured; as `expected`."""
    return None not in _each(experiment, quick, only)


def _each(experiment: Experiment, quick: bool, only: Iterable[str] | None) -> list[float | None]:
    """The seconds of each part; None: never measured."""
    names = [part.name for part in experiment.parts] if only is None else only
    known, size = measured().get(experiment.name, {}), "quick" if quick else "full"
    return [known.get(name, {}).get(size) for name in names]


def in_words(seconds: float) -> str:
    """Seconds as a person says them: `3 s`, `12 min`, `2.5 h`."""
    if seconds < 1:
        return "under 1 s"
    if seconds < 99:
        return f"{seconds:.0f} s"
    if seconds < 99 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def about(seconds: float) -> str:
    """Seconds that were measured elsewhere: `about 3 s`, `under 1 s`."""
    return in_words(seconds) if seconds < 1 else f"about {in_words(seconds)}"


def updated(
    known: Mapping[str, Mapping[str, Mapping[str, float]]], folders: Iterable[Path]
) -> dict[str, dict[str, dict[str, float]]]:
    """The seconds with those of folders with results; parts that were resumed took longer."""
    from nescio_papers.kit.records import whole

    new = {name: {part: dict(one) for part, one in parts.items()} for name, parts in known.items()}
    for folder in folders:
        found = whole(folder / "results.json")
        size = "quick" if found["settings"]["quick"] else "full"
        parts = new.setdefault(found["experiment"], {})
        for name, record in found["parts"].items():
            if not record["empty"] and not record["resumed"]:
                parts.setdefault(name, {})[size] = record["seconds"]
    return new


if __name__ == "__main__":
    write_json(MEASURED, updated(measured(), map(Path, sys.argv[1:])))
