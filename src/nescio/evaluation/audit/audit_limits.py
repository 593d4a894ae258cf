"""Numbers of an audit that are compared with limits: pass, attention or fail.

A section registers its own numbers in its own file, with `@limit(...)` on the function that reads
the number from the findings.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nescio.core import NescioError, unknown

Status = Literal["pass", "attention", "fail"]
Better = Literal["lower", "higher"]
Unit = Literal["share", "points", "number", "count"]
STATUSES: tuple[Status, ...] = ("fail", "attention", "pass")  # the worst first
TASKS = ("classification", "regression")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A number with its 95 % interval, where there is one, and how many samples it rests on.

    value: the number; None: it is not known.
    low, high: ends of its interval; None: there is none.
    samples: number of samples it rests on.
    note: a few words that are shown with it, such as the name of the worst group.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    samples: int | None = None
    note: str = ""

    @property
    def ends(self) -> tuple[float, float] | None:
        """The smallest and the largest that it may be; None where it is not a number."""
        if self.value is None or math.isnan(self.value):
            return None
        known = [
            v for v in (self.value, self.low, self.high) if v is not None and not math.isnan(v)
        ]
        return min(known), max(known)


Read = Callable[[Any], "Measured | Mapping[str, Measured] | None"]


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A number, how it is read from findings, and its limits.

    name: name of the number, such as `"ece"`.
    section: section of the audit that it is of.
    title: its name in words.
    better: whether `"lower"` or `"higher"` numbers are better.
    read: function of findings that returns the number, several by data set or group, or None.
    attention, fail: the worst value that still keeps the limit; None: no such limit.
    unit: `"share"` is printed in per cent, `"points"` is a difference of shares, `"count"` is
      whole.
    tasks: tasks that have the number.
    rank: which comes first among findings of one status; smaller is earlier.
    meaning: what the number is, in a sentence.
    advice: what to do if the limit is broken, in a sentence.
    strict: whether the limit itself is not allowed.
    required: the limit as the user wrote it; None: a default limit.
    """

    name: str
    section: str
    title: str
    better: Better
    read: Read = field(repr=False, compare=False)
    attention: float | None = None
    fail: float | None = None
    unit: Unit = "number"
    tasks: tuple[str, ...] = TASKS
    rank: int = 50
    meaning: str = ""
    advice: str = ""
    strict: bool = False
    required: str | None = None

    @property
    def counts(self) -> bool:
        """Whether it has a limit."""
        return (self.attention, self.fail) != (None, None)

    def status(self, measured: Measured) -> Status:
        """What a number with an interval is, compared with the limits: pass, attention or fail.

        It fails if even the better end of its interval breaks the limit, and passes if even the
        worse end keeps it. All between, and a number that is not known, need attention.

        measured: the number with its interval.
        """
        ends = measured.ends
        if ends is None:
            return "attention"
        good, bad = ends if self.better == "lower" else reversed(ends)
        if self.fail is not None and not self._keeps(good, self.fail):
            return "fail"
        strictest = self.fail if self.attention is None else self.attention
        if strictest is not None and not self._keeps(bad, strictest):
            return "attention"
        return "pass"

    def unclear(self, measured: Measured) -> bool:
        """Whether the data do not tell: the interval holds the limit, or the number is not known.

        measured: the number with its interval.
        """
        ends = measured.ends
        if ends is None:
            return True
        if self.status(measured) != "attention":
            return False
        strictest = self.fail if self.attention is None else self.attention
        assert strictest is not None
        return self._keeps(ends[self.better != "lower"], strictest)

    def _keeps(self, value: float, limit: float) -> bool:
        if value == limit:
            return not self.strict
        return value < limit if self.better == "lower" else value > limit


limits: dict[str, Limit] = {}


def limit(
    name: str,
    *,
    section: str,
    title: str,
    better: Better,
    **about: Any,
) -> Callable[[Read], Read]:
    """Register the number that a function reads from findings; other options as in `Limit`."""

    def add(read: Read) -> Read:
        if name in limits:
            raise NescioError(f"the number {name!r} is registered twice; rename one")
        limits[name] = Limit(
            name=name, section=section, title=title, better=better, read=read, **about
        )
        return read

    return add


def find_limit(name: str) -> Limit:
    """The number of a name; an unknown one is an error that lists the known ones."""
    if name not in limits:
        raise NescioError(f"{unknown('number', name, limits)}; `nescio list limits` explains them")
    return limits[name]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A number that was compared with its limit.

    name: name of the number, such as `"ece"`.
    data: the set or group that it is of; None: there is one such number only.
    section: section of the audit that it is of.
    title: its name in words.
    status: `"pass"`, `"attention"` or `"fail"`.
    value, low, high: the number and the ends of its interval; None: not known.
    samples: number of samples it rests on.
    unit: `"share"`, `"points"`, `"number"` or `"count"`.
    better: whether `"lower"` or `"higher"` numbers are better.
    attention, fail: the worst value that still keeps the limit; None: no such limit.
    strict: whether the limit itself is not allowed.
    required: the limit as the user wrote it; None: a default limit.
    unclear: whether the interval holds the limit, so that the data do not tell.
    note: a few words that are shown with it.
    meaning: what the number is, in a sentence.
    advice: what to do if the limit is broken, in a sentence.
    rank: which comes first among findings of one status; smaller is earlier.
    """

    name: str
    data: str | None = None
    section: str
    title: str
    status: Status
    value: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int | None = None
    unit: Unit
    better: Better
    attention: float | None = None
    fail: float | None = None
    strict: bool = False
    required: str | None = None
    unclear: bool = False
    note: str = ""
    meaning: str = ""
    advice: str = ""
    rank: int = 50

    @property
    def label(self) -> str:
        """The name with the set that it is of: `abstained[letters]`."""
        return self.name if self.data is None else f"{self.name}[{self.data}]"

    @property
    def heading(self) -> str:
        """The title with the set that it is of."""
        return self.title if self.data is None else f"{self.title}: {self.data}"


def finding_of(one: Limit, measured: Measured, data: str | None = None) -> Finding:
    """A number compared with its limits."""
    return Finding(
        name=one.name,
        data=data,
        section=one.section,
        title=one.title,
        status=one.status(measured),
        value=measured.value if measured.ends else None,
        low=measured.low,
        high=measured.high,
        samples=measured.samples,
        unit=one.unit,
        better=one.better,
        attention=one.attention,
        fail=one.fail,
        strict=one.strict,
        required=one.required,
        unclear=one.unclear(measured),
        note=measured.note,
        meaning=one.meaning,
        advice=one.advice,
        rank=one.rank,
    )


def numbers_of(one: Limit, found: Any) -> Iterator[tuple[str | None, Measured]]:
    """The numbers of findings: one, or one for each set or group by its name."""
    measured = one.read(found)
    if isinstance(measured, Measured):
        yield None, measured
    elif measured is not None:
        yield from measured.items()
