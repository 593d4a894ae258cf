"""Files that survive a crash: written beside, synced, renamed; and one owner for a folder.

An output path that is a symbolic link is replaced by the new file; what it pointed to stays as it
was. What is written beside has a name that nobody can know and is never opened through a link.
"""

import hashlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import IO, Any

import numpy as np

from nescio.core.errors import NescioError

try:
    import fcntl
except ImportError:  # a system without it: what a crash leaves beside is then not cleaned up
    fcntl = None  # type: ignore[assignment]

SAFE = os.O_CREAT | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))
OWNER = ".nescio.owner"  # in a folder: who works in it
BLOCK = 1 << 20  # bytes of a file that are digested at a time
WHOLE = 1 << 28  # bytes up to which all of an input file is digested
SAMPLES = 256  # blocks of a larger file that are
PAUSE = 0.02  # seconds between two looks at a lock
NAME = 50  # characters of a file's name in the name of what is written beside


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file so that a crash leaves the old one or the new one, never half of one."""
    with writing_atomically(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def writing_atomically(path: Path) -> Iterator[IO[bytes]]:
    """The same for what comes piece by piece: the file gets its name at the end of the block."""
    make_folder(path.parent)
    beside = None
    try:
        _remove_leftovers(path)
        beside, handle = _beside(path)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _sync(path.parent)
    except OSError as error:
        raise NescioError(
            f"cannot write {path}: {error.strerror}; choose another folder"
        ) from error
    finally:
        if beside is not None:
            beside.unlink(missing_ok=True)


def _beside(path: Path) -> tuple[Path, int]:
    """A new file, held while it is written: so it is told from what a crash left."""
    while True:
        beside = path.with_name(f".{path.name[:NAME]}.{token_hex(8)}.new")
        handle = os.open(beside, SAFE | os.O_WRONLY | os.O_EXCL, 0o666)
        with suppress(BlockingIOError):
            if not _hold(handle) or beside.exists():
                return beside, handle
        os.close(handle)  # another process took it for a leftover, just before it was held


def _remove_leftovers(path: Path) -> None:
    """Remove what a killed process left beside; what a living one writes is held by it."""
    start = f".{path.name[:NAME]}."
    for name in os.listdir(path.parent):
        if not (name.startswith(start) and name.endswith(".new")):
            continue
        with suppress(OSError):
            handle = os.open(path.with_name(name), SAFE & ~os.O_CREAT | os.O_WRONLY)
            try:
                if _hold(handle):
                    path.with_name(name).unlink(missing_ok=True)
            finally:
                os.close(handle)


def _hold(handle: int) -> bool:
    """Lock an open file, until it is closed or the process ends; False without such locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        return False
    return True


_owned: ContextVar[frozenset[Path]] = ContextVar("owned", default=frozenset())


@contextmanager
def owned(path: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Own a folder, or the file that will be written at `path`, while the block runs.

    A second process waits up to `wait` seconds, is then refused and told who the owner is. The
    system ends an owner's lock with the owner, so a killed one leaves nothing in the way. Blocks
    within a block may own it again.
    """
    lock = path / OWNER if path.is_dir() else path.with_name(f".{path.name[:NAME]}.owner")
    lock = make_folder(lock.parent).resolve() / lock.name
    if lock in _owned.get():
        yield
        return
    handle = _locked(lock, path, monotonic() + wait)
    token = _owned.set(_owned.get() | {lock})
    try:
        since = f"{datetime.now():%Y-%m-%d %H:%M:%S}"
        about = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(about).encode())
        yield
    finally:
        _owned.reset(token)
        lock.unlink(missing_ok=True)
        os.close(handle)


@contextmanager
def owned_folder(folder: str | Path) -> Iterator[None]:
    """Make a folder and own it while the block runs; one that fails leaves no empty one behind."""
    path = Path(folder)
    new = [one for one in (path, *path.parents) if not os.path.lexists(one)]
    try:
        while True:
            with owned(make_folder(path)):
                if path.is_dir():  # else one who was refused removed it before it was owned
                    yield
                    return
    except BaseException:
        with suppress(OSError):  # something is in it
            for one in new:
                one.rmdir()
        raise


def _locked(lock: Path, path: Path, until: float) -> int:
    """The open file of a lock that is held; others are waited for until a time."""
    while True:
        try:
            handle = os.open(lock, SAFE | os.O_RDWR, 0o666)
        except OSError as error:
            raise NescioError(
                f"cannot own {path}: {error.strerror}; {lock} is in the way"
            ) from None
        try:
            held = _hold(handle)
        except BlockingIOError:
            if monotonic() >= until:
                raise _in_use(path, handle, "") from None
            os.close(handle)
            sleep(PAUSE)
            continue
        if not held and os.read(handle, 1):  # no locks here: whoever wrote it is the owner
            raise _in_use(path, handle, f"; if that process has ended, delete {lock}")
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(lock), os.fstat(handle)):
                return handle
        os.close(handle)  # the last owner removed it meanwhile


def _in_use(path: Path, handle: int, hint: str) -> NescioError:
    os.lseek(handle, 0, os.SEEK_SET)
    try:
        about = json.loads(os.read(handle, 1 << 12))
        who = f"process {about['pid']} on {about['host']} since {about['since']}"
    except (ValueError, KeyError, TypeError):  # it is about to write who it is
        who = "another process"
    os.close(handle)
    return NescioError(f"{path} is in use by {who}; wait until it ends, or choose another{hint}")


def _sync(folder: Path) -> None:
    """Make a rename last through a power cut, where the system allows it."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_folder(path: Path) -> Path:
    """Make a folder, or say why it cannot be made or written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NescioError(f"cannot make the folder {path}: {error.strerror}") from error
    if not os.access(path, os.W_OK):
        raise NescioError(f"the folder {path} is not writable; choose another one")
    return path


def file_digest(path: Path) -> str:
    """A fingerprint of all the bytes of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def known_by(path: Path) -> dict[str, Any]:
    """What tells an input file from a changed one: its size and its content.

    Of a file above 256 MB the content is known by its first and last megabyte and 256 others,
    spread evenly; there the time of the last change counts as well.
    """
    size = path.stat().st_size
    if size <= WHOLE:
        return {"bytes": size, "content": file_digest(path)}
    total = hashlib.sha256()
    with path.open("rb") as file:
        for start in np.linspace(0, size - BLOCK, SAMPLES + 2).astype(np.int64).tolist():
            file.seek(start)
            total.update(file.read(BLOCK))
    return {"bytes": size, "written": path.stat().st_mtime_ns, "content": total.hexdigest()[:32]}


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically; numbers that are not finite become null."""
    write_atomically(path, json.dumps(finite(value), indent=2, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    """`value` with every float that JSON cannot hold replaced by None."""
    if isinstance(value, Mapping):
        return {str(key): finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
