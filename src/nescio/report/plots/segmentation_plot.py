"""Label maps in five columns (Kendall and Gal, 2017): image, truth, prediction, uncertainties."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError, as_batch, as_tensor
from nescio.models import UncertaintyMaps
from nescio.report.plots.look import COLORS, add_title, label, with_look

TITLES = ("image", "truth", "prediction", "aleatoric uncertainty", "epistemic uncertainty")
SIDE = 2.3  # inches of an image's width
NO_LABEL, ABSTAINED = "#bdbdbd", "#f5f5f5"
DARK: Any = {
    "figure.facecolor": "#16181c",
    "axes.facecolor": "#16181c",
    "text.color": "#e8e8e8",
    "axes.labelcolor": "#e8e8e8",
    "axes.titlecolor": "#e8e8e8",
    "xtick.color": "#e8e8e8",
    "ytick.color": "#e8e8e8",
}


@with_look
def segmentation_figure(
    images: Any,
    truth: Any,
    maps: UncertaintyMaps,
    *,
    names: Sequence[str],
    colors: Sequence[str] | None = None,
    ignore_index: int | None = None,
    answered: Any = None,
    title: str = "Labels and their uncertainty, pixel by pixel",
    dark: bool = False,
) -> Figure:
    """One row per image: itself, its true labels, the predicted ones, and two uncertainties.

    Aleatoric is the expected entropy of a member, epistemic the mutual information, both in nats
    and on one scale per column.

    images: `(N, C, H, W)`, of uint8 or from 0 to 1. truth: labels `(N, H, W)`. maps: of these
      images, from `nescio.models.uncertainty_maps`.
    names, colors: one per class. ignore_index: the label of pixels without a class.
    answered: `(N, H, W)`, as a guard gives it; other pixels are left blank in the prediction.
    dark: light letters on a dark page.
    """
    x, y = as_tensor(images, "images"), as_tensor(truth, "truth")
    _check(x, y, maps, names, colors)
    if dark:
        matplotlib.rcParams.update(DARK)
    palette = _palette(len(names), colors)
    said = maps.labels.cpu()
    kept = torch.ones_like(said, dtype=torch.bool)
    kept = kept if answered is None else as_tensor(answered, "answered").cpu()
    figure, axes, bars = _grid(len(x), x.shape[-2] / x.shape[-1])
    uncertain = (maps.expected_entropy.cpu(), maps.mutual_information.cpu())
    for row, own in enumerate(axes):
        own[0].imshow(_pixels(x[row]), cmap="gray")
        own[1].imshow(_painted(y[row].cpu(), palette, ignore_index))
        shown = torch.where(kept[row], said[row], -1)
        own[2].imshow(_painted(shown, palette, -1, ABSTAINED))
        for axis, each in zip(own[3:], uncertain, strict=True):
            axis.imshow(each[row], cmap="magma", vmin=0, vmax=float(each.max()) or 1.0)
    for axis, column in zip(bars, axes[-1, 3:], strict=True):
        bar = figure.colorbar(column.images[0], cax=axis, orientation="horizontal")
        bar.locator = MaxNLocator(3)
        bar.update_ticks()
        bar.set_label("nats", fontsize=9)
        axis.tick_params(labelsize=8)
    _legend(figure, names, palette, ignore_index is not None, answered is not None)
    add_title(figure, title)
    return figure


def _check(
    x: Tensor,
    y: Tensor,
    maps: UncertaintyMaps,
    names: Sequence[str],
    colors: Sequence[str] | None,
) -> None:
    if x.ndim != 4 or tuple(y.shape) != (len(x), *x.shape[2:]) or maps.labels.shape != y.shape:
        raise NescioError(
            f"expected images (N, C, H, W), their label maps (N, H, W) and their uncertainty maps, "
            f"got {tuple(x.shape)}, {tuple(y.shape)} and {tuple(maps.labels.shape)}"
        )
    most = int(maps.labels.max()) if len(y) else 0
    if not len(y) or most >= len(names):
        raise NescioError(
            f"{len(names)} names for {most + 1} classes or more in {len(y)} images; give images, "
            "and a name for each class"
        )
    if colors is not None and len(colors) != len(names):
        raise NescioError(f"{len(colors)} colors for {len(names)} classes; give one each")


def _palette(classes: int, colors: Sequence[str] | None) -> list[str]:
    """Colors of the classes; there are twenty that can be told apart."""
    if colors is not None:
        return [to_hex(color) for color in colors]
    if classes <= len(COLORS):
        return list(COLORS[:classes])
    found = matplotlib.colormaps["tab20"]
    return [to_hex(found(index % 20)) for index in range(classes)]


def _pixels(image: Tensor) -> NDArray[Any]:
    """An image with the channels last, from 0 to 1."""
    pixels = as_batch(image[None])[0].detach().cpu().movedim(0, -1).numpy()
    low, high = float(pixels.min()), float(pixels.max())
    if low < 0 or high > 1:  # of another range: stretched to be seen
        pixels = (pixels - low) / ((high - low) or 1.0)
    return np.asarray(pixels[..., 0] if pixels.shape[-1] < 3 else pixels[..., :3])


def _painted(
    labels: Tensor, palette: Sequence[str], ignored: int | None, nothing: str = NO_LABEL
) -> NDArray[Any]:
    """A label map in the colors of its classes `(H, W, 3)`."""
    table = np.array([*map(to_rgb, palette), to_rgb(nothing)])
    known = labels.long().numpy()
    outside = (known < 0) | (known >= len(palette))
    if ignored is not None:
        outside |= known == ignored
    return np.asarray(table[np.where(outside, len(palette), known)])


def _grid(rows: int, ratio: float) -> tuple[Figure, NDArray[Any], list[Axes]]:
    """A figure, the panels of its images under their titles, and two for the scales below.

    ratio: the height of an image over its width.
    """
    size = SIDE * len(TITLES) + 0.4, (SIDE * ratio + 0.1) * rows + 1.9
    figure = Figure(figsize=size, layout="constrained")
    heights = [*[SIDE * ratio] * rows, 0.12]
    every = figure.subplots(rows + 1, len(TITLES), squeeze=False, height_ratios=heights)
    for spare in every[-1, :3]:
        spare.set_axis_off()
    axes = every[:-1]
    axis: Axes
    for axis, text in zip(axes[0], TITLES, strict=True):
        axis.set_title(text, fontsize=11)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.grid(visible=False)
        axis.spines[:].set_visible(False)
    return figure, axes, list(every[-1, 3:])


def _legend(
    figure: Figure, names: Sequence[str], palette: Sequence[str], ignored: bool, abstained: bool
) -> None:
    pairs = [*zip(names, palette, strict=True)]
    pairs += [("no label", NO_LABEL)] if ignored else []
    pairs += [("abstained", ABSTAINED)] if abstained else []
    edge = matplotlib.rcParams["text.color"]
    patches = [
        Patch(facecolor=color, edgecolor=edge, linewidth=0.4, label=label(str(name)))
        for name, color in pairs
    ]
    figure.legend(
        handles=patches, loc="outside lower center", ncols=min(7, len(patches)), fontsize=9
    )
