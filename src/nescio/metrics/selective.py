"""How well a score finds a network's errors: precision, and risk against coverage; exact.

Scores are larger when less sure. `wrong` says which answers are errors; where it holds the
`ignore_index` (see `mark_ignored`), they are left out. The samples are sorted once; all numbers are
sums over groups of equal scores, so ties are right.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import Counts, Floats, NescioError, Numbers, numbers
from nescio.core.registry import metrics
from nescio.metrics.aligned import counted_samples
from nescio.metrics.ranking import least_count, refuse_nan


@metrics.register
def ap_error(score: Numbers, wrong: Numbers, *, ignore_index: int | None = None) -> float:
    """Average precision (a step sum) of errors, least confident first; chance level: their share.

    score: failure score of each sample, `(N,)`, or `(N, H, W)` of maps; a larger score is less
      confident.
    wrong: whether each answer is an error, of the same shape.
    ignore_index: what `wrong` holds where a label is left out, as `mark_ignored` writes it; None:
      nothing is.
    """
    return one_of("ap_error", score, wrong, ignore_index)


@metrics.register
def ap_success(score: Numbers, wrong: Numbers, *, ignore_index: int | None = None) -> float:
    """Average precision (a step sum) of correct answers, most confident first; chance: accuracy.

    score: failure score of each sample, `(N,)`, or `(N, H, W)` of maps; a larger score is less
      confident.
    wrong: whether each answer is an error, of the same shape.
    ignore_index: what `wrong` holds where a label is left out, as `mark_ignored` writes it; None:
      nothing is.
    """
    return one_of("ap_success", score, wrong, ignore_index)


@metrics.register
def aurc(score: Numbers, wrong: Numbers, *, ignore_index: int | None = None) -> float:
    """Mean risk over all coverages k / N, the area under `risk_coverage`; smaller is better.

    score: failure score of each sample, `(N,)`, or `(N, H, W)` of maps; a larger score is less
      confident.
    wrong: whether each answer is an error, of the same shape.
    ignore_index: what `wrong` holds where a label is left out, as `mark_ignored` writes it; None:
      nothing is.
    """
    return one_of("aurc", score, wrong, ignore_index)


@metrics.register
def augrc(score: Numbers, wrong: Numbers, *, ignore_index: int | None = None) -> float:
    """Area under the generalized risk, the share of all samples answered wrong; smaller is better.

    Traub et al. (2024): the mean over all coverages of the probability that an input is answered
    and wrong. With straight lines between the coverages k / N it is (1 - AUROC) r (1 - r) + r^2 / 2
    exactly, with the error rate r; unlike AURC, the most confident answers do not dominate it.

    score: failure score of each sample, `(N,)`, or `(N, H, W)` of maps; a larger score is less
      confident.
    wrong: whether each answer is an error, of the same shape.
    ignore_index: what `wrong` holds where a label is left out, as `mark_ignored` writes it; None:
      nothing is.
    """
    return one_of("augrc", score, wrong, ignore_index)


@metrics.register
def excess_aurc(score: Numbers, wrong: Numbers, *, ignore_index: int | None = None) -> float:
    """AURC less that of a perfect order of the same errors (Geifman et al., 2019).

    The perfect order answers all N - E right samples first; its area is exact for the finite
    counts, (E - (N - E) (H(N) - H(N - E))) / N with harmonic numbers H, not the limit r + (1-r)
    log(1-r).

    score: failure score of each sample, `(N,)`, or `(N, H, W)` of maps; a larger score is less
      confident.
    wrong: whether each answer is an error, of the same shape.
    ignore_index: what `wrong` holds where a label is left out, as `mark_ignored` writes it; None:
      nothing is.
    """
    return one_of("excess_aurc", score, wrong, ignore_index)


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """The share of errors among the k most confident answers, for k = 1 to N.

    coverage: the share of samples answered, k / N, `(N,)`.
    risk: the error rate among them, `(N,)`.
    """

    coverage: Floats
    risk: Floats

    @property
    def area(self) -> float:
        """The mean risk, AURC."""
        return float(self.risk.mean())


def risk_coverage(
    score: Numbers, wrong: Numbers, *, ignore_index: int | None = None
) -> RiskCoverage:
    """The error rate among the most confident answers, for every number of them.

    Where scores are equal, their order is random, and the risk is the expected one.

    >>> risk_coverage([0.1, 0.2, 0.2], [False, True, False]).risk.tolist()
    [0.0, 0.25, 0.3333333333333333]

    score: failure score of each sample, `(N,)`, or `(N, H, W)` of maps; a larger score is less
      confident.
    wrong: whether each answer is an error, of the same shape.
    ignore_index: what `wrong` holds where a label is left out, as `mark_ignored` writes it; None:
      nothing is.
    """
    result = grouped(score, wrong, ignore_index)
    samples, errors = result.samples, result.errors
    before = np.repeat(samples.cumsum() - samples, samples)
    mistaken = np.repeat(errors.cumsum() - errors, samples)
    answered = np.arange(1, result.count + 1)
    expected = mistaken + np.repeat(errors / samples, samples) * (answered - before)
    return RiskCoverage(answered / result.count, expected / answered)


@dataclass(frozen=True, eq=False)
class Groups:
    """Samples in rising order of their scores, in groups of equal ones."""

    order: Counts  # (N,) indices of the samples, surest first
    first: Counts  # (G,) where in the order each group begins
    wrong: NDArray[np.bool_]  # (N,) in that order

    @property
    def count(self) -> int:
        """N, the number of samples."""
        return len(self.order)

    @cached_property
    def samples(self) -> Counts:
        """(G,) in each group."""
        return np.diff(self.first, append=self.count)

    @cached_property
    def errors(self) -> Counts:
        """(G,) in each group."""
        return np.add.reduceat(self.wrong, self.first, dtype=np.int64)


def grouped(score: Numbers, wrong: Numbers, ignore_index: int | None = None) -> Groups:
    """Sort the samples once; NaN scores and anything but errors and successes are refused."""
    scores, flags = counted_samples(("score", "wrong"), score, wrong, ignore_index)
    mistakes = mistaken(flags)
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    if np.isnan(ordered[-1]):  # NaN sorts last
        refuse_nan("score", scores)
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return Groups(order, first, mistakes[order])


def mistaken(wrong: Numbers) -> NDArray[np.bool_]:
    """Which answers are errors; both kinds must be there."""
    flags = numbers("wrong", wrong, axes=1)
    if not np.all((flags == 0) | (flags == 1)):
        raise NescioError("`wrong` must be true or false (1 or 0) for each sample: labels != truth")
    errors: NDArray[np.bool_] = flags.astype(bool)
    if errors.all() or not errors.any():
        kind = "wrong" if errors.all() else "right"
        raise NescioError(
            f"all {len(errors)} answers are {kind}, so there is nothing to tell apart; give "
            "samples of both kinds"
        )
    return errors


@dataclass(frozen=True, eq=False)
class Tallies:
    """Resamples: how many samples, and errors, each group of equal scores has."""

    samples: Counts  # (R, G), surest group first
    errors: Counts  # (R, G)
    tpr: float = 0.95

    @cached_property
    def samples_upto(self) -> Counts:
        """Samples in a group and the surer ones."""
        return self.samples.cumsum(1)

    @cached_property
    def errors_upto(self) -> Counts:
        """Errors in a group and in the more confident ones."""
        return self.errors.cumsum(1)

    @property
    def totals(self) -> tuple[Counts, Counts]:
        """N and E, each (R,)."""
        return self.samples_upto[:, -1], self.errors_upto[:, -1]


def _ap_error(drawn: Tallies) -> Floats:
    samples, errors = drawn.totals
    result = errors[:, None] - drawn.errors_upto + drawn.errors  # at or above
    flagged = samples[:, None] - drawn.samples_upto + drawn.samples
    precision = result / np.maximum(flagged, 1)
    return np.asarray(np.einsum("rg,rg->r", drawn.errors, precision) / errors)


def _ap_success(drawn: Tallies) -> Floats:
    samples, errors = drawn.totals
    precision = (drawn.samples_upto - drawn.errors_upto) / np.maximum(drawn.samples_upto, 1)
    area: Floats = np.einsum("rg,rg->r", drawn.samples - drawn.errors, precision) / (
        samples - errors
    )
    return area


def _auroc(drawn: Tallies) -> Floats:
    samples, errors = drawn.totals
    right = drawn.samples - drawn.errors
    below = drawn.samples_upto - drawn.errors_upto - right / 2  # ties count one half
    return np.asarray(np.einsum("rg,rg->r", drawn.errors, below) / (errors * (samples - errors)))


def _fpr_at_tpr(drawn: Tallies) -> Floats:
    """The share of errors accepted where `tpr` of the right answers are (Corbière et al., 2019)."""
    samples, errors = drawn.totals
    least = np.array([least_count(drawn.tpr, int(right)) for right in samples - errors])
    index = ((drawn.samples_upto - drawn.errors_upto) < least[:, None]).sum(1)
    return np.asarray(np.take_along_axis(drawn.errors_upto, index[:, None], 1)[:, 0] / errors)


def _aurc(drawn: Tallies) -> Floats:
    """Sums over tied samples in closed form: K samples with E errors before, g with e in the group.

    The sum of (E + e j / g) / (K + j), j = 1 to g, is e + (E - e K / g) (H(K + g) - H(K)).
    """
    before = drawn.samples_upto - drawn.samples
    mistakes = drawn.errors_upto - drawn.errors
    harmonic = _harmonic(int(drawn.totals[0].max()))
    rise = harmonic[drawn.samples_upto] - harmonic[before]
    share = drawn.errors / np.maximum(drawn.samples, 1)
    return np.asarray((drawn.errors + (mistakes - share * before) * rise).sum(1) / drawn.totals[0])


def _augrc(drawn: Tallies) -> Floats:
    """Trapezoids under the errors so far; among tied samples they rise on a line."""
    middle = drawn.errors_upto - drawn.errors / 2
    return np.asarray((drawn.samples * middle).sum(1) / drawn.totals[0] ** 2)


def _excess_aurc(drawn: Tallies) -> Floats:
    samples, errors = drawn.totals
    harmonic = _harmonic(int(samples.max()))
    right = samples - errors
    least: Floats = (errors - right * (harmonic[samples] - harmonic[right])) / samples
    return _aurc(drawn) - least


def _harmonic(most: int) -> Floats:
    """H(0) to H(most)."""
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, most + 1))])


STATISTICS: Mapping[str, Callable[[Tallies], Floats]] = {
    "ap_error": _ap_error,
    "ap_success": _ap_success,
    "auroc": _auroc,
    "fpr_at_tpr": _fpr_at_tpr,
    "aurc": _aurc,
    "augrc": _augrc,
    "excess_aurc": _excess_aurc,
}
LARGER = frozenset({"ap_error", "ap_success", "auroc"})  # is better; of the others, smaller is


def of_all(result: Groups, name: str, tpr: float = 0.95) -> float:
    """One number of all samples."""
    tallies = Tallies(result.samples[None], result.errors[None], tpr)
    return float(STATISTICS[name](tallies)[0])


def one_of(name: str, score: Any, wrong: Any, ignore_index: int | None = None) -> float:
    """One number of scores and errors."""
    return of_all(grouped(score, wrong, ignore_index), name)
