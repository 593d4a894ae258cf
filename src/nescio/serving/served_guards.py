"""Guards by name, each with its versions: a new one takes over between two requests."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from nescio.core import NescioError, did_you_mean, load
from nescio.guards import Guard, MapGuard, RegressionGuard, fingerprint
from nescio.serving.file_states import FileState, file_state

DIGITS = 16  # of the fingerprint that is a guard's version
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
AnyServed = Guard | RegressionGuard
Load = Callable[[Path], Any]  # a guard from its file


class UnknownGuardError(NescioError):
    """A guard, or a version of it, that is not served."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Version:
    """One version of a served guard.

    name: of the guard. version: what tells it from any that decides differently. guard: as it was
    loaded. steady: the same, whose decisions do not depend on the batch. path: its file; None: it
    came from Python. loaded: when, in seconds since 1970. watch: what watches its decisions.
    """

    name: str
    version: str
    guard: AnyServed
    steady: Any
    path: Path | None
    loaded: float
    watch: Any = None

    @property
    def shape(self) -> Any:
        """The shape of one input; None: it is not known."""
        return None if self.guard.range is None else self.guard.range.shape

    def about(self) -> dict[str, Any]:
        """What is guaranteed, and what is assumed; JSON."""
        guard = self.guard
        numbers = isinstance(guard, RegressionGuard)
        wishes = {name: getattr(guard, name) for name in ("false_alarm", "risk", "confidence")}
        if isinstance(guard, RegressionGuard):
            wishes |= {"miscoverage": guard.miscoverage, "max_width": guard.max_width}
        return {
            "guard": self.name,
            "version": self.version,
            "task": "regression" if numbers else "classification",
            "guarantees": list(guard.guarantees),
            "wishes": wishes,
            "classes": class_names(guard),
            "targets": list(_targets(guard)) if isinstance(guard, RegressionGuard) else None,
            "input": input_of(self),
            "steady": getattr(self.steady, "least", None) is not None,
            "batch_at_least": getattr(self.steady, "least", None),
            "file": None if self.path is None else self.path.name,
            "loaded": self.loaded,
        }


@dataclass(eq=False, kw_only=True)
class Served:
    """A name, and the versions of its guard: the one in use last."""

    name: str
    load: Load | None
    path: Path | None  # given at the start
    versions: list[Version] = field(default_factory=list)
    seen: FileState | None = None  # of the file at the start, when it was last read

    @property
    def current(self) -> Version:
        """The version in use."""
        return self.versions[-1]


class ServedGuards:
    """All guards of a service; whoever asks for the current version gets a whole one.

    make_watch: what watches the decisions of a version; None: nothing does.
    """

    def __init__(self, make_watch: Callable[[str, str, AnyServed], Any] | None = None) -> None:
        self.make_watch = make_watch
        self._served: dict[str, Served] = {}
        self._lock = Lock()  # held where versions change

    def add(self, name: str, source: Any, reader: Load | None = None) -> Version:
        """Serve one more guard.

        name: of letters, digits, -, _ and dots.
        source: a guard, or the path of its file.
        reader: reads a guard from its file; None: `nescio.load`.
        """
        if not name or set(name) - set(LETTERS) or name[0] == "." or len(name) > 64:
            raise NescioError(
                f"the name of a guard is of letters, digits, -, _ and dots, got {name!r}"
            )
        if name in self._served:
            raise NescioError(f"two guards have the name {name!r}; write OTHER={source}")
        path = Path(source) if isinstance(source, (str, Path)) else None
        served = Served(name=name, load=reader or load, path=path)
        if path is None:
            version = self._version(served, source, None)
        else:
            version = self._read(served, path)
        served.versions.append(version)
        self._served[name] = served
        return version

    def names(self) -> list[str]:
        """The names, in the order in which they were given."""
        return list(self._served)

    def current(self, name: str | None = None) -> Version:
        """The version in use of the guard `name`; None: of the only one, or the first."""
        if name is None:
            return next(iter(self._served.values())).versions[-1]
        return self.served(name).versions[-1]

    def served(self, name: str) -> Served:
        """The guard `name` with its versions."""
        found = self._served.get(name)
        if found is None:
            hint = did_you_mean(name, list(self._served))
            raise UnknownGuardError(f"there is no guard {name!r}{hint}")
        return found

    def load(self, name: str, path: Path | None = None, *, force: bool = False) -> Version:
        """Read a new version from a file, and put it in use.

        name: of the guard.
        path: the file; None: that of the start.
        force: also where inputs or classes differ from those of the version in use.
        """
        served = self.served(name)
        path = served.path if path is None else path
        if path is None:
            raise NescioError(f"{name!r} came from Python and has no file to load again")
        with self._lock:
            version = self._read(served, path)
            if version.version == served.current.version:
                return served.current
            if not force:
                _check_fits(version, served.current)
            served.versions = [*served.versions[-1:], version]  # one assignment: the swap
        return version

    def rollback(self, name: str) -> Version:
        """Put the version before the current one in use again; that becomes the one before."""
        served = self.served(name)
        with self._lock:
            if len(served.versions) < 2:
                raise NescioError(f"{name!r} has no version before {served.current.version}")
            served.versions = served.versions[::-1]
            return served.current

    def changed(self) -> Iterator[str]:
        """The guards whose files at the start have changed since they were last read."""
        for name, served in self._served.items():
            seen = None if served.path is None else file_state(served.path)
            if seen is not None and seen != served.seen:  # None: being replaced, look again later
                served.seen = seen
                yield name

    def _read(self, served: Served, path: Path) -> Version:
        assert served.load is not None
        if served.path is not None and path.resolve() == served.path.resolve():
            served.seen = file_state(path)  # before it is read: what is written then counts as new
        return self._version(served, served.load(path), path)

    def _version(self, served: Served, guard: Any, path: Path | None) -> Version:
        from nescio.guards import Steady

        if isinstance(guard, MapGuard) or not isinstance(guard, (Guard, RegressionGuard)):
            raise NescioError(
                f"{served.name!r} is a {type(guard).__name__}, which is not served: only guards "
                "with one decision per input are; decide in Python, or with nescio score"
            )
        if guard.by == "groups":
            raise NescioError(
                f"{served.name!r} was made with groups, which a request does not say; make it "
                "without, or decide in Python: guard(x, groups=...)"
            )
        if not guard.nets:
            raise NescioError(f"{served.name!r} was made from arrays and has no network to serve")
        version = version_of(guard)
        known = [one for one in served.versions if one.version == version]
        if known:
            return known[0]
        watch = None if self.make_watch is None else self.make_watch(served.name, version, guard)
        return Version(
            name=served.name,
            version=version,
            guard=guard,
            steady=Steady(guard),
            path=path,
            loaded=time.time(),
            watch=watch,
        )


def version_of(guard: AnyServed) -> str:
    """What tells `guard` from any that decides differently, short enough for a log."""
    return fingerprint(guard)[:DIGITS]


def class_names(guard: AnyServed) -> list[str] | None:
    """The names of the classes of `guard`, numbers where they have none; None: a regression."""
    if isinstance(guard, RegressionGuard):
        return None
    if guard.names is not None:
        return list(guard.names)
    known = None if guard.sets is None else guard.sets.options["classes"]
    count = int(guard.notes.get("classes") or known or 0)
    return [str(number) for number in range(count)]


def input_of(version: Version) -> dict[str, Any]:
    """The shape of one input, and the columns of a table; JSON."""
    shape = version.shape
    columns = version.guard.notes.get("columns") or None
    plain = {n: list(s) for n, s in shape.items()} if isinstance(shape, Mapping) else shape
    return {
        "shape": plain if plain is None or isinstance(plain, dict) else list(plain),
        "columns": None if columns is None else list(columns),
    }


def _targets(guard: RegressionGuard) -> Iterator[str]:
    yield from guard.names or map(str, range(guard.targets))


def _check_fits(new: Version, old: Version) -> None:
    """Refuse a version that clients of the old one would not understand."""
    differences = [
        f"{what} {mine} instead of {theirs}"
        for what, mine, theirs in (
            ("inputs of shape", new.shape, old.shape),
            ("the task", new.about()["task"], old.about()["task"]),
            ("classes", new.about()["classes"], old.about()["classes"]),
        )
        if mine != theirs
    ]
    if differences:
        raise NescioError(
            f"{new.path} does not fit {old.name!r}: {', '.join(differences)}; force=true loads it "
            "nevertheless"
        )
