"""The linear pieces of a network counted, drawn and written: what `nescio pieces` does."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio import data, geometry, nets
from nescio.core import NescioError, as_batch, make_folder, one_thread, write_atomically, write_json
from nescio.core.progress import progress
from nescio.data.readers.arrays import arrays_of
from nescio.geometry import Regions
from nescio.geometry.regions.arrangement import largest_cells
from nescio.geometry.regions.convex import areas
from nescio.geometry.regions.drawing import COLORS
from nescio.geometry.regions.merging import merged
from nescio.geometry.regions.regions_value import Box, joined
from nescio.geometry.tracing.instances import instances
from nescio.models import Predictor, networks
from nescio.training.train import train
from nescio.version import VERSION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BOX: Box = ((-5.0, 5.0), (-5.0, 5.0))
MEMBERS = 4  # of a model or predictor that are looked at
POINTS = 100  # of the data that are drawn
MARGIN = 0.5  # of the size of the data, on each side of them
ANGLES = 8  # directions that are printed
CHUNK = 1 << 16  # pairs of a piece and a class whose area is computed together
WIDTHS, EPOCHS = (25, 25), 60  # of the network on half-moons
Source = nn.Module | Predictor


@dataclass(frozen=True, eq=False)
class Picture:
    """The pieces of the first members of a source over one box, and the data on it."""

    regions: tuple[Regions, ...]  # one a member
    members: int  # of the source in all
    points: Tensor | None = None  # (N, *features)
    labels: Tensor | None = None  # (N,)
    samples: tuple[int, ...] | None = None  # whose plane it is

    @property
    def classes(self) -> int:
        return self.regions[0].maps.shape[1]

    @property
    def box(self) -> Box:
        box = self.regions[0].box
        assert box is not None
        return box

    @cached_property
    def shares(self) -> Tensor:
        """Of the box, by member and class `(M, C)`."""
        return torch.stack([class_shares(one) for one in self.regions])

    def __str__(self) -> str:
        return _text(self)

    def draw(self, color: str = "class") -> "Figure":
        """A panel for each member. color: class, confidence or random."""
        return _figure(self, color)

    def save(self, folder: str | Path, *, color: str = "class", **notes: Any) -> Path:
        """Write pieces.npz, pieces.json and pieces.png; the path of the picture."""
        out = make_folder(Path(folder))
        buffer = io.BytesIO()
        np.savez(buffer, **_arrays(self.regions))
        write_atomically(out / "pieces.npz", buffer.getvalue())
        write_json(out / "pieces.json", {**notes, **_numbers(self)})
        image = io.BytesIO()
        self.draw(color).savefig(image, format="png", dpi=150)
        write_atomically(out / "pieces.png", image.getvalue())
        return out / "pieces.png"


def picture_moons(
    *, box: Any = None, merge: bool = False, seed: int = 0, progress: bool | None = None
) -> Picture:
    """The pieces of a small network that is trained on half-moons here."""
    x, y = data.half_moons(seed=seed).train
    options: dict[str, Any] = {"epochs": EPOCHS, "batch_size": 50, "learning_rate": 5e-3}
    model = train(
        lambda: nets.mlp(2, 2, widths=WIDTHS), (x, y), seed=seed, progress=progress, **options
    )
    return picture(model.member(0), box or round_data(x), merge=merge, points=x, labels=y)


def picture_files(
    source: Source,
    data_name: str | None = None,
    *,
    samples: Sequence[int] | None = None,
    box: Any = None,
    merge: bool = False,
    note: Callable[[str], None] = print,
) -> Picture:
    """The pieces of a network or predictor on a box, round data, or through three cases."""
    if data_name is None:
        if samples is not None:
            raise NescioError("--samples are numbers of samples in --data: add --data test.npz")
        found = picture(source, box, merge=merge)
    else:
        x, y = _samples(data_name)
        if samples is not None:
            chosen = _chosen(samples, len(x))
            three, kinds = x[chosen], None if y is None else y[chosen]
            found = picture(source, box, merge=merge, plane=three, points=three, labels=kinds)
            found = replace(found, samples=tuple(chosen))
        else:
            around = round_data(_two_features(x, data_name))
            found = picture(source, box or around, merge=merge, points=x, labels=y)
    if found.members > len(found.regions):
        note(f"{found.members} members: only the first {len(found.regions)} are looked at")
    if found.classes == 1:
        note("the network has one output: no classes, no boundary")
    return found


def picture(
    source: Source,
    box: Any = None,
    *,
    plane: Any = None,
    merge: bool = False,
    points: Tensor | None = None,
    labels: Tensor | None = None,
) -> Picture:
    """The pieces of the first members on a box of two inputs, or of a plane through three."""
    where = _checked(geometry.around(plane) if box is None and plane is not None else box)
    members = len(instances(source))  # refuses what shows no networks, or has no classes
    try:
        found = _regions(source, where, plane)
    except NescioError as error:
        if plane is None and "without plane=" in str(error):
            raise NescioError(
                "the network does not take 2 inputs; show the plane through three of its samples: "
                "--data test.npz --samples 0 1 2"
            ) from error
        raise
    found = tuple(merged(one) for one in found) if merge else found
    return Picture(found, members, points, labels)


def round_data(x: Tensor) -> Box:
    """A box round samples `(N, 2)`, wider by half of their range on each side."""
    low, high = x.double().amin(0), x.double().amax(0)
    more = torch.where(high > low, MARGIN * (high - low), 1.0)
    (left, bottom), (right, top) = (low - more).tolist(), (high + more).tolist()
    return (left, right), (bottom, top)


def class_shares(regions: Regions) -> Tensor:
    """The share of the area `(C,)` on which each class has the largest logit; exact."""
    convex = regions.parts or regions
    offsets, maps = convex.offsets.numpy(), convex.maps.numpy()
    counts, classes = np.diff(offsets), maps.shape[1]
    place = np.minimum(np.arange(counts.max()), counts[:, None] - 1)
    corners = convex.vertices.numpy()[offsets[:-1, None] + place].transpose(2, 0, 1)
    found, step = np.zeros(classes), max(1, CHUNK // classes)
    for low in range(0, len(counts), step):
        some = slice(low, low + step)
        windows = maps[some].transpose(2, 0, 1)
        owner, cells, _ = largest_cells(corners[:, some], counts[some], windows, None)
        middle = np.concatenate([cells.mean(2), np.ones((1, len(owner)))])
        best = np.einsum("kn,knc->nc", middle, windows[:, owner]).argmax(1)
        found += np.bincount(best, areas(cells), minlength=classes)
    return torch.from_numpy(found / found.sum())


def _regions(source: Source, box: Box, plane: Any) -> tuple[Regions, ...]:
    if isinstance(source, nn.Module):
        return (_streamed(source, box, plane, "linear regions"),)
    return tuple(
        _streamed(member, box, plane, f"linear regions of member {index}")
        for index, member in enumerate(networks(source)[:MEMBERS])
    )


def _streamed(net: Any, box: Box, plane: Any, label: str) -> Regions:
    """The pieces of one network; the bar shows the share of the box that is done."""
    (left, right), (bottom, top) = box
    blocks, pieces, done, shown = [], 0, 0.0, 0
    with progress(100, label) as advance:
        for block in geometry.stream_regions(net, box, plane=plane):
            blocks.append(block)
            pieces += len(block)
            done += float(block.areas.sum()) / ((right - left) * (top - bottom))
            advance(round(100 * done) - shown, partial("{:,} pieces".format, pieces))
            shown = round(100 * done)
    return joined(blocks)


def _checked(box: Any) -> Box:
    ends = np.asarray(BOX if box is None else box, dtype=np.float64).reshape(-1)
    if len(ends) != 4 or not np.isfinite(ends).all() or (ends[::2] >= ends[1::2]).any():
        got = " ".join(f"{end:g}" for end in ends)
        raise NescioError(
            "a box is LOW HIGH LOW HIGH, the range of each of the two axes with LOW below HIGH; "
            f"got {got}: for example --box -5 5 -5 5"
        )
    left, right, bottom, top = ends.tolist()
    return (left, right), (bottom, top)


def _samples(name: str) -> tuple[Tensor, Tensor | None]:
    """Inputs and, where they are classes, labels: of an .npz, or the test part of a data set."""
    if name.endswith(".npz") and "x" in arrays_of(name):
        x, y = data.read_npz(name)
    else:
        dataset = data.load(name)
        x, y = dataset.test or dataset.train
    labels = None if y is None or y.is_floating_point() else y
    return as_batch(x, torch.float64), labels


def _chosen(samples: Sequence[int], count: int) -> list[int]:
    chosen = [int(sample) for sample in samples]
    if len(chosen) != 3 or not all(0 <= sample < count for sample in chosen):
        raise NescioError(
            f"--samples takes three numbers from 0 to {count - 1}, the samples of the data; got "
            f"{' '.join(map(str, chosen))}"
        )
    return chosen


def _two_features(x: Tensor, name: str) -> Tensor:
    if x.shape[1:] != (2,):
        raise NescioError(
            f"the samples of {name} have shape {tuple(x.shape[1:])}, not 2 features; show the "
            "plane through three of them: --samples 0 1 2"
        )
    return x


def _arrays(regions: tuple[Regions, ...]) -> dict[str, Any]:
    """Everything about each piece, flat, members one after the other."""
    flat = {
        name: torch.cat([getattr(one, name) for one in regions]).numpy()
        for name in ("vertices", "maps", "areas", "unbounded", "directions", "spread")
    }
    counts = torch.cat([one.offsets.diff() for one in regions])
    member = np.repeat(np.arange(len(regions)), [len(one) for one in regions])
    origin, basis = regions[0].plane
    offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0)).numpy()
    return {
        **flat, "offsets": offsets, "member": member, "origin": origin.numpy(),
        "basis": basis.numpy(),
    }  # fmt: skip


def _numbers(picture: Picture) -> dict[str, Any]:
    return {
        "nescio": VERSION,
        "box": picture.box,
        "samples": picture.samples,
        "members": picture.members,
        "pictured": [
            _member_numbers(one, shares)
            for one, shares in zip(picture.regions, picture.shares.tolist(), strict=True)
        ],
    }


def _member_numbers(regions: Regions, shares: list[float]) -> dict[str, Any]:
    ends = regions.unbounded.nonzero()[:, 0]
    found: dict[str, Any] = {
        "pieces": len(regions.parts or regions),
        "merged": None if regions.parts is None else len(regions),
        "bounds": regions.bounds,
        "areas": regions.areas.tolist(),
        "unbounded": {
            "pieces": ends.tolist(),
            "directions": regions.directions[ends].tolist(),
            "spread": regions.spread[ends].tolist(),
        },
        "shares": None,
        "boundary": None,
    }
    if regions.maps.shape[1] > 1:
        lines = regions.boundaries
        found["shares"] = shares
        found["boundary"] = {
            name: getattr(lines, name).tolist()
            for name in ("segments", "classes", "directions", "direction_classes", "tied")
        }
    return found


def _text(picture: Picture) -> str:
    """A table with a column a member."""
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
        lines.append("(seen from the pieces in this box; the whole plane may have more)")
    return ["", *lines] if lines else []


def _figure(picture: Picture, color: str) -> "Figure":
    from matplotlib.figure import Figure

    from nescio.report.plots.look import across, with_look

    (left, right), (bottom, top) = picture.box
    count = len(picture.regions)
    columns = across(count)
    tall = float(np.clip(5.2 * (top - bottom) / (right - left), 1.2, 7.8)) + 0.9

    @with_look
    def drawn() -> Figure:
        size = ((5.2 + (color == "confidence")) * columns + 0.6, tall * -(-count // columns))
        figure = Figure(figsize=size, layout="constrained")
        panels = list(figure.subplots(-(-count // columns), columns, squeeze=False).flat)
        for spare in panels[count:]:
            spare.remove()
        for i, ax in enumerate(panels[:count]):
            _panel(ax, picture, i, color)
        _legend(figure, panels[0], picture, color)
        return figure

    found: Figure = drawn()
    return found


@one_thread()
def _panel(ax: "Axes", picture: Picture, member: int, color: str) -> None:
    regions, several = picture.regions[member], picture.classes > 1
    points, labels = picture.points, picture.labels
    if points is not None:  # on the plane, whose coordinates need not be the inputs
        points = regions.coordinates(points[:POINTS])
        labels = None if labels is None else labels[:POINTS]
    names = None if labels is None else [f"case of class {k}" for k in range(int(labels.max()) + 1)]
    geometry.draw_regions(
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
