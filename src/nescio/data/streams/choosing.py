"""Which columns of a table are the numbers that a network reads, and which are copied through."""

from collections.abc import Sequence
from pathlib import Path

from nescio.errors import NescioError
from nescio.registry import unknown

Names = str | int | Sequence[str] | None
SHOWN = 10  # names in a message


def chosen_columns(
    path: Path, known: Sequence[str], columns: Names, without: Names, keep: Names = None
) -> list[int]:
    """Places of the chosen columns, in the order in which they are asked for.

    keep: left out too, unless `columns` has them.
    """
    if columns is not None and without is not None:
        raise NescioError("give columns= or without=, not both")
    if len(set(known)) < len(known):
        raise NescioError(f"{path} has two columns of one name: {', '.join(known)}")
    if columns is not None:
        return places_of(path, known, columns)
    asked = {*places_of(path, known, without), *places_of(path, known, keep)}
    left = [place for place in range(len(known)) if place not in asked]
    if not left:
        raise NescioError(f"{path} has no column left; its columns: {', '.join(known)}")
    return left


def places_of(path: Path, known: Sequence[str], names: Names) -> list[int]:
    """Places of named columns; all that are not there are named."""
    asked = listed(names)
    missing = [name for name in asked if name not in known]
    if not missing:
        return [known.index(name) for name in asked]
    lower = {name.lower(): name for name in known}
    same = [f"{lower[n.lower()]!r} for {n!r}" for n in missing if n.lower() in lower]
    if len(missing) == 1 and not same:
        raise NescioError(f"{path}: {unknown('column', missing[0], known)}")
    what = (
        f"unknown column {missing[0]!r}"
        if len(missing) == 1
        else (f"it lacks {len(missing)} columns, {first_of(missing)}")
    )
    hint = f"; small and capital letters differ, did you mean {first_of(same)}?" if same else "."
    raise NescioError(f"{path}: {what}{hint} Known: {', '.join(known)}")


def listed(names: Names) -> list[str]:
    """Names as a list: `a,b` are two."""
    if names is None:
        return []
    if isinstance(names, (str, int)):
        return [name.strip() for name in str(names).split(",")]
    return list(names)


def first_of(names: Sequence[str]) -> str:
    """For a message: the first names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
