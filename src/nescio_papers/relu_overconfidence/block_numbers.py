"""The stored numbers of a block of table 1, read with their intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nescio.conformal import binomial_interval
from nescio.metrics import Interval
from nescio_papers.relu_overconfidence.published import (
    ADVERSARIAL_NOISE,
    ADVERSARIAL_SAMPLES,
    NOISE,
)
from nescio_papers.relu_overconfidence.seeds_and_pairs import FPR, MMC
from nescio_papers.relu_overconfidence.stronger import LEAK, STRONG, WRONG_CLASS

LESS = " less "  # in the name of a pair
UNKNOWN = Interval(math.nan, math.nan, math.nan)
BY_LABEL = (f"{ADVERSARIAL_SAMPLES}, misclassified", ADVERSARIAL_SAMPLES)
BY_CLASS = (f"{ADVERSARIAL_SAMPLES}{WRONG_CLASS}", f"{ADVERSARIAL_SAMPLES}{LEAK}")
SHARES = (FPR, "error")


@dataclass(frozen=True)
class BlockNumbers:
    """What a part of table 1 has measured."""

    stored: Mapping[str, Any]

    @property
    def block(self) -> str:
        """The name of the block."""
        return str(self.stored["block"])

    @property
    def columns(self) -> Sequence[str]:
        """The names of the networks."""
        return list(self.stored["predictors"])

    def once(self, column: str) -> bool:
        """Whether the network of a column was trained with one seed; older numbers do not say."""
        return "by_seed" in self.stored and column not in self.stored["by_seed"]

    def rows(self, column: str) -> Mapping[str, Any]:
        """The rows of a network; none where it was not trained."""
        found: Mapping[str, Any] = self.stored["predictors"].get(column, {}).get("rows", {})
        return found

    def of(self, column: str, row: str, key: str = MMC) -> Interval:
        """A number with its interval; NaN where it was not measured."""
        return self._interval(self.rows(column).get(row, {}), key)

    @property
    def any_class(self) -> Interval:
        """The confidence of ACET under the strong judge where right answers count too."""
        return self._interval(self.stored.get("any_class", {}), MMC)

    def _interval(self, cell: Mapping[str, Any], key: str) -> Interval:
        number = cell.get(key)
        if number is None or number["value"] is None:
            return UNKNOWN
        value, low, high = (float(number.get(end) or 0) for end in ("value", "low", "high"))
        samples = round(cell.get("samples", cell.get("cases", 0)))
        if key in SHARES and low == high and samples:  # a bootstrap of equal numbers
            return binomial_interval(round(value * samples), samples)
        return Interval(value, low, high) if number.get("low") is not None else UNKNOWN

    def less(
        self, first: str, second: str, row: str, key: str = MMC, *, beside: str | None = None
    ) -> Interval:
        """The first network less the second; paired where that was measured.

        beside: the row of the second network, where it is another.
        """
        pair = self.stored.get("pairs", {}).get(f"{first}{LESS}{second}", {}).get(row, {}).get(key)
        if pair is not None and beside in (None, row):
            return Interval(pair["value"], pair["low"], pair["high"])
        return minus(self.of(first, row, key), self.of(second, beside or row, key))

    def noise_row(self, column: str) -> str:
        """The row of adversarial noise on which a network is most confident."""
        names = (f"{ADVERSARIAL_NOISE}{STRONG}", f"{ADVERSARIAL_NOISE}{LEAK}", ADVERSARIAL_NOISE)
        there = [row for row in names if row in self.rows(column)]
        if names[0] in there:  # the best of all attacks for each input
            return names[0]
        return max(there, key=lambda row: self.of(column, row).value, default=names[-1])

    def sample_rows(self, *columns: str) -> dict[str, str]:
        """The rows of adversarial samples by objective, where all networks have numbers."""
        found = {}
        for words, rows in (("the label loss", BY_LABEL), ("a wrong class", BY_CLASS)):
            whole = [r for r in rows if all(MMC in self.rows(c).get(r, {}) for c in columns)]
            if whole:
                found[words] = whole[0]
        return found

    @property
    def other_sets(self) -> list[str]:
        """The rows of other data sets that were measured."""
        attacks = (ADVERSARIAL_NOISE, ADVERSARIAL_SAMPLES)
        rows = self.rows(self.columns[0])
        return [r for r in rows if r not in (self.block, NOISE) and not r.startswith(attacks)]


def minus(first: Interval, second: Interval) -> Interval:
    """A difference of two numbers; its interval is too wide where both are of the same inputs."""
    value = first.value - second.value
    below = math.hypot(first.value - first.low, second.high - second.value)
    above = math.hypot(first.high - first.value, second.value - second.low)
    return Interval(value, value - below, value + above)


def size_of(difference: Interval) -> Interval:
    """The absolute value of a difference."""
    ends = sorted(map(abs, (difference.low, difference.high)))
    spans = difference.low < 0 < difference.high
    return Interval(abs(difference.value), 0.0 if spans else ends[0], ends[1])
