"""Pictures of generalization: learning curves, complexities, and double descent."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from nescio.evaluation import RandomLabels
from nescio.report.plots.look import COLORS, DASHES, GRAY, line, panels, per_cent, with_look
from nescio_papers.kit import sample
from nescio_papers.robust_deep_learning.generalization_labels import RANDOM, TRUE
from nescio_papers.robust_deep_learning.generalization_signs import Complexities
from nescio_papers.robust_deep_learning.generalization_widths import Sweep

WIDE = {  # measured over the width
    "test_error": "error",
    "squared_error": "squared error on test data",
    "ece": "expected calibration error",
    "ood_auroc": "AUROC against Fashion-MNIST",
}


@with_look
def learning(found: RandomLabels, others: Mapping[str, RandomLabels]) -> Figure:
    """Training loss and accuracy by epoch, for labels and inputs that say less and less."""
    curves = {TRUE: (found, 0), **{name: (one, 0) for name, one in others.items()}}
    curves[RANDOM] = (found, -1)
    fitted = all(np.isfinite(one.epochs_to_fit[row]).all() for one, row in curves.values())
    title = f"{found.samples} MNIST digits, their labels or pixels made random"
    figure, axes = panels(2, height=3.6, title=title + ": all are fitted" * fitted)
    for axis, name in zip(axes, ("loss", "train"), strict=True):
        for number, (kind, (one, row)) in enumerate(curves.items()):
            values = getattr(one, name)[row]  # (R, E)
            look = line(number) | {"marker": None, "label": kind}
            axis.plot(np.arange(1, values.shape[1] + 1), values.mean(0), **look)
        axis.set_xscale("log")
        axis.set_xlabel("epochs (mean of the seeds)")
    axes[0].set_title("training loss", loc="left")
    axes[1].set_title("training accuracy", loc="left")
    per_cent(axes[1].yaxis)
    axes[1].legend(fontsize=9)
    return figure


@with_look
def complexities(found: Complexities) -> Figure:
    """The Rademacher complexity of each class by the number of samples, with intervals."""
    figure, (axis,) = panels(1, height=4.0, title="Rademacher complexity: fitting random signs")
    for number, (name, each) in enumerate(found.items()):
        counts, means = [one.samples for one in each], [one.estimate for one in each]
        half = [np.nan_to_num(sample(one.values).half) for one in each]
        axis.errorbar(counts, means, yerr=half, capsize=3, label=name, **line(number))
    axis.axhline(1, color=GRAY, linestyle=":", linewidth=1)
    axis.set_xscale("log")
    axis.set_xticks(counts, [str(count) for count in counts])
    axis.minorticks_off()
    axis.set_ylim(0, 1.05)
    axis.set_xlabel("MNIST digits (bars: 95 % interval of the mean over draws)")
    axis.legend()
    return figure


@with_look
def descent(found: Sequence[Sweep]) -> Figure:
    """Errors, calibration and OOD detection over the width, one column per kind of network."""
    title = "Double descent: means and 95 % intervals over seeds; the line marks the threshold"
    figure, axes = panels(len(WIDE) * len(found), height=2.3, title=title, columns=len(found))
    for row, name in enumerate(WIDE):
        for column, one in enumerate(found):
            axis = axes[row * len(found) + column]
            _curve(axis, one, name, 0)
            if name == "test_error":
                _curve(axis, one, "train_error", 1)
                axis.set_title(one.kind, loc="left", fontsize=10)
                axis.legend(fontsize=8)
            if row == len(WIDE) - 1:
                axis.set_xlabel("trained weights / (n · classes)")
            if column == 0:
                axis.set_ylabel(WIDE[name], fontsize=9)
    return figure


def _curve(axis: Axes, one: Sweep, name: str, number: int) -> None:
    values = np.array(one.values(name), dtype=float)  # (widths, seeds)
    means = values.mean(1)
    half = [sample(row).half if np.isfinite(row).all() else np.nan for row in values]
    label = {"test_error": "test", "train_error": "training"}.get(name)
    axis.plot(one.ratios, means, color=COLORS[number], linestyle=DASHES[number], marker="o",
              markersize=3, label=label)  # fmt: skip
    low, high = means - half, means + half
    axis.fill_between(one.ratios, low, high, color=COLORS[number], alpha=0.2, linewidth=0)
    axis.axvline(1, color=GRAY, linestyle=":", linewidth=1)
    axis.set_xscale("log")
    axis.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
    if name == "squared_error":
        axis.set_yscale("log")
        axis.set_ylim(0.5 * means.min(), 2 * means.max())
        narrow = means.max() < 20 * means.min()
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axis.set_ylim(0, 1)
    axis.minorticks_off()
    if name.endswith("_error") and name != "squared_error":
        per_cent(axis.yaxis)
