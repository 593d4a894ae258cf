"""A picture of the linear regions of a network, their classes and the boundaries between these."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nescio.core import NescioError, one_thread
from nescio.geometry.regions.arrangement import class_cells
from nescio.geometry.regions.picture import Picture
from nescio.geometry.regions.regions_value import Box, Regions
from nescio.geometry.tracing.instances import as_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito (2008), told apart with any kind of color vision
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#888888")
MARKERS = "osD^vPX*"
CHOICES = ("class", "confidence", "random", None)
CHUNK = 1 << 15  # pairs of a region and a class that are looked at together


def draw_regions(
    regions: Regions,
    ax: "Axes | None" = None,
    *,
    color_by: str | None = "class",
    boundary: bool = True,
    points: Any = None,
    labels: Any = None,
    names: Sequence[str] | None = None,
    box: Any = None,
) -> "Axes":
    """Draw the regions of a plane, and points on it.

    regions: linear regions, as `nescio.geometry.regions` returns them.
    ax: axes of Matplotlib to draw on; None: a new figure.
    color_by: `"class"` (the largest logit, in another shade for each region), `"confidence"` (the
      largest softmax probability, smooth inside each region), `"random"` (only to tell regions
      apart) or None (outlines).
    boundary: whether to draw where the largest logit changes hands.
    points: points `(N, 2)` on the plane, or inputs of the network, which are shown where they
      project to; None: no points.
    labels: class of each point, `(N,)`.
    names: names of the classes for the legend.
    box: `[(low, high), (low, high)]` to show; None: the box of the regions, or where most corners
      are.
    """
    if color_by not in CHOICES:
        raise NescioError(f"color_by must be one of {CHOICES}, got {color_by!r}")
    import matplotlib.pyplot as plt
    from matplotlib.collections import LineCollection, PolyCollection

    if ax is None:
        _, ax = plt.subplots(figsize=(5.4, 5.4), layout="constrained")
    view = _view(regions, box)
    outlines = _shown(regions, view)
    fine = float(np.clip(0.6 * (300 / max(len(outlines), 1)) ** 0.5, 0.05, 0.6))
    faces: Any = "none"
    if color_by == "confidence":
        _shade_confidence(ax, regions, view)
    elif color_by == "class":
        parts, colors = _class_parts(regions if regions.parts is None else regions.parts, view)
        ax.add_collection(PolyCollection(parts, facecolors=colors, edgecolors="none"))
    elif color_by == "random":
        rng = np.random.default_rng(0)
        shade = 0.25 + 0.75 * rng.random((len(outlines), 1))
        faces = 1 - shade * (1 - _palette(8)[rng.integers(8, size=len(outlines))])
    ax.add_collection(
        PolyCollection(outlines, facecolors=faces, edgecolors="#333333", linewidths=fine)
    )
    if boundary:
        lines = _visible(regions, view)
        ax.add_collection(LineCollection(lines, colors="white", linewidths=3.2, zorder=2.5))
        ax.add_collection(LineCollection(lines, colors="black", linewidths=1.5, zorder=2.6))
    if points is not None:
        _mark(ax, regions, points, labels, names)
    (left, right), (bottom, top) = view
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    return ax


def _view(regions: Regions, box: Any) -> Box:
    if box is not None:
        (left, right), (bottom, top) = np.asarray(box, dtype=np.float64).tolist()
        return (left, right), (bottom, top)
    if regions.box is not None:
        return regions.box
    if len(regions.vertices) == 0:
        return (-1.0, 1.0), (-1.0, 1.0)
    low, high = regions.vertices.quantile(torch.tensor([0.05, 0.95]).double(), 0)
    more = 0.25 * float((high - low).max()) or 1.0
    (left, bottom), (right, top) = (low - more).tolist(), (high + more).tolist()
    return (left, right), (bottom, top)


def _shown(regions: Regions, view: Box) -> list[Any]:
    """The outline of each region; one without end is drawn far enough."""
    (left, right), (bottom, top) = view
    far = 4.0 * (right - left + top - bottom)
    if len(regions.vertices) == 0:
        return [np.array([[left, bottom], [right, bottom], [right, top], [left, top]])]
    outlines = [polygon.numpy() for polygon in regions.polygons]
    if regions.box is None:
        center = np.array([left + right, bottom + top]) / 2
        ways = regions.directions.numpy()
        for i in regions.unbounded.nonzero()[:, 0].tolist():
            reach = far + 2 * np.abs(outlines[i] - center).max()
            tips = [outlines[i][-1] + reach * ways[i, 0], outlines[i][0] + reach * ways[i, 1]]
            if regions.spread[i] > 1e-6:  # a third one between: the cone can be wide
                tips.insert(1, outlines[i].mean(0) + reach * ways[i].sum(0))
            outlines[i] = np.concatenate([outlines[i], tips])
    return outlines


def _palette(count: int) -> Any:
    """Colors of classes; after the first eight, darker ones."""
    from matplotlib.colors import to_rgb

    base = np.array([to_rgb(color) for color in COLORS])
    return np.concatenate([base * 0.55**i for i in range(-(-count // len(base)))])[:count]


def _class_parts(regions: Regions, view: Box) -> tuple[list[Any], Any]:
    """The part of each region on which each class has the largest logit, with its color."""
    outlines = _shown(regions, view)
    counts = np.array([len(outline) for outline in outlines])
    maps = regions.maps.numpy()
    shade = 0.35 + 0.3 * np.random.default_rng(0).random((len(counts), 1))
    parts, colors = [], []
    blocks = class_cells(np.concatenate(outlines), counts, maps, CHUNK)
    for owner, cells, sizes, best in blocks:
        colors.append(1 - shade[owner] * (1 - _palette(maps.shape[1])[best]))
        parts += [cells[:, i, :k].T for i, k in enumerate(sizes.tolist())]
    return parts, np.concatenate(colors)


def _shade_confidence(ax: "Axes", regions: Regions, view: Box, across: int = 500) -> None:
    """The largest probability, evaluated from the exact linear regions at every pixel."""
    (left, right), (bottom, top) = view
    x = torch.linspace(left, right, across, dtype=torch.float64)
    y = torch.linspace(bottom, top, across, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).reshape(-1, 2)
    level = regions.evaluate(grid).softmax(1).amax(1).reshape(across, across)
    image = ax.imshow(
        level.numpy(), extent=(left, right, bottom, top), origin="lower", cmap="cividis", vmax=1.0,
        vmin=1 / regions.maps.shape[1], aspect="auto",
    )  # fmt: skip
    figure = ax.get_figure()
    if figure is not None:
        figure.colorbar(image, ax=ax, label="confidence", shrink=0.8)


def _visible(regions: Regions, view: Box) -> Any:
    """Segments of the boundary, those without end drawn out of the view."""
    found = regions.boundaries
    lines = found.segments.clone()
    (left, right), (bottom, top) = view
    center = torch.tensor([left + right, bottom + top], dtype=torch.float64) / 2
    start, way = lines[found.endless, 0], lines[found.endless, 1] - lines[found.endless, 0]
    reach = 2 * (right - left + top - bottom) + (start - center).norm(dim=1, keepdim=True)
    lines[found.endless, 1] = start + reach * way
    return lines.numpy()


def _mark(ax: "Axes", regions: Regions, points: Any, labels: Any, names: Any) -> None:
    at = as_points(points, "points")
    at = at if at.shape[1:] == (2,) else regions.coordinates(at)
    classes = None if labels is None else torch.as_tensor(labels).flatten().tolist()
    if classes is not None and len(classes) != len(at):
        raise NescioError(f"{len(at)} points need as many labels, got {len(classes)}")
    for kind in sorted(set(classes)) if classes is not None else [None]:
        here = at if classes is None else at[[c == kind for c in classes]]
        index = 0 if kind is None else int(kind)
        name = None if kind is None else (names[index] if names is not None else f"class {kind}")
        ax.scatter(
            here[:, 0].numpy(),
            here[:, 1].numpy(), s=26, marker=MARKERS[index % len(MARKERS)],
            color="white" if kind is None else _palette(index + 1)[index],
            edgecolors="black", linewidths=0.8, zorder=3, label=name,
        )  # fmt: skip
    if classes is not None:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)


ANGLES = 8  # directions that are printed
POINTS = 100  # of the data that are drawn


def text(picture: Picture) -> str:
    """A table with one column per member."""
    (left, right), (bottom, top) = picture.box
    where, of = "box", ""
    if picture.samples is not None:
        where, of = "slice", f" through samples {', '.join(map(str, picture.samples))}"
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
