"""Matrices of AUROCs, what was shown by what was tested, one panel per kind of network."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.report.plots.look import add_title, label, with_look
from nescio_papers.robust_deep_learning.exposure import frame

Cells = Mapping[str, Mapping[str, Any]]  # shown -> tested -> number


@with_look
def drawn(found: Mapping[str, Cells], scores: Mapping[str, str]) -> Figure:
    """A matrix for each kind of network, its numbers written in."""
    figure = Figure(figsize=(11.5, 1.2 + 2.7 * len(found)), layout="constrained")
    heights = [len(rows) for rows in found.values()]
    axes = figure.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (name, rows) in zip(axes, found.items(), strict=True):
        image = _matrix(axis, rows)
        axis.set_title(f"{name}: {scores[name]}", loc="left")
        if len(rows) > 1:
            axis.set_ylabel("shown in training")
    axes[-1].set_xlabel("tested on")
    figure.colorbar(image, ax=axes, label="AUROC", shrink=0.6, extend="min")
    add_title(figure, "MNIST: networks that were shown one OOD set, tested on all")
    return figure


def _matrix(axis: Axes, rows: Cells) -> Any:
    shown, sets = list(rows), list(next(iter(rows.values())))
    values = [[rows[one][row]["value"] for row in sets] for one in shown]
    image = axis.imshow(values, cmap="cividis", vmin=0.8, vmax=1, aspect="auto")
    axis.set_xticks(range(len(sets)), [label(name, 28) for name in sets], fontsize=9)
    axis.set_yticks(range(len(shown)), [label(name, 28) for name in shown], fontsize=9)
    axis.grid(visible=False)
    for i, one in enumerate(shown):
        for j, row in enumerate(sets):
            cell = rows[one][row]
            text = f"{cell['value']:.3f} ({cell['low']:.3f}-{cell['high']:.3f})"
            axis.text(j, i, text, ha="center", va="center", fontsize=9,
                      color="white" if values[i][j] < 0.92 else "black")  # fmt: skip
            if one == row:
                axis.add_patch(frame(j, i))
    return image
