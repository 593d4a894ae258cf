"""What the review queue is about: people, items, guesses, and labels in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nescio.core import NescioError, unknown
from nescio.serving.consensus import NONE, SKIP

REVIEW, ADMIN = "review", "admin"  # roles that may review; an admin also settles disputes
NONE_WORDS = "not one of these"
KEYS = "123456789abcefhijkmoprtvwxyz"  # of classes; d, g, l, n, q, s and u do other things
COUNTED = 1000  # items that are counted; more are "1000 or more"


class Person(Protocol):
    """Somebody who reviews: a key's owner, or a name in the terminal."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...


@dataclass(frozen=True)
class Reviewer:
    """Somebody who reviews, by `name` and `role`: review, or admin, who also settles disputes."""

    name: str
    role: str = REVIEW


@dataclass(frozen=True, kw_only=True)
class ReviewItem:
    """A decision as a reviewer sees it: nothing here says what the guard decided.

    id: id of the decision.
    time: when it was made, in seconds since 1970.
    guard: name of the guard.
    classes: names of the classes to choose from; empty: they are not known, or there are none.
    targets: of a regression, how many numbers are asked for; 0: a class is.
    columns: names of the values of an input, where there are names.
    """

    id: str
    time: float
    guard: str
    classes: tuple[str, ...]
    targets: int = 0
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Guess:
    """What the guard decided.

    decision: answer, unsure or ood.
    label: the class that it predicts, or the number.
    probability: probability of this class; None: not known.
    p_value: p-value of the input; None: not known.
    set: the prediction set; None: there is none.
    """

    decision: str
    label: str
    probability: float | None
    p_value: float | None
    set: str | None


@dataclass(frozen=True, kw_only=True)
class ReviewProgress:
    """How far the review is.

    waiting: number of items that wait for this reviewer; 1000 stands for 1000 or more.
    today: number of labels that this reviewer gave today, in UTC.
    agreed: number of decisions with a final label.
    disputed: number of decisions on which reviewers disagree.
    """

    waiting: int
    today: int
    agreed: int
    disputed: int


def columns_in(about: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the columns of a guard's inputs, from what the log says `about` it; maybe none."""
    return tuple(map(str, (about.get("input") or {}).get("columns") or ()))


def checked_label(label: str | None, item: ReviewItem) -> str:
    """A label as the log has it: a class that exists, or numbers that are finite.

    label: what a person gave.
    item: what it is about.
    """
    text = (label or "").strip()
    if not text:
        raise NescioError("a label is empty; choose a class, or say that it is not one of these")
    if item.classes and text not in item.classes:
        raise NescioError(unknown("class", text, item.classes))
    return _numbers(text, item.targets) if item.targets else text


def _numbers(text: str, targets: int) -> str:
    """Numbers of a regression, apart by blanks."""
    try:
        found = [float(word) for word in text.replace(";", " ").split()]
    except ValueError:
        found = []
    if len(found) != targets or not all(abs(one) < float("inf") for one in found):
        what = "a number" if targets == 1 else f"{targets} numbers, apart by blanks"
        raise NescioError(f"the label must be {what}, got {text!r}")
    return " ".join(map(repr, found))


def keyed(classes: tuple[str, ...]) -> list[tuple[str, str]]:
    """The classes with the key of each: digits, then letters; none where there are too many.

    A class that is a digit or a letter is its own key, where this key does nothing else; beside
    such digits no other class has one.

    classes: names of the classes.
    """
    own = {name: name for name in classes if len(name) == 1 and name in f"0{KEYS}"}
    digits = any(name.isdigit() for name in own)
    free = [key for key in KEYS if key not in own and not (digits and key.isdigit())]
    rest = [name for name in classes if name not in own]
    if len(rest) > len(free):
        return []
    keys = own | dict(zip(rest, free, strict=False))
    return [(name, keys[name]) for name in classes]


def said(kind: str, label: str | None) -> str:
    """A label in words.

    kind: label, none or skip.
    label: the class.
    """
    return NONE_WORDS if kind == NONE else "skipped" if kind == SKIP else str(label)
