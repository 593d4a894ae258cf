"""A conformal test martingale: an alarm for drift with bounded false alarms at all times.

Each score of the stream is ranked among the calibration scores and all of the stream before it. If
nothing has changed, these ranks are independent and uniform (Vovk et al., 2022, theorem 11.1), so
no bet against them gains: by Ville's inequality the capital ever reaches 1 / false_alarm with
probability at most false_alarm. Nothing is bet while all scores are alike; what comes after that
wait is known to keep the bound by simulation (docs/drift.json), not by the theorem: the end of the
wait is known from the scores before, but a rank is uniform given the ranks before, not the scores.

Monitors of streams in parallel merge into the mean of their martingales. With one past it is a
martingale, so the bound holds for it as for each. Their product is not one where they have
calibration scores in common. Nor is then the mean watched at all times: what one stream shows of
the common scores tells something of the ranks in the other. So each shard has its own part of the
calibration scores; bins may be common, they are fixed beforehand.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import DamagedError, NescioError, Saved, derive, numbers, readers, save_tensors
from nescio.guards import Guard, RegressionGuard
from nescio.monitoring.martingale import BLOCK, COUNT, grow, p_values, tie_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
LEAST = 20  # calibration scores of a monitor
PIECE = 128 * BLOCK  # scores in one go
KIND, BETS = "monitor", 2  # the second goes up when the bets change
CELLS = 1024  # of the peaks, at most; when they are full, two become one


@dataclass(frozen=True, eq=False)
class Peaks:
    """The highest value in each stretch of `stride` values of a series, in bounded memory."""

    heights: NDArray[np.float64]
    stride: int

    @property
    def highest(self) -> float:
        """Of all values; 0 before the first, where a martingale's logarithm starts."""
        return float(self.heights.max(initial=0.0))

    def add(self, start: int, values: NDArray[np.float64]) -> "Peaks":
        """With the values from number `start` on; the same however a series is cut."""
        heights, stride, last = self.heights, self.stride, start + len(values) - 1
        while last // stride >= CELLS:
            even = np.append(heights, -np.inf) if len(heights) % 2 else heights
            heights, stride = even.reshape(-1, 2).max(1), 2 * stride
        grown = np.full(last // stride + 1, -np.inf)
        grown[: len(heights)] = heights
        np.maximum.at(grown, np.arange(start, last + 1) // stride, values)
        return Peaks(grown, stride)

    def points(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The ends of the stretches, of `count` values, and their heights."""
        ends = np.arange(1, len(self.heights) + 1, dtype=np.int64) * self.stride
        return np.minimum(ends, count), self.heights


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Monitor:
    """The state of a test for drift of a stream of scores; `update` gives the next one.

    It does not grow with the stream. Counts and capital are those at the last multiple of 64
    scores, and the bins of the scores since then wait in `pending`: so results do not depend on how
    the stream is cut into batches.

    false_alarm: the largest probability that there is ever an alarm although nothing changes.
    seed: seed of the random draws.
    shard: which part of the calibration scores it has, of how many.
    source: digest of all calibration scores.
    edges: edges of the bins, fixed beforehand.
    counts: scores of calibration and stream, by bin.
    logs: log of the capital of each bet.
    pending: bins of the scores that are not counted yet.
    trail: digest of all bins but the pending ones, by which ties are broken.
    waited: number of scores before the first bet; None while all scores are alike.
    count: number of scores of the stream.
    log_martingale: log of the capital now, 0 at the start.
    alarm: index in the stream, from 0, at which the capital was first large enough; None: no alarm.
    peaks: highest values of the log martingale, for `history`.
    files: digests of the last files that `nescio monitor` read.
    """

    false_alarm: float
    seed: int
    shard: tuple[int, int]
    source: str
    edges: Floats
    counts: NDArray[np.int64]
    logs: Floats
    pending: NDArray[np.int64]
    trail: int
    waited: int | None
    count: int
    log_martingale: float
    alarm: int | None
    peaks: Peaks
    files: tuple[str, ...] = ()

    def __repr__(self) -> str:
        alarm = "no alarm" if self.alarm is None else f"ALARM at score {self.alarm}, from 0"
        p = f"p-value {said(self.p_value)}"
        return f"Monitor({self.count} scores, {alarm}, {p}, false_alarm={self.false_alarm:g})"

    def _repr_html_(self) -> str:
        from nescio.report import monitor_html

        return monitor_html(self)

    def plot(self, *, changed: int | None = None) -> "Figure":
        """The martingale over the stream, as a figure.

        changed: index in the stream where the data are known to change, which is marked; None: no
          mark.
        """
        from nescio.report import plots

        figure: Figure = plots.martingale(self, changed=changed)
        return figure

    @property
    def threshold(self) -> float:
        """What `log_martingale` must reach for an alarm."""
        return -math.log(self.false_alarm)

    @property
    def p_value(self) -> float:
        """The p-value of no drift so far, at any time: 1 over the largest capital."""
        return min(1.0, math.exp(-self.peaks.highest))

    @property
    def history(self) -> tuple[NDArray[np.int64], Floats]:
        """The number of scores, and the highest `log_martingale` since the point before."""
        return self.peaks.points(self.count)

    def update(self, scores: Any) -> "Monitor":
        """The monitor after more scores; larger is further out.

        scores: one, an array, the decisions of a guard, or an iterable of these, such as those of a
          loader's batches. They are read in single precision, as tables of decisions hold them.
        """
        scores = getattr(scores, "score", scores)
        if _is_stream(scores):
            return reduce(Monitor.update, scores, self)
        if np.size(scores) == 0:
            return self
        values, now = _scores("scores", scores), self
        for start in range(0, len(values), PIECE):
            now = _after(now, values[start : start + PIECE])
        return now

    def save(self, path: str | Path) -> Path:
        """Write the monitor to one file at `path`; a crash leaves the old file or the new one."""
        arrays = {"edges": self.edges, "counts": self.counts, "logs": self.logs}
        arrays |= {"pending": self.pending, "heights": self.peaks.heights}
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        names = ["false_alarm", "seed", "source", "count", "log_martingale", "alarm", "trail"]
        names += ["waited", "files"]
        plain = {name: getattr(self, name) for name in names}
        manifest = {"kind": KIND, "shard": list(self.shard), "stride": self.peaks.stride, **plain}
        save_tensors(Path(path), tensors, {**manifest, "bets": BETS})
        return Path(path)


def monitor(
    calibration_scores: Any,
    *,
    false_alarm: float = 0.01,
    bins: int = 256,
    seed: int = 0,
    shard: int = 0,
    shards: int = 1,
) -> Monitor:
    """A monitor that raises an alarm when the scores of a stream drift from the calibration scores.

    >>> rng = np.random.default_rng(0)
    >>> quiet = monitor(rng.normal(size=1000)).update(rng.normal(size=5000))
    >>> quiet.alarm is None
    True
    >>> quiet.update(rng.normal(3, 1, size=100)).alarm
    5005

    calibration_scores: scores of data that nothing was fitted on, `(N,)`, or an iterable of them;
      or a guard, whose calibration scores are read, for a stream of `guard(x).score`.
    false_alarm: the largest probability that there is ever an alarm although nothing changes.
    bins: largest number of bins; a quarter of the scores, at most 4 per bin, fixes them and is not
      counted.
    seed: seed of the random draws: of the scores that fix the bins, and of ties.
    shard, shards: number of this stream and of all, for streams in parallel; each gets its own part
      of the scores, see `merge`.
    """
    if isinstance(calibration_scores, Guard | RegressionGuard):
        calibration_scores = np.concatenate([r.scores.cpu() for r in calibration_scores.rules])
    if _is_stream(calibration_scores):
        parts = [_scores("calibration_scores", part) for part in calibration_scores]
        calibration_scores = np.concatenate(parts or [np.empty(0)])
    scores = _scores("calibration_scores", calibration_scores)
    _check(false_alarm, bins, shard, shards)
    if len(scores) < LEAST * shards:
        raise NescioError(
            f"a monitor needs at least {LEAST} calibration scores"
            f"{f' for each of {shards} shards' if shards > 1 else ''}, got {len(scores)}"
        )
    order = np.random.default_rng(derive(seed, "monitor edges")).permutation(len(scores))
    share = min(len(scores) // 4, 4 * bins)
    edges = _edges(scores[order[:share]], bins)
    counted = scores[order[share:]][shard::shards]
    counts = np.bincount(_bins(edges, counted), minlength=len(edges) + 1)
    return Monitor(
        false_alarm=float(false_alarm),
        seed=seed,
        shard=(shard, shards),
        source=digest([scores]),
        edges=edges,
        counts=counts,
        logs=np.full(COUNT, -np.inf),
        pending=np.empty(0, np.int64),
        trail=0,
        waited=0 if np.count_nonzero(counts) > 1 else None,
        count=0,
        log_martingale=0.0,
        alarm=None,
        peaks=Peaks(np.empty(0), 1),
    )


@readers.named(KIND)
def _read(saved: Saved) -> Monitor:
    """A monitor that was saved; it goes on as if nothing had happened."""
    manifest = dict(saved.manifest)
    if manifest.pop("bets", None) != BETS:
        raise DamagedError(
            f"{saved.path} was written by a nescio with other bets; start a new monitor"
        )
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in saved.tensors.items()}
    peaks = Peaks(arrays.pop("heights"), manifest.pop("stride"))
    manifest |= {name: tuple(manifest[name]) for name in ("shard", "files")}
    manifest |= {"peaks": peaks, **arrays}
    return Monitor(**{field.name: manifest[field.name] for field in fields(Monitor)})


def digest(parts: Iterable[Floats]) -> str:
    """Of scores, however they are cut; in single precision, as a monitor reads them."""
    result = hashlib.blake2b(digest_size=8)
    for scores in parts:
        result.update(scores.astype(np.float32).tobytes())
    return result.hexdigest()


def said(p_value: float) -> str:
    """A p-value for people: below the smallest numbers, only that."""
    return "< 1e-300" if p_value < 1e-300 else f"{p_value:.3g}"


def _after(now: Monitor, scores: Floats) -> Monitor:
    """The monitor after one piece of the stream."""
    waiting = np.concatenate([now.pending, _bins(now.edges, scores)])
    start = now.count - len(now.pending)  # a multiple of BLOCK
    key = derive(now.seed, "monitor ties", now.source, *now.shard)
    uniform, trails = tie_numbers(key, now.trail, start, waiting)
    p, counts = p_values(now.counts, waiting, uniform)
    waited = _waited(now, start, waiting)
    first = start - waited if waited is not None else -len(waiting) - BLOCK
    capital, logs = grow(now.logs, first, p)
    full = len(waiting) // BLOCK * BLOCK
    capital = capital[len(now.pending) :]
    crossed = np.flatnonzero(capital >= now.threshold)
    alarm = now.count + int(crossed[0]) if now.alarm is None and len(crossed) else now.alarm
    return replace(
        now,
        counts=counts[-1].copy(),
        logs=logs[-1].copy(),
        pending=waiting[full:].copy(),
        trail=int(trails[full]),
        waited=waited,
        count=now.count + len(scores),
        log_martingale=float(capital[-1]),
        alarm=alarm,
        peaks=now.peaks.add(now.count, capital),
    )


def _waited(now: Monitor, start: int, bins: NDArray[np.int64]) -> int | None:
    """The scores before the first bet: up to the first that is unlike those before, or None.

    While all scores are alike, their p-values are the numbers that break ties and nothing else.
    """
    if now.waited is not None:
        return now.waited
    other = np.flatnonzero(bins != now.counts.argmax())
    return start + int(other[0]) + 1 if len(other) else None


def _bins(edges: Floats, scores: Floats) -> NDArray[np.int64]:
    return np.searchsorted(edges, scores, side="right").astype(np.int64)


def _edges(scores: Floats, bins: int) -> Floats:
    """Quantiles, the least and the greatest among them; beyond either is a bin of its own."""
    ordered = np.sort(scores)
    chosen = ordered[np.linspace(0, len(ordered) - 1, bins - 2).round().astype(int)]
    return np.unique(np.append(chosen, np.nextafter(ordered[-1], np.inf)))


def _is_stream(scores: Any) -> bool:
    """Whether scores come in arrays one after the other."""
    array = isinstance(scores, (list, tuple, str)) or hasattr(scores, "__array__")
    return isinstance(scores, Iterable) and not array


def _scores(name: str, scores: Any) -> Floats:
    values = numbers(name, np.atleast_1d(scores) if np.ndim(scores) == 0 else scores, axes=1)
    with np.errstate(over="ignore"):  # beyond single precision is infinitely far out
        values = np.ascontiguousarray(values, np.float32).astype(np.float64)
    if np.isnan(values).any():
        index = int(np.isnan(values).argmax())
        raise NescioError(
            f"`{name}` holds NaN, first at {index}; a score says how far out: what has none, such "
            "as an input that is not finite, is infinitely far, scores.nan_to_num(nan=math.inf)"
        )
    return values


def _check(false_alarm: float, bins: int, shard: int, shards: int) -> None:
    if not (isinstance(false_alarm, (int, float, np.floating)) and 0 < false_alarm < 1):
        raise NescioError(f"`false_alarm` must be between 0 and 1, got {false_alarm!r}; try 0.01")
    if isinstance(bins, bool) or not isinstance(bins, int) or not 4 <= bins <= 4096:
        raise NescioError(f"`bins` must be a whole number from 4 to 4096, got {bins!r}")
    for name, value in {"shard": shard, "shards": shards}.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise NescioError(f"`{name}` must be a whole number, got {value!r}")
    if not 0 <= shard < shards:
        raise NescioError(f"`shard` must be in 0..{shards - 1} for {shards} shards, got {shard}")


@dataclass(frozen=True, eq=False, repr=False)
class Merged:
    """Several monitors now; watch `alarm` whenever they are merged, as often as wanted.

    monitors: the monitors.
    log_martingale: log of the mean of their martingales.
    false_alarm: the largest probability that there is ever an alarm although nothing changes.
    """

    monitors: tuple[Monitor, ...]
    log_martingale: float
    false_alarm: float

    def __repr__(self) -> str:
        alarm = "ALARM" if self.alarm else "no alarm"
        count, bound = len(self.monitors), f"false_alarm={self.false_alarm:g}"
        return f"Merged({count} monitor(s), {self.count} scores, {alarm} now, {bound})"

    @property
    def alarm(self) -> bool:
        """Whether the mean is at or above 1 / false_alarm now."""
        return self.log_martingale >= -math.log(self.false_alarm)

    @property
    def count(self) -> int:
        """The number of scores of all streams."""
        return sum(monitor.count for monitor in self.monitors)


def merge(monitors: Sequence[Monitor]) -> Merged:
    """The mean of the martingales of `monitors`, made with `monitor(..., shard=i, shards=n)`."""
    if not monitors or not all(isinstance(one, Monitor) for one in monitors):
        raise NescioError("merge takes a list of one or more monitors")
    for one, two in combinations(monitors, 2):
        if one.false_alarm != two.false_alarm:
            raise NescioError(
                f"monitors have different bounds, {one.false_alarm:g} and {two.false_alarm:g}; "
                "make them with one `false_alarm`"
            )
        if one.source == two.source and _overlap(one, two):
            raise NescioError(
                "two monitors count the same calibration scores, so the bound would not hold for "
                "them together; make each with its own number: monitor(..., shard=i, shards=n)"
            )
    logs = np.array([one.log_martingale for one in monitors])
    mean = float(np.logaddexp.reduce(logs)) - math.log(len(logs))
    return Merged(tuple(monitors), mean, monitors[0].false_alarm)


def _overlap(one: Monitor, two: Monitor) -> bool:
    """Whether two parts of the same scores have some in common."""
    same_cut = (one.seed, one.shard[1], len(one.edges)) == (two.seed, two.shard[1], len(two.edges))
    return not same_cut or one.shard[0] == two.shard[0]
