"""The plot of a monitor: the martingale over the stream, and where it raised the alarm."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.monitoring import Monitor
from nescio.report.drawing import COLOURS, DASHES, GREY, add_title, label, with_look

TEN = math.log(10)
TOP = 4.0  # times the bound is what is drawn; lines go on above


@with_look
def martingale(monitors: Monitor | Mapping[str, Monitor], *, changed: int | None = None) -> Figure:
    """The capital against no drift, a line a monitor; an alarm where it first passes the bound.

    changed: where the stream is known to have changed, marked by a line.
    """
    named = {"stream": monitors} if isinstance(monitors, Monitor) else dict(monitors)
    figure = Figure(figsize=(8.4, 4.4), layout="constrained")
    axis = figure.subplots()
    for place, (name, one) in enumerate(named.items()):
        _line(axis, place, label(name), one)
    for bound in sorted({one.false_alarm for one in named.values()}):
        axis.axhline(-math.log10(bound), color=GREY, linestyle=(0, (4, 3)), linewidth=1.2)
        text = f"alarm: at most {100 * bound:g} % false ones, ever"
        axis.annotate(
            text, (0.01, -math.log10(bound)), (0, 4), textcoords="offset points",
            xycoords=axis.get_yaxis_transform(), color=GREY, fontsize=10,
        )  # fmt: skip
    if changed is not None:
        axis.axvline(changed, color=GREY, linestyle=":", linewidth=1.4, label="the data change")
    axis.set_xlabel("scores seen")
    axis.set_ylabel("log10 of the martingale")
    axis.set_ylim(None, TOP * max(one.threshold for one in named.values()) / TEN)
    if len(named) > 1 or changed is not None:
        figure.legend(loc="outside lower left", ncols=3, handlelength=3)
    add_title(figure, _title(named))
    return figure


def _line(axis: Axes, place: int, name: str, one: Monitor) -> None:
    seen, logs = one.history
    colour = COLOURS[place % len(COLOURS)]
    style: Any = {"color": colour, "linestyle": DASHES[place % len(DASHES)], "linewidth": 1.6}
    x, y = np.concatenate([[0], seen]), np.concatenate([[0.0], logs / TEN])
    axis.plot(x, y, label=name, **style)
    if one.alarm is not None:
        axis.plot(
            [one.alarm + 1], [one.threshold / TEN], marker="o", markersize=8, color=colour,
            markerfacecolor="white", markeredgewidth=2, zorder=3,
        )  # fmt: skip


def _title(named: Mapping[str, Monitor]) -> str:
    alarms = {name: one.alarm for name, one in named.items() if one.alarm is not None}
    if not alarms:
        return "No alarm: nothing speaks against a stream like the calibration data"
    if len(named) == 1:
        return f"Alarm for drift at score {next(iter(alarms.values())) + 1:,}"
    return f"Alarm for drift in {len(alarms)} of {len(named)} streams"
