"""Files from their publishers: resumable, checked before they get their name, and checked again.

A file grows under the name `FILE.part`. A download that was cut off goes on from there. Only when
its bytes have the published checksum does it replace what was there before.
"""

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from nescio.core import Advance, NescioError, make_folder, progress
from nescio.data.sets.catalogue import SETTING, CatalogueEntry, File, entry, home, locate, root
from nescio.version import VERSION

if TYPE_CHECKING:
    from http.client import HTTPResponse

CHUNK = 1 << 16
MEGABYTE = 1_000_000
WAITS = (1.0, 5.0, 15.0)  # seconds before another try; the first try waits for nobody
SECONDS = 30.0  # without a byte, after which a connection counts as lost
Note = Callable[[str], None]
Verdict = Literal["ok", "present", "missing", "damaged"]


@dataclass(frozen=True)
class Checked:
    """The state of a file."""

    path: Path
    verdict: Verdict
    reason: str = ""


def download(
    name: str,
    folder: str | Path | None = None,
    *,
    note: Note = print,
    waits: Sequence[float] = WAITS,
    show: bool | None = None,
) -> Path:
    """Fetch the files of a data set into its folder, but for those that are present and whole."""
    known = entry(name)
    above = root(folder)
    if above is None:
        raise NescioError(f"say where to: set {SETTING} to a folder, or give one: --folder data")
    if not known.files:
        raise NescioError(
            f"{known.name} cannot be downloaded: put {known.by_hand} into "
            f"{above / known.folders[0]} (see {known.home})"
        )
    where = make_folder(above / known.folders[0])
    for file in known.files:
        path = where / file.name
        if path.is_file() and check(path, file).verdict == "ok":
            note(f"{path}: there already")
            continue
        fetch(file, path, note=note, waits=waits, show=show)
        note(f"{path}: {file.size / MEGABYTE:.1f} MB, checksum right")
    return where


def verify(name: str, folder: str | Path | None = None) -> list[Checked]:
    """Which files of a data set are there, and whether their bytes are the published ones."""
    known, above = entry(name), root(folder)
    if above is None:
        raise NescioError(f"say where to look: set {SETTING} to a folder, or give --folder data")
    where = home(name, folder) or above / known.folders[0]
    listed = [(path, f) for f in (*known.files, *known.others) if (path := locate(where, f.name))]
    unlisted = sorted(set(_matching(known, where)) - {path for path, _ in listed})
    return [
        *(check(path, file) for path, file in listed),
        *(Checked(path, "present", "no published checksum") for path in unlisted),
        *(Checked(where / file.name, "missing") for file in missing(known, where)),
    ]


def presence(name: str, folder: str | Path | None = None) -> Literal["yes", "in part", "no"]:
    """Whether the files of a data set are there, without a look at their bytes."""
    known, where = entry(name), home(name, folder)
    if where is None or not any(where.iterdir()):
        return "no"
    if not known.files:
        return _presence_by_hand(known, where)
    unpacked = [locate(where, other.name) is not None for other in known.others]
    if all(_has(where, file) for file in known.files) or (unpacked and all(unpacked)):
        return "yes"
    return "no" if len(missing(known, where)) == len(known.files) else "in part"


def _presence_by_hand(known: CatalogueEntry, where: Path) -> Literal["yes", "in part", "no"]:
    """The same of files that nobody serves: those with known names, of a pattern, or any."""
    named = [_in_any_form(where, other.name) for other in known.others]
    anything = not named and not known.patterns
    if anything or (named and all(named)) or _matching(known, where):
        return "yes"
    return "in part" if any(named) else "no"


def _in_any_form(where: Path, name: str) -> bool:
    """Whether a file is there, packed or plain."""
    plain = name.removesuffix(".gz").removesuffix(".xz")
    return any(locate(where, plain + end) is not None for end in ("", ".gz", ".xz"))


def missing(known: CatalogueEntry, where: Path) -> list[File]:
    """The published files that are not there, unless others serve in their place."""
    lack = [file for file in known.files if not _has(where, file)]
    if lack == list(known.files) and _in_their_place(known, where):
        return []
    return lack


def _in_their_place(known: CatalogueEntry, where: Path) -> bool:
    """Whether there are files in another layout than the published one, whole or in part."""
    unpacked = {_plain(file) for file in known.files}
    others = [other for other in known.others if other.name not in unpacked]
    return any(_matching(known, where)) or any(locate(where, other.name) for other in others)


def _matching(known: CatalogueEntry, where: Path) -> list[Path]:
    """Files that are read although they are published nowhere."""
    return [path for pattern in known.patterns for path in where.glob(pattern)]


def _has(where: Path, file: File) -> bool:
    return locate(where, file.name) is not None or locate(where, _plain(file)) is not None


def _plain(file: File) -> str:
    """The name of a file that was unpacked."""
    return file.name.removesuffix(".gz")


def check(path: Path, file: File) -> Checked:
    """Compare the size and, where it is known, the checksum of a file."""
    size = path.stat().st_size
    if size != file.size:
        return Checked(path, "damaged", f"{size} bytes, expected {file.size}")
    if file.sha256 is None:
        return Checked(path, "ok", "by its size; no published checksum")
    with path.open("rb") as contents:
        checksum = hashlib.file_digest(contents, "sha256").hexdigest()
    if checksum != file.sha256:
        return Checked(
            path, "damaged", f"sha256 {checksum[:12]}..., expected {file.sha256[:12]}..."
        )
    return Checked(path, "ok")


def fetch(
    file: File,
    path: Path,
    *,
    note: Note = print,
    waits: Sequence[float] = WAITS,
    show: bool | None = None,
) -> None:
    """Download one file from the first of its addresses that gives the right bytes."""
    part = path.with_name(f"{path.name}.part")
    failures = []
    for address in file.addresses:
        try:
            _from(address, file, part, note, waits, show)
            with part.open("rb+") as whole:
                os.fsync(whole.fileno())
            os.replace(part, path)
        except NescioError as error:
            failures.append(str(error))
        except OSError as error:
            raise NescioError(f"cannot write {part}: {error.strerror}; make room for it") from None
        else:
            return
    rest = f"; {part.name} stays, and the same command continues it" if part.exists() else ""
    raise NescioError(f"could not download {path.name}: {'; '.join(failures)}{rest}")


def _from(
    address: str, file: File, part: Path, note: Note, waits: Sequence[float], show: bool | None
) -> None:
    """Fill `part` from an address, with further tries after a lost connection."""
    if urlsplit(address).scheme not in ("http", "https"):
        raise NescioError(f"{address} is not an address of http or https")
    for wait in (*waits, None):
        before = part.stat().st_size if part.exists() else 0
        try:
            _continue(address, file, part, show)
        except _LostError as lost:
            if wait is None:
                raise NescioError(f"{address}: {lost}") from None
            note(f"{address}: {lost}; trying again in {wait:g} s")
            time.sleep(wait)
            continue
        judged = check(part, file)
        if judged.verdict == "ok":
            return
        part.unlink()
        if not before:  # begun here and wrong from the start: another try would be too
            raise NescioError(f"{address} gave wrong bytes ({judged.reason}); they were removed")
        note(f"{address}: what was there before does not fit ({judged.reason}); starting again")
    raise NescioError(f"{address} gave wrong bytes; they were removed")


class _LostError(Exception):
    """A connection that may work another time."""


def _continue(address: str, file: File, part: Path, show: bool | None) -> None:
    """Append what is missing to `part`, or start again if the server cannot resume."""
    start = part.stat().st_size if part.exists() else 0
    if start == file.size:
        return
    if start > file.size:
        part.unlink()
        start = 0
    opened = _open(address, start)
    if opened is None:
        part.unlink(missing_ok=True)
        raise _LostError("the server cannot resume an incomplete download")
    with closing(opened) as answer:
        resumed = answer.status == 206 and _begins(answer) == start
        if answer.status == 206 and not resumed:
            part.unlink(missing_ok=True)
            raise _LostError("the server continued at another byte than asked")
        start = start if resumed else 0
        _refuse_length(address, answer, file.size - start)
        with (
            part.open("ab" if resumed else "wb") as out,
            progress(-(-file.size // MEGABYTE), file.name, show=show) as advance,
        ):
            advance(start // MEGABYTE, lambda: "MB")
            _copy(answer, out.write, file.size, start, advance)


def _copy(
    answer: "HTTPResponse", write: Callable[[bytes], object], size: int, done: int, advance: Advance
) -> None:
    from http.client import HTTPException

    while True:
        try:
            chunk = answer.read1(CHUNK)
        except (OSError, HTTPException) as error:
            raise _LostError(
                f"the connection broke after {done} of {size} bytes ({error})"
            ) from None
        if not chunk:
            break
        write(chunk)
        advance((done + len(chunk)) // MEGABYTE - done // MEGABYTE, lambda: "MB")
        done += len(chunk)
        if done > size:
            return  # too much: the check says so
    if done < size:
        raise _LostError(f"the connection ended after {done} of {size} bytes")


def _open(address: str, start: int) -> "HTTPResponse | None":
    """The answer from byte `start` on; None where the server says that there is no such byte."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    headers = {"User-Agent": f"nescio/{VERSION}"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        answer: HTTPResponse = urlopen(Request(address, headers=headers), timeout=SECONDS)
    except HTTPError as error:
        error.close()
        if error.code == 416:
            return None
        text = f"the server answered {error.code} {error.reason}"
        if error.code in (408, 429) or error.code >= 500:
            raise _LostError(text) from None
        raise NescioError(f"{address}: {text}") from None
    except (URLError, OSError, HTTPException) as error:
        raise _LostError(f"no connection ({getattr(error, 'reason', error)})") from None
    return answer


def _begins(answer: "HTTPResponse") -> int | None:
    """Where a partial answer begins: `bytes 100-199/200` at 100."""
    unit, _, span = (answer.headers.get("Content-Range") or "").partition(" ")
    first = span.partition("-")[0]
    return int(first) if unit == "bytes" and first.isdigit() else None


def _refuse_length(address: str, answer: "HTTPResponse", rest: int) -> None:
    """Say at once that another file is served, often a page with an apology."""
    told = answer.headers.get("Content-Length")
    if told is not None and told.isdigit() and int(told) != rest:
        raise NescioError(f"{address} serves {told} bytes, expected {rest}: it is another file")
