"""Claims of a paper, judged: each by numbers with intervals, and by limits that stand beside them.

A claim is a sentence and the facts that it states. A fact is a number, its interval, and the side
of a limit on which it is if the sentence is right. The verdict follows from the facts:

- holds: every fact does, over its whole interval;
- does not hold: none does, over its whole interval;
- holds in part: some do, and some do not;
- not reached here: what the claim presupposes failed, so that it was not tested;
- open: a quick run, an interval with the limit inside, or numbers that are missing, of a fact or of
  what the claim presupposes.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nescio.core import NescioError

if TYPE_CHECKING:
    from nescio_papers.kit.experiment import Settings

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
NOT_REACHED, OPEN = "not reached here", "open"
VERDICTS = (HOLDS, IN_PART, FAILS, NOT_REACHED, OPEN)
SAME = "the same in every repetition"  # an interval without width
Range = tuple[float, float]
ANY, NOT_NEGATIVE, A_SHARE = (-math.inf, math.inf), (0.0, math.inf), (0.0, 1.0)  # ranges
ROUNDING = 1e-9  # how far out of its interval rounding may push a number


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A number, its interval, and the side of a limit on which it is if the claim is right.

    what: what the number is, in words.
    value: the number.
    low, high: its 95 % interval; both the number itself where it is exact; NaN: not measured.
    above: the limit it must be above; None: see `below`.
    below: the limit it must be below; exactly one of the two.
    exact: why there is no interval: what is proved, or counted in full. Empty: there is one.
    form: how numbers are written, a format of Python.
    """

    what: str
    value: float
    low: float
    high: float
    above: float | None = None
    below: float | None = None
    exact: str = ""
    form: str = ".3g"

    def __post_init__(self) -> None:
        if (self.above is None) == (self.below is None):
            raise NescioError(f"{self.what}: a fact is above a limit, or below one; give one limit")
        if not self.exact and self.low == self.high:
            raise NescioError(
                f"{self.what}: a verdict needs an interval with some width; give one, or say why "
                "the number has none: exactly(..., why=), or fact(..., alike=True) where all "
                "repetitions gave the same"
            )
        if not self._unknown and not self.low <= self.value <= self.high:
            raise NescioError(
                f"{self.what}: {self.value} is not in its interval {self.low} to {self.high}; "
                "give the interval of this number"
            )

    @property
    def _unknown(self) -> bool:
        """Whether the number or its interval was not measured."""
        return any(map(math.isnan, (self.value, self.low, self.high)))

    @property
    def verdict(self) -> str:
        """Whether it is on its side of the limit, over the whole interval."""
        if self._unknown:
            return OPEN
        if self.above is not None:
            return HOLDS if self.low > self.above else FAILS if self.high <= self.above else OPEN
        assert self.below is not None
        return HOLDS if self.high < self.below else FAILS if self.low >= self.below else OPEN

    def __str__(self) -> str:
        """The number, its interval and the limit."""
        side, limit = ("above", self.above) if self.above is not None else ("below", self.below)
        assert limit is not None
        bound = f"{100 * limit:g} %" if self.form.endswith("%") else f"{limit:g}"
        wanted = "finite" if math.isinf(limit) else f"{side} {bound}"
        colon = ":" * self.what[-1:].isdigit()  # two numbers do not run into one
        return f"{self.what}{colon} {self._found}, expected {wanted}"

    @property
    def _found(self) -> str:
        """The number with its interval."""
        if math.isnan(self.value):
            return "not measured"
        if self.exact:
            return self._written(self.value) + (f" ({SAME})" if self.exact == SAME else "")
        if self._unknown:
            return f"{self._written(self.value)} (measured once)"
        return (
            f"{self._written(self.value)} ({self._written(self.low)} to {self._written(self.high)})"
        )

    def _written(self, number: float) -> str:
        return f"{number:{self.form}}".replace("%", " %")


def fact(
    what: str,
    value: float | None,
    interval: Sequence[float | None],
    *,
    above: float | None = None,
    below: float | None = None,
    form: str = ".3g",
    within: Range = ANY,
    alike: bool = False,
) -> Fact:
    """A measured number with its 95 % interval, and the limit of the claim.

    what: what the number is, in words.
    value: the number; None or NaN where it was not measured.
    interval: the lower and the upper end; NaN where the number was measured once.
    above, below: the limit that it must be above, or below.
    form: how numbers are written.
    within: the range of such a number, where its interval ends: `A_SHARE` of a share or an AUROC.
    alike: whether the interval is over repetitions, which may all give the same number; otherwise
      one without width is refused.
    """
    number, (low, high) = _float(value), _ends(what, interval)
    low, high = max(low, within[0]), min(high, within[1])
    slack = ROUNDING * max(1.0, abs(number))
    if low - slack <= number < low:
        low = number
    if high < number <= high + slack:
        high = number
    return Fact(
        what=what,
        value=number,
        low=low,
        high=high,
        above=above,
        below=below,
        exact=SAME if alike and low == high else "",
        form=form,
    )


def _ends(what: str, interval: Any) -> tuple[float, float]:
    """The two ends of an interval; anything else is refused."""
    try:
        low, high = interval
    except (TypeError, ValueError):
        raise NescioError(
            f"{what}: a verdict needs an interval, a lower and an upper end, got {interval!r}; a "
            "number that has none by its nature is stated by exactly(..., why=)"
        ) from None
    return _float(low), _float(high)


def _float(number: float | None) -> float:
    """A number, as JSON has it: None is one that is not finite."""
    return math.nan if number is None else float(number)


def exactly(
    what: str,
    value: float | None,
    *,
    why: str,
    above: float | None = None,
    below: float | None = None,
    form: str = ".3g",
) -> Fact:
    """A number without sampling error: proved, computed in closed form, or counted in full.

    what: what the number is, in words.
    value: the number; a statement that is true or false is 1 or 0, above 0.5.
    why: why it has no interval.
    above, below: the limit that it must be above, or below.
    form: how numbers are written.
    """
    if not why.strip():
        raise NescioError(f"{what}: say in why= what makes the number exact")
    number = _float(value)
    return Fact(
        what=what,
        value=number,
        low=number,
        high=number,
        above=above,
        below=below,
        exact=why,
        form=form,
    )


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of a source that states a finding, and what was measured.

    source: where it is written: "Ulmer and Cinà, section 6".
    sentence: the sentence.
    facts: the numbers that it is judged by; together they are the rule.
    needs: facts that must hold for the claim to be tested at all, such as a test error.
    note: what else there is to know, such as the published numbers.
    quick: whether it comes from a quick run, which judges nothing.
    """

    source: str
    sentence: str
    facts: Sequence[Fact]
    needs: Sequence[Fact] = ()
    note: str = ""
    quick: bool = field(default=False)

    def __post_init__(self) -> None:
        if not self.facts:
            raise NescioError(f"a claim is judged by at least one fact: {self.sentence!r} has none")

    @property
    def verdict(self) -> str:
        """One of the five words."""
        if self.quick:
            return OPEN
        return ruled({one.verdict for one in self.facts}, {need.verdict for need in self.needs})

    @property
    def measured(self) -> str:
        """The facts, what the claim presupposes where that failed, and the note, in words."""
        told = {FAILS: "not tested, since", OPEN: "not known whether it was tested, since"}
        failed = [f"{told[need.verdict]} {need}" for need in self.needs if need.verdict in told]
        return "; ".join(filter(None, [*failed, *map(str, self.facts), self.note]))

    def to_json(self) -> dict[str, object]:
        """The claim with its verdict, as JSON."""
        return {
            "source": self.source,
            "sentence": self.sentence,
            "measured": self.measured,
            "verdict": self.verdict,
            "facts": [_as_json(one) for one in self.facts],
            "needs": [_as_json(one) for one in self.needs],
            "note": self.note,
        }


def ruled(facts: Collection[str], needs: Collection[str] = ()) -> str:
    """The verdict on a claim from those on its facts and on what it presupposes."""
    if FAILS in needs:
        return NOT_REACHED
    if OPEN in needs:
        return OPEN
    if {HOLDS, FAILS} <= set(facts):
        return IN_PART
    return OPEN if OPEN in facts else next(iter(facts))


def _as_json(one: Fact) -> dict[str, object]:
    given = {name: value for name, value in vars(one).items() if value not in (None, "")}
    return {**given, "verdict": one.verdict}


def judged(settings: "Settings", claims: Sequence[Claim]) -> list[Claim]:
    """The claims, left open in a quick run: its networks have hardly learned anything."""
    return [replace(claim, quick=True) if settings.quick else claim for claim in claims]
