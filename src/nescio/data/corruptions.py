"""Inputs moved away from the data in steps, from strength 0 to 5."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import Array, NescioError, as_inputs, derive
from nescio.core.registry import corruptions
from nescio.data import random_access
from nescio.data.random_access import Indices
from nescio.data.scaling import scaling

# What a shift with strengths is: inputs, a strength and their numbers to inputs.

MOST = 5  # the greatest strength
Change = Callable[[Tensor, float, random_access.Indices], Tensor]


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


def uniform(seed: int, purpose: str, numbers: random_access.Indices, size: int) -> Tensor:
    """Uniform numbers `(n, size)` in [0, 1), a row an input."""
    return torch.from_numpy(random_access.rows(derive(seed, purpose), 0, numbers, size, np.float32))


def positive(name: str, value: float) -> float:
    """A size of a step: a finite number above 0."""
    if not 0 < value < float("inf"):
        raise NescioError(f"`{name}` must be a finite number above 0, got {value}")
    return float(value)


def _check(name: str, x: Tensor) -> None:
    if x.ndim != 4:
        raise NescioError(
            f"{name} is of images (N, C, H, W), got shape {tuple(x.shape)}; a gray image needs a "
            "channel axis: x[:, None]"
        )
    if x.min() < 0 or x.max() > 1:
        raise NescioError(
            f"{name} is of images with values from 0 to 1, got {float(x.min()):g} to "
            f"{float(x.max()):g}; shift them first, and scale them in the network"
        )


# Gaussian blur.

REACH = 4  # deviations that the kernel covers each way


@corruptions.register
def blur(*, deviation: float = 0.5) -> Shifted:
    """Blur by a Gaussian of standard deviation `deviation` pixels a step; edges are continued."""
    step = positive("deviation", deviation)

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        del numbers
        spread = step * strength
        reach = int(REACH * spread + 0.5)
        kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / spread).square())
        kernel = (kernel / kernel.sum()).to(x)
        flat = x.flatten(0, 1)[:, None]  # every channel by itself
        padded = F.pad(flat, (reach,) * 4, mode="replicate")
        across = F.conv2d(padded, kernel[None, None, None, :])
        return F.conv2d(across, kernel[None, None, :, None]).view(x.shape)

    return Shifted("blur", f"Gaussian blur of {step:g} pixels a step", True, change)


# More light.


@corruptions.register
def brightness(*, amount: float = 0.12) -> Shifted:
    """Add `amount` a step to every pixel, cut at 1."""
    step = positive("amount", amount)

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        del numbers
        return x + step * strength

    return Shifted("brightness", f"{step:g} brighter a step", True, change)


# Less contrast.


@corruptions.register
def contrast(*, share: float = 0.18) -> Shifted:
    """Bring pixels closer to the mean of their image, by `share` of the distance a step."""
    if not 0 < share <= 0.2:
        raise NescioError(f"`share` must be above 0 and at most 0.2 a step, got {share}")

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        del numbers
        mean = x.mean((1, 2, 3), keepdim=True)
        return mean + (1 - share * strength) * (x - mean)

    return Shifted("contrast", f"{100 * share:g} % of the contrast lost a step", True, change)


# Columns of a table in a wrong unit (Ulmer and Cina, 2021, section 4).


@corruptions.register
def feature_scaling(features: int | Sequence[int] | None = None, *, factor: float = 2.0) -> Shifted:
    """Multiply some features, or all (None), by `factor` to the power of the strength."""
    if not 0 < factor < 1e6 or factor == 1:
        raise NescioError(f"`factor` must be above 0, below 1e6 and not 1, got {factor}")
    times = scaling(features)

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        del numbers
        return times(x, factor**strength)

    return Shifted("feature_scaling", f"times {factor:g} a step", False, change)


# Gaussian noise on every pixel (Hendrycks and Dietterich, 2019).


@corruptions.register
def gaussian_noise(*, deviation: float = 0.1, seed: int = 0) -> Shifted:
    """Add noise of standard deviation `deviation` a step, cut to the range of images."""
    step = positive("deviation", deviation)

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        noise = normal(seed, numbers, x[0].numel()).view(x.shape).to(x)
        return x + step * strength * noise

    return Shifted("gaussian_noise", f"noise of deviation {step:g} a step", True, change)


def normal(seed: int, numbers: Indices, size: int) -> Tensor:
    """Standard normal numbers `(n, size)`, by pairs (Box and Muller, 1958)."""
    half = -(-size // 2)
    drawn = random_access.rows(derive(seed, "gaussian noise"), 0, numbers, 2 * half, np.float64)
    radius = np.sqrt(-2 * np.log1p(-drawn[:, :half]))
    angle = 2 * np.pi * drawn[:, half:]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return torch.from_numpy(both[:, :size].astype(np.float32))


# Salt and pepper (Hendrycks and Dietterich, 2019).


@corruptions.register
def impulse_noise(*, share: float = 0.08, seed: int = 0) -> Shifted:
    """Set a share of the pixels to 0 or 1, `share` more a step; those of a step stay."""
    if not 0 < share <= 0.2:
        raise NescioError(f"`share` must be above 0 and at most 0.2 a step, got {share}")

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        size = x[0, 0].numel()
        drawn = uniform(seed, "impulse noise", numbers, 2 * size).to(x.device)
        hit, white = drawn.view(len(x), 2, 1, *x.shape[2:]).unbind(1)
        return torch.where(hit < share * strength, (white < 0.5).to(x), x)

    return Shifted("impulse_noise", f"{100 * share:g} % of pixels lost a step", True, change)


# Fewer pixels.


@corruptions.register
def pixelation(*, share: float = 0.16) -> Shifted:
    """Average blocks of pixels; the image has `share` fewer rows and columns of them a step."""
    if not 0 < share < 0.2:
        raise NescioError(f"`share` must be between 0 and 0.2 a step, got {share}")

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        del numbers
        rows, columns = (max(1, round(side * (1 - share * strength))) for side in x.shape[2:])
        blocks = F.adaptive_avg_pool2d(x, (rows, columns))
        return F.interpolate(blocks, x.shape[2:], mode="nearest-exact")

    return Shifted("pixelation", f"{100 * share:g} % fewer pixels a side a step", True, change)


# Images read at other places: bilinear between pixels, zeros beyond the edge.


def warp(x: Tensor, turn: Tensor, move: Tensor) -> Tensor:
    """Images whose pixel at place q is that of `x` at `turn (q - middle) + middle - move`.

    Places are (column, row) in pixels; turn: (N, 2, 2); move: (N, 2).
    """
    height, width = x.shape[2:]
    kind: Any = {"dtype": x.dtype, "device": x.device}
    rows, columns = torch.meshgrid(
        torch.arange(height, **kind), torch.arange(width, **kind), indexing="ij"
    )
    middle = torch.tensor([(width - 1) / 2, (height - 1) / 2], **kind)
    places = torch.stack([columns, rows], dim=-1) - middle  # (H, W, 2)
    read = torch.einsum("nij,hwj->nhwi", turn.to(**kind), places) - move.to(**kind)[:, None, None]
    scale = torch.tensor([max(width - 1, 1), max(height - 1, 1)], **kind) / 2
    grid = read / scale  # -1 and 1 are the middles of the outermost pixels
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=True)


# Images turned about their middle (rotated MNIST, as in Ovadia et al., 2019).


@corruptions.register
def rotation(*, degrees: float = 15) -> Shifted:
    """Turn images counterclockwise by `degrees` a step; bilinear, zeros come in at the corners."""
    step = positive("degrees", degrees)

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        del numbers  # all are turned alike
        angle = math.radians(step * strength)
        turn = torch.tensor(
            [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        )
        return warp(x, turn.expand(len(x), 2, 2), torch.zeros(len(x), 2))

    return Shifted("rotation", f"turned by {step:g} degrees a step", True, change)


# Images moved aside.


@corruptions.register
def translation(*, pixels: float = 2, seed: int = 0) -> Shifted:
    """Move each image by `pixels` a step in a direction of its own; zeros come in at the edge."""
    step = positive("pixels", pixels)

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        angle = 2 * math.pi * uniform(seed, "translation", numbers, 1)
        move = step * strength * torch.cat([angle.cos(), angle.sin()], dim=1)
        return warp(x, torch.eye(2).expand(len(x), 2, 2), move)

    return Shifted("translation", f"moved by {step:g} pixels a step", True, change)
