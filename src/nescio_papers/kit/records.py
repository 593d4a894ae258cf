"""Records of parts on disk: a file for each part that is done, and `results.json` with all.

A folder with `results.json` alone, as it is published, is a store too: parts are read from it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nescio.core import (
    DamagedError,
    NescioError,
    digest,
    file_digest,
    finite,
    load_manifest,
    make_folder,
    save_manifest,
    write_atomically,
    write_json,
)
from nescio.version import VERSION
from nescio_papers.kit.claims import FAILS, IN_PART, judged
from nescio_papers.kit.experiment import Experiment, Findings, Part, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = "results.json"  # all records
ABOUT = "experiment.json"  # whose folder it is, while it is worked in
EXPERIMENT, PART = "experiment", "part of an experiment"  # kinds of files
LAYOUT = 2  # of results.json; 1 had no settings, no version and claims without facts
NEEDED = ("title", "numbers", "figures", "comparisons", "claims", "text", "seconds")
RECORD = (*NEEDED, "skipped", "empty", "resumed", "version")
OLDER = "older"  # the rule of a claim that was judged by an earlier version
OLD_WORDS = {"partly": IN_PART, "fails": FAILS}
FIRST = {"quick": False, "seed": 0, "bits": False}  # settings of a results.json without any

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Records:
    """The records of an experiment in a folder.

    folder: the folder.
    experiment: the experiment.
    settings: the settings of the run.
    """

    folder: Path
    experiment: Experiment
    settings: Settings

    @property
    def results(self) -> Path:
        """The file with all records."""
        return self.folder / RESULTS

    @property
    def published(self) -> bool:
        """Whether the folder holds results, and no files of a run."""
        return published(self.folder)

    def claim(self) -> None:
        """Mark the folder as this experiment's, or refuse one that holds something else."""
        mine = {"experiment": self.experiment.name, "settings": _chosen(self.settings)}
        theirs = whose(self.folder)
        if theirs is None:
            make_folder(self.folder)
            save_manifest(self.folder / ABOUT, {"kind": EXPERIMENT, **mine})
            return
        if {name: theirs.get(name) for name in mine} != mine:
            there, here = _in_words(theirs), _in_words(mine)
            raise NescioError(
                f"{self.folder} holds {there}, not {here}; choose another folder with --out"
            )

    def read(self) -> dict[str, Record]:
        """The records of all parts that are done, by name."""
        stored = whole(self.results)["parts"] if self.published else {}  # else made from the parts
        done = {}
        for part in self.experiment.parts:
            path = self.folder / f"{part.name}.json"
            if path.exists():
                done[part.name] = of_part(path)
            elif part.name in stored:
                done[part.name] = stored[part.name]
        return done

    def keep(self, part: Part, found: Findings, seconds: float, *, resumed: bool) -> Record:
        """Write what a part found: its figures, and last its record, which makes it done.

        resumed: whether some of its work was done before, so that the seconds are not all.
        """
        path = self.folder / f"{part.name}.json"
        path.unlink(missing_ok=True)
        for name, figure in found.figures.items():
            save_figure(figure, self.folder / name)
        record = {
            "title": part.title,
            "numbers": found.numbers,
            "figures": {name: found.captions.get(name, "") for name in found.figures},
            "comparisons": [asdict(row) for row in found.comparisons],
            "claims": [claim.to_json() for claim in judged(self.settings, found.claims)],
            "text": found.text,
            "seconds": round(seconds, 1),
            "skipped": dict(found.skipped),
            "empty": found.empty,
            "resumed": resumed,
        }
        files = {name: file_digest(self.folder / name) for name in found.figures}
        save_manifest(path, {"kind": PART, **record, "files": files})
        clean: Record = finite({**record, "version": VERSION})
        return clean

    def finish(self, done: Mapping[str, Record]) -> None:
        """Write results.json; a folder of results alone stays one."""
        alone = self.published
        parts = finite(done)
        write_json(
            self.results,
            {
                "experiment": self.experiment.name,
                "layout": LAYOUT,
                "settings": _chosen(self.settings),
                "version": VERSION,
                "digest": _fingerprint(parts),
                "parts": parts,
            },
        )
        if alone:
            for part in self.experiment.parts:
                (self.folder / f"{part.name}.json").unlink(missing_ok=True)


def published(folder: Path) -> bool:
    """Whether a folder holds results, and no files of a run."""
    return (folder / RESULTS).exists() and not (folder / ABOUT).exists()


def whose(folder: Path) -> Mapping[str, Any] | None:
    """The experiment and the settings of a folder, which may be of a stopped run; None: none."""
    if published(folder):
        return whole(folder / RESULTS)
    about = folder / ABOUT
    return load_manifest(about, EXPERIMENT) if about.exists() else None


def whole(path: Path) -> dict[str, Any]:
    """A results.json of this or an older version, with records as they are written today."""
    anew = "reproduce the paper in another folder with --out"
    try:
        found = json.loads(path.read_text("utf-8"))
        parts = dict(found["parts"])
        lacking = [name for one in parts.values() for name in NEEDED if name not in one]
        layout = int(found.get("layout", 1))
        strange = dict(found.get("settings", FIRST)).keys() - FIRST.keys()
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(
            f"{path} was not written by nescio reproduce, or is damaged; {anew}"
        ) from error
    if layout > LAYOUT or strange:
        raise NescioError(
            f"{path} was written by a newer nescio ({found.get('version')}; this is {VERSION}); "
            f"upgrade to read it, or {anew}"
        )
    if lacking:
        raise DamagedError(f"{path} has records without {lacking[0]}, so it is damaged; {anew}")
    if layout > 1 and found.get("digest") != _fingerprint(parts):
        raise DamagedError(f"{path} is not what was written; copy it again, or {anew}")
    return {
        "settings": FIRST,
        "version": None,
        **found,
        "parts": {name: _today(record, found.get("version")) for name, record in parts.items()},
    }


def of_part(path: Path) -> Record:
    """The record of a part that is done, if it and its figures are as they were written."""
    anew = f"delete {path} to run this part again"
    try:
        record = load_manifest(path, PART)
    except DamagedError as error:
        raise DamagedError(f"{error}; or {anew}") from None
    for name, there in record["files"].items():
        figure = path.with_name(name)
        if not figure.is_file() or file_digest(figure) != there:
            raise DamagedError(f"{figure} is not what was written; {anew}")
    return _today(record, record.get("nescio"))


def numbers_of(settings: Settings, part: str) -> dict[str, Any]:
    """The numbers of a part that was run before in the same folder; none otherwise."""
    if settings.folder is None:
        return {}
    path = settings.folder / f"{part}.json"
    if path.exists():
        numbers: dict[str, Any] = of_part(path)["numbers"]
        return numbers
    stored = whole(settings.folder / RESULTS)["parts"] if published(settings.folder) else {}
    return dict(stored[part]["numbers"]) if part in stored else {}


def _today(record: Mapping[str, Any], version: str | None) -> Record:
    """A record as it is written today; numbers are those that were measured."""
    missing = record["numbers"].get("absent")
    nothing = {record["title"]: missing} if isinstance(missing, str) else {}
    usual = {"skipped": nothing, "empty": bool(nothing), "resumed": False, "version": version}
    full = {**usual, **record}
    claims = [_today_claim(claim) for claim in record["claims"]]
    return {**{name: full[name] for name in RECORD}, "claims": claims}


def _today_claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    """A claim with one of the five words; one without facts is of an earlier version."""
    if "facts" in claim:
        return dict(claim)
    word = claim["verdict"]
    return older({**claim, "verdict": OLD_WORDS.get(word, word)})


def older(claim: Mapping[str, Any]) -> dict[str, Any]:
    """A claim that today's rule cannot judge, marked so."""
    return {**claim, "rule": OLDER}


def is_older(claim: Mapping[str, Any]) -> bool:
    """Whether an earlier version judged a claim, and today's rule cannot."""
    return claim.get("rule") == OLDER


def _chosen(settings: Settings) -> dict[str, Any]:
    return {"quick": settings.quick, "seed": settings.seed, "bits": settings.bits}


def _in_words(about: Mapping[str, Any]) -> str:
    """Whose results, and how they were made."""
    chosen = about.get("settings") or {}
    size = "a quick run" if chosen.get("quick") else "the full run"
    unit = "bits" if chosen.get("bits") else "nats"
    return f"{about.get('experiment')} ({size}, seed {chosen.get('seed')}, {unit})"


def _fingerprint(parts: Mapping[str, Any]) -> str:
    return digest(json.dumps(json.loads(json.dumps(parts)), sort_keys=True))


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG, atomically."""
    import io

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    write_atomically(path, buffer.getvalue())
