"""A picture of the images that each method of active learning asked for."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from nescio.report.plots.look import COLORS, add_title, label, with_look


@with_look
def asked_figure(images: Tensor, rows: Mapping[str, Sequence[Sequence[int]]], title: str) -> Figure:
    """A line of images for each method, batch after batch; `rows` has their indices."""
    across = max(sum(len(batch) for batch in batches) for batches in rows.values())
    figure = Figure(figsize=(0.52 * across + 1.6, 0.62 * len(rows) + 0.8), layout="constrained")
    axes = figure.subplots(len(rows), across, squeeze=False)
    for line, (name, batches) in zip(axes, rows.items(), strict=True):
        every = [index for batch in batches for index in batch]
        for axis, index in zip(line, every, strict=False):
            axis.imshow(images[index][0], cmap="gray_r")
        for axis in line:
            axis.set(xticks=[], yticks=[])
            axis.grid(visible=False)
            axis.spines[:].set_visible(False)
        ends = np.cumsum([len(batch) for batch in batches])[:-1]
        for end in ends:  # a bar between batches
            line[end].axvline(-2.5, color=COLORS[1], linewidth=2, clip_on=False)
        line[0].set_ylabel(label(name), rotation=0, ha="right", va="center", fontsize=9)
    add_title(figure, title)
    return figure
