"""Penalties on the weights: weight decay, and anchored ensembles (Pearce et al., 2020).

A member of an anchored ensemble stays near its own draw from the prior. With N training points, a
negative log-likelihood as the base and prior variances s, the penalty is
sum (w - anchor)^2 / (2 s N): the mean posterior objective of a member. The published code of the
half-moons paper takes an unsquared norm and the batch size instead; this is the squared one.

The evidence lower bound of Bayes-by-backprop (Blundell et al., 2015, eqs. 3, 7 and 8) adds the
divergence of the weights from the prior, divided by N, so that the batches of an epoch add up.
"""

import fnmatch
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, Rng, generator
from nescio.core.registry import losses
from nescio.losses.loss import Batch, Loss, plus
from nescio.nets.stack import Forward

Prior = float | Mapping[str, float] | None


@losses.register
def weight_decay(base: Loss, *, strength: float = 1e-4) -> Loss:
    """Add `strength` times the sum of squares of all trained weights.

    base: the loss that the term is added to.
    strength: factor on the sum of squares.
    """
    if not strength >= 0:
        raise NescioError(f"strength must not be negative, got {strength}")

    def term(forward: Forward, _: Batch, __: Rng) -> Tensor:
        squares = [weight.flatten(1).square().sum(1) for weight in forward.parameters.values()]
        return strength * torch.stack(squares).sum(0)

    added = plus(base, f"weight_decay({base.description}, {strength=})", term, of_weights=True)
    return replace(added, decay=None if base.decay is None else base.decay + strength)


@losses.register
def anchored(base: Loss, *, prior_variance: Prior = None, noise: float | None = None) -> Loss:
    """Add the squared distance of the weights from a prior draw, over prior variances and points.

    base: the loss that the term is added to.
    prior_variance: one number, or numbers by parameter name (`{"0.*": 7.5, "*": 1.0}`, the first
      match counts). None: 1 / fan-in for weights and 1 for biases.
    noise: variance of the targets where the base is a squared error; None: the base is a
      likelihood.
    """
    if noise is not None and not noise > 0:
        raise NescioError(f"noise must be a positive variance, got {noise}")
    if noise is not None and base.score is base.head.nll:
        raise NescioError("noise is for a squared error; a likelihood knows the noise by its head")
    factor = 0.5 if noise is None else noise
    patterns = tuple(prior_variance.items()) if isinstance(prior_variance, Mapping) else None

    def term(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        weights = forward.parameters
        shapes = tuple((name, tuple(weight.shape[1:])) for name, weight in weights.items())
        variances = prior_variances(shapes, patterns or prior_variance)
        anchors = draw_anchors(rng.seed, rng.members, shapes)
        total = torch.zeros(len(batch.x), dtype=batch.low.dtype, device=batch.x.device)
        for weight, variance, anchor in zip(weights.values(), variances, anchors, strict=True):
            gap = weight - anchor.to(weight) * variance**0.5
            total = total + gap.flatten(1).square().sum(1) / variance
        return factor / batch.points * total

    text = f"anchored({base.description}, prior_variance={prior_variance}, noise={noise})"
    return plus(base, text, term, of_weights=True)


Shapes = tuple[tuple[str, tuple[int, ...]], ...]


@lru_cache(maxsize=8)
def prior_variances(
    shapes: Shapes, prior: tuple[tuple[str, float], ...] | float | None
) -> tuple[float, ...]:
    """The prior variance of each parameter; input scaling does not change a parameter's name."""
    if not isinstance(prior, tuple):
        prior = (("*", prior),) if prior is not None else ()
    names = [name.removeprefix("net.") for name, _ in shapes]
    for pattern, value in prior:
        if not value > 0:
            raise NescioError(f"prior variances must be positive, got {value} for {pattern!r}")
        if not fnmatch.filter(names, pattern):
            known = ", ".join(names)
            raise NescioError(f"the pattern {pattern!r} fits no parameter; there are: {known}")
    variances = []
    for name, (_, shape) in zip(names, shapes, strict=True):
        fitting = [value for pattern, value in prior if fnmatch.fnmatchcase(name, pattern)]
        if prior and not fitting:
            raise NescioError(f"no prior variance for {name}; add a pattern for it, or '*'")
        by_size = 1.0 if len(shape) < 2 else 1.0 / math.prod(shape[1:])
        variances.append(fitting[0] if prior else by_size)
    return tuple(variances)


@lru_cache(maxsize=2)
def draw_anchors(seed: int, members: tuple[int, ...], shapes: Shapes) -> tuple[Tensor, ...]:
    """Standard normal anchors `(M, ...)`: functions of seed, member and name, not of the start."""
    return tuple(
        torch.stack([torch.randn(s, generator=generator(seed, "anchor", m, n)) for m in members])
        for n, s in shapes
    )


Divergence = Callable[[Tensor, Tensor, Tensor], Tensor]  # mean, spread, noise -> same shape


@losses.register
def elbo(
    base: Loss,
    *,
    prior_spread: float = 1.0,
    narrow: float | None = None,
    share: float = 0.5,
    weight: float = 1.0,
    weighting: str = "uniform",
    ramp: float = 0.0,
) -> Loss:
    """Add the divergence of variational weights from the prior; for networks like `bayesian_mlp`.

    base: the loss that the term is added to.
    prior_spread: standard deviation of the normal prior.
    narrow: standard deviation of the narrow part of a mixture; None: the prior is one normal
      distribution.
    share: share of the mixture that has `prior_spread`, the rest has `narrow`.
    weight: factor on the divergence; 1 is the bound.
    weighting: "uniform", or "decaying" (first batches of an epoch count more, eq. 9).
    ramp: share of the training in which the weight grows evenly from 0; 0: it is constant.
    """
    if weighting not in ("uniform", "decaying"):
        raise NescioError(f"weighting is 'uniform' or 'decaying', got {weighting!r}")
    if not 0 <= ramp <= 1:
        raise NescioError(f"ramp is a share of the training, from 0 to 1, got {ramp}")
    if not (prior_spread > 0 and weight >= 0 and (narrow is None or narrow > 0) and 0 < share < 1):
        raise NescioError("elbo needs positive spreads, 0 < share < 1 and weight >= 0")
    divergence = _normal(prior_spread) if narrow is None else _mixture(prior_spread, narrow, share)

    def term(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        total = torch.zeros(len(batch.x), dtype=batch.low.dtype, device=batch.x.device)
        for name, mean, spread in variational(forward):
            noise = rng.normal(mean.shape[1:], f"weights {name}", like=mean)
            total = total + divergence(mean, spread, noise).flatten(1).sum(1)
        grown = min(1.0, batch.step / (ramp * batch.total)) if ramp else 1.0
        return weight * grown * _share_of(batch, weighting) / batch.points * total

    text = (
        f"elbo({base.description}, {prior_spread=}, {narrow=}, {share=}, {weight=}, {weighting=}"
        + (f", {ramp=})" if ramp else ")")
    )
    return plus(base, text, term, of_weights=True)


def variational(forward: Forward) -> list[tuple[str, Tensor, Tensor]]:
    """Name, mean and spread of all variational weights, each `(M, ...)`."""
    weights = forward.parameters
    names = [name.removesuffix("_rho") for name in weights if name.endswith("_rho")]
    if not names:
        raise NescioError("elbo needs a network with variational layers, such as nets.bayesian_mlp")
    return [(n, weights[f"{n}_mean"], F.softplus(weights[f"{n}_rho"])) for n in names]


def _share_of(batch: Batch, weighting: str) -> float:
    """How much this batch counts, 1 on average over an epoch."""
    if weighting == "uniform" or batch.steps == 1:
        return 1.0
    step, steps = batch.step % batch.steps, batch.steps
    return steps * 2.0 ** -(step + 1) / (1 - 2.0**-steps)


def _normal(prior: float) -> Divergence:
    def divergence(mean: Tensor, spread: Tensor, noise: Tensor) -> Tensor:
        del noise  # closed form
        ratio = (spread / prior).square()
        return 0.5 * (ratio + (mean / prior).square() - 1 - ratio.log())

    return divergence


def _mixture(wide: float, narrow: float, share: float) -> Divergence:
    logs = math.log(share), math.log1p(-share)

    def divergence(mean: Tensor, spread: Tensor, noise: Tensor) -> Tensor:
        weight = mean + spread * noise  # one draw for the prior, the entropy is exact
        parts = [
            log - 0.5 * (weight / scale).square() - math.log(scale)
            for log, scale in zip(logs, (wide, narrow), strict=True)
        ]
        return -torch.logaddexp(*parts) - spread.log() - 0.5

    return divergence
