"""The evidence lower bound of Bayes-by-backprop (Blundell et al., 2015, eqs. 3, 7 and 8).

With N training points the loss of a batch is its mean negative log-likelihood plus the divergence
of the weights from the prior, divided by N. So the batches of an epoch add up to the bound.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, Rng
from nescio.core.registry import losses
from nescio.losses.loss import Batch, Loss, plus
from nescio.nets.stack import Forward

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
) -> Loss:
    """Add the divergence of variational weights from the prior; for networks like `bayesian_mlp`.

    The prior is normal with standard deviation `prior_spread`; with `narrow`, a mixture: `share` of
    it has `prior_spread`, the rest has `narrow`. `weight` scales the divergence (1 is the bound).
    `weighting`: "uniform", or "decaying" (first batches of an epoch count more, eq. 9).
    """
    if weighting not in ("uniform", "decaying"):
        raise NescioError(f"weighting is 'uniform' or 'decaying', got {weighting!r}")
    if not (prior_spread > 0 and weight >= 0 and (narrow is None or narrow > 0) and 0 < share < 1):
        raise NescioError("elbo needs positive spreads, 0 < share < 1 and weight >= 0")
    divergence = _normal(prior_spread) if narrow is None else _mixture(prior_spread, narrow, share)

    def term(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        total = torch.zeros(len(batch.x), dtype=batch.x.dtype, device=batch.x.device)
        for name, mean, spread in variational(forward):
            noise = rng.normal(mean.shape[1:], f"weights {name}", like=mean)
            total = total + divergence(mean, spread, noise).flatten(1).sum(1)
        return weight * _share_of(batch, rng, weighting) / batch.points * total

    text = (
        f"elbo({base.description}, {prior_spread=}, {narrow=}, {share=}, {weight=}, {weighting=})"
    )
    return plus(base, text, term)


def variational(forward: Forward) -> list[tuple[str, Tensor, Tensor]]:
    """Name, mean and spread of all variational weights, each `(M, ...)`."""
    weights = forward.parameters
    names = [name.removesuffix("_rho") for name in weights if name.endswith("_rho")]
    if not names:
        raise NescioError("elbo needs a network with variational layers, such as nets.bayesian_mlp")
    return [(n, weights[f"{n}_mean"], F.softplus(weights[f"{n}_rho"])) for n in names]


def _share_of(batch: Batch, rng: Rng, weighting: str) -> float:
    """How much this batch counts, 1 on average over an epoch."""
    if weighting == "uniform" or batch.steps == 1:
        return 1.0
    step, steps = rng.place[-1], batch.steps
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
