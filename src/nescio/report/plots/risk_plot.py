"""The plot of a risk monitor: what is known of the errors among the answers, over the stream."""

import numpy as np
from matplotlib.figure import Figure

from nescio.monitoring import RiskMonitor
from nescio.report.plots.look import COLORS, GRAY, add_title, with_look


@with_look
def risk_bounds(monitor: RiskMonitor) -> Figure:
    """Estimate and bounds of the share of wrong answers, and the risk that is allowed."""
    figure = Figure(figsize=(8.4, 4.4), layout="constrained")
    axis = figure.subplots()
    rows = np.concatenate([monitor.history.rows, [_now(monitor)]]) * 100
    counts = np.append(
        (1 + np.arange(len(rows) - 1)) * monitor.history.stride, max(1, monitor.count)
    )
    low, middle, high = rows.T
    axis.fill_between(counts, low, high, color=COLORS[0], alpha=0.18, linewidth=0)
    axis.plot(counts, high, color=COLORS[0], linewidth=1.6)
    axis.plot(counts, low, color=COLORS[0], linewidth=1.6)
    axis.plot(counts, middle, color=COLORS[0], linestyle=":", linewidth=1.2)
    bound = 100 * monitor.risk
    axis.axhline(bound, color=GRAY, linestyle=(0, (4, 3)), linewidth=1.2)
    words = f"allowed: {bound:g} %"
    axis.annotate(
        words, (1, bound), (6, 0), textcoords="offset points", va="center", color=GRAY,
        xycoords=axis.get_yaxis_transform(), fontsize=10, annotation_clip=False,
    )  # fmt: skip
    if monitor.alarm is not None:
        axis.axvline(monitor.alarm + 1, color=COLORS[1], linewidth=1.6)
    axis.set_xlabel("answers")
    axis.set_ylabel("wrong answers so far, %")
    axis.set_xlim(0, max(1, monitor.count))
    axis.set_ylim(0, min(100.0, max(3 * bound, 1.3 * float(high[-1]))))
    add_title(figure, _title(monitor))
    return figure


def _now(monitor: RiskMonitor) -> list[float]:
    middle = monitor.estimate if monitor.count else np.nan
    return [monitor.lower, middle, monitor.upper]


def _title(monitor: RiskMonitor) -> str:
    if monitor.alarm is not None:
        return f"Alarm for the risk at answer {monitor.alarm:,}, counted from 0"
    if monitor.assured:
        return f"At most {100 * monitor.upper:.2g} % of the answers are wrong"
    return "No alarm; more labels are needed to show that the risk is kept"
