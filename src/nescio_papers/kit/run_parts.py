"""Running an experiment: parts that are done are not run again, so a stopped one resumes."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from nescio.core import (
    NescioError,
    finite,
    is_terminal,
    owned,
    owned_folder,
    unknown,
    write_atomically,
)
from nescio.core.running import progress
from nescio_papers.kit.claims import judged
from nescio_papers.kit.durations import about, expected, in_words, timed
from nescio_papers.kit.experiment import Experiment, Part, Settings
from nescio_papers.kit.records import RESULTS, Record, Records, is_older, older, whose
from nescio_papers.kit.summary import claims_in, counted, part_page, skipped_by_reason, summary


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """What a run of an experiment did.

    records: where everything is.
    done: the records of all parts that are done, by name.
    wanted: the parts that were asked for.
    ran: those of them that this run ran.
    judged: whether stored numbers were judged, and nothing was to be run.
    """

    records: Records
    done: dict[str, Record]
    wanted: tuple[str, ...]
    ran: tuple[str, ...]
    judged: bool = False

    @property
    def summary(self) -> Path:
        """The page to read."""
        return self.records.folder / "summary.md"

    @property
    def nothing(self) -> bool:
        """Whether nothing that was asked for could be run, or judged."""
        rules = {part.name for part in self.records.experiment.parts if part.judge is not None}
        counted = [name for name in self.wanted if not self.judged or name in rules]
        return all(self.done[name]["empty"] for name in counted)

    @property
    def kept_verdicts(self) -> tuple[str, ...]:
        """Parts that this run did not run, and whose numbers the rules of today cannot judge."""
        return tuple(
            part.name
            for part in self.records.experiment.parts
            if part.name in self.done
            and part.name not in self.ran
            and (claims := self.done[part.name]["claims"])
            and (part.judge is None or any(is_older(claim) for claim in claims))
        )

    def told(self) -> str:
        """What was done, what was skipped and why, the verdicts, and where everything is."""
        folder, lines = self.records.folder, [self.records.experiment.title]
        for name in self.wanted:
            record, new = self.done[name], name in self.ran
            took = _took(record) if new or record["empty"] else "done before"
            lines.append(f"  {name:<18} {took}")
        skipped = skipped_by_reason({name: self.done[name] for name in self.wanted})
        if skipped:
            lines += ["skipped, and why:", *(f"  {what}: {why}" for what, why in skipped)]
            again = "run it again without --judge-only" if self.judged else "the same command"
            lines.append(f"  then: {again}; with --again --part NAME for parts that ran without it")
        claims = claims_in(self.done)
        if claims:
            lines.append(f"verdicts: {counted(claims)}")
        if self.kept_verdicts:
            lines.append(f"verdicts as they were when run: {', '.join(self.kept_verdicts)}")
        pictures = [name for record in self.done.values() for name in record["figures"]]
        if pictures:
            lines.append(f"pictures: {len(pictures)} in {folder}, such as {folder / pictures[0]}")
        pages = [folder / f"{name}.md" for name in self.wanted if not self.done[name]["empty"]]
        if pages:
            lines.append(f"long tables: {pages[0]}{', ...' * (len(pages) > 1)}")
        lines.append(f"numbers: {self.records.results}")
        return "\n".join([*lines, f"summary: {self.summary}"])


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
    tell: Callable[[str], None] = lambda _: None,
) -> Reproduced:
    """As `run_experiment`; returns what was done, and tells beforehand how long it takes."""
    chosen = replace(settings or Settings(), folder=Path(folder))
    names = [part.name for part in experiment.parts]
    for name in only:
        if name not in names:
            raise NescioError(unknown("part", name, names))
    with owned_folder(folder):
        records = Records(folder=Path(folder), experiment=experiment, settings=chosen)
        records.claim()
        done = records.read()
        wanted = [name for name in names if not only or name in only]
        todo = [name for name in wanted if again or name not in done or done[name]["empty"]]
        if todo:
            tell(_plan(records, done, todo, len(wanted) - len(todo)))
        _run_all(records, done, todo, show, tell)
        return _finished(records, done, wanted, todo)


def _plan(records: Records, done: Mapping[str, Record], todo: Sequence[str], before: int) -> str:
    """What will be run, and how long that takes."""
    experiment, quick = records.experiment, records.settings.quick
    seconds = expected(experiment, quick=quick, only=todo)
    others = _trained_first(records, done, todo)
    known = timed(experiment, quick=quick, only=todo) and not others
    text = f"{experiment.name}: {len(todo)} part{'s' * (len(todo) > 1)} to run"
    if before:
        text += f", {before} done before"
    if seconds:
        text += f"; {about(seconds) if known else f'at least {in_words(seconds)}'} on two cores"
    whole = expected(experiment, quick=quick, only=others)
    if whole:  # without their data, others train nothing
        others = [name for name in others if expected(experiment, quick=quick, only=[name])]
        text += (
            f", and first the training of the networks of {', '.join(others)}, which the folder "
            f"does not have ({'these parts take' if others[1:] else 'that part takes'} "
            f"{about(whole)})"
        )
    return text


def _trained_first(records: Records, done: Mapping[str, Record], todo: Sequence[str]) -> list[str]:
    """Parts that are not run now, whose networks others read, and that left none in the folder."""
    parts = records.experiment.parts
    read = {name for part in parts if part.name in todo for name in part.reads}
    empty = {name for name, record in done.items() if record["empty"]}
    wanted = read - set(todo) - empty
    return [
        part.name
        for part in parts
        if part.name in wanted and not (records.folder / part.name).is_dir()
    ]


def judge_experiment(experiment: Experiment, folder: str | Path) -> Reproduced:
    """Run nothing: judge the stored numbers by the rules of today, write results and summary.

    experiment: the experiment.
    folder: a folder with results.
    """
    place = Path(folder)
    stored = whose(place)
    if stored is None:
        raise NescioError(
            f"{place / RESULTS} is not there, so nothing can be judged; run the paper first"
        )
    settings = Settings(**stored["settings"], folder=place)
    with owned(place):
        records = Records(folder=place, experiment=experiment, settings=settings)
        records.claim()
        stored_parts = records.read()
        return replace(_finished(records, stored_parts, list(stored_parts), ()), judged=True)


def _run_all(
    records: Records,
    done: dict[str, Record],
    todo: Sequence[str],
    show: bool | None,
    tell: Callable[[str], None],
) -> None:
    """Run parts in their order; each is on disk when the next one starts.

    Where no bar is drawn, each is told.
    """
    bar = is_terminal(sys.stderr) if show is None else show
    parts = [part for part in records.experiment.parts if part.name in todo]
    with progress(len(parts), records.experiment.name, show=show) as advance:
        for part in parts:
            note = partial(_note, records, part)
            advance(0, note)
            done[part.name] = _run(part, records)
            advance(1, note)
            if not bar:
                tell(f"  {part.name}: {_took(done[part.name])}")


def _took(record: Record) -> str:
    """How long a part took, or that it was skipped."""
    return "skipped" if record["empty"] else in_words(record["seconds"])


def _note(records: Records, part: Part) -> str:
    """A part's title and how long it takes, beside the bar."""
    seconds = expected(records.experiment, quick=records.settings.quick, only=[part.name])
    return f"{part.title} ({about(seconds)})" if seconds else part.title


def _run(part: Part, records: Records) -> Record:
    work, start = records.folder / part.name, time.monotonic()
    resumed = work.is_dir() and any(work.iterdir())
    found = part.run(records.settings)
    return records.keep(part, found, time.monotonic() - start, resumed=resumed)


def _finished(
    records: Records, done: dict[str, Record], wanted: Sequence[str], ran: Sequence[str]
) -> Reproduced:
    """Judge and write."""
    ordered = {
        part.name: _with_claims(part, records.settings, done[part.name], new=part.name in ran)
        for part in records.experiment.parts
        if part.name in done
    }
    records.finish(ordered)
    about = records.experiment, records.settings
    for name, record in ordered.items():
        write_atomically(records.folder / f"{name}.md", part_page(*about, name, record))
    write_atomically(records.folder / "summary.md", summary(*about, ordered))
    return Reproduced(records=records, done=ordered, wanted=tuple(wanted), ran=tuple(ran))


def _with_claims(part: Part, settings: Settings, record: Record, *, new: bool) -> Record:
    """The record of a part, with its claims judged now where it has a judge.

    Numbers of an older version may lack what today's rule reads: their verdicts stay as they were.
    """
    if part.judge is None or record["empty"]:
        return record
    try:
        claims = judged(settings, part.judge(record["numbers"]))
    except (LookupError, TypeError, AttributeError):
        if new:  # no older version is to blame
            raise
        return {**record, "claims": [older(claim) for claim in record["claims"]]}
    made: list[Any] = finite([claim.to_json() for claim in claims])
    return {**record, "claims": made}
