"""Answers of a human, checked: asked for, of a known class, and not in contradiction."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nescio.core import NescioError, unknown

Answers = Mapping[Any, Any] | Iterable[tuple[Any, Any]]
SHOWN = 3  # ids in a message


def checked_answers(
    answers: Answers,
    *,
    known: frozenset[str],
    asked: frozenset[str],
    before: Mapping[str, str],
    classes: Sequence[str] | None,
) -> dict[str, str]:
    """Labels by id, as text; the first thing that is wrong refuses all of them.

    known, asked: ids of the pool, and those that were asked. before: earlier answers. classes:
    the names that labels may have; None for any.
    """
    pairs = answers.items() if isinstance(answers, Mapping) else answers
    taken: dict[str, str] = {}
    for given in pairs:
        if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
            raise NescioError(f"answers are labels by id, or pairs (id, label), got {given!r}")
        name = label_text(given[0], "ids")
        label = label_text(given[1], f"the label of {name!r}")
        _check_same(name, taken.setdefault(name, label), label, "is answered twice")
    if not taken:
        raise NescioError("there are no answers; give labels by id: {'17': 'cat'}")
    _check_asked(taken, known, asked)
    for name, label in taken.items():
        if classes is not None and label not in classes:
            raise NescioError(f"the answer for {name!r}: {unknown('class', label, classes)}")
        _check_same(name, before.get(name, label), label, "was answered before")
    return taken


def _check_asked(taken: Iterable[str], known: frozenset[str], asked: frozenset[str]) -> None:
    foreign = [name for name in taken if name not in known]
    if foreign:
        raise NescioError(
            f"{len(foreign)} answer(s) are for ids that the pool does not have "
            f"({', '.join(foreign[:SHOWN])}); are they for another pool?"
        )
    early = [name for name in taken if name not in asked]
    if early:
        raise NescioError(
            f"{len(early)} answer(s) are for ids that were not asked ({', '.join(early[:SHOWN])}); "
            "labels that exist already are taken by `nescio label import`, or after pool.ask(index)"
        )


def _check_same(name: str, one: str, two: str, how: str) -> None:
    if one != two:
        raise NescioError(
            f"{name!r} {how}: {one!r} and {two!r}; give one answer for each id; one that replaces "
            "an earlier one needs correct=True"
        )


def label_text(value: Any, what: str) -> str:
    """A name as text: "cat", 3 and 3.0 as "3"; nothing, NaN and other numbers are refused."""
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    text = str(value).strip() if isinstance(value, (str, int)) else ""
    if isinstance(value, bool) or not text:
        raise NescioError(f"{what}: expected a name or a whole number, got {value!r}")
    return text
