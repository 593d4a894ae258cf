"""Maximum against true class probability, of successes and errors: the lecture's figure."""

import numpy as np
from matplotlib.figure import Figure

from nescio.evaluation import Comparison
from nescio.report.plots.look import COLORS, GRAY, panels, with_look

ORACLE = "true class probability (oracle)"
BINS = 25


@with_look
def true_class_figure(result: Comparison) -> Figure:
    """Two histograms: (a) the maximum class probability, (b) the true class probability."""
    assert result.wrong is not None
    wrong = np.asarray(result.wrong, dtype=bool)
    values = {
        "(a) maximum class probability": np.asarray(result.confidence["before"]),
        "(b) true class probability": -np.asarray(result.scores[ORACLE][result.about.data]),
    }
    title = f"{result.about.data}: {len(wrong)} answers, {int(wrong.sum())} errors"
    figure, axes = panels(2, height=3.4, title=title)
    edges = [number / BINS for number in range(BINS + 1)]
    for axis, (name, own) in zip(axes, values.items(), strict=True):
        for number, (kind, rows) in enumerate({"successes": ~wrong, "errors": wrong}.items()):
            weights = np.full(int(rows.sum()), 1 / max(1, int(rows.sum())))
            axis.hist(own[rows], edges, weights=weights, alpha=0.6, color=COLORS[number],
                      label=kind)  # fmt: skip
        axis.set_title(name, loc="left")
        axis.set_xlabel("probability")
    axes[1].axvline(0.5, color=GRAY, linestyle=":", linewidth=1)
    axes[0].set_ylabel("share of successes or errors")
    axes[0].legend(loc="upper left")
    return figure
