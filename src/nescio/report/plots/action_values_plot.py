"""What agents think that states are worth, and how much their members or passes disagree."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from nescio.core import NescioError
from nescio.report.plots.look import COLORS, WIDTH, add_title, label, panels, with_look

ROWS = {"value": "viridis", "uncertainty": "magma"}  # and their colors


class Axle(NamedTuple):
    """A range of a state's feature."""

    name: str
    low: float
    high: float


def value_and_uncertainty(values: Tensor) -> tuple[Tensor, Tensor]:
    """The value of states and its uncertainty, from Q `(K, ..., A)` of K members or passes.

    The value is the largest mean over members; the uncertainty is the standard deviation of Q
    over members, as a root mean square over actions.
    """
    _check_members(values)
    return values.mean(0).amax(-1), values.var(0).mean(-1).sqrt()


def _check_members(values: Tensor) -> None:
    if values.ndim < 2 or len(values) < 2:
        raise NescioError(
            "the uncertainty of Q needs values of two or more members or passes, (K, ..., actions),"
            f" got shape {tuple(values.shape)}"
        )


@with_look
def action_value_maps(
    found: Mapping[str, Tensor],
    across: Axle,
    up: Axle,
    *,
    visited: Mapping[str, Tensor] | None = None,
    title: str = "The value of states and its uncertainty",
) -> Figure:
    """Maps over two features of a state: a column per name, the value above its uncertainty.

    found: Q by name, `(K, H, W, A)`, whose rows go up. visited: states `(N, 2)` by name, drawn as
    dots.
    """
    maps = {name: value_and_uncertainty(values) for name, values in found.items()}
    figure = Figure(figsize=(WIDTH, 6.4), layout="constrained")
    axes = figure.subplots(2, len(maps), squeeze=False, sharex=True, sharey=True)
    extent = (across.low, across.high, up.low, up.high)
    for row, (word, colors) in enumerate(ROWS.items()):
        for axis, (name, pair) in zip(axes[row], maps.items(), strict=True):
            image = axis.imshow(pair[row].double().numpy(), origin="lower", extent=extent,
                                aspect="auto", cmap=colors)  # fmt: skip
            axis.grid(visible=False)
            _visits(axis, None if visited is None else visited.get(name))
            axis.set_title(f"{word}, {label(name)}", loc="left")
            figure.colorbar(image, ax=axis)
    for axis in axes[-1]:
        axis.set_xlabel(across.name)
    for axis in axes[:, 0]:
        axis.set_ylabel(up.name)
    add_title(figure, title)
    return figure


def _visits(axis: Axes, states: Tensor | None) -> None:
    if states is not None:
        axis.scatter(states[:, 0], states[:, 1], s=2, color="white", alpha=0.35, linewidths=0)


@with_look
def action_value_lines(
    found: Mapping[str, Tensor],
    *,
    actions: tuple[str, ...] | None = None,
    state: str = "state",
    title: str = "Q by state, with its uncertainty",
) -> Figure:
    """A panel per name: Q of each action along the states, with two standard deviations as a band.

    found: Q by name, `(K, N, A)`.
    """
    for values in found.values():
        _check_members(values)
    figure, axes = panels(len(found), height=3.0, title=title)
    for axis, (name, values) in zip(axes, found.items(), strict=True):
        middle, spread = values.mean(0), values.std(0)  # (N, A)
        states = range(len(middle))
        for action in range(middle.shape[1]):
            own = actions[action] if actions else f"action {action}"
            look: Any = {"color": COLORS[action % len(COLORS)]}
            low, high = (middle[:, action] + sign * 2 * spread[:, action] for sign in (-1, 1))
            axis.plot(states, middle[:, action], label=own, **look)
            axis.fill_between(states, low, high, alpha=0.2, linewidth=0, **look)
        axis.set_title(label(name), loc="left")
        axis.set_xlabel(state)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylabel("Q")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
