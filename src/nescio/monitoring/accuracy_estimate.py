"""The accuracy of the answers of a stream without labels, from their probabilities.

If the probabilities are calibrated on this stream, an answer with the probability p_i is wrong with
probability g_i = 1 - p_i given all before it. Then exp(l (e_i - g_i)) is on average exactly
m_i = 1 - g_i + g_i e^l, divided by e^(l g_i), for any l, and exp(l (S_t - G_t)) over the product of
these is a martingale that starts at 1: the share of errors is bounded at all times by
`betting_sums`. That is only as good as the assumption, which drift breaks.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import NescioError, Saved, numbers, readers, save_tensors
from nescio.monitoring.betting_sums import STAKES, Sums, most_excess, no_sums, running

Floats = NDArray[np.float64]
KIND = "accuracy estimate"
PIECE = 1 << 13  # answers in one go
LARGEST = 2.0  # stake
ASSUMES = (
    "the calibrated probabilities hold for this stream: of the answers with a probability of 99 %, "
    "99 % are right. Drift breaks this; only labels can show that it holds"
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AccuracyEstimate:
    """The accuracy of the answers so far that their probabilities say; `update` gives the next one.

    confidence: of the interval, at all times, if the assumption holds.
    sums: of the answers so far.
    """

    confidence: float
    sums: Sums

    def __repr__(self) -> str:
        if self.count == 0:
            return "AccuracyEstimate(no answers yet)"
        low, high = self.interval
        said = f"{self.accuracy:.2%} if calibrated, {low:.2%} to {high:.2%}"
        return f"AccuracyEstimate({self.count} answers, {said})"

    @property
    def count(self) -> int:
        """The number of answers."""
        return self.sums.count

    @property
    def accuracy(self) -> float:
        """The mean of the probabilities; NaN before the first answer."""
        return 1 - self.sums.expected / self.count if self.count else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """The share of right answers so far is between these, at all times, if calibrated."""
        if self.count == 0:
            return 0.0, 1.0
        level, stakes = (1 - self.confidence) / 2, STAKES * LARGEST
        more, less = (
            float(most_excess(side[None], stakes, level)[0])
            for side in (self.sums.upper, self.sums.lower)
        )
        low = 1 - (self.sums.expected + more) / self.count
        return max(0.0, low), min(1.0, 1 - (self.sums.expected - less) / self.count)

    @property
    def assumes(self) -> str:
        """What must hold for the interval, in words."""
        return ASSUMES

    def save(self, path: str | Path) -> Path:
        """Write the estimate to one file at `path`; a crash leaves the old file or the new one."""
        sides = {"upper": self.sums.upper, "lower": self.sums.lower}
        tensors = {name: torch.from_numpy(side.copy()) for name, side in sides.items()}
        manifest: dict[str, Any] = {"count": self.count, "expected": self.sums.expected}
        manifest |= {"kind": KIND, "confidence": self.confidence}
        save_tensors(Path(path), tensors, manifest)
        return Path(path)

    def update(self, probability: Any) -> "AccuracyEstimate":
        """After more answers.

        probability: the calibrated probability of each answer, `(N,)`.
        """
        if np.size(probability) == 0:
            return self
        given = np.atleast_1d(probability) if np.ndim(probability) == 0 else probability
        values = numbers("probability", given, axes=1).astype(np.float64)
        if not ((values >= 0) & (values <= 1)).all():
            raise NescioError("`probability` must be from 0 to 1: of each answer, that it is right")
        now = self
        for start in range(0, len(values), PIECE):
            now = _after(now, 1 - values[start : start + PIECE])
        return now


def estimated_accuracy(*, confidence: float = 0.95) -> AccuracyEstimate:
    """An estimate of the accuracy of answers without labels; `update` it with probabilities.

    >>> now = estimated_accuracy().update(np.full(5000, 0.99))
    >>> round(now.accuracy, 3), now.interval[0] > 0.98
    (0.99, True)

    It assumes that the probabilities are calibrated on this stream.

    confidence: the probability with which the interval holds at all times, if they are.
    """
    if isinstance(confidence, bool) or not isinstance(confidence, float) or not 0 < confidence < 1:
        raise NescioError(f"`confidence` must be between 0 and 1, got {confidence!r}")
    return AccuracyEstimate(confidence=confidence, sums=no_sums())


@readers.named(KIND)
def _read(saved: Saved) -> AccuracyEstimate:
    """An estimate that was saved; it continues as if nothing had happened."""
    said, expected = saved.manifest, float(saved.manifest["expected"])
    sums = Sums(
        count=int(said["count"]),
        labels=0,
        expected=expected,
        weighted=expected,
        upper=saved.tensors["upper"].numpy(),
        lower=saved.tensors["lower"].numpy(),
    )
    return AccuracyEstimate(confidence=float(said["confidence"]), sums=sums)


def _after(now: AccuracyEstimate, errors: Floats) -> AccuracyEstimate:
    """After answers with these probabilities of an error."""
    stakes, g = STAKES * LARGEST, errors[:, None]
    upper = running(now.sums.upper, g * stakes - np.log1p(g * np.expm1(stakes)))
    lower = running(now.sums.lower, -g * stakes - np.log1p(g * np.expm1(-stakes)))
    expected = running(np.asarray(now.sums.expected), errors)
    sums = replace(
        now.sums,
        count=now.count + len(errors),
        expected=float(expected[-1]),
        weighted=float(expected[-1]),
        upper=upper[-1].copy(),
        lower=lower[-1].copy(),
    )
    return replace(now, sums=sums)
