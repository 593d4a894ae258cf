"""What becomes of networks that fit random labels: five panels by the share of such labels."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.core import NescioError
from nescio.evaluation import RandomLabels
from nescio.report.plots.look import COLORS, GRAY, line, panels, per_cent, with_look

TITLES = {
    "epochs_to_fit": "epochs until the labels are fitted",
    "test": "error on test data",
    "ece": "expected calibration error on test data",
    "far_factor": "factor to 99.9 % confidence far away",
}


@with_look
def random_labels_plot(found: RandomLabels, *, title: str | None = None) -> Figure:
    """Learning curves, then numbers in the end by share, with intervals of the mean over seeds."""
    if not found.train.size:
        raise NescioError("there are no epochs to draw; train for at least one")
    shown = [name for name in TITLES if np.isfinite(_ends(found, name)[0]).any()]
    title = title or f"{found.samples} labels, of which a share is random"
    figure, axes = panels(1 + len(shown), height=3.0, title=title)
    _learning(axes[0], found)
    for axis, name in zip(axes[1:], shown, strict=True):
        _by_share(axis, found, name)
    return figure


def _learning(axis: Axes, found: RandomLabels) -> None:
    epochs = np.arange(1, found.train.shape[-1] + 1)
    for number, share in enumerate(found.shares):
        look = line(number) | {"marker": None}
        axis.plot(epochs, found.train[number].mean(0), label=f"{100 * share:g} % random", **look)
    axis.set_xscale("log")
    axis.set_xlabel("epochs")
    axis.set_title("accuracy on the training labels", loc="left")
    per_cent(axis.yaxis)
    axis.legend(fontsize=8, loc="lower right")


def _by_share(axis: Axes, found: RandomLabels, name: str) -> None:
    middle, low, high = _ends(found, name)
    if name == "test":
        middle, low, high = 1 - middle, 1 - high, 1 - low
        axis.plot(found.shares, 1 - found.train[..., -1].mean(1), color=GRAY, linestyle=":",
                  label="on the training labels")  # fmt: skip
        axis.legend(fontsize=8)
    width = np.nan_to_num(np.stack([middle - low, high - middle]))
    axis.errorbar(found.shares, middle, yerr=np.maximum(0.0, width), capsize=3, marker="o",
                  color=COLORS[0], linewidth=1.8)  # fmt: skip
    axis.set_title(TITLES[name], loc="left")
    axis.set_xlabel("share of random labels")
    per_cent(axis.xaxis)
    if name in ("test", "ece"):
        per_cent(axis.yaxis)
    if name == "far_factor":
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)


def _ends(found: RandomLabels, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.array([[one.value, one.low, one.high] for one in found.interval(name)])
    value, low, high = np.where(np.isfinite(ends), ends, np.nan).T
    return value, low, high
