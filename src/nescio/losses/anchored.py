"""Anchored ensembles (Pearce et al., 2020): each member stays near its own draw from the prior.

With N training points, a negative log-likelihood as the base and prior variances s, the penalty is
sum (w - anchor)^2 / (2 s N): the mean posterior objective of a member. The published code of the
half-moons paper takes an unsquared norm and the batch size instead; this is the squared one.
"""

import fnmatch
from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor

from nescio.errors import NescioError
from nescio.losses.loss import Batch, Loss, plus
from nescio.randomness import Rng, generator
from nescio.registry import losses
from nescio.stacking import Forward

Prior = float | Mapping[str, float] | None


@losses.register
def anchored(base: Loss, *, prior_variance: Prior = None, noise: float | None = None) -> Loss:
    """Add the squared distance of the weights from a prior draw, over prior variances and points.

    `prior_variance` is one number, or numbers by parameter name (`{"0.*": 7.5, "*": 1.0}`, the
    first match counts), or None: 1 / fan-in for weights and 1 for biases. `noise` is the variance
    of the targets where the base is a squared error; a likelihood needs none.
    """
    if noise is not None and not noise > 0:
        raise NescioError(f"noise must be a positive variance, got {noise}")
    factor = 0.5 if noise is None else noise

    def term(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        total = torch.zeros(len(batch.x), dtype=batch.x.dtype, device=batch.x.device)
        for name, weight in forward.parameters.items():
            variance = variance_of(name, weight.shape[1:], prior_variance)
            anchor = draw_anchor(rng.seed, rng.members, name, tuple(weight.shape[1:]))
            gap = weight - anchor.to(weight) * variance**0.5
            total = total + gap.flatten(1).square().sum(1) / variance
        return factor / batch.points * total

    text = f"anchored({base.description}, prior_variance={prior_variance}, noise={noise})"
    return plus(base, text, term)


def variance_of(name: str, shape: torch.Size, prior: Prior) -> float:
    """The prior variance of one parameter."""
    if prior is None:
        return 1.0 if len(shape) < 2 else 1.0 / shape[1:].numel()
    if isinstance(prior, Mapping):
        found = [v for pattern, v in prior.items() if fnmatch.fnmatchcase(name, pattern)]
        if not found:
            raise NescioError(f"no prior variance for {name}; add a pattern for it, or '*'")
        prior = found[0]
    if not prior > 0:
        raise NescioError(f"prior variances must be positive, got {prior} for {name}")
    return prior


@lru_cache(maxsize=256)
def draw_anchor(seed: int, members: tuple[int, ...], name: str, shape: tuple[int, ...]) -> Tensor:
    """Standard normal anchors `(M, ...)`: a function of seed, member and name, not of the start."""
    draws = [torch.randn(shape, generator=generator(seed, "anchor", m, name)) for m in members]
    return torch.stack(draws)
