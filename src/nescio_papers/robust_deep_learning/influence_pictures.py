"""Scatter of predicted and actual changes, images behind an error, suspect labels."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nescio.core import as_batch
from nescio.report.plots.look import COLORS, GRAY, MARKERS, add_title, with_look

Panel = tuple[Tensor, Tensor, str]  # predicted, actual, a line on the correlation
KINDS = ("largest predictions", "drawn at random")
ROWS, COLUMNS = 2, 10  # of suspects


@with_look
def scatters(found: Mapping[str, Panel]) -> Figure:
    """Actual against predicted changes of a test loss; the first half has the largest."""
    figure = Figure(figsize=(3.6 * len(found), 3.9), layout="constrained")
    for axis, (name, (predicted, actual, said)) in zip(
        figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True
    ):
        half = len(predicted) // 2
        for index, part in enumerate((slice(half), slice(half, None))):
            axis.scatter(
                predicted[part], actual[part], s=22, alpha=0.8, linewidths=0,
                color=COLORS[index], marker=MARKERS[index], label=KINDS[index],
            )  # fmt: skip
        axis.axline((0, 0), slope=1, color=GRAY, linestyle=":", linewidth=1)
        axis.set_title(f"{name}\n{said}", fontsize=10)
        axis.set_xlabel("predicted change of the loss", fontsize=9)
        axis.tick_params(labelsize=8)
        axis.ticklabel_format(style="sci", axis="both", scilimits=(-2, 2))
        axis.locator_params(nbins=5)
    first = figure.axes[0]
    first.set_ylabel("actual change", fontsize=9)
    first.legend(fontsize=8, loc="upper left")
    add_title(figure, "Leaving one training image out: predicted by influence, and retrained")
    return figure


@with_look
def behind_figure(
    image: Tensor, title: str, rows: Mapping[str, Sequence[tuple[Tensor, str]]]
) -> Figure:
    """A test image, and by row the training images that matter most to it."""
    count = max(map(len, rows.values()))
    figure = Figure(figsize=(1.35 * (count + 2), 1.9 * len(rows) + 0.4), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(2, count))[0]
    axis = left.subplots()
    _show(axis, image, title)
    axes = right.subplots(len(rows), count, squeeze=False)
    for line, (name, images) in zip(axes, rows.items(), strict=True):
        for one, (own, text) in zip(line, images, strict=True):
            _show(one, own, text)
        line[0].set_ylabel(name, fontsize=9)
    add_title(figure, "A confident error, and the training images behind it")
    return figure


@with_look
def suspects_figure(
    train: tuple[Tensor, Tensor], given: Tensor, wrong: Tensor, order: Tensor
) -> Figure:
    """The first images of an order, with their given and true labels."""
    figure = Figure(figsize=(10.8, 3.2), layout="constrained")
    axes = figure.subplots(ROWS, COLUMNS).flatten()
    for axis, index in zip(axes, order.tolist(), strict=False):
        _show(axis, train[0][index], f"said {given[index]}, is {train[1][index]}")
        if not bool(wrong[index]):
            for side in axis.spines.values():
                side.set(visible=True, color=COLORS[1], linewidth=2.5)
    add_title(figure, "The most suspect labels")
    return figure


def _show(axis: Axes, image: Tensor, title: str) -> None:
    axis.imshow(as_batch(image[None])[0, 0], cmap="gray_r", vmin=0, vmax=1)
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)
    axis.set_title(title, fontsize=8)
