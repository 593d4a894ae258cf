"""The whole interval decides: it passes, it fails, or it needs a look."""

from matplotlib.figure import Figure

import nescio
from nescio.evaluation.audit.audit_limits import limits

COLORS = {"pass": "#1b7837", "attention": "#b35806", "fail": "#a50026"}
LEFT_OUT = [
    *("guard", "failure", "noise", "attack", "shift", "scaled-inputs", "far-field"),
    *nescio.core.registry.audit_sections,
]


def draw() -> Figure:
    digits = nescio.data.digits()
    (x, y), (test_x, test_y) = digits.train, digits.test
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    limit = limits["overconfidence"]
    edges = [-0.1, limit.attention, limit.fail, 0.29]
    for color, low, high in zip(COLORS.values(), edges, edges[1:], strict=False):
        axes.axvspan(100 * low, 100 * high, color=color, alpha=0.13, lw=0)
    for row, (trained, tested) in enumerate([(1000, 500), (1000, 60), (40, 500), (20, 500)]):
        model = nescio.train(
            lambda: nescio.nets.mlp((1, 8, 8), 10),
            (x[:trained], y[:trained]),
            epochs=max(30, 4000 // trained),
            batch_size=20,
            progress=False,
        )
        audit = nescio.audit(
            model, (test_x[:tested], test_y[:tested]), skip=LEFT_OUT, progress=False
        )
        (one,) = (one for one in audit.verdict.findings if one.label == "overconfidence")
        ends = [100 * one.low, 100 * one.high]
        axes.plot(ends, [row, row], color=COLORS[one.status], lw=4, solid_capstyle="butt")
        axes.plot(100 * one.value, row, "o", color=COLORS[one.status], ms=9)
        told = one.status + (": the data do not tell" if one.unclear else "")
        axes.text(ends[1] + 0.6, row, told, va="center", color=COLORS[one.status], weight="bold")
        words = f"{trained:,} training samples,\n{tested} test samples"
        axes.text(-10.4, row, words, va="center", ha="right", fontsize=9)
    axes.set(xlim=(-10, 29), ylim=(3.6, -0.6), yticks=[], xticks=[-10, 0, 3, 5, 10, 15, 20, 25])
    axes.set_xlabel("confidence above accuracy, in points, with its 95 % interval")
    axes.set_title("passes at most 3 points, fails above 5", fontsize=10, loc="left")
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure
