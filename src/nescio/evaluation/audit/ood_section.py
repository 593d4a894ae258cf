"""Off the data: OOD sets, the most confident inputs near noise, rays, and one small shift."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nescio import data, metrics
from nescio.attacks import Ascent, confidence, leaking, pgd
from nescio.core import (
    DataSet,
    Inputs,
    NescioError,
    derive,
    generator,
    hash_inputs,
    shape_of,
)
from nescio.data.corruptions import Shifted, feature_scaling, rotation
from nescio.data.random_access import Indices
from nescio.data.ranges import Units, near, noise, units_of
from nescio.evaluation.answers import Seen, separation
from nescio.evaluation.audit.cost import SHIFTED
from nescio.evaluation.audit.findings import AttackFindings, OnSet, Scaling, Separation
from nescio.evaluation.audit.held_out import Held
from nescio.evaluation.compare.ood_inputs import check_distinct, content_of
from nescio.evaluation.under_shift import ShiftCurves, under_shift
from nescio.guards import Guard
from nescio.models import Predictor

BINS = 20
ADVERSARIAL = "adversarial noise"
NOISES = ("uniform noise", "permuted pixels", "shuffled features")
RANGED = ("noise", "attack", "scaled inputs", "far field", "shift", "range of the training data")
NO_RANGE = (
    "the inputs are tokens or several tensors; numbers of one tensor are needed, which have a "
    "range to draw noise from and can be moved along a ray"
)
Look = Callable[[Any], Seen]
Moved = tuple[Tensor, float]  # inputs, and the share without any gradient
Keep = Callable[[Callable[[], Moved]], Moved]
Sets = dict[str, tuple[DataSet, Any]]  # by name


def has_range(x: Inputs) -> bool:
    """Whether inputs are numbers that noise, attacks and rays can move: one tensor, no tokens."""
    return isinstance(x, Tensor) and (x.is_floating_point() or x.dtype == torch.uint8)


def noise_sets(x: Tensor, known: Tensor, seed: int) -> Sets:
    """Noise like the test data, in the range of the known data."""
    units = units_of(known)
    low, high = units.low, units.low + units.width
    noisy = data.uniform_noise(len(x), x.shape[1:], seed=seed, low=low, high=high)
    if x.ndim == 4:
        shuffled = {"permuted pixels": data.permuted_pixels(x, seed=seed)}
    else:
        shuffled = {"shuffled features": data.shuffled_features(x, seed=seed)}
    return _named({"uniform noise": noisy, **shuffled}, "noise")


def ood_sets(
    given: Mapping[str, Any],
    x: Inputs,
    taken: Sequence[DataSet],
    read: Callable[[Any, str], Any],
    drawn: Callable[[Any], Any],
) -> Sets:
    """The OOD data that were given, or some drawn; names of noise and of `taken` are not free."""
    for name in given:
        if name in {"test", *NOISES, *(one.name for one in taken)}:
            raise NescioError(f"the name {name!r} is taken; choose another for your OOD data")
    others = {name: read(inputs, f"OOD data {name!r}")[0] for name, inputs in given.items()}
    for name, inputs in others.items():
        check_shape(f"OOD data {name!r}", inputs, x)
    check_distinct({name: content_of(hash_inputs(inputs)) for name, inputs in others.items()})
    return _named({name: drawn(inputs) for name, inputs in others.items()}, "ood")


def _named(inputs: Mapping[str, Any], kind: str) -> Sets:
    return {n: (DataSet(name=n, kind=kind, samples=len(x)), x) for n, x in inputs.items()}


def check_shape(what: str, given: Inputs, x: Inputs) -> None:
    """Refuse inputs of another shape than the test data."""
    if shape_of(given) != shape_of(x):
        raise NescioError(
            f"{what} have shape {shape_of(given)} per sample, the test data "
            f"{shape_of(x)}; resize them first, images with data.gray, crop or pad"
        )


@dataclass(frozen=True, eq=False)
class Attack:
    """Where the attack starts and how it moves, in units of the range of the data."""

    data: DataSet
    start: Tensor
    units: Units
    options: dict[str, Any]

    def most_confident(self, predictor: Predictor) -> tuple[Tensor, float]:
        """The most confident inputs near the noise, and the share without any gradient.

        Where the network gives no gradient, the attack tries again with one that leaks through
        dead units.
        """
        sure = confidence(predictor)

        def objective(shares: Tensor) -> Tensor:
            return sure(self.units.inputs(shares))

        found = pgd(objective, self.start, **self.options)
        x, blind = found.x, found.blind
        if blind.any():
            again = pgd(leaking(objective), self.start, **self.options)
            better = (again.value > found.value).view(-1, *(1 for _ in x.shape[1:]))
            x, blind = torch.where(better, again.x, x), blind & again.blind
        return self.units.inputs(x), blind.double().mean().item()

    def on(self, predictor: Predictor, keep: Keep | None = None) -> tuple[Sets, AttackFindings]:
        """The attacked noise by name, and what became of the attack.

        keep: returns what a run before this one found, if it did.
        """
        make = partial(self.most_confident, predictor)
        try:
            x, blind = make() if keep is None else keep(make)
        except NescioError as error:
            return {}, AttackFindings(skipped=str(error))
        return {self.data.name: (self.data, x)}, AttackFindings(blind=blind)


def check_attack(steps: int, radius: float | None) -> None:
    """Refuse options of the attack that make no sense, before any work is done.

    steps: number of steps, 0 or more.
    radius: how far the attack may go, above 0; None: the default.
    """
    if radius is not None and not radius > 0:
        raise NescioError(f"attack_radius must be positive, got {radius}; 0 steps leave it out")
    Ascent(radius=radius, steps=steps)


def attack_on(
    known: Tensor, steps: int, radius: float | None, *, count: int, seed: int
) -> Attack | None:
    """The attack in the range of the known data; none without steps."""
    check_attack(steps, radius)
    if not steps:
        return None
    own = derive(seed, "audit")  # other noise than a recipe trains on
    reach = near(radius, known)
    options = {"radius": reach, "steps": steps, "seed": own}
    how = f"radius {reach:g}, {steps} step{'s' if steps > 1 else ''}"
    name = f"{ADVERSARIAL} ({how})"
    where = DataSet(name=name, kind="adversarial", samples=count, description=how)
    return Attack(where, noise(known, seed=own).take(count), units_of(known), options)


def far_set(alpha: float, samples: int) -> DataSet:
    """The test inputs times a factor."""
    return DataSet(name=f"scaled x {alpha:.12g}", kind="far", samples=samples, strength=alpha)


def against(in_dist: Seen, seen: Seen) -> OnSet:
    """Confidence on an OOD set, and how well each measure tells it from the test data."""
    measures = {name: Separation(**part) for name, part in separation(in_dist, seen).items()}
    return OnSet(mean_max_confidence=metrics.mean_max_confidence(seen.probs), measures=measures)


def along_ray(
    look: Look, x: Tensor, in_dist: Seen, alphas: Sequence[float]
) -> tuple[Scaling, Seen]:
    """Confidence and separation along alpha * x, and what is answered at the last alpha."""
    shift = data.scaling()
    sure, areas = [], []
    for alpha in alphas:
        seen = look(shift(x, alpha))
        sure.append(metrics.mean_max_confidence(seen.probs))
        areas.append({n: metrics.auroc(s, seen.scores[n]) for n, s in in_dist.scores.items()})
    auroc = {name: tuple(area[name] for area in areas) for name in in_dist.scores}
    return Scaling(alpha=tuple(alphas), mean_max_confidence=tuple(sure), auroc=auroc), seen


def histogram(seen: Seen) -> tuple[int, ...]:
    """Counts of the confidence in equal bins of [0, 1]."""
    counts = torch.histc(seen.confidence, bins=BINS, min=0.0, max=1.0)
    return tuple(int(count) for count in counts.tolist())


def shifted(
    predictors: Mapping[str, Predictor],
    guards: Mapping[str, Guard],
    held: Held,
    *,
    most: int = SHIFTED,
    seed: int = 0,
) -> ShiftCurves:
    """Curves over the strengths of a rotation of images, of a scaling of other inputs.

    Of at most `most` samples, drawn.
    """
    x, y = held.measured
    rows = torch.randperm(len(x), generator=generator(seed, "moved"))[:most].sort().values
    x, y = x[rows], y[rows]
    shift = turned(units_of(x)) if x.ndim == 4 else feature_scaling()
    return under_shift(predictors, (x, y), shift, guards=guards)


def turned(units: Units) -> Shifted:
    """A rotation of images with any range; what comes in at the corners is its low end."""
    return in_units(rotation(), units)


def in_units(inner: Shifted, units: Units, *, inside: bool = True) -> Shifted:
    """A shift of images, or of numbers between 0 and 1, for inputs with any range.

    inside: what leaves the range of the data is cut to it.
    """
    if units.natural:
        return inner

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        moved = inner.change(units.shares(x), strength, numbers)
        return units.inputs(moved.clamp(0, 1) if inside else moved)

    return Shifted(inner.name, inner.description, change, images=False)
