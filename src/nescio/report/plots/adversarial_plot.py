"""Adversarial examples as pictures: image, change, result, with answers and confidences."""

import math
from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nescio.attacks import Patch, answer_of
from nescio.core import NescioError, as_batch
from nescio.evaluation import AdversarialExample, PatchSuccess
from nescio.report.plots.look import COLORS, GRAY, add_title, with_look
from nescio.report.sections.stability_words import change_size

SIDE = 1.45  # inches of an image
MOST = 6  # examples beside each other
RIGHT, WRONG = COLORS[0], COLORS[1]
CONFIDENT = "Small changes that make correct answers confidently wrong"


@with_look
def adversarial_images(
    examples: Sequence[AdversarialExample], *, names: Sequence[str] | None = None
) -> Figure:
    """One column per example: the image, the change, and the image that is answered wrongly.

    Changes are magnified, gray is none; the factor is written above each. names: of the classes.
    """
    shown = [one for one in examples if one.x is not None and one.x.ndim == 3][:MOST]
    if not shown:
        raise NescioError("no example has an image (C, H, W) to draw")
    figure = Figure(figsize=(max(SIDE * len(shown) + 1.0, 6.5), 3 * (SIDE + 0.45) + 0.7))
    figure.set_layout_engine("constrained")
    axes = figure.subplots(3, len(shown), squeeze=False)
    low = min(float(one.x.min()) for one in shown if one.x is not None)
    high = max(float(one.x.max()) for one in shown if one.x is not None)
    for column, one in zip(axes.T, shown, strict=True):
        assert one.x is not None
        assert one.changed is not None
        change = one.changed - one.x
        times = _times(change, high - low)
        before = f"{_name(one.label, names)}, {_share(one.confidence, 1)}"
        after = f"{_name(one.wrong, names)}, {_share(one.wrong_confidence, 1)}"
        _image(column[0], one.x, before, RIGHT, (low, high))
        middle = (low + high) / 2 + times * change
        _image(column[1], middle, f"{change_size(one.size)} of the range, x {times:g}", GRAY,
               (low, high))  # fmt: skip
        _image(column[2], one.changed, after, WRONG, (low, high))
    for axis, text in zip(axes[:, 0], ("image", "+ change", "= result"), strict=True):
        axis.set_ylabel(text, fontsize=10)
    confident = min(one.wrong_confidence for one in shown) >= 0.5
    add_title(figure, CONFIDENT if confident else "Changes that make correct answers wrong")
    return figure


@with_look
def patch_images(
    patch: Patch,
    source: object,
    x: Tensor,
    *,
    success: PatchSuccess | None = None,
    seed: int = 1,
    names: Sequence[str] | None = None,
) -> Figure:
    """The patch, images without it, and the same images with it in views, as a network answers.

    source: the network, model or predictor. x: images `(N, C, H, W)`, of which six are drawn.
    success: what the title says. seed: of the views. names: of the classes.
    """
    count = min(len(x), MOST)
    figure = Figure(figsize=(SIDE * (count + 2) + 0.6, 2 * (SIDE + 0.45) + 0.7))
    figure.set_layout_engine("constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1.5, count))[0]
    box = patch.low, patch.high
    shape = patch.pixels * patch.mask.to(patch.pixels) + patch.high * (1 - patch.mask)
    _image(left.subplots(), shape, "the patch, to print", GRAY, box)
    axes = right.subplots(2, count, squeeze=False)
    rows = as_batch(x[:count]), patch(x[:count], seed=seed)
    with torch.no_grad():
        found = [answer_of(source)(images) for images in rows]
    for line, images, answers in zip(axes, rows, found, strict=True):
        for k, axis in enumerate(line):
            label, same = int(answers.labels[k]), bool(answers.labels[k] == found[0].labels[k])
            text = f"{_name(label, names)}, {_share(float(answers.probs[k].max()), 0)}"
            _image(axis, images[k], text, RIGHT if same else WRONG, box)
    axes[0, 0].set_ylabel("without", fontsize=10)
    axes[1, 0].set_ylabel("with the patch", fontsize=10)
    said = ""
    if success is not None:
        share, gray = (f"{100 * one.value:.0f} %" for one in (success.share, success.gray))
        said = f": {share} of images misled, {gray} by a gray one"
    add_title(figure, f"A patch in random views{said}")
    return figure


def _times(change: Tensor, width: float) -> float:
    """A round factor that makes the largest change about half of the range."""
    largest = float(change.abs().max())
    if largest == 0 or width == 0:
        return 1.0
    exact = width / (2 * largest)
    power = 10 ** math.floor(math.log10(exact))
    return max(1.0, float(power * max(step for step in (1, 2, 5) if step * power <= exact)))


def _share(confidence: float, digits: int) -> str:
    """In per cent; what only rounds to all of it does not read so."""
    most = 100 - 10**-digits
    return f">{most:g} %" if 100 * confidence > most else f"{100 * confidence:.{digits}f} %"


def _name(label: int, names: Sequence[str] | None) -> str:
    return str(label) if names is None else names[label]


def _image(axis: Axes, image: Tensor, text: str, color: str, box: tuple[float, float]) -> None:
    """An image with a frame, all in one range of brightness."""
    low, high = box
    pixels = ((image.detach().float().cpu() - low) / ((high - low) or 1.0)).clamp(0, 1)
    shown = pixels.movedim(0, -1)
    if shown.shape[-1] not in (1, 3):
        shown = shown.mean(-1, keepdim=True)
    gray = shown.shape[-1] == 1
    axis.imshow(shown[..., 0] if gray else shown, cmap="gray", vmin=0, vmax=1)
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)
    axis.set_title(text, fontsize=8)
    for spine in axis.spines.values():
        spine.set(visible=True, color=color, linewidth=2)
