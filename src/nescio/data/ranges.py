"""Inputs in units of their range, so that noise and attacks mean the same for any data.

In these units the data lie in [0, 1]: images all pixels together, vectors feature by feature.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import digest
from nescio.data import OODSource
from nescio.data import ood as ood_sources

NEAR = (0.3, 0.05)  # default radius of attacks: for images, for vectors


@dataclass(frozen=True, eq=False)
class Units:
    """The range of the data; a feature that never varies has no width and never moves."""

    low: Tensor  # () for images, else the shape of one input
    width: Tensor

    @property
    def natural(self) -> bool:
        """Whether inputs are in these units already: images in [0, 1]."""
        return self.low.ndim == 0 and self.low.item() == 0 and self.width.item() == 1

    @property
    def description(self) -> str:
        """What tells two ranges apart."""
        return f"units {digest(self.low, self.width)}"

    def shares(self, x: Tensor) -> Tensor:
        """Inputs in these units."""
        if self.natural:
            return x
        whole = torch.where(self.width > 0, self.width, 1.0)
        return (x - self.low.to(x)) / whole.to(x)

    def inputs(self, shares: Tensor) -> Tensor:
        """What `shares` are in the units of the inputs."""
        return shares if self.natural else self.low.to(shares) + shares * self.width.to(shares)

    def ood(self, source: OODSource) -> OODSource:
        """An OOD source in these units."""
        if self.natural:
            return source
        text = f"{source.description} in {self.description}"
        return replace(source, description=text, make=partial(_shared, self, source))


def units_of(x: Tensor) -> Units:
    """The units of data `(N, ...)`; images in [0, 1], and bytes, have them already."""
    if x.dtype == torch.uint8:
        return Units(torch.tensor(0.0), torch.tensor(1.0))
    low, high = (x.amin(), x.amax()) if x.ndim == 4 else (x.amin(0), x.amax(0))
    if x.ndim == 4 and low >= 0 and high <= 1:
        return Units(torch.zeros_like(low), torch.ones_like(low))
    return Units(low, high - low)


def noise(x: Tensor, *, seed: int, beyond: float = 0.0, shuffled: bool = False) -> OODSource:
    """Noise for data like `x`, in their units: the papers' for images, uniform for vectors.

    beyond: how far uniform noise goes past the range. shuffled: every second vector has features
    from different samples instead.
    """
    if x.ndim == 4:
        return ood_sources.paper_noise(units_of(x).shares(x), seed=seed)
    uniform = ood_sources.uniform(x.shape[1:], low=-beyond, high=1 + beyond, seed=seed)
    if not shuffled:
        return uniform
    return ood_sources.mixture([uniform, units_of(x).ood(ood_sources.shuffled(x, seed=seed))])


def near(radius: float | None, x: Tensor) -> float:
    """The radius of an attack in units of the range: `radius`, or what suits data like `x`."""
    return NEAR[x.ndim != 4] if radius is None else radius


def _shared(units: Units, source: OODSource, indices: NDArray[np.int64]) -> NDArray[np.float32]:
    shares: NDArray[np.float32] = units.shares(torch.from_numpy(source.make(indices))).numpy()
    return shares
