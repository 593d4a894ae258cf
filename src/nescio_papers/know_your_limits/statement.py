"""A statement of a paper, what became of it, and by which check."""

from collections.abc import Mapping
from dataclasses import dataclass

PRINTED, CORRECTED, FALSE = "holds as printed", "holds with a correction", "false as printed"
CLOSE = 1e-8  # a deviation below counts as rounding: a ray's logits are as large as 1e9 there
CLEAR = 1e-2  # a counter-example must miss the statement by more


@dataclass(frozen=True)
class Statement:
    """A statement of a paper, its verdict, and the check that gave it."""

    name: str
    says: str
    verdict: str
    needs: str  # what makes it true, or what its proof lacks
    check: str
    worst: float | None  # deviation in the check of what is true
    counter: str = ""  # a sample that the statement as printed is wrong about
    miss: float | None = None  # by how much


def verdict(worst: float, *, corrected: bool = False, miss: float = 0.0) -> str:
    """False with a clear counter-example or a failed check; else as printed or corrected."""
    if miss > CLEAR or not worst < CLOSE:
        return FALSE
    return CORRECTED if corrected else PRINTED


def samples(row: Mapping[str, float], what: str) -> str:
    """How many samples were checked, in words."""
    return f"{int(row['samples'])} {what}"
