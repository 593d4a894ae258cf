"""A picture of linear regions as text and as a figure."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nescio.core import one_thread
from nescio.geometry.regions.drawing import COLORS, draw_regions
from nescio.geometry.regions.picture import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ANGLES = 8  # directions that are printed
POINTS = 100  # of the data that are drawn


def text(picture: Picture) -> str:
    """A table with one column per member."""
    (left, right), (bottom, top) = picture.box
    of = (
        ""
        if picture.samples is None
        else f" through samples {', '.join(map(str, picture.samples))}"
    )
    where = "box" if picture.samples is None else "slice"
    lines = [f"{where} [{left:.4g}, {right:.4g}] x [{bottom:.4g}, {top:.4g}]{of}", ""]
    rows = _rows(picture)
    wide = max(len(name) for name, _ in rows)
    across = [max(map(len, column)) for column in zip(*(cells for _, cells in rows), strict=True)]
    for name, cells in rows:
        padded = (cell.rjust(width) for cell, width in zip(cells, across, strict=True))
        lines.append("  ".join([name.ljust(wide), *padded]).rstrip())
    return "\n".join([*lines, *_angles(picture), ""])


def _rows(picture: Picture) -> list[tuple[str, list[str]]]:
    regions = picture.regions
    rows: list[tuple[str, list[str]]] = []
    if len(regions) > 1:
        rows.append(("", [f"member {i}" for i in range(len(regions))]))
    rows.append(("pieces", [f"{len(one.parts or one):,}" for one in regions]))
    rows += [
        (f"  at most ({paper})", [_large(one.bounds.get(paper)) for one in regions])
        for paper in dict.fromkeys(name for one in regions for name in one.bounds)
    ]
    if regions[0].parts is not None:
        rows.append(("merged: different maps", [f"{len(one):,}" for one in regions]))
    rows.append(("pieces without end", [f"{int(one.unbounded.sum()):,}" for one in regions]))
    if picture.classes == 1:
        return rows
    rows.append(("boundary segments", [f"{len(one.boundaries):,}" for one in regions]))
    rows.append(
        ("  directions to infinity, in these pieces",
         [f"{len(one.boundaries.directions):,}" for one in regions])
    )  # fmt: skip
    for kind in _there(picture):
        shares = picture.shares[:, kind].tolist()
        cells = [f"{100 * share:.1f} %" if share > 0 else "-" for share in shares]
        rows.append((f"area of class {kind}", cells))
    return rows


def _there(picture: Picture) -> list[int]:
    """The classes that have area."""
    found: list[int] = (picture.shares > 0).any(0).nonzero()[:, 0].tolist()
    return found


def _large(number: int | None) -> str:
    """A whole number; one too long to read by its power of ten."""
    if number is None:
        return "-"
    digits = str(number)
    return f"{number:,}" if len(digits) <= 12 else f"{digits[0]}.{digits[1]}e{len(digits) - 1}"


def _angles(picture: Picture) -> list[str]:
    """Where the boundary runs to, in degrees from the first axis."""
    lines = []
    for i, one in enumerate(picture.regions if picture.classes > 1 else ()):
        u, v = one.boundaries.directions.T
        angles = torch.rad2deg(torch.atan2(v, u)).remainder(360).unique().tolist()
        if angles:
            shown = ", ".join(f"{angle:.1f}" for angle in angles[:ANGLES])
            more = f", and {len(angles) - ANGLES} more" if len(angles) > ANGLES else ""
            whose = f"of member {i} " if len(picture.regions) > 1 else ""
            lines.append(f"the boundary {whose}runs to infinity at {shown}{more} degrees")
    if lines:
        lines.append("(of the pieces in this box; the whole plane may have more)")
    return ["", *lines] if lines else []


def figure(picture: Picture, color: str) -> "Figure":
    from matplotlib.figure import Figure

    from nescio.report.plots.look import across, with_look

    (left, right), (bottom, top) = picture.box
    count = len(picture.regions)
    columns = across(count)
    tall = float(np.clip(5.2 * (top - bottom) / (right - left), 1.2, 7.8)) + 0.9

    @with_look
    def drawn() -> Figure:
        size = ((5.2 + (color == "confidence")) * columns + 0.6, tall * -(-count // columns))
        whole = Figure(figsize=size, layout="constrained")
        panels = list(whole.subplots(-(-count // columns), columns, squeeze=False).flat)
        for spare in panels[count:]:
            spare.remove()
        for i, ax in enumerate(panels[:count]):
            _panel(ax, picture, i, color)
        _legend(whole, panels[0], picture, color)
        return whole

    found: Figure = drawn()
    return found


@one_thread()
def _panel(ax: "Axes", picture: Picture, member: int, color: str) -> None:
    regions, several = picture.regions[member], picture.classes > 1
    points, labels = picture.points, picture.labels
    if points is not None:  # on the plane, whose coordinates need not be the inputs
        points = regions.coordinates(points[:POINTS])
        labels = None if labels is None else labels[:POINTS]
    classes = range(0 if labels is None else int(labels.max()) + 1)
    names = None if labels is None else [f"sample of class {label}" for label in classes]
    draw_regions(
        regions, ax, color_by=color if several else "random", boundary=several, points=points,
        labels=labels, names=names,
    )  # fmt: skip
    ax.grid(False)
    if ax.get_legend() is not None:
        ax.get_legend().remove()  # type: ignore[union-attr]
    whose = f"member {member}: " if len(picture.regions) > 1 else ""
    joint = "" if regions.parts is None else f", {len(regions):,} after merging"
    ax.set_title(f"{whose}{len(regions.parts or regions):,} pieces{joint}", loc="left")


def _legend(figure: "Figure", ax: "Axes", picture: Picture, color: str) -> None:
    """The classes that have area, by their color, and the marks of the data."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    handles: list[Any] = []
    if color == "class" and picture.classes > 1:
        for kind in _there(picture):
            tone = np.array(to_rgb(COLORS[kind % len(COLORS)])) * 0.55 ** (kind // len(COLORS))
            handles.append(Patch(color=tuple(1 - 0.5 * (1 - tone)), label=f"class {kind}"))
    handles += ax.get_legend_handles_labels()[0]
    if handles:
        figure.legend(handles=handles, loc="outside lower left", ncols=4, frameon=False, fontsize=9)
