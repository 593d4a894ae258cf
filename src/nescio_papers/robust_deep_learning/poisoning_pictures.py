"""The poisoned image, its change, and the test images whose prediction it flips."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nescio.report.plots.look import COLORS, MARKERS, add_title, with_look
from nescio_papers.kit import percent


@dataclass(frozen=True, eq=False, kw_only=True)
class Shown:
    """A test image with its classes and confidences before and after."""

    image: Tensor  # (3, 32, 32) bytes
    before: tuple[str, float]
    after: tuple[str, float]


@with_look
def flipped_figure(
    clean: Tensor, poisoned: Tensor, label: str, radius: int, shown: Sequence[Shown], title: str
) -> Figure:
    """The training image, its change and the result; below, test images before and after."""
    figure = Figure(figsize=(9.6, 5.4), layout="constrained")
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(1, 1.15))[:, 0]
    change = poisoned.short() - clean.short()
    top = upper.subplots(1, 3)
    _show(top[0], clean, f"training image\nlabel: {label}")
    times = 127.5 / radius
    _show(top[1], 127.5 + change * times, f"change × {times:.3g}\n(at most {radius}/255)")
    _show(top[2], poisoned, f"poisoned training image\nlabel: {label}")
    rows = lower.subplots(1, max(len(shown), 1), squeeze=False)[0]
    for axis, one in zip(rows, shown, strict=False):
        lines = (f"{name} {percent(share)}" for name, share in (one.before, one.after))
        _show(axis, one.image, "\n→ ".join(lines))
    add_title(figure, title)
    return figure


def _show(axis: Axes, image: Tensor, title: str) -> None:
    axis.imshow((image.movedim(0, -1).double() / 255).clamp(0, 1))
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)
    axis.set_title(title, fontsize=9)


@with_look
def shares_figure(rows: Mapping[str, Mapping[int, Any]], published: Mapping[str, float]) -> Figure:
    """The share of flipped predictions by radius, with exact intervals."""
    figure = Figure(figsize=(7.2, 5.2), layout="constrained")
    axis = figure.subplots()
    for index, (name, row) in enumerate(rows.items()):
        radii = list(row)
        values = [row[r].value for r in radii]
        below = [row[r].value - row[r].low for r in radii]
        above = [row[r].high - row[r].value for r in radii]
        axis.errorbar(
            radii, values, yerr=(below, above), label=name, capsize=3,
            color=COLORS[index], marker=MARKERS[index],
        )  # fmt: skip
        if name in published:
            axis.axhline(published[name], color=COLORS[index], linestyle=":", linewidth=1)
    axis.set_xscale("log", base=2)
    axis.set_xticks(radii, [f"{r}/255" for r in radii])
    axis.minorticks_off()
    axis.set(xlabel="linf radius of the change", ylabel="share of flipped predictions")
    axis.set_ylim(-0.03, 1.03)
    figure.legend(fontsize=9, loc="outside lower left", title="dotted: Koh and Liang")
    add_title(figure, "Test predictions flipped by one changed training image")
    return figure
