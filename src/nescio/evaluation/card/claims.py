"""The numbers of an audit one by one, by their paths in `audit.json`, and how two compare."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Leaf: TypeAlias = float | int | bool | str | None
PRINTED = 6  # significant digits of a number on the card
LONG = 8  # numbers of a list that a card still prints; longer ones are curves
# What another run of the same command may say otherwise: paths, and on what it ran.
FREE = (("command",), ("files",), ("guard", "file"), ("guard", "net"), ("nescio",),
        ("format",), ("format_version",))  # fmt: skip
FREE_ENDS = ("seconds", "machine", "threads", "versions")  # of keys at any depth


@dataclass(frozen=True, kw_only=True)
class Whole:
    """All leaves of an audit: their number, and SHA-256 of them to the last bit."""

    leaves: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Unequal:
    """A number that is not the same again."""

    name: str
    claimed: str | None  # None: the card does not have it
    found: str | None


def leaves(audit: Mapping[str, Any]) -> dict[str, Leaf]:
    """All numbers and texts of an audit that the same command must give again, by their paths."""
    return {"/".join(path): value for path, value, _ in _walk(audit, (), False)}


def printed(audit: Mapping[str, Any]) -> dict[str, str]:
    """The numbers that a card prints, in six significant digits; curves are left out."""
    return {
        "/".join(path): shown(value)
        for path, value, long in _walk(audit, (), False)
        if not long and isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def shown(value: Leaf) -> str:
    """A number as a card prints it: whole ones in full, others in six significant digits."""
    return f"{value:.{PRINTED}g}" if isinstance(value, float) else str(value)


def whole(audit: Mapping[str, Any]) -> Whole:
    """The digest of all leaves."""
    found = leaves(audit)
    return Whole(leaves=len(found), sha256=canonical_digest(found))


def canonical(value: Any) -> bytes:
    """JSON in one form: sorted keys, no spaces, ASCII; floats by their shortest exact text."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def canonical_digest(value: Any) -> str:
    """SHA-256 of the one form."""
    return hashlib.sha256(canonical(value)).hexdigest()


def unequal(claimed: Mapping[str, str], found: Mapping[str, str]) -> tuple[Unequal, ...]:
    """The numbers whose printed digits differ, or that only one side has."""
    names = [*claimed, *(name for name in found if name not in claimed)]
    return tuple(
        Unequal(name=name, claimed=claimed.get(name), found=found.get(name))
        for name in names
        if claimed.get(name) != found.get(name)
    )


def _walk(
    value: Any, path: tuple[str, ...], long: bool
) -> Iterator[tuple[tuple[str, ...], Leaf, bool]]:
    """Leaves by path, and whether these are of a long list."""
    if path in FREE or (path and path[-1] in FREE_ENDS):
        return
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _walk(part, (*path, str(key)), long)
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from _walk(part, (*path, str(index)), long or len(value) > LONG)
    else:
        yield path, value, long
