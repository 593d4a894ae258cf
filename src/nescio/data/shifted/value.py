"""What a shift with strengths is: inputs, a strength and their numbers to inputs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nescio.checks import Array, as_inputs
from nescio.data import bits
from nescio.errors import NescioError
from nescio.randomness import derive

MOST = 5  # the greatest strength
Change = Callable[[Tensor, float, bits.Indices], Tensor]


@dataclass(frozen=True, eq=False)
class Shifted:
    """A shift of inputs `(N, ...)`: strength 0 leaves them as they are, 5 is the most.

    What is drawn for an input depends on the seed and its number alone, so a shift is the same in
    batches of any size, and its strengths share their draws.
    """

    name: str
    description: str  # what a step of strength does
    images: bool  # (N, C, H, W) with values in [0, 1], and the result too
    change: Change

    def __call__(self, x: Array, strength: float, *, first: int = 0) -> Tensor:
        """The inputs at a strength; `first` is the number of the first of them."""
        if not 0 <= strength <= MOST:
            raise NescioError(f"a strength is from 0 to {MOST}, got {strength}")
        inputs = as_inputs(x, "x")
        if self.images:
            _check(self.name, inputs)
        if strength == 0:
            return inputs
        numbers = np.arange(first, first + len(inputs), dtype=np.int64)
        found = self.change(inputs, float(strength), numbers)
        return found.clamp_(0, 1) if self.images else found


def uniform(seed: int, purpose: str, numbers: bits.Indices, size: int) -> Tensor:
    """Uniform numbers `(n, size)` in [0, 1), a row an input."""
    return torch.from_numpy(bits.rows(derive(seed, purpose), 0, numbers, size, np.float32))


def positive(name: str, value: float) -> float:
    """A size of a step: a finite number above 0."""
    if not 0 < value < float("inf"):
        raise NescioError(f"`{name}` must be a finite number above 0, got {value}")
    return float(value)


def _check(name: str, x: Tensor) -> None:
    if x.ndim != 4:
        raise NescioError(
            f"{name} is of images (N, C, H, W), got shape {tuple(x.shape)}; a grey image needs a "
            "channel axis: x[:, None]"
        )
    if x.min() < 0 or x.max() > 1:
        raise NescioError(
            f"{name} is of images with values from 0 to 1, got {float(x.min()):g} to "
            f"{float(x.max()):g}; shift them first, and scale them in the network"
        )
