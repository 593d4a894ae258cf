"""Figure 1 of Hein et al. (2019): the plane as a small ReLU network cuts it up, exactly.

The paper does not say which network it drew; here it is one with two hidden layers of ten units,
trained on the half-moons.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from nescio import nets
from nescio.data import half_moons
from nescio.geometry import Regions, draw_regions, far_field, regions, through_origin
from nescio.models.model import Model
from nescio.report.plots.look import WIDTH, add_title, with_look
from nescio.training.train import train
from nescio_papers.kit import Claim, Settings, exactly
from nescio_papers.relu_overconfidence.worlds import wide

WIDTHS = (10, 10)
NEAR, FAR = 4.0, 16.0  # half the side of the boxes that are drawn
MIDDLE = (0.5, 0.25)  # of the half-moons
DIRECTIONS = 3600  # a tenth of a degree apart
SURE = 0.999
FIGURE_1 = "figure-1.png"
Box = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Polytopes:
    """A trained network, its pieces near the data and far out, and what they amount to."""

    near: Regions
    far: Regions
    numbers: Mapping[str, Any]


@cache
def polytopes(settings: Settings) -> Polytopes:
    """Train the network and find its pieces."""
    data = half_moons(seed=settings.seed).train
    model = wide(
        train(
            lambda: nets.mlp(2, 2, widths=WIDTHS),
            data,
            epochs=20 if settings.quick else 100,
            learning_rate=1e-2,
            schedule="cosine",
            seed=settings.seed,
            progress=False,
        )
    )
    near, far, plane = (_found(model, box) for box in (_box(NEAR), _box(FAR), None))
    return Polytopes(near, far, {**_counts(near, plane), **_directions(model)})


def _found(model: Model, box: Box | None) -> Regions:
    result = regions(model.member(0), box)
    assert isinstance(result, Regions)
    return result


def _box(half: float) -> Box:
    x, y = MIDDLE
    return (x - half, x + half), (y - half, y + half)


def _counts(near: Regions, plane: Regions) -> dict[str, int]:
    return {
        "pieces in the box": len(near),
        "pieces of the plane": len(plane),
        "unbounded": int(plane.unbounded.sum()),
    }


def _directions(model: Model) -> dict[str, float]:
    """In how many directions the confidence goes to 1, and what it is at the border of the box."""
    angle = torch.arange(DIRECTIONS, dtype=torch.float64) * (2 * math.pi / DIRECTIONS)
    way = torch.stack([angle.cos(), angle.sin()], 1)
    limit = far_field(model, *through_origin(way)).confidence.reshape(-1)
    edge = model.outputs(FAR * way).softmax(-1).mean(0).amax(-1)
    return {
        "directions": DIRECTIONS,
        "limit 1": float((limit == 1).double().mean()),
        "lowest limit": float(limit.min()),
        "sure at the border": float((edge >= SURE).double().mean()),
    }


@with_look
def figure_of_polytopes(found: Polytopes) -> Figure:
    """The pieces near the data, and the same from far away, colored by confidence."""
    figure = Figure(figsize=(WIDTH, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_regions(found.near, left, color_by="random", boundary=False, box=_box(NEAR))
    outlines = [
        polygon.numpy()
        for polygon, open_ in zip(found.near.polygons, found.near.unbounded.tolist(), strict=True)
        if open_
    ]
    hatched = PolyCollection(
        outlines, facecolors="none", edgecolors="#777777", hatch="//", linewidths=0.0
    )
    left.add_collection(hatched)
    draw_regions(found.far, right, color_by="confidence", boundary=False, box=_box(FAR))
    numbers = found.numbers
    left.set_title(f"near the data: {numbers['pieces in the box']} polytopes", loc="left")
    right.set_title("from far away: the confidence", loc="left")
    for axis in (left, right):
        axis.set(xlabel="$x_1$", ylabel="$x_2$")
        axis.grid(visible=False)
    add_title(
        figure,
        f"{numbers['unbounded']} of the {numbers['pieces of the plane']} polytopes of a "
        "two-hidden-layer ReLU network have no end; there it becomes sure",
    )
    return figure


def polytope_caption(numbers: Mapping[str, Any]) -> str:
    """What figure 1 shows."""
    wide_, deep = WIDTHS
    return (
        f"The plane as a ReLU network with two hidden layers of {wide_} and {deep} units cuts it "
        f"up, exactly: {numbers['pieces of the plane']} polytopes, {numbers['unbounded']} of them "
        "without end (hatched on the left). Right: the same network from four times as far away, "
        f"with its confidence; it is at least {SURE:g} in "
        f"{100 * numbers['sure at the border']:.1f} % of {numbers['directions']} directions at "
        f"distance {FAR:g}, and goes to 1 in {100 * numbers['limit 1']:.1f} %. The paper's network "
        "is not known; this one was trained on the half-moons."
    )


def polytope_claim(numbers: Mapping[str, Any]) -> Claim:
    """The caption of figure 1."""
    return Claim(
        source="Hein et al., figure 1",
        sentence="A decomposition of R^2 into a finite set of polytopes for a two-hidden layer "
        "ReLU network. The outer polytopes extend to infinity. This is where ReLU networks realize "
        "arbitrarily high confidence predictions.",
        facts=[
            exactly(
                "polytopes without end", numbers["unbounded"], why="all are counted", above=0.5
            ),
            exactly(
                f"share of {numbers['directions']} directions in which the confidence goes to 1",
                numbers["limit 1"],
                why="limits are exact",
                above=0.99,
                form=".1%",
            ),
        ],
        note=f"{numbers['pieces of the plane']} polytopes in all; lowest limit of the confidence "
        f"{numbers['lowest limit']:.3f}",
    )
