"""The picture of the linear regions of two networks, and of the counts of many."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor, nn

from nescio.geometry.regions.regions import regions
from nescio.geometry.regions.regions_value import Regions
from nescio.report.plots.look import COLORS, GRAY, MARKERS, add_title, with_look
from nescio_papers.know_your_limits.models import Pair
from nescio_papers.know_your_limits.surfaces import Bools, draw_data

PUBLISHED = 42  # pieces, in the authors' notebook; their weights are others
BOX = ((-5.0, 5.0), (-5.0, 5.0))
PALE = ("#cfe3f1", "#f6d9c4", "#cdeae0", "#f3dde9", "#f7ecc8", "#e2e2e2")  # Okabe and Ito, pale
NEAR = 1e-6  # a step over an edge


@with_look
def figure_of_pieces(
    shown: Sequence[tuple[int, Regions]], rows: Sequence[Mapping[str, Any]], data: Pair
) -> Figure:
    """Two networks with their pieces, and the counts of all starts below."""
    figure = Figure(figsize=(10.8, 8.2), layout="constrained")
    axes = figure.subplot_mosaic("ab;cc", height_ratios=(3.3, 1))
    titles = "figure 1", "most zero entries"
    for name, title, (_, inside) in zip("ab", titles, shown, strict=True):
        axis = axes[name]
        draw_pieces(axis, inside)
        draw_data(axis, data, 7)
        free = int(inside.unbounded.sum())
        axis.set_title(f"{title}: {len(inside)} pieces, {free} unbounded", loc="left")
        axis.set(xlim=BOX[0], ylim=BOX[1], xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
        axis.grid(visible=False)
    marks: list[Artist] = [
        Patch(facecolor="white", edgecolor=GRAY, hatch="//", label="unbounded piece"),
        Patch(facecolor="white", edgecolor=COLORS[1], linewidth=2, label="V has a zero entry"),
        Line2D([], [], color="black", linewidth=2, label="decision boundary"),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=3)
    _counts(axes["c"], rows)
    add_title(
        figure,
        f"The network is affine on {rows[0]['pieces in the box']} pieces of the box, "
        f"{rows[0]['unbounded in the box']} of which have no end",
    )
    return figure


def found(net: nn.Module, box: Any = BOX, *, merge: bool = False) -> Regions:
    """The pieces of one network."""
    result = regions(net, box, merge=merge)
    assert isinstance(result, Regions)
    return result


def draw_pieces(axis: Axes, inside: Regions) -> None:
    """Pieces in pale colors, hatched where they have no end, and the decision boundary."""
    outlines = [polygon.numpy() for polygon in inside.polygons]
    colors = [PALE[i] for i in colored(inside)]
    axis.add_collection(
        PolyCollection(outlines, facecolors=colors, edgecolors="#777777", linewidths=0.6)
    )
    free = [o for o, open_ in zip(outlines, inside.unbounded.tolist(), strict=True) if open_]
    axis.add_collection(
        PolyCollection(free, facecolors="none", edgecolors="#aaaaaa", hatch="//", linewidths=0.0)
    )
    zero = [o for o, marked in zip(outlines, has_zero(inside), strict=True) if marked]
    axis.add_collection(PolyCollection(zero, facecolors="none", edgecolors=COLORS[1], linewidths=2))
    for start, end in inside.boundaries.segments.tolist():
        axis.plot([start[0], end[0]], [start[1], end[1]], color="black", linewidth=2)


def colored(inside: Regions) -> list[int]:
    """A number for each piece; neighbors have different ones while there are enough."""
    near = neighbors(inside)
    chosen: list[int] = []
    for i in range(len(inside)):
        taken = {chosen[j] for j in near[i] if j < i}
        free = [c for c in range(len(PALE)) if c not in taken] or list(range(len(PALE)))
        chosen.append(min(free, key=chosen.count))  # the one used least so far
    return chosen


def neighbors(inside: Regions) -> list[set[int]]:
    """The pieces on the other side of the middle of each edge."""
    found_: list[set[int]] = [set() for _ in range(len(inside))]
    for i, outline in enumerate(inside.polygons):
        after = outline.roll(-1, 0)
        along = after - outline
        length = along.norm(dim=1, keepdim=True).clamp_min(1e-300)
        out = torch.stack([along[:, 1], -along[:, 0]], 1) / length
        for j in inside.locate((outline + after) / 2 + NEAR * out).tolist():
            if j >= 0 and j != i:
                found_[i].add(j)
                found_[j].add(i)
    return found_


def _counts(axis: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Counts of all starts as dots, one row a kind."""
    kinds = ("pieces in the box", "merged in the box", "unbounded in the box")
    for i, kind in enumerate(kinds):
        values = sorted(row[kind] for row in rows)
        lift = _apart(torch.tensor(values))
        axis.plot(
            values, i + lift.numpy(), MARKERS[i], color=COLORS[i], alpha=0.7, linestyle="",
            markeredgewidth=0,
        )  # fmt: skip
        axis.plot([np.median(values)] * 2, [i - 0.3, i + 0.3], color=COLORS[i], linewidth=2)
    axis.axvline(PUBLISHED, color=GRAY, linestyle=":")
    axis.text(PUBLISHED, -0.62, f" {PUBLISHED} in the authors' notebook", color=GRAY, va="bottom")
    axis.set_yticks(range(len(kinds)), kinds)
    axis.set(ylim=(2.6, -0.75), xlim=(0, None))
    axis.set_xlabel(f"count, {len(rows)} starts; bar: median")
    axis.grid(visible=False, axis="y")


def _apart(values: Tensor) -> Tensor:
    """Small shifts that keep equal values from hiding each other."""
    seen: dict[float, int] = {}
    lift = []
    for value in values.tolist():
        seen[value] = seen.get(value, 0) + 1
        count = seen[value] - 1
        lift.append(0.09 * ((count + 1) // 2) * (-1) ** count)
    return torch.tensor(lift)


def has_zero(inside: Regions) -> Bools:
    """Pieces with an entry of V that is exactly zero."""
    mask: Bools = (inside.maps[..., :2] == 0).any(-1).any(-1).numpy()
    return mask
