"""The linear regions of a network on a box, counted, drawn and written."""

import io
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio.core import (
    InputShapeError,
    NescioError,
    make_folder,
    progress,
    write_atomically,
    write_json,
)
from nescio.geometry.regions.arrangement import class_cells
from nescio.geometry.regions.convex import areas
from nescio.geometry.regions.merging import merged
from nescio.geometry.regions.regions import around, stream_regions
from nescio.geometry.regions.regions_value import Box, Regions, joined
from nescio.geometry.tracing.instances import instances
from nescio.models import Predictor, networks
from nescio.version import VERSION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOX: Box = ((-5.0, 5.0), (-5.0, 5.0))
MEMBERS = 4  # of a model or predictor that are looked at
MARGIN = 0.5  # of the size of the data, on each side of them
CHUNK = 1 << 16  # pairs of a piece and a class whose area is computed together
Source = nn.Module | Predictor


@dataclass(frozen=True, eq=False)
class Picture:
    """The pieces of the first members of a source over one box, and the data on it."""

    regions: tuple[Regions, ...]  # one per member
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
        from nescio.geometry.regions.drawing import text

        return text(self)

    def draw(self, color: str = "class") -> "Figure":
        """A panel for each member. color: class, confidence or random."""
        from nescio.geometry.regions.drawing import figure

        return figure(self, color)

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


def picture(
    source: Source,
    box: Any = None,
    *,
    plane: Any = None,
    merge: bool = False,
    points: Tensor | None = None,
    labels: Tensor | None = None,
) -> Picture:
    """The linear regions of the first 4 members on a box of two inputs, or of a plane.

    box: the range of both axes, `(low, high, low, high)`; -5 to 5 by default, or around the plane.
    plane: three inputs; the picture is the plane through them. merge: join neighbors on which the
    network is one map. points, labels: samples to mark.
    """
    where = _checked(around(plane) if box is None and plane is not None else box)
    members = len(instances(source))  # refuses what shows no networks, or has no classes
    try:
        found = _regions(source, where, plane)
    except InputShapeError as error:
        if plane is not None:
            raise
        raise InputShapeError(
            "the network does not take 2 inputs; show the plane through three of its samples: "
            "plane=x[:3], on the command line --data test.npz --samples 0 1 2"
        ) from error
    found = tuple(merged(one) for one in found) if merge else found
    return Picture(regions=found, members=members, points=points, labels=labels)


def around_data(x: Tensor) -> Box:
    """A box around samples `(N, 2)`, wider by half of their range on each side."""
    low, high = x.double().amin(0), x.double().amax(0)
    more = torch.where(high > low, MARGIN * (high - low), 1.0)
    (left, bottom), (right, top) = (low - more).tolist(), (high + more).tolist()
    return (left, right), (bottom, top)


def class_shares(regions: Regions) -> Tensor:
    """The share of the area `(C,)` on which each class has the largest logit; exact."""
    convex = regions.parts or regions
    offsets, maps = convex.offsets.numpy(), convex.maps.numpy()
    found = np.zeros(maps.shape[1])
    for _, cells, _, best in class_cells(convex.vertices.numpy(), np.diff(offsets), maps, CHUNK):
        found += np.bincount(best, areas(cells), minlength=len(found))
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
        for block in stream_regions(net, box, plane=plane):
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
