"""What an experiment is: named parts, each from settings to findings; running them is shared.

A part that is done is on disk and is not run again, so a stopped experiment goes on. A new paper is
a new file beside this one, not new machinery.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nescio.core import (
    DamagedError,
    Engine,
    LocalEngine,
    NescioError,
    file_digest,
    finite,
    load_manifest,
    make_folder,
    owned,
    save_manifest,
    unknown,
    write_atomically,
    write_json,
)
from nescio.core.running import progress
from nescio_papers.kit.claims import Claim, judged
from nescio_papers.kit.summary import summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPERIMENT, PART = "experiment", "part of an experiment"  # kinds of files
RECORD = ("title", "numbers", "figures", "comparisons", "claims", "text", "seconds")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the caller may choose; two runs with the same settings give the same numbers.

    quick: whether to run a small version that takes minutes.
    seed: seed of the random draws.
    bits: whether entropies are in bits instead of nats.
    folder: folder of the run: a long part keeps unfinished work in folder / its name.
    engine: where independent work runs; None: in processes of this machine, or in this one.
    """

    quick: bool = False
    seed: int = 0
    bits: bool = False
    folder: Path | None = None
    engine: Engine | None = None

    def engine_of(self, workers: int) -> Engine:
        """Where independent work runs; without an engine, in `workers` processes."""
        return self.engine or LocalEngine(workers)

    @property
    def base(self) -> float:
        """The base of the logarithm for entropies."""
        return 2.0 if self.bits else 2.718281828459045

    @property
    def unit(self) -> str:
        """The name of the unit of entropies."""
        return "bits" if self.bits else "nats"


@dataclass(frozen=True)
class Comparison:
    """A published number beside ours.

    what: what the number is, in words.
    published: the published number; None: there is none.
    ours: our number.
    note: a remark.
    """

    what: str
    published: float | None
    ours: float
    note: str = field(default="", kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a part found: numbers, figures by file name, comparisons, claims, and some words.

    numbers: numbers by name, in JSON.
    figures: figures by file name.
    captions: captions by the name of the figure.
    comparisons: published numbers beside ours.
    claims: sentences of the source, and whether they hold.
    text: words in Markdown.
    """

    numbers: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, "Figure"] = field(default_factory=dict)
    captions: Mapping[str, str] = field(default_factory=dict)
    comparisons: Sequence[Comparison] = ()
    claims: Sequence[Claim] = ()
    text: str = ""


def joined(parts: Mapping[str, Findings], introduction: str = "") -> Findings:
    """Several findings as one: numbers by name, everything else one after the other."""
    every = list(parts.values())
    return Findings(
        numbers={name: part.numbers for name, part in parts.items()},
        figures={name: figure for part in every for name, figure in part.figures.items()},
        captions={name: text for part in every for name, text in part.captions.items()},
        comparisons=[row for part in every for row in part.comparisons],
        claims=[claim for part in every for claim in part.claims],
        text="\n\n".join(filter(None, [introduction, *(part.text for part in every)])),
    )


def absent(name: str, why: str) -> Findings:
    """Findings on data that are not at hand: what is missing."""
    return Findings(numbers={"absent": why}, text=f"{name} is not at hand: {why}.")


@dataclass(frozen=True)
class Part:
    """A piece of an experiment that can be run, and resumed, by itself.

    name: name of the part.
    title: its title.
    run: function from settings to findings.
    judge: function from the numbers of the findings, as JSON has them, to claims; None: the claims
      are in the findings. It is asked whenever a summary is written, so that the verdicts on
      numbers measured long ago follow the rules of today.
    """

    name: str
    title: str
    run: Callable[[Settings], Findings]
    judge: Callable[[Mapping[str, Any]], Sequence[Claim]] | None = None


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A paper's figures and tables as a list of parts.

    name: name of the experiment, as `nescio reproduce` takes it.
    title: title of the paper.
    source: the paper, and the part of it that is reproduced.
    needs: data and extras that it needs.
    minutes: minutes of the quick and of the full version, on two cores.
    parts: the parts.
    """

    name: str
    title: str
    source: str
    needs: str
    minutes: tuple[float, float]
    parts: tuple[Part, ...]


def run_experiment(
    experiment: Experiment,
    folder: str | Path,
    *,
    settings: Settings | None = None,
    only: Sequence[str] = (),
    show: bool | None = None,
) -> Path:
    """Run the parts that are not done, write results and summary; returns the summary's path.

    experiment: the experiment, such as `nescio_papers.named("uci")`.
    folder: where to write; parts that are done there are not run again.
    settings: what the caller may choose; None: the full version with seed 0.
    only: names of parts to run; by default all.
    show: whether to draw a progress bar; None: where stderr is a terminal.
    """
    settings = settings or Settings()
    names = [part.name for part in experiment.parts]
    for name in only:
        if name not in names:
            raise NescioError(unknown("part", name, names))
    with owned(make_folder(Path(folder))):
        settings = replace(settings, folder=_claim(Path(folder), experiment, settings))
        return _run_parts(experiment, Path(folder), settings, only, show)


def _run_parts(
    experiment: Experiment,
    folder: Path,
    settings: Settings,
    only: Sequence[str],
    show: bool | None,
) -> Path:
    with progress(len(experiment.parts), experiment.name, show=show) as advance:
        done: dict[str, dict[str, Any]] = {}
        for part in experiment.parts:
            path = folder / f"{part.name}.json"
            advance(0, lambda part=part: part.title)  # type: ignore[misc]
            if path.exists():
                done[part.name] = _with_claims(part, settings, _read(path))
            elif not only or part.name in only:
                done[part.name] = _with_claims(part, settings, _run(part, settings, folder))
            advance(1, lambda part=part: part.title)  # type: ignore[misc]
    write_json(folder / "results.json", {"experiment": experiment.name, "parts": done})
    write_atomically(folder / "summary.md", summary(experiment, settings, done))
    return folder / "summary.md"


def _with_claims(part: Part, settings: Settings, record: dict[str, Any]) -> dict[str, Any]:
    """The record of a part, with its claims judged now where it has a judge."""
    if part.judge is None:
        return record
    claims = judged(settings, part.judge(record["numbers"]))
    return {**record, "claims": finite([claim.to_json() for claim in claims])}


def numbers_of(settings: Settings, part: str) -> dict[str, Any]:
    """The numbers of a part that was run before in the same folder; none otherwise."""
    path = settings.folder / f"{part}.json" if settings.folder else None
    if path is None or not path.exists():
        return {}
    numbers: dict[str, Any] = _read(path)["numbers"]
    return numbers


def _read(path: Path) -> dict[str, Any]:
    """The record of a part that is done, if it and its figures are as they were written."""
    anew = f"delete {path} to run this part again"
    try:
        record = load_manifest(path, PART)
    except DamagedError as error:
        raise DamagedError(f"{error}; or {anew}") from None
    for name, there in record.pop("files").items():
        figure = path.with_name(name)
        if not figure.is_file() or file_digest(figure) != there:
            raise DamagedError(f"{figure} is not what was written; {anew}")
    return {name: value for name, value in record.items() if name in RECORD}


def _claim(folder: Path, experiment: Experiment, settings: Settings) -> Path:
    """Mark a folder as this experiment's, or refuse one that holds something else."""
    path = make_folder(folder) / "experiment.json"
    chosen = {"quick": settings.quick, "seed": settings.seed, "bits": settings.bits}
    mine = {"experiment": experiment.name, "settings": chosen}
    if path.exists():
        theirs = load_manifest(path, EXPERIMENT)
        if {name: theirs.get(name) for name in mine} != mine:
            raise NescioError(
                f"{folder} holds {theirs.get('experiment')} with {theirs.get('settings')}, not "
                f"{experiment.name} with {mine['settings']}; choose another folder with --out"
            )
    else:
        save_manifest(path, {"kind": EXPERIMENT, **mine})
    return folder


def _run(part: Part, settings: Settings, folder: Path) -> dict[str, Any]:
    start = time.monotonic()
    result = part.run(settings)
    for name, figure in result.figures.items():
        save_figure(figure, folder / name)
    record = {
        "title": part.title,
        "numbers": result.numbers,
        "figures": {name: result.captions.get(name, "") for name in result.figures},
        "comparisons": [asdict(row) for row in result.comparisons],
        "claims": [claim.to_json() for claim in result.claims],
        "text": result.text,
        "seconds": round(time.monotonic() - start, 1),
    }
    files = {name: file_digest(folder / name) for name in result.figures}
    path = folder / f"{part.name}.json"  # last: a part is done when this is there
    save_manifest(path, {"kind": PART, **record, "files": files})
    clean: dict[str, Any] = finite(record)
    return clean


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG, atomically."""
    import io

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    write_atomically(path, buffer.getvalue())
