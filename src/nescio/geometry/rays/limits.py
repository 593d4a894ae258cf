"""Every measure and score at the end of a ray: exact limits, and those of gradients.

Logits are affine in t beyond the last breakpoint, so each member's probabilities have a limit, and
with them every measure (Ulmer and Cina, 2020, whose hypotheses are not needed for this). The input
gradient of a measure has a limit too: its derivative in the logits, at the limit, times the affine
map of the last region. It need not vanish: where two classes grow equally fast, probabilities keep
changing across the ray.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core import Categorical, NescioError, applicable, least_confidence
from nescio.core.registry import measures
from nescio.geometry.rays.far_field import FarField, far_field, limits_of
from nescio.geometry.tracing.instances import (
    Source,
    as_rays,
    blocks,
    check_classes,
    check_no_concentrations,
    with_members,
)

BYTES = 64 << 20  # of the last regions of one block of rays
APART = 800.0  # exp(-APART) is 0 in float64
ROUNDING = 1e-12
ENDS = ("min", "median", "max")
CLASSES = "classes"  # beside the names of measures
Reading = Callable[[FarField], FarField]  # with a temperature, or a logit more


@dataclass(frozen=True, eq=False, kw_only=True)
class Limits:
    """Limits along N rays; larger scores mean less confidence.

    probs: class probabilities of the members, `(M, N, C)`.
    kind: `"one"`, `"tie"`, `"constant"` or `"undecided"`, `(M, N)`.
    measures: limits of the measures by name, `(N,)`.
    scores: limits of the measures and of the scores that read logits, by name, `(N,)`.
    certain: the least possible value of each score, by name.
    gradients: norm of the input gradient of each measure, by name, `(N,)`; None unless asked for.
    class_gradients: the same of each probability of the mixture, `(N, C)`; None unless asked for.
    """

    probs: Tensor
    kind: Any
    measures: Mapping[str, Tensor]
    scores: Mapping[str, Tensor]
    certain: Mapping[str, float]
    gradients: Mapping[str, Tensor] | None = None
    class_gradients: Tensor | None = None

    def table(self) -> list[dict[str, Any]]:
        """One row per score: its limits, and the share of rays with the least possible value."""
        rows = []
        for name, values in self.scores.items():
            best = self.certain[name]
            sure = values == best if math.isinf(best) else values <= best + ROUNDING
            ends = {end: getattr(values, end)().item() + 0.0 for end in ENDS}  # not -0
            rows.append({"score": name, **ends, "certain": sure.double().mean().item()})
        return rows


def limits(
    source: Source,
    origin: Any,
    direction: Any,
    *,
    gradients: bool = True,
    temperature: float | None = None,
    epsilon: float | None = None,
    reject: int | None = None,
    reject_logit: float | None = None,
) -> Limits:
    """The limits of all measures of classifiers along `origin + t * direction`.

    source: a network, a model or a predictor; each member is analyzed by itself.
    origin, direction: origins and directions of the rays, `(N, *features)`; a single one serves all
      rays.
    gradients: whether to compute the limits of the input gradients too.
    temperature: divides the logits; also that of the energy and of ODIN. None: 1.
    epsilon: adds the score `odin`, whose inputs first take this step towards the predicted class.
      None: no such score.
    reject: the class of the network that means "none of these"; adds `reject`, its probability, and
      `least_confidence_of_classes`, one minus the largest probability of another class. None: no
      such class.
    reject_logit: the same with a class of this constant logit beside those of the network.
    """
    heat = _checked("temperature", 1.0 if temperature is None else temperature, positive=True)
    step = None if epsilon is None else _checked("epsilon", epsilon)
    check_no_concentrations(source)
    start, way = as_rays(origin, direction)
    raw = _with_members(source, start, way)
    classes = raw.slope.shape[-1]
    check_classes(classes)
    rejecting = _reject_class(reject, reject_logit, classes)
    read = partial(_read, heat=heat, reject_logit=reject_logit)
    field = read(raw)
    prediction = Categorical.from_probs(field.limit)
    values = {name: measures[name](prediction) for name in applicable(prediction)}
    scores = {**values, **_logit_scores(raw, heat)}
    if rejecting is not None:
        others = prediction.probs.clone()
        others[:, rejecting] = 0.0
        scores["reject"] = prediction.probs[:, rejecting]
        scores["least_confidence_of_classes"] = 1 - others.amax(-1)
    slopes: dict[str, Tensor] = {}
    if gradients or step is not None:
        size = BYTES // (8 * raw.slope[:, 0].numel() * start[0].numel())
        parts = [
            _block(source, start[rows], way[rows], read, gradients, step)
            for rows in blocks(len(start), size)
        ]
        slopes = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    if step is not None:
        scores["odin"] = slopes.pop("odin")
    return Limits(
        probs=field.limit,
        kind=field.kind,
        measures=values,
        scores=scores,
        certain={name: _certain(name, prediction.classes) for name in scores},
        class_gradients=slopes.pop(CLASSES, None),
        gradients=slopes if gradients else None,
    )


def _block(
    source: Source, start: Tensor, way: Tensor, read: Reading, gradients: bool, step: float | None
) -> dict[str, Tensor]:
    """What needs the affine maps of the last regions, for some of the rays."""
    field = read(_with_members(source, start, way, last_region=True))
    found = _gradients(field) if gradients else {}
    if step is not None:
        moved = start + step * _odin_step(field).reshape(start.shape)
        after = read(_with_members(source, moved, way))
        found["odin"] = least_confidence(Categorical.from_probs(after.limit))
    return found


def _checked(name: str, value: float, *, positive: bool = False) -> float:
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        kind = "positive" if positive else "0 or more"
        raise NescioError(f"{name} must be {kind} and finite, got {value}")
    return float(value)


def _reject_class(reject: int | None, logit: float | None, classes: int) -> int | None:
    if reject is not None and logit is not None:
        raise NescioError("give reject, a class of the network, or reject_logit, not both")
    if logit is not None:
        if not math.isfinite(logit):
            raise NescioError(f"reject_logit must be finite, got {logit}")
        return classes
    if reject is not None and (isinstance(reject, bool) or not 0 <= reject < classes):
        raise NescioError(f"reject must be a class in 0..{classes - 1}, got {reject}")
    return reject


def _with_members(
    source: Source, start: Tensor, way: Tensor, *, last_region: bool = False
) -> FarField:
    """The far field `(M, N, ...)`, whatever the source."""
    field = far_field(source, start, way, last_region=last_region)
    return with_members([field]) if isinstance(source, nn.Module) else field


def _read(field: FarField, heat: float, reject_logit: float | None) -> FarField:
    """The field of `logits / heat`, with one constant logit more if there is one."""
    slope, intercept, last = field.slope, field.intercept, field.last_region
    if heat == 1.0 and reject_logit is None:
        return field
    if reject_logit is not None:
        slope = F.pad(slope, (0, 1))
        intercept = F.pad(intercept, (0, 1), value=reject_logit)
    slope, intercept = slope / heat, intercept / heat
    undecided = torch.as_tensor(field.kind == "undecided")
    kind, limit = limits_of(slope, intercept, undecided)
    if last is not None:
        V, a = last.V, last.a
        if reject_logit is not None:
            V, a = F.pad(V, (0, 0, 0, 1)), F.pad(a, (0, 1), value=reject_logit)
        last = replace(last, V=V / heat, a=a / heat)
    return replace(
        field, slope=slope, intercept=intercept, limit=limit, kind=kind, last_region=last
    )


def _logit_scores(field: FarField, heat: float) -> dict[str, Tensor]:
    """Max logit and energy, of each member and averaged: affine in t, so infinite or constant."""
    speed = field.slope.amax(-1, keepdim=True)
    top = torch.where(field.slope == speed, field.intercept, -math.inf)
    growth = -speed[..., 0].mean(0)
    ends = growth.sign() * math.inf
    energy = heat * (top / heat).logsumexp(-1)
    return {
        "max_logit": torch.where(growth == 0, -top.amax(-1).mean(0), ends),
        "energy": torch.where(growth == 0, -energy.mean(0), ends),
    }


def _certain(name: str, classes: int) -> float:
    """The value of a score where every member is sure of one class."""
    if name in measures:
        sure = F.one_hot(torch.zeros(1, 1, dtype=torch.long), classes).double()
        return float(measures[name](Categorical.from_probs(sure)))
    return -math.inf if name in ("max_logit", "energy") else 0.0


def _gradients(field: FarField) -> dict[str, Tensor]:
    """Norms of the limits of input gradients, `(N,)` by measure and `(N, C)` of the classes."""
    logits = _ordered(field.slope, field.intercept).requires_grad_()
    prediction = Categorical(logits)
    names = applicable(prediction)
    rates = [_rate(measures[name], logits) for name in names]
    probs = prediction.member_probs.detach() / len(logits)
    own = torch.eye(prediction.classes, dtype=torch.float64)
    for c, share in enumerate(probs.unbind(-1)):  # of each probability of the mixture
        rates.append(share[..., None] * (own[c] - probs * len(logits)))
    every = _terms(torch.stack(rates, -1)).transpose(1, 2)  # (N, Q, M * C)
    assert field.last_region is not None
    norms = (every @ _terms(field.last_region.V)).norm(dim=-1)
    found = {name: norms[:, i] for i, name in enumerate(names)}
    return {**found, CLASSES: norms[:, len(names) :]}


def _rate(measure: Callable[[Categorical], Tensor], logits: Tensor) -> Tensor:
    """The derivative `(M, N, C)` of a measure in the logits; 0 where it counts votes."""
    with torch.enable_grad():
        value = measure(Categorical(logits)).sum()
    if not value.requires_grad:
        return torch.zeros_like(logits)
    (rate,) = torch.autograd.grad(value, logits)
    return rate


def _ordered(slope: Tensor, intercept: Tensor) -> Tensor:
    """Logits `(M, N, C)` that stand for the limit: what grows slower is lower by APART or more.

    The order is that of all members together, relative to the top of each, because a mixture
    compares the vanishing probabilities of one member with those of another.
    """
    M, N, C = slope.shape
    gaps = (slope.amax(-1, keepdim=True) - slope).movedim(0, 1).reshape(N, M * C)
    ordered, places = gaps.sort(dim=-1)
    steps = F.pad(_faster(ordered).double().cumsum(-1), (1, 0))
    rank = torch.empty_like(steps).scatter_(-1, places, steps)
    rank = rank.reshape(N, M, C).movedim(1, 0)
    best = torch.where(rank == 0, intercept, -math.inf).amax(-1, keepdim=True)
    heights = intercept - best
    spread = heights.amax((0, 2), keepdim=True) - heights.amin((0, 2), keepdim=True)
    return (heights - (APART + spread) * rank).detach()


def _faster(rates: Tensor) -> Tensor:
    """Whether each rate of an ascending row is more than its predecessor, by more than rounding."""
    return rates.diff(dim=-1) > ROUNDING * rates[..., 1:]


def _odin_step(field: FarField) -> Tensor:
    """Signs `(N, D)` of the gradient of the log of the largest probability p_k, for large t.

    Of its terms `p_k p_j (V_k - V_j)` the slowest that is not 0 decides, coordinate by coordinate.
    """
    assert field.last_region is not None
    V = field.last_region.V
    M, N, _, D = V.shape
    label = _label(field).expand(M, N)[..., None]
    gap, weight = _falling(field)
    rate = gap + gap.gather(-1, label)
    weight = weight + weight.gather(-1, label)
    away = V.gather(2, label[..., None].expand(M, N, 1, D)) - V
    signs = torch.zeros(N, D, dtype=torch.float64)
    for ended, total, size in _slowest_first(*map(_terms, (rate, weight, away))):
        sign = torch.where(total.abs() > ROUNDING * size, total.sign(), 0.0)
        signs = torch.where(ended & (signs == 0), sign, signs)
        if (signs != 0).all():
            break
    return signs


def _label(field: FarField) -> Tensor:
    """The class `(N,)` with the largest mean probability for large t.

    Where means tie, the slowest vanishing probability decides: its class gains, the others lose.
    """
    mean = field.limit.mean(0)
    best = mean >= mean.amax(-1, keepdim=True) - ROUNDING
    rows = (best.sum(-1) > 1).nonzero()[:, 0]
    if len(rows) and len(field.limit) > 1:
        gap, weight = _falling(field)
        gap, weight, limit = gap[:, rows], weight[:, rows], field.limit[:, rows]
        gain = torch.eye(limit.shape[-1], dtype=torch.float64) - limit[:, :, None]
        gain = torch.where(gap[..., None] > 0, gain, 0.0)
        tied = best[rows]
        for ended, total, size in _slowest_first(*map(_terms, (gap, weight, gain))):
            top = torch.where(tied, total, -math.inf).amax(-1, keepdim=True)
            tied = tied & (~ended | (total >= top - ROUNDING * size.amax(-1, keepdim=True)))
        best[rows] = tied
    return best.int().argmax(-1)


def _falling(field: FarField) -> tuple[Tensor, Tensor]:
    """Rates and logarithms of the factors of all probabilities: `exp(weight - rate * t)`."""
    rate = field.slope.amax(-1, keepdim=True) - field.slope
    top = torch.where(rate == 0, field.intercept, -math.inf)
    return rate, field.intercept - top.logsumexp(-1, keepdim=True)


def _terms(value: Tensor) -> Tensor:
    """`(M, N, C, ...)` as terms of each ray, `(N, M * C, ...)`."""
    return value.movedim(0, 1).flatten(1, 2)


def _slowest_first(
    rate: Tensor, weight: Tensor, vector: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Sums of the vectors `(N, L, D)` whose terms fall at one rate, and of their magnitudes.

    Terms come one by one for all rays at once; a sum counts where it has `ended`, `(N, 1)`.
    """
    order = weight.argsort(dim=-1, descending=True, stable=True)
    order = order.gather(-1, rate.gather(-1, order).argsort(dim=-1, stable=True))
    rate, weight = rate.gather(-1, order), weight.gather(-1, order)
    rows, L = torch.arange(len(rate)), rate.shape[1]
    fresh = torch.ones(len(rate), 1, dtype=torch.bool)
    first, total, size = weight[:, :1], vector[:, 0], vector[:, 0]
    for i in range(L):
        first = torch.where(fresh, weight[:, i : i + 1], first)  # the largest of its rate
        term = (weight[:, i : i + 1] - first).exp() * vector[rows, order[:, i]]
        total = torch.where(fresh, 0.0, total) + term
        size = torch.where(fresh, 0.0, size) + term.abs()
        fresh = torch.ones_like(fresh)
        if i + 1 < L:
            fresh = _faster(rate[:, i : i + 2])
        yield fresh, total, size
