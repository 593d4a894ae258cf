"""Which columns of a table are the numbers that a network reads."""

from collections.abc import Sequence
from pathlib import Path

from nescio.errors import NescioError
from nescio.registry import unknown

Names = str | int | Sequence[str] | None


def chosen_columns(path: Path, known: Sequence[str], columns: Names, without: Names) -> list[int]:
    """Places of the chosen columns, in the order in which they are asked for."""
    if columns is not None and without is not None:
        raise NescioError("give columns= or without=, not both")
    if len(set(known)) < len(known):
        raise NescioError(f"{path} has two columns of one name: {', '.join(known)}")
    asked = _list(without if columns is None else columns)
    missing = [name for name in asked if name not in known]
    if missing:
        raise NescioError(f"{path}: {unknown('column', missing[0], known)}")
    if columns is not None:
        return [known.index(name) for name in asked]
    left = [place for place, name in enumerate(known) if name not in asked]
    if not left:
        raise NescioError(f"{path} has no column left; its columns: {', '.join(known)}")
    return left


def _list(names: Names) -> list[str]:
    if names is None:
        return []
    if isinstance(names, (str, int)):
        return [name.strip() for name in str(names).split(",")]
    return list(names)
