"""Unsure on other inputs: CEDA (Hein et al., 2019), outlier exposure (Hendrycks et al., 2019).

The first paper speaks of a uniform distribution on noise, its equation 3 of the largest
log-probability: the same minimum, other gradients. `form` has both. Outlier exposure is the
cross-entropy logsumexp(z) - mean(z) to the uniform distribution, on a real data set.

ACET (Hein et al., 2019) is unsure all around noise. The paper attacks each noise image with 40
steps in each training step. Here an image comes back, epoch after epoch, from a pool, and its
perturbation is stored: a visit goes on where the last one ended, against a network that has changed
little. Its step is nearly free: the training pass itself gives the gradient of the inputs.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from nescio.attacks import Ascent, linf
from nescio.core import Head, NescioError, Rng, derive
from nescio.core.registry import losses
from nescio.data import OODSource
from nescio.losses.loss import Batch, Loss
from nescio.losses.with_ood import (
    ADVICE,
    Form,
    check,
    confidence_term,
    draw,
    numbers,
    perturbations,
    positions,
    random_start,
    top_odds,
    with_others,
)
from nescio.nets.stack import Forward


@losses.register
def ceda(
    base: Loss,
    ood: OODSource,
    *,
    weight: float = 1.0,
    form: Form = "max",
    share: float = 1.0,
    pool: int | None = None,
) -> Loss:
    """Add `weight` times the mean confidence term on OOD inputs, in one batch with the others.

    base: the loss that the term is added to.
    ood: source of the OOD inputs, in the units of the training inputs; a network that reads pixels
      of 0 to 255 learns nothing from noise in [0, 1].
    weight: factor on the term.
    form: "max", the largest log-probability (equation 3), "uniform", the cross-entropy to the
      uniform distribution, or, for concentrations, "flat", the divergence from the flat Dirichlet.
    share: number of OOD inputs per training sample.
    pool: number of OOD inputs that take turns; None: new ones in every step.
    """
    check(base, ood, weight, form, share, pool)

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        index = numbers(ood, batch, rng, share, pool)
        in_dist, outputs = with_others(base, forward, batch, rng, draw(ood, index, batch))
        return in_dist + weight * confidence_term(base.head, outputs, form)

    text = f"ceda({base.description}, {ood.description}, {weight=}, {form=}, {share=}, {pool=})"
    return base.with_step(text, step)


@losses.register
def outlier_exposure(
    base: Loss, ood: OODSource, *, weight: float = 0.5, share: float = 1.0
) -> Loss:
    """Add `weight` times the cross-entropy to the uniform distribution on outliers.

    Test on other OOD sets than `ood`: a network knows what it was shown.

    base: the loss that the term is added to.
    ood: source of the outliers, in the units of the training inputs.
    weight: factor on the cross-entropy.
    share: number of outliers per training sample.
    """
    loss = ceda(base, ood, weight=weight, form="uniform", share=share)
    text = f"outlier_exposure({base.description}, {ood.description}, {weight=}, {share=})"
    return replace(loss, description=text)


POOL = 3000  # inputs that take turns


@losses.register
def acet(
    base: Loss,
    ood: OODSource,
    *,
    weight: float = 1.0,
    attack: Ascent | None = None,
    keep: bool = True,
    free: float | None = None,
    ramp: float | None = None,
    form: Form = "max",
    share: float = 1.0,
    pool: int | None = None,
) -> Loss:
    """Add `weight` times the confidence term on the most confident inputs near OOD inputs.

    Where all units of a layer are dead the attack has no gradient: it is then `ceda` with jitter.

    base: the loss that the term is added to.
    ood: source of the OOD inputs, in the units of the training inputs.
    weight: factor on the term.
    attack: how inputs are searched in each step. None: `Ascent(radius=0.3, steps=0)`, a radius and
      no step: then free is 0.5 and ramp 0.3, else both are 0 unless given. The paper's is
      `Ascent(radius=0.3, steps=40, step=0.0075)`, with keep=False. Training and OOD inputs must be
      in its box, [0, 1] by default; others need `Ascent(..., low=-1.0, high=1.0)`.
    keep: go on from where the last visit of an input ended; linf only.
    free: after the step, move stored inputs by this share of the radius along the gradient that the
      training pass gives.
    ramp: share of the training during which the radius grows from 0.
    form: the confidence term, as in `ceda`.
    share: number of OOD inputs per training sample.
    pool: number of OOD inputs that take turns; None: a tenth of the training samples, 3000 at most:
      an input that hardly ever comes back is hardly attacked.
    """
    check(base, ood, weight, form, share, pool)
    ascent = attack or Ascent(radius=0.3, steps=0, best=False)
    alone = keep and not ascent.steps
    free = 0.5 * alone if free is None else free
    ramp = 0.3 * alone if ramp is None else ramp
    _check(ascent, keep, free, ramp)
    text = (
        f"acet({base.description}, {ood.description}, {weight=}, {ascent.description}, "
        f"{keep=}, {free=}, {ramp=}, {form=}, {share=}, {pool=})"
    )
    name = f"acet {derive(text):x}"

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        scale = min(1.0, (batch.step + 1) / (ramp * batch.total)) if ramp else 1.0
        size = pool or _usual(batch, name, ood, share)
        index = numbers(ood, batch, rng, share, size if keep else pool)
        if keep and index.shape[1] > size:
            raise _too_few(index.shape[1], size, ood)
        center = draw(ood, index, batch)
        ends = torch.stack([batch.low, batch.high])
        ascent.check(ends, what="training inputs", advice=ADVICE)
        others = f"inputs of {ood.name!r}"
        ascent.check(center, lead=2, what=others, advice=f"scale them, or {ADVICE}")
        if keep:
            warm = perturbations(batch, rng, name, size, ascent.reach)
            position = positions(ood, index, size)
            nearest = ascent.projection(center, lead=2, scale=scale)
            start = nearest(center + warm.recall(position))
        else:
            start = random_start(ascent, center, rng, scale)
        result = _searched(ascent, base.head, forward, center, start, scale)
        if keep:
            warm.store(position, result - center)
        if free:
            length = free * ascent.reach * scale
            result = result.detach().requires_grad_()

            def go_on(slope: Tensor) -> None:
                warm.store(position, nearest(result.detach() + length * slope.sign()) - center)

            batch.wanted.append((result, go_on))
        in_dist, outputs = with_others(base, forward, batch, rng, result)
        return in_dist + weight * confidence_term(base.head, outputs, form)

    return base.with_step(text, step)


def _searched(
    ascent: Ascent, head: Head, forward: Forward, center: Tensor, start: Tensor, scale: float
) -> Tensor:
    """The surest points that the attack reaches from `start`; without steps, `start`."""
    if not ascent.steps:
        return start
    frozen = forward.frozen()

    def objective(x: Tensor) -> Tensor:
        return top_odds(head.logits(frozen(x)))

    return ascent(objective, center, start=start, lead=2, scale=scale)[0]


def _usual(batch: Batch, name: str, ood: OODSource, share: float) -> int:
    """A tenth of the samples, at least what the largest batch takes; the same in all steps."""
    if name in batch.memory:
        return batch.memory[name].shape[1]
    least = math.ceil(share * (batch.x.shape[1] + 1))  # a single sample may join the last batch
    size = max(least, min(POOL, batch.size // 10))
    return size if ood.size is None else min(size, ood.size)


def _too_few(step: int, size: int, ood: OODSource) -> NescioError:
    """More inputs in a step than take turns: one would be moved twice, and stored once."""
    there, more = f"of a pool of {size}", "a larger pool"
    if ood.size == size:
        there = f"and {ood.name!r} has {size}"
        more = "a larger OOD set, or keep=False with an attack of some steps"
    return NescioError(
        f"a step takes {step} OOD inputs, {there}; use a smaller batch or share, or {more}"
    )


def _check(ascent: Ascent, keep: bool, free: float, ramp: float) -> None:
    if keep and (ascent.norm is not linf or not ascent.radius):
        raise NescioError(
            "keep=True stores perturbations in a linf ball; give the attack that norm and a "
            "positive radius, or say keep=False"
        )
    if not 0 <= ramp <= 1 or not 0 <= free < math.inf:
        raise NescioError(f"ramp must be in [0, 1] and free from 0 up, got {ramp} and {free}")
    if not ascent.steps and not keep:
        raise NescioError("an attack of 0 steps finds nothing; it needs keep=True and a free step")
    if free and not keep:
        raise NescioError("a free step moves the stored inputs; it needs keep=True")
