"""Any change of the inputs raises the error rate at most along a line, up to the shift budget."""

import numpy as np
from matplotlib.figure import Figure

import nescio

RISK = 0.02


def draw() -> Figure:
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.subplots()
    for answered, errors, color, side in [(900, 2, "#08519c", -1), (900, 8, "#d95f0e", 1)]:
        one = nescio.guards.shift_budget(answered=answered, errors=errors, samples=1000, risk=RISK)
        change = np.linspace(0, 0.03, 50)
        bound = one.largest_risk + change / one.least_coverage
        axes.plot(100 * change, 100 * bound, color=color, lw=2)
        words = f"{errors} errors in {answered} answers"
        at = 100 * np.interp(0.02, change, bound) + 0.22 * side
        where = {"va": "top", "ha": "left"} if side < 0 else {"va": "bottom", "ha": "right"}
        axes.text(2.05, at, words, color=color, **where)
        axes.plot([100 * one.distance] * 2, [0, 100 * RISK], color=color, lw=1, ls=":")
        axes.plot(100 * one.distance, 100 * RISK, "o", color=color, ms=8)
        words = f"budget: any {100 * one.distance:.1f} % of the\ninputs may be replaced"
        axes.text(100 * one.distance + 0.04, 0.1, words, color=color, fontsize=9)
    axes.axhline(100 * RISK, color="#a50026", ls="--", lw=1)
    axes.text(2.98, 100 * RISK - 0.05, "guaranteed risk", color="#a50026", ha="right", va="top")
    axes.set(xlim=(0, 3), ylim=(0, 4.6), xlabel="changed inputs (total variation), %")
    axes.set_ylabel("wrong among answers,\nat most, %")
    axes.spines[["top", "right"]].set_visible(False)
    return figure
