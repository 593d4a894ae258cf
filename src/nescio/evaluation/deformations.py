"""How much the outputs of a network change when an image is turned, moved or deformed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.conformal import binomial_interval
from nescio.core import DataSet, NescioError, Row, as_inputs, unknown
from nescio.data import corruptions
from nescio.evaluation.under_shift import ShiftCurves
from nescio.geometry import product_bound
from nescio.geometry.tracing.instances import Instance, Source, instances
from nescio.metrics import Interval, bootstrap_mean

KINDS: dict[str, tuple[str, str, str, tuple[float, ...]]] = {  # option, unit, axis, sizes
    "rotation": ("degrees", "degrees", "degrees", (2, 5, 10, 15, 20, 30, 45)),
    "translation": ("pixels", "pixels", "pixels", (0.5, 1, 2, 3, 4, 6)),
    "warping": ("stretch", "of stretch", "largest stretch", (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)),
}
INPUTS = "inputs"  # the subject whose change is that of the images themselves
SAMPLES = 64  # images at a time


def deformations(
    sources: Source | Mapping[str, Source],
    x: Any,
    kind: str,
    sizes: Sequence[float] | None = None,
    *,
    seed: int = 0,
) -> ShiftCurves:
    """The change of the outputs of networks on images, by the size of a deformation.

    `deformations({"plain": net, "scattering": other}, x, "rotation").curve("plain", "change")`.

    Metrics by network: `change`, the mean distance of the outputs before and after, where 1 is the
    distance of the outputs of two random images (root mean square); `flipped`, the share of images
    with another label; `bound`, what `change` cannot exceed by the product bound of the network and
    the change of the images; a network that has no such bound has no such row. The outputs are
    logits, or whatever a network returns; those of all members are compared together. The subject
    "inputs" has the change of the images themselves, in the same unit. Images are interpolated
    linearly between pixels, which blurs them a little; that blur is a part of every change.

    sources: a network or a model, or several by name.
    x: images `(N, C, H, W)`, from 0 to 1.
    kind: `"rotation"`, its sizes in degrees; `"translation"` in a random direction, in pixels;
      `"warping"` by a smooth random field, its size the largest norm of the field's derivative.
    sizes: sizes of the deformation; the size 0 is added. None: 2 to 45 degrees, 0.5 to 6 pixels,
      0.02 to 0.5 of stretch.
    seed: seed of the random draws.
    """
    shifts = _shifts(kind, sizes, seed)
    images = as_inputs(x, "x")
    named = dict(sources) if isinstance(sources, Mapping) else {"network": sources}
    if not named or INPUTS in named:
        raise NescioError(f'give one network or several by name, and none is called "{INPUTS}"')
    if len(images) < 2:
        raise NescioError("changes are measured against those between images; give two or more")
    _, unit, axis, _ = KINDS[kind]
    subjects = [
        _subject(name, one, images) for name, one in {INPUTS: nn.Identity(), **named}.items()
    ]
    rows, places = [], []
    for size, shift in shifts.items():
        moved = images if shift is None else shift(images, 1)
        place = f"{size:g} {unit.removesuffix('s') if size == 1 else unit}"
        places.append(DataSet(name=place, kind="shifted", samples=len(images), strength=size))
        for subject in subjects:
            numbers = _numbers(subject, images, moved)
            rows += [_row(subject.name, place, metric, n) for metric, n in numbers.items()]
    return ShiftCurves(
        shift=kind,
        description=axis,
        samples=len(images),
        rows=tuple(rows),
        sets=tuple(places),
    )


def _shifts(
    kind: str, sizes: Sequence[float] | None, seed: int
) -> dict[float, corruptions.Shifted | None]:
    """The deformations by size, from none on."""
    if kind not in KINDS:
        raise NescioError(unknown("deformation", kind, KINDS))
    option, _, _, usual = KINDS[kind]
    given = usual if sizes is None else tuple(float(size) for size in sizes)
    if not given or not all(0 <= size < math.inf for size in given):
        raise NescioError(f"sizes must be finite numbers from 0 up, got {sizes}")
    if kind == "warping" and max(given) >= 1:
        raise NescioError(f"an image that is stretched by 1 or more folds, got sizes {sizes}")
    make = getattr(corruptions, kind)
    drawn = {} if kind == "rotation" else {"seed": seed}
    found = {float(size): make(**{option: size}, **drawn) for size in sorted(set(given)) if size}
    return {0.0: None, **found}


@dataclass(frozen=True, eq=False, kw_only=True)
class Deformed:
    """A network and what it answers on images as they are."""

    name: str
    members: list[Instance]
    before: list[Tensor]  # outputs, by member
    apart: float  # root mean squared distance of the outputs of two images
    labels: Tensor | None
    bound: float | None


def _subject(name: str, source: Source, images: Tensor) -> Deformed:
    members = instances(source)
    before = [_outputs(one, images) for one in members]
    variance = sum(_variance(outputs) for outputs in before)
    return Deformed(
        name=name,
        members=members,
        before=before,
        apart=math.sqrt(2 * variance),
        labels=None if name == INPUTS else _labels(before),
        bound=None if name == INPUTS else _bound(source, images),
    )


def _numbers(subject: Deformed, images: Tensor, moved: Tensor) -> dict[str, Interval | float]:
    """How far the outputs move when the images do."""
    after = [_outputs(one, moved) for one in subject.members]
    steps = [(a - b).flatten(1) for a, b in zip(after, subject.before, strict=True)]
    unit = subject.apart or 1.0  # a constant network does not change
    found: dict[str, Interval | float] = {
        "change": bootstrap_mean(torch.cat(steps, 1).norm(dim=1) / unit)
    }
    if subject.labels is not None:
        flipped = int((_answers(after) != subject.labels).sum())
        found["flipped"] = binomial_interval(flipped, len(images))
    if subject.bound is not None:
        distance = (moved.double() - images.double()).flatten(1).norm(dim=1).mean()
        found["bound"] = subject.bound * float(distance) / unit
    return found


def _row(subject: str, data: str, metric: str, number: Interval | float) -> Row:
    ends = vars(number) if isinstance(number, Interval) else {"value": number}
    return Row(subject=subject, data=data, metric=metric, **ends)


def _outputs(instance: Instance, images: Tensor) -> Tensor:
    return torch.cat([instance(part.double()) for part in images.split(SAMPLES)])


def _variance(outputs: Tensor) -> float:
    flat = outputs.flatten(1)
    return float((flat - flat.mean(0)).square().sum(1).mean())


def _labels(outputs: Sequence[Tensor]) -> Tensor | None:
    """The labels of the members together; None where outputs are not one number per class."""
    return _answers(outputs) if outputs[0].ndim == 2 and outputs[0].shape[1] > 1 else None


def _answers(outputs: Sequence[Tensor]) -> Tensor:
    return torch.stack([one.softmax(1) for one in outputs]).mean(0).argmax(1)


def _bound(source: Source, images: Tensor) -> float | None:
    """The product bound of all members together, where there is one."""
    whole = nn.Sequential(source, nn.Flatten()) if isinstance(source, nn.Module) else source
    try:
        return float(product_bound(whole, images[:1]).bound.square().sum().sqrt())
    except NescioError:
        return None
