"""A lower bound on the Lipschitz constant of any network: the largest ratio of changes met."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError, generator, is_whole
from nescio.geometry.affine_maps import gradients
from nescio.geometry.lipschitz.norms import check_norm, vector_norm
from nescio.geometry.tracing.instances import (
    Instance,
    Source,
    as_points,
    blocks,
    instances,
    together,
)

STEP = 1e-3  # of a pair, relative to the size of the inputs: short, and far above rounding
BLOCK = 64  # inputs whose Jacobians are computed together


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledLipschitz:
    """Two inputs were found whose logits are `bound` times as far apart as they are.

    bound: the ratio, `()`, or `(M,)` of a model.
    norm: the norm of inputs and logits.
    pairs: number of pairs that were drawn.
    """

    bound: Tensor
    norm: str
    pairs: int

    def __float__(self) -> float:
        return float(self.bound.max())


def sampled_lipschitz(
    source: Source, x: Any, *, norm: str = "l2", draws: int = 1000, seed: int = 0
) -> SampledLipschitz:
    """The largest ratio of the change of the logits to that of the input over random pairs.

    Each pair lies close around a random point between two of the inputs, in the direction in which
    the logits change fastest there. A lower bound on the Lipschitz constant of any network with
    gradients, whatever its layers.

    source: a network, a model or a predictor; each member is analyzed by itself.
    x: inputs, `(N, *features)`.
    norm: `"l2"`, `"linf"` or `"l1"`, of inputs and logits alike.
    draws: number of pairs.
    seed: seed of the random draws.
    """
    check_norm(norm)
    points = as_points(x, "x")
    if not is_whole(draws, 1):
        raise NescioError(f"draws must be a whole number from 1 up, got {draws!r}")
    between = _between(points, draws, seed)
    found = [_largest_ratio(instance, between, norm) for instance in instances(source)]
    return SampledLipschitz(bound=together(source, found), norm=norm, pairs=draws)


def _between(points: Tensor, draws: int, seed: int) -> Tensor:
    rng = generator(seed, "lipschitz")
    first, second = torch.randint(len(points), (2, draws), generator=rng)
    share = torch.rand(draws, generator=rng, dtype=torch.float64)
    share = share.reshape(-1, *(1 for _ in points.shape[1:]))
    return points[first] * share + points[second] * (1 - share)


def _largest_ratio(instance: Instance, points: Tensor, norm: str) -> Tensor:
    step = STEP * points.abs().mean().clamp(min=1e-12)
    best = points.new_zeros(())
    for block in blocks(len(points), BLOCK):
        x = points[block]
        way = _steepest(_jacobian(instance, x), norm).reshape(x.shape)
        ahead, back = x + step * way, x - step * way
        moved = vector_norm((ahead - back).flatten(1), norm)
        ratio = vector_norm(instance(ahead) - instance(back), norm) / moved
        best = torch.maximum(best, ratio.max())
    return best


def _jacobian(instance: Instance, x: Tensor) -> Tensor:
    inputs = x.clone().requires_grad_()
    with torch.enable_grad():
        logits = instance.logits(inputs)
        try:
            return gradients(logits, inputs)
        except RuntimeError as error:
            line = str(error).strip().split("\n")[0]
            raise NescioError(f"the network has no gradients by its inputs: {line}") from error


def _steepest(jacobian: Tensor, norm: str) -> Tensor:
    """The direction `(n, D)` of length 1 that matrices `(n, C, D)` stretch most."""
    if norm == "l2":
        right: Tensor = torch.linalg.svd(jacobian, full_matrices=False).Vh
        return right[:, 0]
    if norm == "linf":
        row = jacobian.abs().sum(2).argmax(1)
        signs = jacobian[torch.arange(len(jacobian)), row].sign()
        return torch.where(signs == 0, 1.0, signs)
    column = jacobian.abs().sum(1).argmax(1)
    return torch.nn.functional.one_hot(column, jacobian.shape[2]).to(jacobian.dtype)
