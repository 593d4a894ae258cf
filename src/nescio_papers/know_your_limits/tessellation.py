"""Part `pieces`: the exact linear regions of networks on nine blobs, over twenty starts."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from torch import nn

from nescio.geometry.regions.regions_value import Regions
from nescio_papers.kit import Comparison, Findings, Settings, median, numbers_of, percent
from nescio_papers.know_your_limits.blobs import trained_blobs
from nescio_papers.know_your_limits.piece_figures import (
    PUBLISHED,
    figure_of_pieces,
    found,
    has_zero,
)
from nescio_papers.know_your_limits.surfaces import Bools

FIGURE = "pieces.png"
PUBLISHED_ZERO = 6.3  # per cent of the points of the plot with a zero entry in V


def pieces(settings: Settings) -> Findings:
    """Counts, unbounded pieces, bounds, and where V has a zero entry, as areas."""
    model, data = trained_blobs(settings.seed, 5 if settings.quick else 20)
    rows = counted(settings)
    numbers = _summary(rows)
    grid = numbers_of(settings, "blobs").get("zero_of_starts")
    if grid is not None and len(grid) == len(rows):
        gap = np.abs(np.array(grid) - [row["zero area"] for row in rows])
        numbers["grid against area"] = float(gap.max())
    most = max(range(len(rows)), key=lambda i: rows[i]["zero area"])
    shown = [(0, found(model.member(0))), (most, found(model.member(most)))]
    first, box = rows[0], numbers["pieces in the box"]
    return Findings(
        numbers=numbers,
        figures={FIGURE: figure_of_pieces(shown, rows, data)},
        captions={
            FIGURE: f"The {first['pieces in the box']} linear regions of the network of figure 1 "
            f"in [-5, 5]^2; hatched: {first['unbounded in the box']} without end. Black: "
            "its decision boundary. Beside it the start with the largest area on which V has a "
            f"zero entry ({percent(rows[most]['zero area'])}, outlined). Below: counts of "
            f"{len(rows)} starts, median {box['median']:g}, {box['low']} to {box['high']}; the "
            f"authors' network has {PUBLISHED}."
        },
        comparisons=_comparisons(rows, numbers),
        text=_text(rows, numbers),
    )


@cache
def counted(settings: Settings) -> list[dict[str, Any]]:
    """Counts and areas of each start."""
    model, _ = trained_blobs(settings.seed, 5 if settings.quick else 20)
    return [of_network(model.member(i)) for i in range(model.members)]


def of_network(net: nn.Module) -> dict[str, Any]:
    """Counts of pieces, merged and unbounded, and the area where V has a zero entry."""
    inside, plane = found(net), found(net, None)
    share = (inside.areas / inside.areas.sum()).numpy()
    zero, free = has_zero(inside), inside.unbounded.numpy()
    segments = inside.boundaries.segments
    return {
        "pieces in the box": len(inside),
        "merged in the box": len(found(net, merge=True)),
        "unbounded in the box": int(free.sum()),
        "pieces of the plane": len(plane),
        "unbounded of the plane": int(plane.unbounded.sum()),
        "bounds": inside.bounds,
        "length of the boundary": float((segments[:, 1] - segments[:, 0]).norm(dim=-1).sum()),
        "zero pieces": int(zero.sum()),
        "zero unbounded pieces": int((zero & free).sum()),
        "zero area": float(share[zero].sum()),
        "zero area, unbounded": float(share[zero & free].sum()),
        "zero area, dead": float(share[_dead(inside)].sum()),
        "zero quarter": _quadrant(inside, zero),
    }


def _dead(inside: Regions) -> Bools:
    mask: Bools = (inside.maps[..., :2] == 0).all(-1).all(-1).numpy()
    return mask


def _quadrant(inside: Regions, chosen: Bools) -> str:
    """In which quarter of the box the middle of some pieces lies, weighted by area."""
    if not chosen.any():
        return ""
    areas = inside.areas.numpy()[chosen]
    middles = np.stack([inside.polygons[int(i)].mean(0).numpy() for i in np.flatnonzero(chosen)])
    x, y = areas @ middles
    return f"{'top' if y > 0 else 'bottom'} {'right' if x > 0 else 'left'}"


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Median and range over starts, and all rows."""
    keys = [
        "pieces in the box", "merged in the box", "unbounded in the box", "pieces of the plane",
        "unbounded of the plane", "zero pieces",
    ]  # fmt: skip
    spreads = {}
    for key in keys:
        values = [row[key] for row in rows]
        spreads[key] = {"median": median(values), "low": min(values), "high": max(values)}
    areas = [row["zero area"] for row in rows]
    some = [row for row in rows if row["zero pieces"]]
    return {
        **spreads,
        "starts": list(rows),
        "bounds": rows[0]["bounds"],
        "zero area": float(np.mean(areas)),
        "starts with zero entries": len(some),
        "zero area in unbounded pieces": float(
            sum(row["zero area, unbounded"] for row in some) / max(sum(areas), 1e-300)
        ),
        "zero area in dead pieces": float(
            sum(row["zero area, dead"] for row in some) / max(sum(areas), 1e-300)
        ),
    }


def _comparisons(rows: Sequence[Mapping[str, Any]], numbers: Mapping[str, Any]) -> list[Comparison]:
    box = numbers["pieces in the box"]
    return [
        Comparison(
            "figure 1b: pieces in [-5, 5]^2",
            PUBLISHED,
            rows[0]["pieces in the box"],
            note=f"the authors' weights are others; {len(rows)} starts: median {box['median']:g}, "
            f"{box['low']} to {box['high']}",
        ),
        Comparison(
            "figure 1: area with a zero entry in V (%)",
            PUBLISHED_ZERO,
            100 * numbers["zero area"],
            note=f"mean of {len(rows)} starts, as an exact area; "
            f"{100 * rows[0]['zero area']:.1f} for the one in the figure",
        ),
    ]


def _text(rows: Sequence[Mapping[str, Any]], numbers: Mapping[str, Any]) -> str:
    first = rows[0]
    bounds = ", ".join(f"{name}: {count}" for name, count in numbers["bounds"].items())
    lines = [
        "| count | network of the figure | median of all starts | range |",
        "|---|---|---|---|",
    ]
    for key, row in numbers.items():
        if isinstance(row, dict) and "median" in row:
            lines.append(
                f"| {key} | {first[key]} | {row['median']:g} | {row['low']} to {row['high']} |"
            )
    quarters = [row["zero quarter"] for row in rows if row["zero quarter"]]
    where = ", ".join(f"{name} {quarters.count(name)}" for name in sorted(set(quarters)))
    about = (
        "Exact pieces, up to rounding in float64. Merged: neighbors with one affine map count as "
        "one. Unbounded: the paper's PUPs; those in the box are cut off by it. Upper bounds for a "
        f"2-5-5-9 network: {bounds}. The decision boundary of the network of the figure is "
        f"{first['length of the boundary']:.1f} long in the box. V has a zero entry somewhere for "
        f"{numbers['starts with zero entries']} of {len(rows)} starts, on "
        f"{percent(numbers['zero area'])} of the box on average; of that area "
        f"{percent(numbers['zero area in unbounded pieces'])} lies in unbounded pieces and "
        f"{percent(numbers['zero area in dead pieces'])} in dead ones, where all of V is 0. "
        f"The quarters of the box they lie in: {where or 'none'}."
    )
    if "grid against area" in numbers:
        about += (
            " The share of grid points and the share of the area differ by at most "
            f"{100 * numbers['grid against area']:.2g} points of a per cent."
        )
    return about + "\n\n" + "\n".join(lines)
