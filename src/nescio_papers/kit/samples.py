"""Repeated measurements, with intervals of their mean."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from nescio_papers.kit.claims import ANY, Fact, Range, exactly, fact


@dataclass(frozen=True)
class Sample:
    """The same number measured with several seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return fmean(self.values)

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval of the mean, by Student's t; NaN where unknown."""
        count = len(self.values)
        if count < 2 or not all(map(math.isfinite, self.values)):
            return float("nan")
        from scipy.special import stdtrit

        width: float = stdtrit(count - 1, 0.975).item()
        return width * stdev(self.values) / math.sqrt(count)

    @property
    def above(self) -> bool:
        """Whether the whole interval lies above zero."""
        return self.mean - self.half > 0

    @property
    def below(self) -> bool:
        """Whether the whole interval lies below zero."""
        return self.mean + self.half < 0

    def fact(
        self,
        what: str,
        *,
        above: float | None = None,
        below: float | None = None,
        form: str = ".3g",
        within: Range = ANY,
    ) -> Fact:
        """The mean with its interval, as a fact of a claim; open where it was measured once.

        what: what the number is, in words.
        above, below: the limit that the mean must be above, or below.
        form: how numbers are written.
        within: the range of the number, which its interval does not leave.
        """
        limits: Any = {"above": above, "below": below, "form": form}
        if math.isnan(self.half):
            return fact(what, math.nan, (math.nan, math.nan), **limits)
        if self.half == 0:
            return exactly(what, self.mean, why="the same in every repetition", **limits)
        ends = self.mean - self.half, self.mean + self.half
        return fact(what, self.mean, ends, within=within, **limits)

    def __sub__(self, other: "Sample") -> "Sample":
        pairs = zip(self.values, other.values, strict=True)
        return Sample(tuple(first - second for first, second in pairs))

    def __truediv__(self, other: "Sample") -> "Sample":
        pairs = zip(self.values, other.values, strict=True)
        return Sample(tuple(first / second for first, second in pairs))

    def __str__(self) -> str:
        return f"{self.mean:.3g} ± {self.half:.2g}"

    def numbers(self) -> dict[str, Any]:
        """As plain numbers, for JSON."""
        return {"mean": self.mean, "half_width_95": self.half, "values": list(self.values)}


def sample(values: Iterable[float]) -> Sample:
    """Measurements as a sample."""
    return Sample(tuple(float(value) for value in values))
