"""Theorem 3.1 of Hein et al. (2019): what a network says at the end of rays, by their direction."""

from typing import Any

import torch
from torch import Tensor

from nescio.core import generator
from nescio.geometry import far_field, through_origin
from nescio_papers.relu_overconfidence.worlds import World, wide

KINDS = ("one", "tie", "constant", "undecided")


def directions(world: World, count: int, seed: int) -> dict[str, Tensor]:
    """Noise images, test images, and directions with both signs."""
    shape = (count, *world.data.features)
    return {
        "noise": world.noise(count, seed + 1),
        "test images": world.test[0][:count],
        "random": torch.randn(shape, generator=generator(seed, "directions")),
    }


def limits(world: World, count: int, seed: int) -> dict[str, Any]:
    """Shares of the kinds of limit, and the mean limit confidence, by network and direction."""
    results: dict[str, Any] = {}
    for name, model in world.models.items():
        own = wide(model)
        results[name] = {}
        for way, x in directions(world, count, seed).items():
            far = far_field(own, *through_origin(x))
            kinds = {kind: float((far.kind == kind).mean()) for kind in KINDS}
            confidence = far.confidence
            results[name][way] = {
                "rays": far.kind.size,
                **kinds,
                "limit_below_level": (confidence < 0.999).double().mean().item(),
                "mean_limit_confidence": confidence.mean().item(),
                "median_radius": far.radius.median().item(),
                "largest_radius": far.radius.max().item(),
            }
    return results
