"""Plots of single values: decisions of a guard, a prediction, the losses of a model."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nescio.core import Classification, NescioError, Prediction, Regression
from nescio.guards import DECISIONS
from nescio.report.plots.look import (
    COLORS,
    GRAY,
    MARKERS,
    add_title,
    label,
    line,
    per_cent,
    with_look,
)

DRAWN = 2000  # decisions, at most
SAMPLES = 30  # of a prediction
CLASSES = 40


@with_look
def decisions_plot(decisions: Any) -> Figure:
    """The p-value and the number that decides, one point per input, by decision."""
    if not len(decisions):
        raise NescioError("nothing to draw: there are no decisions")
    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    axis = figure.subplots()
    step = -(-len(decisions) // DRAWN)
    drawn = decisions[::step]
    across, named = _decisive(drawn)
    p = np.nan_to_num(drawn.p_value.cpu().numpy(), nan=0.0)
    for code, name in enumerate(DECISIONS):
        own = drawn.decision.cpu().numpy() == code
        share = decisions.shares()[name]
        legend = f"{name}, {100 * share:.1f} %"
        axis.scatter(across[own], p[own], s=18, alpha=0.6, color=COLORS[code],
                     marker=MARKERS[code], label=legend, linewidths=0)  # fmt: skip
    axis.set(xlabel=named, ylabel="p-value of being like the calibration data")
    axis.set_yscale("symlog", linthresh=1e-3)
    axis.set_ylim(0, 1.05)
    figure.legend(loc="outside lower left", ncols=3)
    answered = 100 * decisions.shares()["answer"]
    add_title(figure, f"The guard answers {answered:.1f} % of {len(decisions):,} inputs")
    return figure


def _decisive(decisions: Any) -> tuple[Any, str]:
    """What abstains as unsure: the failure score of classes, the width of intervals."""
    score = getattr(decisions, "failure_score", None)
    if score is not None:
        return np.nan_to_num(score.cpu().double().numpy(), posinf=np.nan), "failure score"
    width = (decisions.high - decisions.low).cpu().double().numpy().reshape(len(decisions), -1)
    return width.max(1), "width of the prediction interval"


@with_look
def prediction_plot(prediction: Prediction) -> Figure:
    """The first samples: the probability of each class, or means with two deviations."""
    if len(prediction.batch_shape) != 1 or not len(prediction):
        raise NescioError(
            f"a prediction of samples (N,) is drawn, this one has {tuple(prediction.batch_shape)}; "
            "choose some: prediction[:, 0, 0]"
        )
    few = prediction.to("cpu")[:SAMPLES]
    more = f", the first {len(few)} of {len(prediction):,}" if len(few) < len(prediction) else ""
    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    axis = figure.subplots()
    if isinstance(few, Classification):
        _probabilities(figure, axis, few)
        said = f"Probabilities of {prediction.classes} classes"  # type: ignore[attr-defined]
    elif isinstance(few, Regression):
        _means(axis, few)
        said = "Means with two standard deviations"
    else:
        raise NescioError(f"a {type(few).__name__} has no picture")
    axis.set_xlabel("sample")
    add_title(figure, f"{said}{more}")
    return figure


def _probabilities(figure: Figure, axis: Axes, few: Classification) -> None:
    probs = few.probs.double().numpy()[:, :CLASSES]
    shown = axis.imshow(probs.T, cmap="Blues", vmin=0, vmax=1, aspect="auto", origin="lower")
    axis.grid(visible=False)
    axis.set_ylabel("class" if few.classes <= CLASSES else f"class (the first {CLASSES})")
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    bar = figure.colorbar(shown, ax=axis, label="probability")
    per_cent(bar.ax.yaxis)


def _means(axis: Axes, few: Regression) -> None:
    means, spread = few.mixture_mean.double().numpy(), few.mixture_variance.double().sqrt().numpy()
    places = np.arange(len(means))
    for d in range(min(means.shape[1], len(COLORS))):
        axis.errorbar(
            places + 0.12 * d, means[:, d], 2 * spread[:, d], color=COLORS[d], linestyle="",
            marker=MARKERS[d], markersize=5, capsize=2, label=f"target {d}",
        )  # fmt: skip
    axis.set_ylabel("predicted value")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    if means.shape[1] > 1:
        axis.legend()


@with_look
def history_plot(model: Any) -> Figure:
    """The loss of each member by epoch, in training and on validation data."""
    history = model.history
    if history is None or not history.train.numel():
        raise NescioError("the model has no losses to draw: it was not trained by nescio.train")
    parts = {"training": history.train}
    if history.validation is not None:
        parts["validation"] = history.validation
    figure = Figure(figsize=(8.4, 4.4), layout="constrained")
    axis = figure.subplots()
    for place, (name, losses) in enumerate(parts.items()):
        numbers = losses.cpu().double().numpy()
        epochs = np.arange(1, len(numbers) + 1)
        for member in range(numbers.shape[1]):
            legend = None if member else label(name)
            style = {**line(place), "alpha": 0.7, "markersize": 3}
            axis.plot(epochs, numbers[:, member], label=legend, **style)
    axis.set(xlabel="epoch", ylabel="loss")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.axhline(0, color=GRAY, linewidth=0.8)
    axis.legend()
    members = f" of {model.members} members" if model.members > 1 else ""
    add_title(figure, f"Loss{members} by epoch ({model.loss or 'loss not known'})")
    return figure
