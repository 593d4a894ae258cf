"""The rules of one group of inputs: OOD by p-value, unsure by threshold.

The same samples serve both. The inputs that are not OOD have scores below the
k-th largest calibration score t. Given t and the number of samples below it, those are independent
draws from the inputs with scores below t (a property of order statistics, ties included). So
errors among them are binomial, and the bound of the risk is exact, though t came from the same
samples. An input that scores t is neither: it is unsure.

A network's last bits depend on the size of the batch. So a score counts as t where rounding may
have made the difference, and a threshold lies that much above the failure score it comes from:
inputs that come again and again stay on one side, alone or in a batch.

The threshold of the failure score gives the largest coverage whose error rate is bounded (Geifman
and El-Yaniv, 2017), by one-sided Clopper-Pearson bounds that are tested in an order that is fixed
beforehand: the first failure ends it, so no level is spent on the number of tests (Angelopoulos et
al., 2021, section 4).
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.conformal import needed, p_values
from nescio.conformal.score_limits import allowed, rounding
from nescio.core import (
    FewSamplesWarning,
    NescioError,
    Numbers,
    RepeatedInputsWarning,
    numbers,
    warn,
)
from nescio.guards.decisions import CODES, text_table
from nescio.metrics.resampling import lower_bound
from nescio.metrics.resampling import upper_bound as upper_bound

if TYPE_CHECKING:
    from nescio.guards.decide import Guard

STEPS = 200  # coverages of a grid
SPREAD = 3.0  # standard deviations by which the first coverage is expected to suffice

Array = NDArray[Any]


@dataclass(frozen=True)
class Coverage:
    """Where to answer, and what the samples say about it."""

    threshold: float  # answer where the score is at most this; -inf: nowhere
    samples: int  # samples that the bound was computed on
    answered: int  # of these, with scores up to the threshold; of the first coverage where none
    errors: int  # of the answered ones
    bound: float  # the error rate among answered inputs is at most this, with the confidence
    needed: int | None  # samples that would be enough; None: no number of them

    @property
    def holds(self) -> bool:
        """Whether some inputs are answered."""
        return self.threshold > -math.inf


NOTHING = Coverage(threshold=-math.inf, samples=0, answered=0, errors=0, bound=1.0, needed=None)


@dataclass(frozen=True, eq=False)
class Scored:
    """Samples as the rules read them."""

    score: Tensor  # (n,) of the detector, float64
    failure_score: Tensor  # (n,) larger = the label is more likely wrong, float64
    wrong: Tensor  # (n,) whether the label is

    def __len__(self) -> int:
        return len(self.score)

    def __getitem__(self, chosen: Tensor) -> "Scored":
        return Scored(self.score[chosen], self.failure_score[chosen], self.wrong[chosen])


@dataclass(frozen=True, eq=False)
class Rule:
    """How inputs of a group are decided."""

    group: str
    scores: Tensor  # (n,) of the detector on the calibration samples, ascending
    limit: float  # inputs with larger scores are OOD
    coverage: Coverage  # where to answer

    def p_values(self, score: Tensor) -> Tensor:
        """(1 + #{calibration scores at least as large, up to rounding}) / (n + 1), `(N,)`."""
        return p_values(self.scores, score - rounding(score))

    def deciding(self, score: Tensor, failure_score: Tensor) -> Tensor:
        """Which rule decides about each input, `(N,)`: an index into RULES."""
        unsure = "failure_score" if self.coverage.holds else "no guarantee"
        rule = torch.full_like(score, CODES[unsure], dtype=torch.int64)
        rule[failure_score <= self.coverage.threshold] = CODES["sure enough"]
        rule[~is_in_dist(score, self.limit)] = CODES["tie"]
        rule[score - rounding(score) > self.limit] = CODES["p-value"]
        return rule


def is_in_dist(score: Tensor, limit: float) -> Tensor:
    """Which scores are below the limit by more than rounding, `(N,)`."""
    return score + rounding(score) < limit


def fit_rule(
    group: str,
    tuning: Scored,
    samples: Scored,
    *,
    false_alarm: float,
    risk: float,
    confidence: float,
) -> Rule:
    """The rules from the calibration samples; `tuning` gives the grid of thresholds."""
    ood = allowed(len(samples), false_alarm)
    if not ood:
        where = f" in group {group}" if group else ""
        raise NescioError(
            f"{len(samples)} calibration samples{where} cannot show a false-alarm rate of "
            f"{false_alarm:g}: it takes at least {needed(false_alarm)}; use more, or a larger "
            "false_alarm"
        )
    scores = samples.score.sort().values
    limit = float(scores[-ood])
    in_dist = samples[is_in_dist(samples.score, limit)]
    wish: dict[str, Any] = {"risk": risk, "confidence": confidence}
    known = tuning[is_in_dist(tuning.score, limit)]  # fewer than these may be answered
    if len(in_dist) and len(tuning):
        failure_scores = (known if len(known) else tuning).failure_score
        grid = torch.from_numpy(coverages(failure_scores, samples=len(in_dist), **wish))
        grid += rounding(grid)
        coverage = largest_coverage(in_dist.failure_score, in_dist.wrong, grid=grid, **wish)
    else:
        coverage = NOTHING
    return Rule(group, scores, limit, coverage)


def largest_coverage(
    score: Numbers, wrong: Numbers, *, risk: float, confidence: float = 0.95, grid: Numbers
) -> Coverage:
    """The largest threshold of `grid` with at most `risk` errors among the answered inputs.

    The error rate of the inputs with a score up to the threshold is at most `risk`, with
    probability at least `confidence` over the draw of the samples, if they are independent and
    from the distribution that is met later. Nothing is assumed about the score.

    score, wrong: one per sample; larger = less confident; whether the answer is wrong.
    grid: thresholds in ascending order, which must come from other samples: see `coverages`.
    """
    check_shares(risk=risk, confidence=confidence)
    scores, errors, levels = _read(score, wrong, grid)
    order = np.argsort(scores)
    counts = np.searchsorted(scores[order], levels, side="right")
    total = np.concatenate([[0], np.cumsum(errors[order])])[counts]
    bounds = upper_bound(total, counts, confidence)
    failed = np.flatnonzero(bounds > risk)
    passed = int(failed[0]) if len(failed) else len(levels)
    index = max(passed - 1, 0)  # of the first coverage where even that fails
    answered, wrongly = int(counts[index]), int(total[index])
    wish = {"risk": risk, "confidence": confidence}
    return Coverage(
        threshold=float(levels[index]) if passed else -math.inf,
        samples=len(scores),
        answered=answered,
        errors=wrongly,
        bound=float(bounds[index]),
        needed=len(scores) if passed else enough(len(scores), answered, wrongly, **wish),
    )


def coverages(
    score: Numbers, *, samples: int, risk: float, confidence: float = 0.95, steps: int = STEPS
) -> Array:
    """Thresholds to be tested on `samples` other samples: quantiles of `score`, ascending.

    The first is the smallest coverage that can pass: where enough of the samples are expected to
    be answered that no error among them would do, with room for their chance. The last is
    to answer everything.
    """
    least = fewest(risk, confidence)
    values = np.sort(numbers("score", score, axes=1).astype(np.float64))
    level = np.arange(1, steps + 1) / steps
    spread = np.sqrt(level * (1 - level) * (1 / len(values) + 1 / max(samples, 1)))
    able = samples * (level - SPREAD * spread) >= least
    able[-1] = True  # all of them: the most that can be asked
    grid = values[np.ceil(level * len(values)).astype(np.int64) - 1]
    grid[-1] = math.inf
    return np.unique(grid[able])


def fewest(risk: float, confidence: float) -> int:
    """The fewest answered samples that can show the risk, if none of them is wrong."""
    check_shares(risk=risk, confidence=confidence)
    count = max(1, math.ceil(math.log(1 - confidence) / math.log1p(-risk) - 1e-9))
    return count + int(upper_bound(0, count, confidence) > risk)


def enough(
    samples: int, answered: int, errors: int, *, risk: float, confidence: float
) -> int | None:
    """How many samples would show the risk if the share of answers and of errors stayed.

    Where there are too few even for no error, it is the fewest, unless the errors show already that
    the risk is larger. None: the share of errors is not below the risk, so more of them would not
    help.
    """
    least = fewest(risk, confidence)
    if samples < least and lower_bound(errors, answered, confidence) <= risk:
        return least
    if answered and errors / answered >= risk:
        return None
    share, rate = (answered or 1) / max(samples, 1), errors / (answered or 1)

    def shows(count: int) -> bool:
        return bool(upper_bound(rate * count, count, confidence) <= risk)

    high = least
    while not shows(high):
        high *= 2
    return math.ceil(bisect_left(range(high), True, least, key=shows) / share)


def check_shares(**shares: float) -> None:
    """Refuse a share or a probability that does not lie between 0 and 1."""
    for name, value in shares.items():
        if not 0 < value < 1:
            raise NescioError(f"{name} must lie between 0 and 1, got {value}")


def _read(score: Numbers, wrong: Numbers, grid: Numbers) -> tuple[Array, Array, Array]:
    scores = numbers("score", score, axes=1).astype(np.float64)
    errors = numbers("wrong", wrong, axes=1).astype(np.int64)
    levels = np.asarray(grid, dtype=np.float64)
    if len(scores) != len(errors):
        raise NescioError(f"{len(scores)} scores but {len(errors)} answers; give one per sample")
    if np.isnan(scores).any():
        raise NescioError(f"{int(np.isnan(scores).sum())} scores are NaN; leave those samples out")
    if ((errors != 0) & (errors != 1)).any():
        raise NescioError("wrong must be 0 or 1, one per sample")
    if levels.ndim != 1 or not len(levels) or not (np.diff(levels) >= 0).all():
        raise NescioError("grid must be thresholds in ascending order: see coverages")
    return scores, errors, levels


SHIFT = (
    "Nothing is guaranteed for inputs that are drawn differently from the calibration data "
    "(another camera, another hospital, a later year), nor for inputs made to fool the network, "
    "nor for any single input: the guarantees are rates. How many OOD inputs are recognized is not "
    "guaranteed either: it depends on the detector, and can be measured on examples."
)
SHARES = ("answered", "errors", "risk at most", "failure score up to")
COLUMNS = ("group", "samples", "OOD above", *SHARES)


def guarantees(guard: "Guard") -> tuple[str, ...]:
    """The guarantees with their assumptions, and what is not guaranteed."""
    sets = [] if guard.sets is None else ["Sets: " + guard.sets.guarantee]
    withheld = [_why_not(guard, rule) for rule in guard.rules if not rule.coverage.holds]
    return (_ood(guard), _unsure(guard), *sets, *withheld, *_repeated(guard), SHIFT)


def warn_about(guard: "Guard") -> None:
    """Warn where a new guard was calibrated on copies, or will abstain on every input."""
    if not guard.notes["repeats"]:
        for text in _repeated(guard):
            warn(text, RepeatedInputsWarning, stacklevel=3)
    if not any(rule.coverage.holds for rule in guard.rules):
        more = f" So in all {len(guard.rules)} groups." if len(guard.rules) > 1 else ""
        text = f"the guard will abstain on every input. {_why_not(guard, guard.rules[0])}{more}"
        warn(text, FewSamplesWarning, stacklevel=3)


def _ood(guard: "Guard") -> str:
    samples = [len(rule.scores) for rule in guard.rules]
    alike = {"class": " with the same predicted class", "groups": " of the same group"}
    spread = ""
    if len(samples) == 1:
        low, high = rate_interval(samples[0], guard.false_alarm)
        spread = (
            " Where scores do not tie, the rate of one calibration set lies between "
            f"{_rounded(low, ROUND_FLOOR)} and {_rounded(high)} in 95 of 100 samples."
        )
    return (
        f"OOD: an input like the calibration data{alike.get(guard.by or '', '')} is called OOD "
        f"with probability at most {_percent(guard.false_alarm)} (conformal p-values against "
        f"{sum(samples):,} samples). This holds on average over calibration sets, for any "
        f"network and detector, if the input and the samples are exchangeable.{spread}"
    )


def _unsure(guard: "Guard") -> str:
    holding = [rule for rule in guard.rules if rule.coverage.holds]
    if not holding:
        return (
            "Unsure: the calibration data support no answer, so the guard abstains on every input."
        )
    each = {"class": " for each predicted class", "groups": " for each group"}.get(guard.by or "")
    each = f"{each} by itself (those listed)" if each else ""
    whose = {"class": "for each class ", "groups": "for each group "}.get(guard.by or "", "")
    samples = sum(rule.coverage.samples for rule in holding)
    answered = sum(rule.coverage.answered for rule in holding)
    return (
        f"Unsure: of the inputs that are answered, at most {_percent(guard.risk)} get a wrong "
        f"label{each}. The calibration data show this with a confidence of "
        f"{_percent(guard.confidence)}: {whose}it fails for at most "
        f"{_percent(1 - guard.confidence)} of calibration sets (exact binomial bounds, tested in "
        "an order fixed beforehand). It holds if samples and inputs are drawn independently from "
        f"one distribution. Of {samples:,} samples that are not OOD, {answered:,} are answered."
    )


def _repeated(guard: "Guard") -> list[str]:
    """What equal inputs mean for the guarantees."""
    if guard.notes.get("repeats"):
        return [
            "Equal inputs were taken as separate samples, so the calibration data were not "
            "compared with training data: that none was trained on is an assumption."
        ]
    if not (count := guard.notes.get("copies", 0)):
        return []
    return [
        f"{count:,} of {guard.notes['calibration']:,} calibration inputs are copies "
        "of another one, and copies show less than separate samples do: the guarantees may not "
        "hold. Give each sample once, or repeats=True (--repeats) where equal inputs are separate "
        "samples."
    ]


def _why_not(guard: "Guard", rule: "Rule") -> str:
    """Why nothing is answered in a group."""
    found = rule.coverage
    where = f"In group {rule.group}" if rule.group else "Here"
    if not found.samples:
        return (
            f"{where} nothing is answered: none of {len(rule.scores):,} samples is below "
            f"{rule.limit:.4g}, where OOD begins, by more than rounding; use a detector that "
            "tells inputs apart, or a larger false_alarm."
        )
    said = (
        f"{where} nothing is answered: {found.errors} errors among the {found.answered:,} "
        f"most confident of {found.samples:,} samples show a risk of at most "
        f"{_rounded(found.bound)}, not of {_percent(guard.risk)}."
    )
    least = found.needed or fewest(guard.risk, guard.confidence)
    total = max(1, math.ceil(least * len(rule.scores) / found.samples))
    if found.needed is not None:
        return (
            f"{said} It takes {total:,} samples or more in this part of the calibration data, or a "
            "larger risk."
        )
    said += " At this share of errors more samples would not help; allow more risk."
    if found.samples >= least:
        return said
    return f"{said} Only from {total:,} samples on could fewer and more confident answers be tried."


def rate_interval(samples: int, false_alarm: float) -> tuple[float, float]:
    """Where the false-alarm rate of one calibration set lies, in 95 of 100: a beta law."""
    from scipy.special import betaincinv

    over = allowed(samples, false_alarm)
    low, high = betaincinv(over, samples + 1 - over, [0.025, 0.975]).tolist()
    return low, high


def table(guard: "Guard") -> str:
    """One row per group."""
    rows = []
    for rule in guard.rules:
        found, count = rule.coverage, len(rule.scores)
        share = f"{found.answered / max(1, count):.1%}"
        answers = [share, str(found.errors), _rounded(found.bound), f"{found.threshold:.4g}"]
        answers = answers if found.holds else ["0 %", "-", "-", "never"]
        rows.append([rule.group or "all", f"{count:,}", f"{rule.limit:.4g}", *answers])
    return text_table(COLUMNS, rows)


def _percent(share: float) -> str:
    """A share as it was asked for."""
    return f"{100 * share:.10g} %"


def _rounded(share: float, rounding: str = ROUND_CEILING) -> str:
    """A bound in three digits that is still one."""
    whole = Context(prec=12).create_decimal_from_float(100 * share)  # without what floats add
    return f"{float(Context(prec=3, rounding=rounding).plus(whole)):.3g} %"
