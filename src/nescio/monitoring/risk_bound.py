"""The share of errors among the answers of a stream, bounded at all times from few labels.

Answer i is drawn for a label with probability q_i, which may depend on the past and on the input;
whether it is drawn depends on nothing else. e_i is 1 if the answer is wrong and known if it is
drawn, d_i = 1; g_i is an estimate of its probability from before, such as 1 - the calibrated
probability of the answer. D_i = d_i (e_i - g_i) / q_i is e_i - g_i on average over the draw, so for
a stake l below the smallest q

    E[1 - l D_i | past, input, e_i] = 1 - l (e_i - g_i) <= exp(-l (e_i - g_i)),

which is what `betting_sums` needs: S_t, the number of errors among the first t answers, is bounded
at all times from above, and with -l from below. There l may be larger, since 1 + l D_i is positive
if l g_i < q_i: g_i is cut to that, which is known before the draw.
Nothing is assumed of the inputs, of the errors or of the probabilities: only that the draws are
random and the labels right. Given the past and the input alone, e_i becomes the probability of an
error, r_i, and the same numbers bound the running mean of the r_i.

The alarm has two halves. One is raised when the lower bound of the share of all errors so far
exceeds the risk. The other is about errors of late: with Z_i = g_i + D_i, 1 + l (Z_i - risk) is at
most 1 on average while the probability of an error given the past is at most the risk, so a
product of these that begins at any index is a supermartingale, and so is their mixture over the
index (`reserve` in `martingale`). Each half is wrong, ever, with probability at most
(1 - confidence) / 2, while the risk of every answer to come, given the past, is within the bound.

A label that is missing counts as an error above and as none below: both bounds stay valid.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import NescioError, Saved, numbers, readers, save_tensors
from nescio.monitoring.betting_sums import STAKES, Sums, log_capital, most_excess, no_sums, running
from nescio.monitoring.label_budget import FLOOR
from nescio.monitoring.martingale import reserve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Missing = Literal["refuse", "worst"]
KIND = "risk monitor"
PIECE = 1 << 13  # answers in one go
CELLS = 512  # points of the history, at most; when they are full, every second one is kept
LATELY = np.array([0.9, 0.45, 0.22, 0.1, 0.04])  # stakes on errors of late
WIDER = 4.0  # how much larger the stakes on more errors are than those on fewer
MOST = 1e300  # capital that is not exceeded, so that it stays finite


@dataclass(frozen=True, eq=False)
class BoundHistory:
    """Bounds after every `stride` answers, in bounded memory; the same however a stream is cut."""

    rows: Floats  # (n, 3): lower bound, estimate, upper bound
    stride: int

    def wanted(self, start: int, size: int) -> NDArray[np.int64]:
        """Which of `size` answers from number `start` on end a stretch."""
        return np.flatnonzero((start + 1 + np.arange(size)) % self.stride == 0)

    def add(self, rows: Floats) -> "BoundHistory":
        """With more rows; of more than fit, every second one is kept."""
        grown, stride = np.concatenate([self.rows, rows]), self.stride
        while len(grown) > CELLS:
            grown, stride = grown[1::2], 2 * stride
        return BoundHistory(grown, stride)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RiskMonitor:
    """What is known of the errors among the answers of a stream; `update` gives the next one.

    It does not grow with the stream, and does not depend on how the stream is cut.

    risk: the largest share of answers that may be wrong.
    confidence: the probability with which each statement holds at all times.
    least: the smallest probability with which an answer is drawn for a label.
    sums: of the answers so far.
    late: capital in each stake on errors of late.
    alarm: index among the answers, from 0, at which the alarm was raised; None: no alarm.
    missing: labels that were missing and counted as the worst for each side.
    history: bounds so far, for the plot.
    """

    risk: float
    confidence: float
    least: float
    sums: Sums
    late: Floats
    alarm: int | None
    missing: int
    history: BoundHistory

    def __repr__(self) -> str:
        if self.count == 0:
            return f"RiskMonitor(no answers yet, risk={self.risk:g}, {self.confidence:g})"
        alarm = "no alarm" if self.alarm is None else f"ALARM at answer {self.alarm}, from 0"
        between = f"errors between {self.lower:.3%} and {self.upper:.3%}"
        return f"RiskMonitor({self.count} answers, {self.labels} labels, {between}, {alarm})"

    def _repr_html_(self) -> str:
        from nescio.report import risk_html

        return risk_html(self)

    def plot(self) -> "Figure":
        """The bounds over the stream, as a figure."""
        from nescio.report import plots

        figure: Figure = plots.risk_bounds(self)
        return figure

    @property
    def count(self) -> int:
        """The number of answers."""
        return self.sums.count

    @property
    def labels(self) -> int:
        """The number of labels."""
        return self.sums.labels

    @property
    def estimate(self) -> float:
        """The share of errors, estimated without bias, cut to 0..1; NaN before the first answer."""
        if self.count == 0:
            return math.nan
        return min(1.0, max(0.0, self.sums.weighted / self.count))

    @property
    def upper(self) -> float:
        """At all times, at most this share of the answers so far is wrong, with `confidence`."""
        return _between(self)[1]

    @property
    def lower(self) -> float:
        """At least this share is wrong; half of 1 - confidence is left for errors of late."""
        return _between(self)[0]

    @property
    def assured(self) -> bool:
        """Whether the upper bound is now at most the risk."""
        return self.upper <= self.risk

    @property
    def late_capital(self) -> float:
        """What the bets on errors of late have made of 1; the alarm is at 2 / (1 - confidence)."""
        return float(_late_total(self.late, np.array([self.count]))[0])

    def update(
        self,
        errors: Any,
        picked: Any,
        propensity: Any,
        estimate: Any = None,
        *,
        missing: Missing = "refuse",
    ) -> "RiskMonitor":
        """The monitor after more answers, in the order of the stream.

        errors: 1 or True where the answer is wrong, 0 where it is right; what is not picked is not
          read. NaN is a label that is missing.
        picked: whether each answer was drawn for a label.
        propensity: the probability with which it was drawn, or one for all.
        estimate: of the probability of an error, from before the label: 1 - the probability of the
          answer; None: the risk for all. It makes bounds narrower where it is good, and is never
          trusted.
        missing: "refuse" labels that are missing with an error, or "worst": count them as errors
          in the upper bound and as none in the lower, which keeps both valid.
        """
        if np.size(picked) == 0:
            return self
        answers = _answers(self, errors, picked, propensity, estimate, missing)
        now = self
        for start in range(0, len(answers.drawn), PIECE):
            now = _after(now, answers.part(slice(start, start + PIECE)))
        return now

    def save(self, path: str | Path) -> Path:
        """Write the monitor to one file at `path`; a crash leaves the old file or the new one."""
        arrays = {"late": self.late, "upper": self.sums.upper, "lower": self.sums.lower}
        arrays["rows"] = self.history.rows
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        names = ("risk", "confidence", "least", "alarm", "missing")
        manifest = {name: getattr(self, name) for name in names}
        manifest |= {name: getattr(self.sums, name) for name in ("count", "labels")}
        manifest |= {"expected": self.sums.expected, "weighted": self.sums.weighted}
        manifest |= {"stride": self.history.stride, "kind": KIND}
        save_tensors(Path(path), tensors, manifest)
        return Path(path)


def risk_monitor(
    *, risk: float = 0.02, confidence: float = 0.95, least: float = 0.05 * FLOOR
) -> RiskMonitor:
    """A monitor of the share of wrong answers in a stream of which few are labeled.

    >>> rng = np.random.default_rng(0)
    >>> wrong, drawn = rng.random(40_000) < 0.005, rng.random(40_000) < 0.05
    >>> now = risk_monitor(risk=0.02, least=0.05).update(wrong, drawn, 0.05)
    >>> now.assured, now.upper < 0.01
    (True, True)

    risk: the largest share of answers that may be wrong.
    confidence: the probability with which each statement holds at all times.
    least: the smallest probability with which an answer is drawn for a label; that of the default
      `label_budget` by default. Bounds are wider where it is small.
    """
    for name, value in {"risk": risk, "confidence": confidence}.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
            raise NescioError(f"`{name}` must be between 0 and 1, got {value!r}")
    if isinstance(least, bool) or not isinstance(least, (int, float)) or not 0 < least <= 1:
        raise NescioError(f"`least` must be above 0 and at most 1, got {least!r}")
    return RiskMonitor(
        risk=float(risk),
        confidence=float(confidence),
        least=float(least),
        sums=no_sums(),
        late=np.zeros(len(LATELY)),
        alarm=None,
        missing=0,
        history=BoundHistory(np.empty((0, 3)), 1),
    )


@readers.named(KIND)
def _read(saved: Saved) -> RiskMonitor:
    """A monitor that was saved; it continues as if nothing had happened."""
    said = dict(saved.manifest)
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in saved.tensors.items()}
    said["history"] = BoundHistory(arrays["rows"], said["stride"])
    names = [field.name for field in fields(Sums)]
    said["sums"] = Sums(**{name: {**said, **arrays}[name] for name in names})
    return RiskMonitor(**{f.name: {**said, **arrays}[f.name] for f in fields(RiskMonitor)})


@dataclass(frozen=True, eq=False)
class MergedRisk:
    """The errors in several streams together, such as those of the replicas of a service.

    monitors: the monitors.
    whole: one monitor with the sums of all.
    """

    monitors: tuple[RiskMonitor, ...]
    whole: RiskMonitor

    @property
    def alarm(self) -> bool:
        """Whether the streams together raise the alarm now."""
        if len(self.monitors) == 1:
            return self.monitors[0].alarm is not None
        late = sum(one.late_capital for one in self.monitors) / len(self.monitors)
        return self.whole.lower > self.whole.risk or late >= 1 / _half(self.whole)


def merge_risks(monitors: Sequence[RiskMonitor]) -> MergedRisk:
    """Several streams as one: their sums add up, and the bounds hold for all answers together.

    The draws of a stream must not depend on the draws of another at the same time. The alarm is
    that of the streams together: by itself, each of them has its own false alarms.

    monitors: made with the same settings.
    """
    if not monitors or not all(isinstance(one, RiskMonitor) for one in monitors):
        raise NescioError("merge_risks takes a list of one or more risk monitors")
    settings = {(one.risk, one.confidence, one.least) for one in monitors}
    if len(settings) > 1:
        raise NescioError(
            "risk monitors have different settings; make them with one `risk`, `confidence` and "
            "`least`"
        )
    first, *others = monitors
    sums = sum((one.sums for one in others), first.sums)
    missing = sum(one.missing for one in monitors)
    return MergedRisk(tuple(monitors), replace(first, sums=sums, missing=missing))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Answers:
    """Answers of a stream as arrays `(n,)`: errors for each side, draws and estimates."""

    worst: Floats
    best: Floats
    drawn: NDArray[np.bool_]
    propensity: Floats
    estimate: Floats
    missing: NDArray[np.bool_]

    def part(self, rows: slice) -> "_Answers":
        return _Answers(**{one.name: getattr(self, one.name)[rows] for one in fields(self)})


def _answers(
    now: RiskMonitor, errors: Any, picked: Any, propensity: Any, estimate: Any, missing: Missing
) -> _Answers:
    """What was given, checked."""
    drawn = _column("picked", picked, None) != 0
    size = len(drawn)
    wrong = np.where(drawn, _column("errors", errors, size), 0.0)
    chance = _column("propensity", propensity, size)
    guess = _column("estimate", now.risk if estimate is None else estimate, size)
    cut = np.minimum(guess, chance / (WIDER * now.least))
    if not (np.isnan(wrong) | (wrong == 0) | (wrong == 1)).all():
        raise NescioError("`errors` must be 0 or 1, or NaN where a label is missing")
    if not ((chance >= now.least) & (chance <= 1)).all():
        raise NescioError(
            f"`propensity` must be from {now.least:g} to 1, got {np.min(chance):g} to "
            f"{np.max(chance):g}; start with risk_monitor(least=...) of the smallest"
        )
    if not ((guess >= 0) & (guess <= 1)).all():
        raise NescioError("`estimate` must be from 0 to 1: the probability that an answer is wrong")
    lost = np.isnan(wrong)
    if missing not in ("refuse", "worst"):
        raise NescioError(f'`missing` must be "refuse" or "worst", got {missing!r}')
    if lost.any() and missing == "refuse":
        raise NescioError(
            f"the label of answer {int(lost.argmax())} of these is missing; give answers up to the "
            'first that waits for its label, or missing="worst"'
        )
    worst, best = np.where(lost, 1.0, wrong), np.where(lost, 0.0, wrong)
    return _Answers(
        worst=worst, best=best, drawn=drawn, propensity=chance, estimate=cut, missing=lost
    )


def _column(name: str, values: Any, size: int | None) -> Floats:
    array = numbers(name, np.atleast_1d(values) if np.ndim(values) == 0 else values, axes=1)
    column = array.astype(np.float64)
    if size is None or len(column) == size:
        return column
    if np.ndim(values) == 0:
        return np.full(size, column[0])
    raise NescioError(f"`{name}` has {len(column)} entries for {size} answers; give one for each")


def _after(now: RiskMonitor, answers: _Answers) -> RiskMonitor:
    """The monitor after one piece of the stream."""
    size, drawn = len(answers.drawn), answers.drawn
    less, more, before = STAKES * now.least, STAKES * _largest(now), now.sums
    high, low = (
        (side[drawn] - answers.estimate[drawn]) / answers.propensity[drawn]
        for side in (answers.worst, answers.best)
    )
    upper = running(before.upper, np.log1p(-high[:, None] * less))
    lower = running(before.lower, np.log1p(low[:, None] * more))
    at = np.cumsum(drawn)  # labels up to each answer: row of the sums above
    values = answers.estimate.copy()  # without bias, (n,)
    values[drawn] += low
    weighted = answers.estimate.copy()
    weighted[drawn] += (high + low) / 2
    expected = running(np.asarray(before.expected), answers.estimate)[1:]
    weighted = running(np.asarray(before.weighted), weighted)[1:]
    count = before.count + 1 + np.arange(size)
    late = _late(now, values)
    so_far = log_capital(lower[at], -more, now.risk * count - expected)
    lately = _late_total(late[1:], count)
    crossed = np.flatnonzero((so_far > -math.log(_half(now))) | (lately >= 1 / _half(now)))
    alarm = before.count + int(crossed[0]) if now.alarm is None and len(crossed) else now.alarm
    rows = now.history.wanted(before.count, size)
    kept = at[rows]
    sides = _sides(now, count[rows], expected[rows], lower[kept], upper[kept])
    estimates = np.clip(weighted[rows] / count[rows], 0.0, 1.0)
    sums = Sums(
        count=before.count + size,
        labels=before.labels + int(drawn.sum()),
        expected=float(expected[-1]),
        weighted=float(weighted[-1]),
        upper=upper[-1].copy(),
        lower=lower[-1].copy(),
    )
    return replace(
        now,
        sums=sums,
        late=late[-1].copy(),
        alarm=alarm,
        missing=now.missing + int(answers.missing.sum()),
        history=now.history.add(np.stack([sides[0], estimates, sides[1]], axis=1)),
    )


def _late(now: RiskMonitor, values: Floats) -> Floats:
    """Capital in the stakes on errors of late before the first answer and after each, (n + 1, K).

    At every index a part of what is left is placed; then all that is placed is bet.
    """
    factors = 1 + (values - now.risk)[:, None] * (LATELY * _largest(now))
    left = reserve(now.count + np.arange(len(values) + 1))
    placed = ((left[:-1] - left[1:]) / len(LATELY)).tolist()
    result = np.empty((len(values) + 1, len(LATELY)))
    result[0] = now.late
    for row, (share, factor) in enumerate(zip(placed, factors, strict=True)):
        np.add(result[row], share, out=result[row + 1])
        np.multiply(result[row + 1], factor, out=result[row + 1])
        np.minimum(result[row + 1], MOST, out=result[row + 1])
    return result


def _late_total(late: Floats, count: NDArray[Any]) -> Floats:
    total: Floats = np.atleast_2d(late).sum(axis=1) + reserve(count)
    return total


def _largest(now: RiskMonitor) -> float:
    """The largest stake on more errors: 1 + l (Z - risk) > 0, as Z is at least -1 / (4 least)."""
    return 1 / (1 + 1 / (WIDER * now.least))


def _half(now: RiskMonitor) -> float:
    """The probability of a false alarm of each half."""
    return (1 - now.confidence) / 2


def _sides(
    now: RiskMonitor, count: NDArray[Any], expected: Floats, lower: Floats, upper: Floats
) -> tuple[Floats, Floats]:
    """Lower bounds at half the level, and upper bounds."""
    answers = np.maximum(count, 1).astype(np.float64)
    below = most_excess(lower, STAKES * _largest(now), _half(now))
    above = most_excess(upper, STAKES * now.least, 1 - now.confidence)
    low = np.where(count > 0, (expected - below) / answers, 0.0)
    high = np.where(count > 0, (expected + above) / answers, 1.0)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def _between(now: RiskMonitor) -> tuple[float, float]:
    """The bounds now."""
    sums = now.sums
    count, expected = np.array([sums.count]), np.array([sums.expected])
    low, high = _sides(now, count, expected, sums.lower[None], sums.upper[None])
    return float(low[0]), float(high[0])
