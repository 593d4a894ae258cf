"""Charts of a watch as inline SVG: small, without script, in the colors of the page."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from nescio.monitoring import Monitor, RiskMonitor
from nescio.serving.watch_words import counted

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 28, 34  # margins
POINTS = 256  # of a line, at most
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Frame:
    """Where numbers are in a chart: the largest of x, and the range of y."""

    right: float
    low: float
    high: float

    def x(self, values: Floats) -> Floats:
        """Horizontal places."""
        return LEFT + values / self.right * (WIDTH - LEFT - RIGHT)

    def y(self, values: Floats) -> Floats:
        """Vertical places, within the chart."""
        share = np.clip((values - self.low) / (self.high - self.low), 0.0, 1.0)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def path(self, x: Floats, y: Floats) -> str:
        """A line through points."""
        places = zip(self.x(x).tolist(), self.y(y).tolist(), strict=True)
        return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in places)


def drift_chart(monitor: Monitor) -> Markup:
    """The evidence for drift over the decisions, and where it raises the alarm.

    monitor: of this replica.
    """
    seen, logs = monitor.history
    ten = math.log(10)
    x = _few(np.append(0.0, seen.astype(np.float64)))
    y = _few(np.append(0.0, logs / ten))
    bound = monitor.threshold / ten
    frame = Frame(max(1.0, float(monitor.count)), min(-1.0, float(y.min())), 2 * bound)
    words = f"Evidence for drift, at most 10^{monitor.peaks.highest / ten:.1f} of 10^{bound:.1f}"
    return _chart(
        frame,
        words,
        [f'<path class="line" d="{frame.path(x, y)}"/>'],
        bound=(bound, "alarm"),
        names=(counted(monitor.count, "decision"), "evidence, power of ten"),
    )


def risk_chart(monitor: RiskMonitor) -> Markup:
    """Bounds and estimate of the share of wrong answers, and what is allowed.

    monitor: of this replica.
    """
    rows = 100 * monitor.history.rows
    stride = monitor.history.stride
    x = _few(stride * (1 + np.arange(len(rows), dtype=np.float64)))
    low, middle, high = (_few(one) for one in rows.T)
    bound = 100 * monitor.risk
    top = min(100.0, max(3 * bound, 1.2 * float(high[-1]) if len(high) else 0.0))
    frame = Frame(max(1.0, float(monitor.count)), 0.0, top)
    shapes = []
    if len(x):
        band = frame.path(np.append(x, x[::-1]), np.append(high, low[::-1]))
        shapes.append(f'<path class="band" d="{band}Z"/>')
        shapes += [f'<path class="line" d="{frame.path(x, one)}"/>' for one in (low, high)]
        shapes.append(f'<path class="line dots" d="{frame.path(x, middle)}"/>')
    words = f"Wrong answers: between {monitor.lower:.2%} and {monitor.upper:.2%}"
    return _chart(
        frame,
        words,
        shapes,
        bound=(bound, "allowed"),
        names=(counted(monitor.count, "answer"), "wrong so far, %"),
    )


def _few(values: Floats) -> Floats:
    """At most some hundred of the values, the last among them."""
    if len(values) <= POINTS:
        return values
    chosen: Floats = values[np.linspace(0, len(values) - 1, POINTS).round().astype(int)]
    return chosen


def _chart(
    frame: Frame,
    words: str,
    shapes: Sequence[str],
    *,
    bound: tuple[float, str],
    names: tuple[str, str],
) -> Markup:
    """A chart with axes; all that is in it comes from numbers and from this file."""
    height = float(frame.y(np.array([bound[0]]))[0])
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{words}">',
        *(_tick(frame, value) for value in _ticks(frame)),
        *shapes,
        f'<path class="bound" d="M{LEFT} {height:.1f}H{WIDTH - RIGHT}"/>',
        f'<text x="{WIDTH - RIGHT}" y="{height - 6:.1f}" class="bold" text-anchor="end">'
        f"{bound[1]}</text>",
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{names[0]}</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 8}">0</text>',
        f'<text x="{LEFT}" y="{TOP - 12}">{names[1]}</text>',
        "</svg>",
    ]
    return Markup("".join(parts))


def _ticks(frame: Frame) -> list[float]:
    """Round numbers on the vertical axis."""
    step = 10 ** math.floor(math.log10((frame.high - frame.low) / 2))
    while (frame.high - frame.low) / step > 5:
        step *= 2 if (frame.high - frame.low) / step < 10 else 2.5
    first = math.ceil(frame.low / step)
    return [number * step for number in range(first, math.floor(frame.high / step) + 1)]


def _tick(frame: Frame, value: float) -> str:
    height = float(frame.y(np.array([value]))[0])
    line = f'<path class="grid" d="M{LEFT} {height:.1f}H{WIDTH - RIGHT}"/>'
    text = f'<text x="{LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{value:g}</text>'
    return line + text
