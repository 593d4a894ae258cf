"""Figures of the part `far-field`."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nescio.report.plots.look import COLORS, DASHES, GRAY, add_title, panels, per_cent, with_look
from nescio_papers.relu_overconfidence.alphas import LEVEL, along, confidence
from nescio_papers.relu_overconfidence.certified import Certified
from nescio_papers.relu_overconfidence.examples import Example
from nescio_papers.relu_overconfidence.measuring import Found
from nescio_papers.relu_overconfidence.worlds import MNIST

FURTHEST = 1e4  # factor at which the curves of shares end
PUBLISHED = 1.5


@with_look
def figure_of_alphas(result: Sequence[Found]) -> Figure:
    """For each world, the share of images that are sure by their factor."""
    names, kinds = (
        list(dict.fromkeys(keys))
        for keys in ((f.world.name for f in result), (f.name for f in result))
    )
    figure, axes = panels(len(names), height=4.4, title="Some scaling makes noise a sure digit")
    for axis, world in zip(axes, names, strict=True):
        for one in (f for f in result if f.world.name == world):
            color = COLORS[kinds.index(one.name)]
            for training in one.each:
                _steps(axis, training.exact, color=color, linewidth=0.6, alpha=0.5)
            whole = torch.cat([training.exact for training in one.each])
            _steps(axis, whole, color=color, linewidth=2.2, label=one.name)
            if one.together is not None:
                label = f"{one.name}, average of all"
                _steps(axis, one.together.exact, color=color, linestyle="--", label=label)
        axis.axhline(0.5, color=GRAY, linewidth=0.8)
        if world == MNIST:
            axis.plot(PUBLISHED, 0.5, "k*", markersize=11, label="published median")
        axis.set(xscale="log", xlim=(1, FURTHEST), ylim=(0, 1.02))
        axis.set_title(world, loc="left")
        axis.set_xlabel(r"$\alpha$: factor of the noise image")
        axis.set_ylabel(f"share at least {100 * LEVEL:g} % sure")
        per_cent(axis.yaxis)
    _legend(figure, axes)
    return figure


def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend for all panels, below them."""
    handles = {
        label: handle
        for axis in axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=3)


def _steps(axis: Axes, values: Tensor, **look: object) -> None:
    """Shares that have been reached; what never gets there leaves the line below 1."""
    ordered = values[values < FURTHEST].sort().values.numpy()
    shares = np.arange(len(ordered) + 1) / len(values)
    x, y = np.r_[1.0, ordered, FURTHEST], np.r_[shares, shares[-1]]
    axis.step(x, y, where="post", **look)  # type: ignore[arg-type]


@with_look
def figure_of_examples(shown: Sequence[Example]) -> Figure:
    """A panel a ray."""
    apart = any(one.misled for one in shown)
    title = "Confidence along a ray can go up and down" if apart else "Confidence along some rays"
    figure, axes = panels(len(shown), height=3.0, title=title)
    for i, (axis, one) in enumerate(zip(axes, shown, strict=True)):
        marks = [v for v in (one.exact, one.bisected, one.radius, 10.0) if np.isfinite(v)]
        t = torch.from_numpy(np.geomspace(1, 3 * max(marks), 1500))
        images = one.x.expand(len(t), *one.x.shape)
        axis.plot(t, confidence(one.model, along(images, t)), color=COLORS[0], linewidth=1.6)
        axis.axhline(LEVEL, color=GRAY, linewidth=0.8)
        if one.radius > 1:
            axis.axvline(one.radius, color=GRAY, linestyle=":", label="last breakpoint")
        if np.isfinite(one.bisected):
            axis.plot(one.bisected, LEVEL, "x", color=COLORS[4], markersize=9, label="bisection")
        if np.isfinite(one.exact):
            axis.plot(one.exact, LEVEL, "o", color=COLORS[1], label="first crossing")
        axis.set(xscale="log", ylim=(0, 1.05))
        axis.set_title(one.title, loc="left")
        axis.set_xlabel(r"$\alpha$")
        if i % 3 == 0:
            axis.set_ylabel("confidence")
    _legend(figure, axes)
    return figure


@with_look
def figure_of_distance(result: Certified) -> Figure:
    """Confidence of the RBF network and of ReLU networks by distance."""
    figure = Figure(figsize=(8.6, 4.6), layout="constrained")
    axis = figure.subplots()
    for i, (name, curve) in enumerate(result.curves.items()):
        axis.fill_between(curve.distance, curve.low, curve.high, color=COLORS[i], alpha=0.13)
        axis.plot(curve.distance, curve.mean, color=COLORS[i], linestyle=DASHES[i], label=name)
    bound = result.bound
    axis.axvline(result.radius, color=GRAY, linestyle=":", label="radius of the certificate")
    top = 1 / bound.classes + bound.epsilon
    axis.hlines(top, result.radius, axis.get_xlim()[1], color="k", linewidth=1, label="its bound")
    axis.set(xscale="log", ylim=(0, 1.03), ylabel="confidence")
    axis.set_xlabel("distance to the nearest training image")
    axis.legend(loc="center right")
    add_title(figure, "Far away a ReLU network is sure, and an RBF network is provably not")
    return figure
