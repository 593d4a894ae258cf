"""Running an experiment: parts that are done are not run again, so a stopped one resumes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nescio.core import NescioError, finite, make_folder, owned, unknown, write_atomically
from nescio.core.running import progress
from nescio_papers.kit.claims import judged
from nescio_papers.kit.experiment import Experiment, Part, Settings
from nescio_papers.kit.records import Record, Records, whole
from nescio_papers.kit.summary import summary


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """What a run of an experiment did.

    records: where everything is.
    done: the records of all parts that are done, by name.
    ran: the parts that this run ran.
    """

    records: Records
    done: dict[str, Record]
    ran: tuple[str, ...]

    @property
    def summary(self) -> Path:
        """The page to read."""
        return self.records.folder / "summary.md"


def run_experiment(
    experiment: Experiment,
    folder: str | Path,
    *,
    settings: Settings | None = None,
    only: Sequence[str] = (),
    again: bool = False,
    show: bool | None = None,
) -> Path:
    """Run the parts that are not done, write results and summary; returns the summary's path.

    experiment: the experiment, such as `nescio_papers.named("uci")`.
    folder: where to write; parts that are done there are not run again.
    settings: what the caller may choose; None: the full version with seed 0.
    only: names of parts to run; by default all.
    again: whether to run parts that are done, too; a new result replaces the old one.
    show: whether to draw a progress bar; None: where stderr is a terminal.
    """
    return reproduced(
        experiment, folder, settings=settings, only=only, again=again, show=show
    ).summary


def reproduced(
    experiment: Experiment,
    folder: str | Path,
    *,
    settings: Settings | None = None,
    only: Sequence[str] = (),
    again: bool = False,
    show: bool | None = None,
) -> Reproduced:
    """As `run_experiment`; returns what was done."""
    chosen = replace(settings or Settings(), folder=Path(folder))
    names = [part.name for part in experiment.parts]
    for name in only:
        if name not in names:
            raise NescioError(unknown("part", name, names))
    with owned(make_folder(Path(folder))):
        records = Records(folder=Path(folder), experiment=experiment, settings=chosen)
        records.claim()
        done = records.read()
        wanted = [name for name in names if not only or name in only]
        todo = [name for name in wanted if again or name not in done or done[name]["empty"]]
        _run_all(records, done, todo, show)
        return _finished(records, done, tuple(todo))


def judge_experiment(experiment: Experiment, folder: str | Path) -> Reproduced:
    """Run nothing: judge the stored numbers by the rules of today, write results and summary.

    experiment: the experiment.
    folder: a folder with results.
    """
    place = Path(folder)
    results = place / "results.json"
    if not results.is_file():
        raise NescioError(f"{results} is not there, so nothing can be judged; run the paper first")
    stored = whole(results)
    settings = Settings(**stored["settings"], folder=place)
    with owned(place):
        records = Records(folder=place, experiment=experiment, settings=settings)
        records.claim()
        return _finished(records, records.read(), ())


def _run_all(
    records: Records, done: dict[str, Record], todo: Sequence[str], show: bool | None
) -> None:
    """Run parts in their order; each is on disk when the next one starts."""
    parts = records.experiment.parts
    with progress(len(parts), records.experiment.name, show=show) as advance:
        for part in parts:
            advance(0, lambda part=part: part.title)  # type: ignore[misc]
            if part.name in todo:
                done[part.name] = _run(part, records)
            advance(1, lambda part=part: part.title)  # type: ignore[misc]


def _run(part: Part, records: Records) -> Record:
    start = time.monotonic()
    found = part.run(records.settings)
    return records.keep(part, found, time.monotonic() - start)


def _finished(records: Records, done: dict[str, Record], ran: tuple[str, ...]) -> Reproduced:
    """Judge and write."""
    ordered = {
        part.name: _with_claims(part, records.settings, done[part.name])
        for part in records.experiment.parts
        if part.name in done
    }
    records.finish(ordered)
    page = summary(records.experiment, records.settings, ordered)
    write_atomically(records.folder / "summary.md", page)
    return Reproduced(records=records, done=ordered, ran=ran)


def _with_claims(part: Part, settings: Settings, record: Record) -> Record:
    """The record of a part, with its claims judged now where it has a judge."""
    if part.judge is None or record["empty"]:
        return record
    claims = judged(settings, part.judge(record["numbers"]))
    made: list[Any] = finite([claim.to_json() for claim in claims])
    return {**record, "claims": made}
