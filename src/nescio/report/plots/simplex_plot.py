"""Predictions of three classes on the simplex: densities of Dirichlets, members as points."""

import math
from collections.abc import Mapping, Sequence

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from torch import Tensor

from nescio.core import Classification, Dirichlet, NescioError, measures
from nescio.report.plots.look import COLORS, GRAY, MARKERS, label, panels, with_look

CORNERS = torch.tensor([(0.0, 0.0), (1.0, 0.0), (0.5, math.sqrt(3) / 2)], dtype=torch.float64)
PIXELS = 240  # along the lower side
FAINTEST = 0.1  # the lowest density with a color of its own; that of the flat Dirichlet is 2
COLORED = matplotlib.colormaps["YlGnBu"].with_extremes(under="white")
SHOWN = 1e4  # the largest density on the scale


@with_look
def simplex(
    found: Mapping[str, Classification],
    *,
    classes: Sequence[str] = ("class 0", "class 1", "class 2"),
    title: str | None = None,
    notes: Mapping[str, str] | None = None,
    across: int | None = None,
) -> Figure:
    """Predictions of one sample each on the triangle of three class probabilities, by name.

    A Dirichlet is drawn by its density, the mean over its members, on one logarithmic scale for all
    panels: equal colors are equal densities. Members of any other prediction are points. A cross
    marks the mean, which is what the prediction gives for the classes. Below each panel are the
    entropy (total uncertainty) and the mutual information (the disagreement), in nats.

    notes: what is written below a panel instead, by name. across: the number of panels beside each
    other; by default three at most, and four as two by two.
    """
    _check(found, classes)
    height = 4.0 if across is None else 12.8 / across
    figure, axes = panels(len(found), height=height, title=title or TITLE, columns=across)
    densities = {n: density(p, _grid()) for n, p in found.items() if isinstance(p, Dirichlet)}
    top = max((float(values.max()) for values in densities.values()), default=SHOWN)
    scale = LogNorm(FAINTEST, min(max(top, 2.0), SHOWN))
    image = None
    for axis, (name, prediction) in zip(axes, found.items(), strict=True):
        outline = _triangle(axis, classes)
        if name in densities:
            image = axis.imshow(
                densities[name].numpy(), norm=scale, cmap=COLORED, interpolation="bilinear",
                origin="lower", extent=(0, 1, 0, float(CORNERS[2, 1])),
            )  # fmt: skip
            image.set_clip_path(outline)
        else:
            _points(axis, prediction)
        x, y = (prediction.probs.double() @ CORNERS)[0].tolist()
        axis.scatter(x, y, marker="x", s=60, color=COLORS[1], linewidths=2, zorder=4)
        axis.text(-0.16, 1.03, label(name, 40), va="bottom")
        axis.text(
            0.5,
            -0.2,
            (notes or {}).get(name) or _below(prediction),
            ha="center",
            va="top",
            fontsize=10,
        )
    if image is not None:
        figure.colorbar(image, ax=axes, label="density", shrink=0.8, pad=0.01, extend="both")
    return figure


TITLE = "Distributions over the probabilities of three classes; the cross is their mean"


def density(prediction: Dirichlet, points: Tensor) -> Tensor:
    """The density of one sample's Dirichlet, the mean over members, at points `(..., C)`."""
    alpha = prediction.alpha.double()[:, 0]  # (M, C)
    shape = (len(alpha), *(1,) * (points.ndim - 1), alpha.shape[-1])
    logs = ((alpha - 1).view(shape) * points.log()).sum(-1)  # (M, ...)
    constant = torch.lgamma(alpha.sum(-1)) - torch.lgamma(alpha).sum(-1)
    return (logs + constant.view(shape[:-1])).exp().mean(0)


def _grid() -> Tensor:
    """Probabilities `(H, W, 3)` at the pixels of the box round the triangle, those outside it moved
    to its edge."""
    height = float(CORNERS[2, 1])
    rows = (torch.arange(round(height * PIXELS), dtype=torch.float64) + 0.5) / PIXELS
    columns = (torch.arange(PIXELS, dtype=torch.float64) + 0.5) / PIXELS
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    last = y / height
    second = x - last / 2
    inside = torch.stack([1 - second - last, second, last], -1).clamp_min(0.25 / PIXELS)
    return inside / inside.sum(-1, keepdim=True)


def _triangle(axis: Axes, classes: Sequence[str]) -> Polygon:
    outline = Polygon(CORNERS.numpy(), fill=False, edgecolor=GRAY, linewidth=1.2, zorder=3)
    axis.add_patch(outline)
    for corner, name, va in zip(CORNERS.tolist(), classes, ("top", "top", "bottom"), strict=True):
        shift = 0.03 if va == "bottom" else -0.03
        axis.text(corner[0], corner[1] + shift, label(name, 16), ha="center", va=va, fontsize=10)
    axis.set(xlim=(-0.16, 1.16), ylim=(-0.4, 1.28), aspect="equal")
    axis.set_axis_off()
    return outline


def _points(axis: Axes, prediction: Classification) -> None:
    x, y = (prediction.member_probs[:, 0].double() @ CORNERS).T.numpy()
    axis.scatter(
        x, y, s=28, color=COLORS[0], alpha=0.6, marker=MARKERS[0], linewidths=0,
        zorder=3.5, clip_on=False,
    )  # fmt: skip


def _below(prediction: Classification) -> str:
    entropy, shared = (
        float(measure(prediction)[0])
        for measure in (measures.predictive_entropy, measures.mutual_information)
    )
    return f"entropy {entropy:.3f}\nmutual information {shared:.3g}"


def _check(found: Mapping[str, Classification], classes: Sequence[str]) -> None:
    if not found:
        raise NescioError("nothing to draw: give predictions by name, {'sample': model(x[:1])}")
    if len(classes) != len(CORNERS):
        raise NescioError(f"a triangle has three corners, got names of {len(classes)} classes")
    for name, prediction in found.items():
        if not isinstance(prediction, Classification) or prediction.classes != len(CORNERS):
            raise NescioError(
                f"{name!r} must be a prediction of three classes, got {prediction!r}; with more "
                "classes draw measures, such as the mutual information"
            )
        if tuple(prediction.batch_shape) != (1,):
            raise NescioError(
                f"{name!r} must be the prediction of one sample, got a batch of shape "
                f"{tuple(prediction.batch_shape)}; choose one: prediction[0]"
            )
