"""Pictures of influence: test images beside the training images that help and harm them."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nescio.core import as_batch
from nescio.evaluation import Explained, Explanation, Support, Suspect
from nescio.report.plots.look import COLORS, GRAY, add_title, panels, with_look

HELPFUL, HARMFUL = COLORS[0], COLORS[1]
SIDE = 1.25  # inches of an image


@with_look
def influence_images(found: Explanation, test: Tensor, train: Tensor) -> Figure:
    """One row per test image: itself, then its most helpful and harmful training images.

    test, train: the images `(N, C, H, W)` that the explanation counts.
    """
    each = max(max(len(one.helpful), len(one.harmful)) for one in found.samples)
    rows, columns = len(found.samples), 2 * each + 1
    figure = _grid(rows, columns)
    axes = figure.subplots(rows, columns, squeeze=False)
    for own, one in zip(axes, found.samples, strict=True):
        _image(own[0], test[one.sample], _asked(one), GRAY)
        for kind, shown, start in ((one.helpful, HELPFUL, 1), (one.harmful, HARMFUL, 1 + each)):
            for axis in own[start : start + each]:
                axis.set_axis_off()
            for axis, support in zip(own[start:], kind, strict=False):
                _image(axis, train[support.sample], _change(support), shown)
    add_title(
        figure,
        "Test images, and the training images that are most helpful (blue) and most harmful "
        f"(orange) to them, with the change of the {found.on} without each",
    )
    return figure


@with_look
def influence_bars(found: Explanation) -> Figure:
    """One panel per test sample: what the quantity would do without each training sample."""
    title = f"What the {found.on} of test samples would do without a training sample"
    figure, axes = panels(len(found.samples), height=3.6, title=title)
    for axis, one in zip(axes, found.samples, strict=True):
        supports = [*one.helpful, *reversed(one.harmful)]
        colors = [HELPFUL] * len(one.helpful) + [HARMFUL] * len(one.harmful)
        places = np.arange(len(supports))[::-1]
        axis.barh(places, [support.change for support in supports], color=colors)
        axis.set_yticks(places, [f"{s.sample}, label {s.label}" for s in supports], fontsize=9)
        axis.set_title(_asked(one), loc="left", fontsize=10)
        axis.axvline(0, color=GRAY, linewidth=1)
        axis.set_xlabel(f"change of the {found.on} (blue: helpful, orange: harmful)", fontsize=9)
    return figure


@with_look
def suspect_images(found: Sequence[Suspect], train: Tensor, *, most: int = 24) -> Figure:
    """The training images of the largest self-influence, with their labels."""
    shown = found[:most]
    columns = min(8, len(shown))
    rows = -(-len(shown) // columns)
    figure = _grid(rows, columns)
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for axis in axes:
        axis.set_axis_off()
    for axis, one in zip(axes, shown, strict=False):
        text = f"{one.sample}\nlabel {one.label}, says {one.predicted}"
        _image(axis, train[one.sample], text, HARMFUL if one.label != one.predicted else GRAY)
    add_title(figure, "Training images of the largest self-influence: check their labels")
    return figure


def _grid(rows: int, columns: int) -> Figure:
    size = SIDE * max(columns, 5) + 0.6, (SIDE + 0.6) * rows + 0.9
    return Figure(figsize=size, layout="constrained")


def _asked(one: Explained) -> str:
    return (
        f"test {one.sample}\nlabel {one.label}, says {one.predicted}\n"
        f"confidence {one.confidence:.3f}"
    )


def _change(one: Support) -> str:
    return f"{one.sample}\nlabel {one.label}\n{one.change:+.2g}"


def _image(axis: Axes, image: Tensor, text: str, color: str) -> None:
    """An image with a frame and a title; the channels last, as matplotlib wants them."""
    pixels = as_batch(image[None])[0].detach().cpu().movedim(0, -1).numpy()
    low, high = float(pixels.min()), float(pixels.max())
    if low < 0 or high > 1:  # of another range: stretched to be seen
        pixels = (pixels - low) / ((high - low) or 1.0)
    axis.set_axis_on()
    axis.imshow(pixels[..., 0] if pixels.shape[-1] == 1 else pixels[..., :3], cmap="gray_r")
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)
    axis.set_title(text, fontsize=8)
    for spine in axis.spines.values():
        spine.set(visible=True, color=color, linewidth=2)
