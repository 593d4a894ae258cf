"""Digits that are turned, moved and deformed: a plain network beside a fixed scattering."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core import as_batch, digest, from_json, kept, to_json
from nescio.data import corruptions
from nescio.evaluation import ShiftCurves, deformations
from nescio.nets import Scattering
from nescio.report.plots import deformation_plot as pictures
from nescio_papers.kit import Findings, InData, Settings, folder_of, table
from nescio_papers.kit.nested import curves_of
from nescio_papers.robust_deep_learning.stability_networks import (
    FIXED,
    PART,
    PLAIN,
    Sizes,
)
from nescio_papers.robust_deep_learning.stability_pairs import differences
from nescio_papers.robust_deep_learning.stability_pictures import examples, moved_figure
from nescio_papers.robust_deep_learning.stability_verdicts import (
    COEFFICIENTS,
    INPUTS,
    LOGITS,
    PAIRS,
    TRAINED,
)

KINDS = ("rotation", "translation", "warping")
OUTPUTS, FEATURES, MOVED, EXAMPLES = (
    f"stability-{name}.png" for name in ("deformations", "features", "translations", "examples")
)
SCALES, PIXELS = (1, 2, 3), (1, 2, 3, 4)
OPTIONS = {"rotation": "degrees", "translation": "pixels", "warping": "stretch"}
TEXT = (
    "Deformations: rotation by degrees; translation in a random direction; warping by a smooth "
    "random field, whose size is the largest norm of its derivative. A change of 1 is the distance "
    "of the outputs of two random digits. The bound of a network is the product bound of its "
    "layers times the change of the image itself. Of the scattering coefficients, `expansion` "
    "bounds the first factor, and under translations by c whole pixels `shift_bound(c)` times the "
    "norm of the image, which falls with 4^-J: the averages are smoother, and fewer. For warpings "
    "Mallat (2012) proves a bound C |x| (|tau'| + ...) without a number for C; the C below is the "
    "smallest that fits these digits, "
    "not a proved one."
)


def digits(
    settings: Settings, sizes: Sizes, images: InData, networks: Mapping[str, nn.Module]
) -> Findings:
    """Curves of logits and of features, and translations against their bound."""
    x = images.test[0][: sizes.deformed]
    logits = {name: networks[name] for name in (PLAIN, FIXED)}
    parts = {TRAINED: _convolutions(networks[PLAIN]), COEFFICIENTS: _front(networks[FIXED])}
    outputs = [_curves(settings, sizes, logits, x, kind, "outputs") for kind in KINDS]
    features = [_curves(settings, sizes, parts, x, kind, "features") for kind in KINDS]
    moved = {scales: translations(x, scales) for scales in SCALES}
    accuracy = {name: _accuracy(net, images.test) for name, net in networks.items()}
    return Findings(
        numbers={
            "accuracy": accuracy,
            "outputs": {one.shift: curves_of(one) for one in outputs},
            "features": {one.shift: curves_of(one) for one in features},
            "translations": {f"J = {scales}": one for scales, one in moved.items()},
            "paired": {
                one.shift: _paired(settings, sizes, {**logits, **parts}, x, one) for one in outputs
            },
        },
        figures={
            EXAMPLES: examples(x[:1], {kind: _examples(kind) for kind in KINDS}),
            OUTPUTS: pictures.deformation_curves(outputs),
            FEATURES: pictures.deformation_curves(features),
            MOVED: moved_figure(moved, PIXELS),
        },
        captions={
            EXAMPLES: "A test digit, turned, moved and deformed.",
            OUTPUTS: "Change of the logits (thick), the bounds by the product of the layers (thin) "
            "and the change of the digits themselves (dotted); below, the labels that change. "
            "Bands are 95 % intervals over digits.",
            FEATURES: "The same for the features: the convolutions of the network and the "
            "scattering coefficients.",
            MOVED: "Scattering coefficients of digits that move by whole pixels, beside two proved "
            "bounds, for averages over 2, 4 and 8 pixels.",
        },
        text="\n\n".join([TEXT, _tables(outputs, features, accuracy), _constants(features)]),
    )


def _convolutions(net: nn.Module) -> nn.Module:
    layers = list(net.children())
    return nn.Sequential(
        *layers[: next(i for i, one in enumerate(layers) if isinstance(one, nn.Flatten))]
    )


def _front(net: nn.Module) -> nn.Module:
    return next(iter(net.children()))


def _curves(
    settings: Settings, sizes: Sizes, nets: Mapping[str, nn.Module], x: Tensor, kind: str, of: str
) -> ShiftCurves:
    """Measured once and stored."""
    path = folder_of(settings, PART) / f"{of}-{kind}.json"
    key = [str(sizes), *(digest(*net.state_dict().values()) for net in nets.values())]
    stored = kept(path, {"key": key, "kind": kind}, lambda: to_json(deformations(nets, x, kind)))
    return from_json(ShiftCurves, stored, str(path))


def _paired(
    settings: Settings, sizes: Sizes, nets: Mapping[str, nn.Module], x: Tensor, curve: ShiftCurves
) -> dict[str, Any]:
    """What changes less under the same deformations, digit by digit; measured once and stored."""
    images, kind = as_batch(x), curve.shift
    option = OPTIONS[kind]
    drawn = {} if kind == "rotation" else {"seed": 0}  # as in the curves
    shifts = [getattr(corruptions, kind)(**{option: size}, **drawn) for size in curve.strengths[1:]]

    def make() -> Any:
        moved = [partial(shift, images, 1) for shift in shifts]
        return differences({INPUTS: nn.Identity(), **nets}, images, moved, PAIRS, (LOGITS,))

    key = [str(sizes), *(digest(*net.state_dict().values()) for net in nets.values())]
    path = folder_of(settings, PART) / f"paired-{kind}.json"
    found: dict[str, Any] = kept(path, {"key": key, "kind": kind}, make)
    return found


def translations(x: Tensor, scales: int) -> dict[str, list[float]]:
    """Changes of scattering coefficients over the norm of the image, means, and their bounds.

    Zeros come in; what leaves the image counts on the side of the bound.
    """
    images = as_batch(x).double()
    front = Scattering(*images.shape[2:], scales=scales, orientations=8).double()
    before, norm = _coefficients(front, images), images.flatten(1).norm(dim=1)
    found: dict[str, list[float]] = {"change": [], "shift_bound": [], "expansion": [], "within": []}
    for pixels in PIXELS:
        moved = F.pad(images, (pixels, 0))[..., :-pixels]
        change = (_coefficients(front, moved) - before).flatten(1).norm(dim=1)
        lost = images[..., -pixels:].flatten(1).norm(dim=1)
        by_shift = front.shift_bound(pixels) * norm + front.expansion * lost
        by_image = front.expansion * (moved - images).flatten(1).norm(dim=1)
        for name, value in (("change", change), ("shift_bound", by_shift), ("expansion", by_image)):
            found[name].append(float((value / norm).mean()))
        within = (change <= by_shift) & (change <= by_image)
        found["within"].append(float(within.double().mean()))
    return found


def _coefficients(front: Scattering, images: Tensor) -> Tensor:
    return torch.cat([front(part) for part in images.split(16)])


def _examples(kind: str) -> list[tuple[str, corruptions.Shifted]]:
    sizes = {"rotation": (10, 20, 45), "translation": (1, 2, 4), "warping": (0.1, 0.3, 0.5)}[kind]
    make = getattr(corruptions, kind)
    return [(f"{kind} {size:g}", make(**{OPTIONS[kind]: size})) for size in sizes]


@torch.no_grad()
def _accuracy(net: nn.Module, test: tuple[Tensor, Tensor]) -> float:
    labels = torch.cat([net(as_batch(part)).argmax(1) for part in test[0].split(100)])
    return float((labels == test[1]).double().mean())


def _tables(
    outputs: Sequence[ShiftCurves], features: Sequence[ShiftCurves], accuracy: Mapping[str, float]
) -> str:
    lines = ["Accuracy: " + ", ".join(f"{n} {100 * a:.1f} %" for n, a in accuracy.items()) + "."]
    for one, part in zip(outputs, features, strict=True):
        head = [f"{one.shift}, {one.description}", *(f"{size:g}" for size in one.strengths[1:])]
        rows = [
            [f"change, {name}", *(f"{v:.3f}" for v in curve.curve(name, "change")[1:])]
            for curve in (one, part)
            for name in curve.subjects("change")
            if curve is one or name != "inputs"
        ]
        rows += [
            [
                f"labels that change, {name}",
                *(f"{100 * (v or 0):.1f} %" for v in one.curve(name, "flipped")[1:]),
            ]
            for name in one.subjects("flipped")
        ]
        rows += [
            [f"bound, {name}", *(f"{v:.3g}" for v in curve.curve(name, "bound")[1:])]
            for curve in (one, part)
            for name in curve.subjects("bound")
        ]
        lines.append(table(head, rows))
    return "\n\n".join(lines)


def _constants(features: Sequence[ShiftCurves]) -> str:
    """The smallest C of a bound C |tau'| for the warpings."""
    warped = next(one for one in features if one.shift == "warping")
    sizes = warped.strengths[1:]
    found = {
        name: max(
            (c or 0.0) / s for c, s in zip(warped.curve(name, "change")[1:], sizes, strict=True)
        )
        for name in warped.subjects("change")
    }
    said = ", ".join(f"{name} {value:.2f}" for name, value in found.items())
    return f"Smallest C with change <= C |tau'| for all sizes of warping: {said}."
