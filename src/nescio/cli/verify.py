"""`nescio verify`: every claim of a safety card, computed again and compared."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from nescio.cli import options as opt
from nescio.cli.options import note, option
from nescio.cli.verbs import Verb

if TYPE_CHECKING:
    from nescio.evaluation import Card, Check

VERBS = ("audit", "guard")  # of commands that a card may hold
GUARD = "guard.safetensors"
# fmt: off
PARAMETERS = [
    opt.argument("card", type=opt.PATH),
    option("--file files", "Where a file of the card is now: NAME=PATH, with the name on the card. "
        "Repeatable.", multiple=True, metavar="NAME=PATH"),
    option("--key", "Also check that this key signed: the public key, or the shared secret.",
        type=opt.PATH, metavar="FILE"),
    option("--against", "Compare with the audit in this folder, which you made again yourself, "
        "instead of running the commands of the card.", type=opt.PATH, metavar="FOLDER"),
    option("--no-run", "Only check the card, its signature and its files.", is_flag=True),
]
# fmt: on


EXAMPLES = {
    "run the commands of the card again": "nescio verify card.json",
    "only the card, its signature and its files": "nescio verify card.json --no-run",
    "a file that is elsewhere now": "nescio verify card.json --file test.npz=moved/test.npz "
    "--no-run",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="guide/card.md")
def verify(
    card: str, files: tuple[str, ...], key: str | None, against: str | None, no_run: bool
) -> None:
    """Compute every claim of a safety card again, and compare.

    Numbers are compared to the last printed digit. First the card itself is checked, its signature,
    and the SHA-256 of every file. Only if they are right, the commands of the card are run in a
    temporary folder, from the current one: `nescio audit` and `nescio guard`, nothing else. A
    network of your own is made by its module, whose file is among those that were checked; what
    the module imports is not.

    Ends with 0 if all is the same, 2 if something was not checked, 3 if something differs.
    """
    from nescio.evaluation import check_files, check_signature, read_card
    from nescio.report import checks_text

    signed = read_card(card)
    said = f"unchanged, fingerprint {signed.card.sha256[:16]}..."
    checks = [_check("card", said), check_signature(signed, key)]
    if not _wrong(checks):
        places = _places(signed.card, Path(card).parent, _given(files))
        checks.append(check_files(signed.card, places))
    if _wrong(checks) or no_run:
        checks.append(_check("numbers", "not computed again", "not checked"))
    else:
        checks += _again(signed.card, places, against)
    click.echo(checks_text(card, checks))
    statuses = {one.status for one in checks}
    sys.exit(3 if "wrong" in statuses else 2 if "not checked" in statuses else 0)


def _check(name: str, words: str, status: str = "right") -> "Check":
    from nescio.evaluation import Check

    return Check(name=name, status=status, words=words)  # type: ignore[arg-type]


def _wrong(checks: "Sequence[Check]") -> bool:
    return any(one.status == "wrong" for one in checks)


def _given(files: Sequence[str]) -> dict[str, Path]:
    from nescio.core import NescioError

    found = {}
    for text in files:
        name, equals, path = text.rpartition("=")
        if not equals or not name or not Path(path).exists():
            raise NescioError(
                f"--file takes NAME=PATH with a path that exists, got {text!r}; NAME is the name "
                "that the card has"
            )
        found[name] = Path(path)
    return found


def _places(card: "Card", beside: Path, given: Mapping[str, Path]) -> dict[str, Path]:
    """Where each file of a card is: as given, as the card says, or beside the card."""
    from nescio.core import NescioError, unknown
    from nescio.evaluation import card_files

    wanted, places, lost = card_files(card), {}, []
    for name in given:
        if name not in wanted:
            raise NescioError(unknown("file of the card", name, list(wanted)))
    for name, digest in wanted.items():
        candidates = _candidates(name, beside, module=digest.kind == "module")
        options = [given[name]] if name in given else candidates
        if (path := next((one for one in options if one.exists()), None)) is not None:
            places[name] = path
        elif name != card.audit.path:  # its numbers are on the card
            lost.append(name)
    if lost:
        shown = "; ".join(f"{name}: --file {name}=PATH" for name in lost)
        raise NescioError(
            f"{len(lost)} of {len(wanted)} files of the card are not where they were, nor beside "
            f"the card; say where they are. {shown}"
        )
    return places


def _candidates(name: str, beside: Path, *, module: bool) -> Iterator[Path]:
    from nescio.cli.command_files import module_file

    if module:
        if (source := module_file(f"{name}:x")) is not None:
            yield source
        yield beside / f"{name.replace('.', '/')}.py"
        return
    yield Path(name)
    yield beside / Path(name).name


def _again(card: "Card", places: Mapping[str, Path], against: str | None) -> "list[Check]":
    """All claims, against audits and guards that are made now, or against a folder."""
    from nescio.evaluation import check_again

    first = str(Path(card.audit.path).parent)
    if against is not None:
        own = Path(against)
        return [*check_again(card, own, first), *_guards(card, [own / GUARD])]
    with TemporaryDirectory(prefix="nescio-verify-") as folder:
        made = {}
        for verb, command in _runnable(card.commands).items():
            target = Path(folder) / verb
            made[verb] = target / GUARD
            _run(card, command, places, target if verb == "audit" else made[verb])
        if "audit" not in made:
            words = "the audit was made in Python: make it again, and give its folder: --against"
            checks = [_check("numbers", words, "not checked")]
        else:
            checks = check_again(card, Path(folder) / "audit", first)
        return [*checks, *_guards(card, list(made.values())[::-1])]


def _runnable(commands: Sequence[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The commands of a card by their verbs; any other than of these two is refused."""
    from nescio.core import NescioError

    for command in commands:
        if command[:1] != ("nescio",) or not set(command[1:2]) & set(VERBS):
            raise NescioError(
                f"the card holds a command that is not run: {' '.join(command[:2])!r}; only nescio "
                "audit and nescio guard are"
            )
    return {command[1]: command for command in commands}


def _guards(card: "Card", made: Sequence[Path]) -> "list[Check]":
    """Whether the guard of a card is one that was made again: by its own command, if it has one."""
    from nescio.evaluation import check_guard

    if card.guard is None:
        return []
    found = [check_guard(card, path) for path in made if path.exists()]
    if not found:
        return [_check("guard", "it was not made again: no command of it is known", "not checked")]
    return [next((one for one in found if one.status == "right"), found[0])]


def _run(card: "Card", command: Sequence[str], places: Mapping[str, Path], out: Path) -> None:
    """Run a command of the card with its number of threads; the files are where they are now."""
    from nescio.cli.command_files import pointed
    from nescio.core import NescioError

    files = {name: path for name, path in places.items() if card.files.get(name) is not None}
    modules = {name for name, one in card.files.items() if one.kind == "module"}
    folders = [
        str(path.resolve().parents[name.count(".")])
        for name, path in files.items()
        if name in modules
    ]
    moved = {name: path for name, path in files.items() if name not in modules}
    words = [*pointed(command, moved), "--out", str(out)]
    note(f"running again: nescio {' '.join(words)}")
    paths = os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])
    threads = {"OMP_NUM_THREADS": str(card.threads), "PYTHONPATH": paths}
    run = subprocess.run(
        [sys.executable, "-m", "nescio", *words],
        env={**os.environ, **threads},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if run.returncode not in (0, 2, 3):
        raise NescioError(
            f"the command of the card failed with exit code {run.returncode}; its words are above"
        )
