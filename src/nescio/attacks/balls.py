"""Norms of attacks: their balls, steepest steps, projections and random points."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.core import NescioError

SHARE = 0.05  # of the features that an l1 step moves: one alone would need hundreds of steps
TAIL = 1e-6  # uniform numbers nearer to 0 or 1 would become infinite


@dataclass(frozen=True, kw_only=True)
class Norm:
    """A norm, and what an attack does with it to perturbations `(K, F)`.

    name: name of the norm.
    size: a function of perturbations to their norms, `(K, F)` to `(K,)`.
    steepest: a function of gradients to steps of norm 1; zero stays zero.
    project: a function of perturbations and a radius to the nearest points of the ball.
    inside: a function of uniform numbers `(K, 1 + F)` and a radius to points of the ball.
    """

    name: str
    size: Callable[[Tensor], Tensor]
    steepest: Callable[[Tensor], Tensor]
    project: Callable[[Tensor, float], Tensor]
    inside: Callable[[Tensor, float], Tensor]

    def __repr__(self) -> str:
        return self.name


def norm_named(norm: str | Norm) -> Norm:
    """The norm of the name `norm`, or the norm itself."""
    if isinstance(norm, Norm):
        return norm
    if norm not in NORMS:
        raise NescioError(f"unknown norm {norm!r}; known: {', '.join(NORMS)}")
    return NORMS[norm]


def _unit(slope: Tensor) -> Tensor:
    """Scaled by the largest entry first, so that tiny slopes do not vanish when squared."""
    largest = slope.abs().amax(1, keepdim=True)
    scaled = slope / largest.where(largest > 0, 1.0)
    unit: Tensor = scaled / scaled.norm(dim=1, keepdim=True).clamp(min=1.0)
    return unit


def _shortened(delta: Tensor, radius: float) -> Tensor:
    length: Tensor = delta.norm(dim=1, keepdim=True)
    return delta * (radius / length).where(length > radius, 1.0)


def _in_sphere(numbers: Tensor, radius: float) -> Tensor:
    """The direction of a normal draw, at a uniform distance.

    Not uniform in the ball: in many dimensions all of that is at its edge, from where an attack
    goes most of its way back. On an MLP for MNIST (300 digits, radius 1, 5 steps) the mean log-odds
    against the label reached 1.09 from there, 1.14 from here and 1.15 from the input.
    """
    normal = torch.special.ndtri(numbers[:, 1:].clamp(TAIL, 1 - TAIL))
    return radius * numbers[:, :1] * _unit(normal)


def _largest(slope: Tensor) -> Tensor:
    """Equal steps along a share of the slopes, the largest: sooner there than one feature alone."""
    count = max(1, int(SHARE * slope.shape[1]))
    level = slope.abs().topk(count, dim=1).values[:, -1:]
    chosen = slope.sign() * (slope.abs() >= level)
    return chosen / chosen.abs().sum(1, keepdim=True).clamp(min=1.0)


def _thresholded(delta: Tensor, radius: float) -> Tensor:
    """Projection onto the l1 ball (Duchi et al., 2008): shrink every entry by one amount."""
    sizes = delta.abs()
    ordered = sizes.sort(dim=1, descending=True).values
    counts = torch.arange(1, delta.shape[1] + 1, dtype=delta.dtype, device=delta.device)
    excess = (ordered.cumsum(1) - radius) / counts
    last = (ordered > excess).sum(1, keepdim=True).clamp(min=1)
    amount = excess.gather(1, last - 1).clamp(min=0.0)
    return delta.sign() * (sizes - amount).clamp(min=0.0)


def _in_diamond(numbers: Tensor, radius: float) -> Tensor:
    """Shares of exponential draws, at a uniform distance."""
    double = 2 * numbers[:, 1:] - 1
    lengths = -torch.log1p(-double.abs().clamp(TAIL, 1 - TAIL))
    return radius * numbers[:, :1] * double.sign() * lengths / lengths.sum(1, keepdim=True)


linf = Norm(
    name="linf",
    size=lambda delta: delta.abs().amax(1),
    steepest=torch.sign,
    project=lambda delta, radius: delta.clamp(-radius, radius),
    # uniform in a smaller cube whose half-width is uniform too, as in the papers' code
    inside=lambda numbers, radius: radius * numbers[:, :1] * (2 * numbers[:, 1:] - 1),
)
l2 = Norm(
    name="l2",
    size=lambda delta: delta.norm(dim=1),
    steepest=_unit,
    project=_shortened,
    inside=_in_sphere,
)
l1 = Norm(
    name="l1",
    size=lambda delta: delta.abs().sum(1),
    steepest=_largest,
    project=_thresholded,
    inside=_in_diamond,
)
NORMS = {norm.name: norm for norm in (linf, l2, l1)}
