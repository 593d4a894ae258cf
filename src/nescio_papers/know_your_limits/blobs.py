"""Part `blobs`: figure 1, a small ReLU network on nine blobs: entropy, pieces, gradient."""

from functools import cache
from typing import Any

import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from nescio import nets
from nescio.data import blobs as draw_blobs
from nescio.geometry.affine_maps import monotone
from nescio.geometry.regions.regions_value import Regions
from nescio.metrics import accuracy
from nescio.models.model import Model
from nescio.report.plots.look import GRAY, add_title, with_look
from nescio.training.train import train
from nescio_papers.kit import Comparison, Findings, Settings, median, percent, share
from nescio_papers.know_your_limits.judging import over_trainings
from nescio_papers.know_your_limits.models import Network, Pair, choose
from nescio_papers.know_your_limits.piece_figures import draw_pieces, found
from nescio_papers.know_your_limits.surfaces import (
    ENTROPY,
    Field,
    Grid,
    boundary,
    distance,
    draw_data,
    draw_slopes,
    draw_values,
    fields,
    gradient_label,
    titled,
    top,
)

CLASSES = 9
RING = 4.0  # the outer ring begins here, in the larger coordinate
FIGURE = "figure-1.png"
STEPS = {False: (0.1, 0.05), True: (0.2, 0.2)}  # by quick: of the numbers, as in the paper; drawn


@cache
def trained_blobs(seed: int, count: int) -> tuple[Model, Pair]:
    """Networks from `count` starts on the same blobs; the first is the one that is drawn."""
    data = draw_blobs(seed=1234 + seed)
    model = train(
        lambda: nets.mlp(2, CLASSES, widths=(5, 5)),
        data.train,
        epochs=100,
        batch_size=8,
        learning_rate=1e-3,
        members=count,
        seed=seed,
        progress=False,
    )
    return model.to(torch.float64), data.train


def _network(model: Model, which: int) -> Network:
    return Network(choose(model, [which]), intercept=(0.0,) * CLASSES)


def blobs(settings: Settings) -> Findings:
    """Figure 1: entropy on [-5, 5]^2, the linear regions, and the norm of its gradient."""
    model, data = trained_blobs(settings.seed, 5 if settings.quick else 20)
    network = _network(model, 0)
    grid, fine = (Grid((-5, 5, -5, 5), step) for step in STEPS[settings.quick])
    field, drawn = (
        fields(network, one.points, [ENTROPY], settings.base)[ENTROPY] for one in (grid, fine)
    )
    numbers = _numbers(network, data, grid, field, settings.base)
    starts = monotone(model, grid.points).monotone  # (M, N): no entry of V is exactly zero
    numbers["zero_of_starts"] = [share(~of_start) for of_start in starts]
    numbers["zero"] = numbers["zero_of_starts"][0]
    inside = found(model.member(0))
    numbers["pieces"], numbers["unbounded"] = len(inside), int(inside.unbounded.sum())
    numbers["starts"] = _over_starts(model, data, grid, settings.base)
    caption = (
        f"A 2-5-5-9 ReLU network on nine blobs. a: predictive entropy; "
        f"{percent(numbers['ring_below_tenth'])} of the outer ring (|x| > 4) is below a tenth of "
        f"the maximum. b: its {numbers['pieces']} linear regions, exactly; "
        f"{numbers['unbounded']} have no end (hatched); black: the decision boundary. c: the norm "
        "of the gradient of the entropy, on a logarithmic scale; the median is "
        f"{numbers['gradient_box']:.2g} in the box of the data and "
        f"{numbers['gradient_ring']:.2g} in the outer ring."
    )
    zero = 100 * float(np.mean(numbers["zero_of_starts"]))
    note = f"mean of {model.members} starts; {numbers['zero'] * 100:.1f} for the one in the figure"
    return Findings(
        numbers=numbers,
        figures={FIGURE: _figure(fine, drawn, inside, data, settings, numbers)},
        captions={FIGURE: caption},
        comparisons=[
            Comparison("figure 1: points with a zero entry in V (%)", 6.3, zero, note=note)
        ],
        text="Entropy and gradient are computed from logits in float64. Nothing is added inside "
        "the logarithm; it would decide the gradient far away.",
    )


def _over_starts(model: Model, data: Pair, grid: Grid, base: float) -> dict[str, Any]:
    """What is judged, for every start: shares of the outer ring, and ratios to the box."""
    rows = []
    for start in range(model.members):
        network = _network(model, start)
        field = fields(network, grid.points, [ENTROPY], base)[ENTROPY]
        own = _numbers(network, data, grid, field, base)
        rows.append(
            {
                "accuracy": own["accuracy"],
                "ring_below_tenth": own["ring_below_tenth"],
                "gradient_ratio": own["gradient_ring"] / own["gradient_box"],
                "edge_ratio": own["edge_of_steep"] / own["edge_of_ring"],
            }
        )
    return {key: over_trainings([row[key] for row in rows]) for key in rows[0]}


def _numbers(network: Network, data: Pair, grid: Grid, field: Field, base: float) -> dict[str, Any]:
    x, most = grid.points, top(ENTROPY, base, CLASSES)
    low, high = data[0].amin(0), data[0].amax(0)
    box = ((x >= low) & (x <= high)).all(1).numpy()
    ring = (x.abs().amax(1) > RING).numpy()
    edge = distance(x, boundary(grid, network(x).labels.numpy()))
    steep = ring & (field.slope > median(field.slope[box]))
    return {
        "accuracy": accuracy(network(data[0]).probs, data[1]),
        "entropy_maximum": most,
        "gradient_box": median(field.slope[box]),
        "gradient_outside": median(field.slope[~box]),
        "gradient_ring": median(field.slope[ring]),
        "ring_below_tenth": share(field.value[ring] < 0.1 * most),
        "ring_above_half": share(field.value[ring] > 0.5 * most),
        "ring_steep": share(steep[ring]),
        "edge_of_steep": median(edge[steep]),
        "edge_of_ring": median(edge[ring]),
    }


@with_look
def _figure(
    grid: Grid,
    field: Field,
    inside: Regions,
    data: Pair,
    settings: Settings,
    numbers: dict[str, Any],
) -> Figure:
    figure = Figure(figsize=(13.2, 5.5), layout="constrained")
    left, middle, right = axes = figure.subplots(1, 3, sharey=True)
    images = {
        left: draw_values(left, grid, field.value, field.value.max()),
        right: draw_slopes(right, grid, field.slope),
    }
    draw_pieces(middle, inside)
    titles = (
        "a  entropy",
        f"b  {numbers['pieces']} linear regions",
        "c  norm of the gradient of the entropy",
    )
    for axis, title in zip(axes, titles, strict=True):
        draw_data(axis, data, 8)
        axis.set(xlabel="$x_1$", xlim=grid.box[:2], ylim=grid.box[2:], aspect="equal")
        axis.set_title(title, loc="left")
        axis.grid(visible=False)
    left.set_ylabel("$x_2$")
    labels = titled(ENTROPY, settings.unit), gradient_label(short=True)
    for (axis, image), label in zip(images.items(), labels, strict=True):
        figure.colorbar(image, ax=axis, label=label, location="bottom", shrink=0.85)
    marks: list[Artist] = [
        Patch(facecolor="white", edgecolor=GRAY, hatch="//", label="has no end"),
        Line2D([], [], color="black", linewidth=2, label="decision boundary"),
    ]
    figure.legend(handles=marks, loc="lower center", bbox_to_anchor=(0.51, 0.06), ncols=2)
    add_title(
        figure,
        f"Far from the nine blobs the network is sure: {percent(numbers['ring_below_tenth'])} of "
        "the outer ring has less than a tenth of the possible entropy",
    )
    return figure
