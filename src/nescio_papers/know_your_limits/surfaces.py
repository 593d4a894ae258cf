"""Measures over the plane: values and norms of their gradients, and maps of both."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import Categorical, measures
from nescio.report.plots.look import COLORS, GRAY, add_title
from nescio_papers.know_your_limits.models import Network, Pair

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
ENTROPY, LEAST, VARIANCE, INFORMATION = (
    "predictive entropy",
    "1 - max probability",
    "class variance",
    "mutual information",
)
OF_ONE, OF_MANY = (ENTROPY, LEAST), (VARIANCE, ENTROPY, INFORMATION, LEAST)
IN_FIGURE_6 = (VARIANCE, ENTROPY, INFORMATION)
CHUNK = 20_000  # samples times networks in one go
FAINTEST, STRONGEST = 1e-6, 1e1  # gradient norms told apart by color


@dataclass(frozen=True)
class Grid:
    """A regular grid of points `(N, 2)`, rows from the bottom up."""

    box: tuple[float, float, float, float]  # left, right, bottom, top
    step: float

    @property
    def axes(self) -> tuple[Floats, Floats]:
        """The two coordinates."""
        left, right, bottom, top = self.box
        return _steps(left, right, self.step), _steps(bottom, top, self.step)

    @property
    def points(self) -> Tensor:
        """All points, float64."""
        across, up = np.meshgrid(*self.axes)
        return torch.from_numpy(np.stack([across.ravel(), up.ravel()], -1))

    def shaped(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the points as rows and columns."""
        across, up = self.axes
        return values.reshape(len(up), len(across))


def _steps(low: float, high: float, step: float) -> Floats:
    return np.linspace(low, high, round((high - low) / step) + 1)


@dataclass(frozen=True)
class Field:
    """A measure at some points: its values, and the norms of its gradient in the input."""

    value: Floats
    slope: Floats


def fields(network: Network, x: Tensor, names: Sequence[str], base: float) -> dict[str, Field]:
    """Measures and gradient norms at points `(N, D)`, by autograd in float64 from logits.

    The gradient is the chain rule: of the measure in the logits, times V of each network. All
    measures cost one pass through the networks.
    """
    parts = [_chunk(network, part, names, base) for part in _split(network, x)]
    return {
        name: Field(*(np.concatenate([part[name][i] for part in parts]) for i in range(2)))
        for name in names
    }


def _chunk(
    network: Network, x: Tensor, names: Sequence[str], base: float
) -> dict[str, tuple[Floats, Floats]]:
    logits, matrix = _logits_and_slopes(network, x)
    logits.requires_grad_()
    prediction = Categorical(logits)
    results = {}
    for name in names:
        value = functions(base)[name](prediction)
        (rise,) = torch.autograd.grad(value.sum(), logits, retain_graph=True)
        slope = torch.einsum("mnc,mncd->nd", rise, matrix)
        results[name] = value.detach().numpy(), slope.norm(dim=-1).numpy()
    return results


def slopes(network: Network, x: Tensor) -> Tensor:
    """The matrix V of each network at each point, `(M, N, C, D)`: slopes of the logits."""
    return torch.cat([_logits_and_slopes(network, part)[1] for part in _split(network, x)], 1)


def _logits_and_slopes(network: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    """Logits `(M, N, C)` and their slopes in the inputs `(M, N, C, D)`, by autograd."""
    own = x.expand(network.model.members, *x.shape).clone().requires_grad_()
    logits = network.logits(own)
    rows = [
        torch.autograd.grad(logits[..., c].sum(), own, retain_graph=True)[0]
        for c in range(logits.shape[-1])
    ]
    return logits.detach(), torch.stack(rows, -2)


def _split(network: Network, x: Tensor) -> list[Tensor]:
    return list(x.double().split(max(1, CHUNK // network.model.members)))


def functions(base: float) -> dict[str, Callable[[Any], Tensor]]:
    """The measures by the names the paper uses; entropies in units of `base`."""
    return {
        ENTROPY: lambda p: measures.predictive_entropy(p, base=base),
        LEAST: measures.least_confidence,
        VARIANCE: measures.class_variance,
        INFORMATION: lambda p: measures.mutual_information(p, base=base),
    }


def top(name: str, base: float, classes: int = 2) -> float:
    """The largest value a measure can have."""
    most = math.log(classes) / math.log(base)
    flat = 1 - 1 / classes
    return {ENTROPY: most, INFORMATION: most, LEAST: flat, VARIANCE: flat / classes}[name]


def titled(name: str, unit: str) -> str:
    """The name of a measure with its unit, for an axis."""
    return f"{name} ({unit})" if name in (ENTROPY, INFORMATION) else name


def distance(x: Tensor, points: Tensor) -> Floats:
    """Distance of each sample from the nearest of `points`."""
    result: Floats = torch.cdist(x.double(), points.double()).amin(1).numpy()
    return result


def boundary(grid: Grid, labels: NDArray[Any]) -> Tensor:
    """Grid points where labels `(..., N)` of any network change to the right or above, `(B, 2)`."""
    across, up = grid.axes
    table = labels.reshape(-1, len(up), len(across))
    edge = np.zeros(table.shape, dtype=bool)
    edge[:, :, :-1] |= table[:, :, :-1] != table[:, :, 1:]
    edge[:, :-1] |= table[:, :-1] != table[:, 1:]
    return grid.points[torch.from_numpy(edge.any(0).ravel())]


def draw_values(axis: Axes, grid: Grid, values: Floats, most: float) -> Any:
    """A map of a measure: white is certain, purple is uncertain."""
    return _draw(axis, grid, values, "Purples", Normalize(0, most))


def draw_slopes(axis: Axes, grid: Grid, values: Floats) -> Any:
    """A map of gradient norms on a logarithmic scale: the greener, the steeper."""
    clipped = np.clip(values, FAINTEST, STRONGEST)
    return _draw(axis, grid, clipped, "YlGn", LogNorm(FAINTEST, STRONGEST))


def _draw(axis: Axes, grid: Grid, values: Floats, colors: str, scale: Normalize) -> Any:
    half = grid.step / 2
    left, right, bottom, up = grid.box
    extent = (left - half, right + half, bottom - half, up + half)
    image = axis.imshow(grid.shaped(values), origin="lower", extent=extent, cmap=colors, norm=scale)
    axis.grid(visible=False)
    return image


def draw_data(axis: Axes, data: Pair, size: float = 5) -> None:
    """Training points on top of a map, a color and a mark for each class."""
    x, y = (part.numpy() for part in data)
    for label in np.unique(y):
        axis.scatter(
            x[y == label, 0],
            x[y == label, 1],
            s=size,
            c=COLORS[int(label) % len(COLORS)],
            marker="o^sDvPX*<"[int(label)],
            edgecolors="white",
            linewidths=0.02 * size,
            alpha=0.8,
        )


@dataclass(frozen=True, eq=False)
class Panel:
    """One map: what is drawn, and whether it is a gradient."""

    title: str
    measure: str
    values: Floats
    gradient: bool = False
    side: str = ""  # beside the vertical axis
    note: str = ""  # in the lower left corner


@dataclass(frozen=True, eq=False)
class Sheet:
    """A figure of maps in rows and columns, to which color bars are added."""

    figure: Figure
    axes: Any  # (rows, columns) of Axes
    images: list[list[Any]]

    def bar(self, image: Any, where: Any, label: str, *, wide: bool = False) -> Any:
        """A color bar below some of the panels."""
        tall = len(self.axes) > 2
        bar = self.figure.colorbar(
            image,
            ax=where,
            location="bottom",
            label=label,
            aspect=60 if wide else 25,
            pad=0.01 if tall else 0.04,
        )
        if wide:
            bar.ax.minorticks_off()
        return bar


def sheet(
    rows: Sequence[Sequence[Panel]],
    grids: Mapping[bool, Grid],
    data: Pair,
    base: float,
    title: str,
    *,
    panel: tuple[float, float] = (3.3, 3.1),
) -> Sheet:
    """Maps in rows and columns with the training points on top; grids for values and gradients.

    rows: panels, row by row.
    grids: the grid of gradients (True) and of values (False).
    data: training points.
    base: unit of entropies.
    title: title of the figure.
    panel: width and height of a panel, in inches.
    """
    columns = len(rows[0])
    size = (max(10.8, panel[0] * columns + 0.4), panel[1] * len(rows) + 1.8)
    engine = ConstrainedLayoutEngine(rect=(0, 0.006, 1, 0.994))
    figure = Figure(figsize=size, layout=engine)
    axes = figure.subplots(len(rows), columns, squeeze=False)
    images: list[list[Any]] = []
    for i, row in enumerate(rows):
        # rows of one kind share their axis
        below = i == len(rows) - 1 or rows[i + 1][0].gradient != row[0].gradient
        images.append([])
        for j, one in enumerate(row):
            images[-1].append(_panel(axes[i, j], one, grids[one.gradient], data, base))
            axes[i, j].set(xlabel="$x_1$" if below else None, aspect="auto")
            axes[i, j].set_ylabel(one.side or ("$x_2$" if j == 0 else ""))
            axes[i, j].tick_params(labelbottom=below, labelleft=j == 0)
            axes[i, j].locator_params(axis="x", nbins=4)  # narrow panels
    add_title(figure, title)
    return Sheet(figure, axes, images)


def _panel(axis: Axes, panel: Panel, grid: Grid, data: Pair, base: float) -> Any:
    """One map with its points, its title and its note; returns what is drawn."""
    if panel.gradient:
        image = draw_slopes(axis, grid, panel.values)
    else:
        image = draw_values(axis, grid, panel.values, top(panel.measure, base))
    draw_data(axis, data, 3)
    axis.set_title(panel.title, loc="left")
    if panel.note:
        box = {"facecolor": "white", "edgecolor": GRAY, "alpha": 0.85, "boxstyle": "round,pad=0.3"}
        place = axis.transAxes
        axis.text(0.03, 0.96, panel.note, va="top", fontsize=9, transform=place, bbox=box)
    return image


def gradient_label(*, short: bool = False) -> str:
    """What the color of a gradient map means."""
    text = "norm of the gradient, per unit of $x$"
    return text if short else f"{text} (log scale; {FAINTEST:g} and less look the same)"
