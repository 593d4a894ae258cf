"""Linear regions and seconds grow with the square of the width and with every layer."""

import time

import torch
from matplotlib.figure import Figure

from nescio import geometry, nets

WIDTHS = (8, 16, 32, 64, 128)
DEPTHS = {1: "#c98a1b", 2: "#1f5f99", 3: "#b5371f"}
BOX = [(-5.0, 5.0), (-5.0, 5.0)]


def draw() -> Figure:
    """Regions of networks with two inputs on a square, and seconds to find them all."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for depth, color in DEPTHS.items():
        found = [counted(depth, width) for width in WIDTHS]
        counts, seconds = zip(*found, strict=True)
        for panel, values in ((left, counts), (right, seconds)):
            panel.plot(WIDTHS, values, "o-", markersize=4, color=color)
            panel.text(140, values[-1], f"{depth} hidden", color=color, va="center", fontsize=9)
    left.set_title("linear regions on a square", fontsize=10)
    right.set_title("seconds to find all of them", fontsize=10)
    for panel in (left, right):
        panel.set(xscale="log", yscale="log", xlabel="units per hidden layer", xlim=(7, 330))
        panel.set_xticks(WIDTHS, map(str, WIDTHS))
        panel.minorticks_off()
    return figure


def counted(depth: int, width: int) -> tuple[int, float]:
    """How many regions a random network has, and how long it takes to find them."""
    torch.manual_seed(0)
    net = nets.mlp(2, 2, widths=(width,) * depth)
    started = time.perf_counter()
    found = len(geometry.regions(net, BOX))
    return found, time.perf_counter() - started
