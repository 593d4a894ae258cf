"""The plot of a monitor: the martingale over the stream, and where it raised the alarm."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.monitoring import Monitor
from nescio.report.plots.look import COLORS, DASHES, GRAY, add_title, label, with_look

TEN = math.log(10)
LEAST, TOP = 1.6, 4.0  # times the bound: the upper end of the axis lies between
TURNS = ("top", "center", "bottom")  # how labels of the lowest, middle and highest bound stand


@with_look
def martingale(monitors: Monitor | Mapping[str, Monitor], *, changed: int | None = None) -> Figure:
    """The capital against no drift, one line per monitor; an alarm where it first passes the bound.

    Lines that rise far above the bound are cut off, and the highest capital is said.
    changed: where the stream is known to have changed, marked by a line.
    """
    named = {"stream": monitors} if isinstance(monitors, Monitor) else dict(monitors)
    figure = Figure(figsize=(8.4, 4.4), layout="constrained")
    axis = figure.subplots()
    low, top = _limits(named)
    for place, (name, one) in enumerate(named.items()):
        above = f", up to {_power(one)}" if _highest(one) > top else ""
        _line(axis, place, f"{label(name)}{above}", one)
    _bounds(axis, sorted({one.false_alarm for one in named.values()}, reverse=True))
    if changed is not None:
        axis.axvline(changed, color=GRAY, linestyle=":", linewidth=1.4, label="the data change")
    axis.set_xlabel("scores")
    axis.set_ylabel("log10 of the martingale")
    axis.set_xlim(0, max(1, *(one.count for one in named.values())))
    axis.set_ylim(low, top)
    if len(named) > 1 or changed is not None:
        figure.legend(loc="outside lower left", ncols=2, handlelength=3)
    else:
        _leaving(axis, next(iter(named.values())), top)
    add_title(figure, _title(named))
    return figure


def _limits(named: Mapping[str, Monitor]) -> tuple[float, float]:
    """Ends of the vertical axis: all of what is low, and of what is high enough for the alarms."""
    bound = max(one.threshold for one in named.values()) / TEN
    top = min(TOP * bound, max(LEAST * bound, 1.08 * max(map(_highest, named.values()))))
    lowest = min(0.0, *(float(one.history[1].min(initial=0.0)) / TEN for one in named.values()))
    return lowest - 0.06 * (top - lowest), top


def _highest(one: Monitor) -> float:
    return one.peaks.highest / TEN


def _power(one: Monitor) -> str:
    return f"10^{_highest(one):,.0f}"


def _line(axis: Axes, place: int, name: str, one: Monitor) -> None:
    seen, logs = one.history
    color = COLORS[place % len(COLORS)]
    style: Any = {"color": color, "linestyle": DASHES[place % len(DASHES)], "linewidth": 1.6}
    x, y = np.concatenate([[0], seen]), np.concatenate([[0.0], logs / TEN])
    axis.plot(x, y, label=name, **style)
    if one.alarm is not None:
        axis.plot(
            [one.alarm + 1], [one.threshold / TEN], marker="o", markersize=8, color=color,
            markerfacecolor="white", markeredgewidth=2, zorder=3, clip_on=False,
        )  # fmt: skip


def _bounds(axis: Axes, bounds: Sequence[float]) -> None:
    """Where alarms are raised, from the lowest up; said beside the axis, where no line is."""
    for place, bound in enumerate(bounds):
        height = -math.log10(bound)
        axis.axhline(height, color=GRAY, linestyle=(0, (4, 3)), linewidth=1.2)
        turn = 1 if len(bounds) == 1 else 0 if place == 0 else 2 if place == len(bounds) - 1 else 1
        axis.annotate(
            f"alarm: at most {100 * bound:g} %\nfalse ones, ever", (1, height), (6, 0),
            textcoords="offset points", xycoords=axis.get_yaxis_transform(), va=TURNS[turn],
            color=GRAY, fontsize=10, annotation_clip=False,
        )  # fmt: skip


def _leaving(axis: Axes, one: Monitor, top: float) -> None:
    """Say how high a line goes where it leaves the plot, on the side with more room."""
    if _highest(one) <= top:
        return
    seen, logs = one.history
    place = int(seen[int((logs / TEN > top).argmax())])
    left = 2 * place > one.count
    axis.annotate(
        f"goes on up to {_power(one)}", (place, top), (-10 if left else 10, -4),
        textcoords="offset points", ha="right" if left else "left", va="top", color=GRAY,
        fontsize=10,
    )  # fmt: skip


def _title(named: Mapping[str, Monitor]) -> str:
    alarms = {name: one.alarm for name, one in named.items() if one.alarm is not None}
    if not alarms:
        return "No alarm: nothing speaks against a stream like the calibration data"
    if len(named) == 1:
        return f"Alarm for drift at score {next(iter(alarms.values())):,}, counted from 0"
    return f"Alarm for drift in {len(alarms)} of {len(named)} streams"
