"""Risk against coverage in an audit: errors among the surest answers."""

import math

from matplotlib.figure import Figure

from nescio.report.drawing import GREY, label, line, panels, per_cent, with_look
from nescio.report.tables import Result

TOP = 1.25  # of the largest error rate at full coverage
FIRST = 0.02  # of coverage: where a single error is not yet a rate


def curves_of(result: Result) -> dict[str, Result]:
    """Every curve by the name of its predictor and score."""
    return {
        f"{name}: {score}": curve
        for name, found in result["predictors"].items()
        for score, curve in found.get("failure", {}).get("curves", {}).items()
    }


@with_look
def risk_coverage(result: Result) -> Figure:
    """A curve for each predictor and score; where the guard works is marked."""
    curves = curves_of(result)
    ends = [curve["risk"][-1] for curve in curves.values()]
    title = "The surer half of the answers holds " + _half(curves)
    figure, (axis,) = panels(1, height=3.8, title=title)
    for i, (name, curve) in enumerate(curves.items()):
        kept = [k for k, share in enumerate(curve["coverage"]) if share >= FIRST]
        x, y = ([curve[key][k] for k in kept] for key in ("coverage", "risk"))
        axis.plot(x, y, label=label(name, 60), **{**line(i), "marker": ""})
    guard = result.get("guard") or {}
    if guard.get("holds") and guard["test"]["risk"] is not None:
        point = guard["test"]["answered"]["value"], guard["test"]["risk"]["value"]
        axis.plot(*point, marker="*", markersize=13, linestyle="", color="black",
                  label="the guard", clip_on=False, zorder=4)  # fmt: skip
        axis.axhline(guard["risk"], color=GREY, linestyle=(0, (4, 3)), linewidth=1.2,
                     label="its promise: at most so many errors")  # fmt: skip
    axis.set(xlim=(_start(curves), 1), ylim=(0, TOP * max(*ends, guard.get("risk", 0.0))))
    axis.set_xlabel("share of inputs answered, the surest first")
    axis.set_ylabel("errors among the answers")
    per_cent(axis.xaxis)
    per_cent(axis.yaxis)
    figure.legend(loc="outside right upper")
    return figure


def _start(curves: dict[str, Result]) -> float:
    """Where the picture begins: a little before the first error of any curve."""
    pairs = [zip(curve["coverage"], curve["risk"], strict=True) for curve in curves.values()]
    first = float(min(share for pair in pairs for share, risk in pair if risk > 0))
    return max(0.0, math.floor(10 * first - 1) / 10)


def _half(curves: dict[str, Result]) -> str:
    """The share of errors among the surer half of the answers, over all curves."""
    found = []
    for curve in curves.values():
        place = math.ceil(len(curve["risk"]) / 2) - 1
        found.append(100 * curve["risk"][place])
    low, high = (f"{end:.1f} %" for end in (min(found), max(found)))
    if not max(found):
        return "no errors"
    return f"{low} errors" if low == high else f"{low} to {high} errors"
