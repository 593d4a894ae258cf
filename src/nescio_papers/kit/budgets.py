"""How much a run does: each size once, with its value in a full and in a quick run."""

from dataclasses import field, fields
from typing import Any, TypeVar

T = TypeVar("T")


def size(full: T, *, quick: T) -> T:
    """A field of a budget, a dataclass: its value in a full run, and in a quick one.

    >>> @dataclass(frozen=True)
    ... class Budget:
    ...     epochs: int = size(100, quick=2)
    """
    made: Any = field(default_factory=lambda: full, metadata={"quick": quick})
    return made  # type: ignore[no-any-return]


def full_and_quick(budget: type[T]) -> tuple[T, T]:
    """The budgets of a full and of a quick run."""
    quick = {one.name: one.metadata["quick"] for one in fields(budget)}  # type: ignore[arg-type]
    return budget(), budget(**quick)
