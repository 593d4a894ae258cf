"""Three situations in the plane: far inside a class, where classes overlap, and far from all."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.core import generator

CLASSES = 3
RADIUS = 4.0  # of the triangle of class means
SPREAD = 0.7  # standard deviation of each cluster
OVERLAP = 0.25  # the share of samples in the middle, whose labels are drawn at random
RING = (8.0, 10.0)  # radii of the OOD ring
FAR = (20.0, 30.0)  # radii of a ring that no network is shown
CORNER, MIDDLE = "corner", "overlap"


@dataclass(frozen=True, eq=False, kw_only=True)
class Situations:
    """Samples of the data: each class alone, and a cluster that all three share."""

    x: Tensor  # (N, 2)
    y: Tensor  # (N,)
    overlap: Tensor  # (N,): whether a sample is of the shared cluster

    @property
    def data(self) -> tuple[Tensor, Tensor]:
        """Inputs and labels."""
        return self.x, self.y


def situations(count: int, seed: int) -> Situations:
    """Three classes on a triangle; a quarter of the samples is in the middle, of any class."""
    draws = generator(seed, "situations")
    y = torch.randint(CLASSES, (count,), generator=draws)
    overlap = torch.rand(count, generator=draws) < OVERLAP
    centers = torch.where(overlap[:, None], 0.0, class_means()[y])
    x = centers + SPREAD * torch.randn(count, 2, generator=draws)
    return Situations(x=x, y=y, overlap=overlap)


def class_means() -> Tensor:
    """The centers of the three classes, `(3, 2)`; the first is at the top."""
    angles = 2 * math.pi * (torch.arange(CLASSES) / CLASSES + 0.25)
    return RADIUS * torch.stack([angles.cos(), angles.sin()], 1)


def ring(count: int, seed: int, radii: tuple[float, float] = RING) -> Tensor:
    """Inputs `(N, 2)` at random radii and angles."""
    u = torch.rand(count, 2, generator=generator(seed, "ring"))
    radius, angle = radii[0] + (radii[1] - radii[0]) * u[:, 0], 2 * math.pi * u[:, 1]
    return radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
