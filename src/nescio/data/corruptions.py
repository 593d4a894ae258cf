"""Inputs moved away from the data: in steps of strength 0 to 5, or by factors without end.

Noise as in Hendrycks and Dietterich (2019), rotation as in Ovadia et al. (2019), columns in a wrong
unit as in Ulmer and Cina (2021), section 4.
"""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import Array, NescioError, as_inputs, derive, is_whole
from nescio.core.registry import corruptions
from nescio.data.random_access import Indices, rows

MOST = 5  # the greatest strength
Change = Callable[[Tensor, float, Indices], Tensor]  # inputs, strength, indices -> inputs
Factors: TypeAlias = float | Sequence[float] | Tensor
Scaling: TypeAlias = Callable[[Tensor, Factors], Tensor]


@dataclass(frozen=True, eq=False)
class Shifted:
    """A shift of inputs `(N, ...)`: strength 0 leaves them as they are, 5 is the most.

    What is drawn for an input depends on the seed and its index alone, so a shift is the same in
    batches of any size, and its strengths share their draws.

    name: name of the shift.
    description: what a step of strength does.
    change: a function of inputs, strength and indices that gives the shifted inputs.
    images: whether inputs are images (N, C, H, W) in [0, 1], and the result, too.
    """

    name: str
    description: str
    change: Change
    images: bool = field(default=True, kw_only=True)

    def __call__(self, x: Array, strength: float, *, first: int = 0) -> Tensor:
        """The inputs at a strength.

        x: inputs `(N, ...)`.
        strength: from 0, as they are, to 5.
        first: index of the first input, on which its random draws depend.
        """
        if not 0 <= strength <= MOST:
            raise NescioError(f"a strength is from 0 to {MOST}, got {strength}")
        inputs = as_inputs(x, "x")
        if self.images:
            _check(self.name, inputs)
        if strength == 0:
            return inputs
        indices = np.arange(first, first + len(inputs), dtype=np.int64)
        shifted = self.change(inputs, float(strength), indices)
        return shifted.clamp_(0, 1) if self.images else shifted


def uniform(seed: int, purpose: str, indices: Indices, size: int) -> Tensor:
    """Uniform numbers `(n, size)` in [0, 1), one row per input.

    seed: seed of the random draws.
    purpose: what they are for: other purposes have other draws.
    indices: indices of the inputs, `(n,)`; each has its own draws.
    size: how many numbers each input has.
    """
    return torch.from_numpy(rows(derive(seed, purpose), 0, indices, size, np.float32))


def positive(name: str, value: float) -> float:
    """The size `value` of a step, the option `name`: a finite number above 0."""
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


REACH = 4  # deviations that the kernel covers each way


@corruptions.register
def blur(*, deviation: float = 0.5) -> Shifted:
    """Blur by a Gaussian of standard deviation `deviation` pixels per step; edges are continued.

    deviation: standard deviation per step, in pixels.
    """
    step = positive("deviation", deviation)

    def change(x: Tensor, strength: float, _: Indices) -> Tensor:
        spread = step * strength
        reach = int(REACH * spread + 0.5)
        kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / spread).square())
        kernel = (kernel / kernel.sum()).to(x)
        flat = x.flatten(0, 1)[:, None]  # every channel by itself
        padded = F.pad(flat, (reach,) * 4, mode="replicate")
        across = F.conv2d(padded, kernel[None, None, None, :])
        return F.conv2d(across, kernel[None, None, :, None]).view(x.shape)

    return Shifted("blur", f"Gaussian blur of {step:g} pixels a step", change)


@corruptions.register
def brightness(*, amount: float = 0.12) -> Shifted:
    """Add `amount` per step to every pixel, cut at 1.

    amount: what is added per step.
    """
    step = positive("amount", amount)

    return Shifted("brightness", f"{step:g} brighter a step", lambda x, s, _: x + step * s)


@corruptions.register
def contrast(*, share: float = 0.18) -> Shifted:
    """Bring pixels closer to the mean of their image, by `share` of the distance per step.

    share: share of the contrast that is lost per step, at most 0.2.
    """
    if not 0 < share <= 0.2:
        raise NescioError(f"`share` must be above 0 and at most 0.2 per step, got {share}")

    def change(x: Tensor, strength: float, _: Indices) -> Tensor:
        mean = x.mean((1, 2, 3), keepdim=True)
        return mean + (1 - share * strength) * (x - mean)

    return Shifted("contrast", f"{100 * share:g} % of the contrast lost a step", change)


@corruptions.register
def scaling(features: int | Sequence[int] | None = None) -> Scaling:
    """Multiply some features by a factor: one axis, several, or (None) the whole input.

    The result is a function of inputs (N, ...) and a factor, or A factors for a result (A, N, ...).

    >>> scaling(0)(torch.tensor([[1.0, 2.0]]), [1.0, 10.0])
    tensor([[[ 1.,  2.]],
    <BLANKLINE>
            [[10.,  2.]]])

    features: indices into the flattened input; negative ones count from the end. None: all.
    """
    chosen = None if features is None else _feature_indices(features)

    def scaled(x: Tensor, alpha: Factors) -> Tensor:
        """`x` with the chosen features multiplied by `alpha`."""
        factors = _factors(alpha, x)
        if chosen is None:
            table = factors.unsqueeze(-1).expand(*factors.shape, x[0].numel())
        else:
            _check_range(chosen, x)
            table = factors.new_ones(*factors.shape, x[0].numel())
            table[..., chosen] = factors.unsqueeze(-1)
        return x * table.reshape(*factors.shape, 1, *x.shape[1:])

    return scaled


def _feature_indices(features: int | Sequence[int]) -> list[int]:
    several = features if isinstance(features, Sequence) else [features]
    try:
        indices = [operator.index(feature) for feature in several]
    except TypeError:
        raise NescioError(
            f"`features` must be None, a whole number or several, got {features!r}"
        ) from None
    if not indices:
        raise NescioError("`features` is empty; name at least one, or give None for all")
    return indices


def _factors(alpha: Factors, x: Tensor) -> Tensor:
    """One factor () or several (A,), in the type and on the device of `x`."""
    if not x.is_floating_point() or x.ndim < 2 or x.numel() == 0:
        raise NescioError(
            f"x must be floating-point of shape (N, ...) and not empty, got {x.dtype} of shape "
            f"{tuple(x.shape)}; convert it with .float(), one row per sample"
        )
    factors = torch.as_tensor(alpha, dtype=x.dtype, device=x.device)
    if factors.ndim > 1 or factors.numel() == 0:
        raise NescioError(
            f"alpha must be a number or a one-dimensional series, got shape {tuple(factors.shape)}"
        )
    if not factors.isfinite().all():
        raise NescioError(
            f"alpha must be finite in {x.dtype}, got {alpha}; the limit itself is "
            "geometry's far_field"
        )
    return factors


def _check_range(features: list[int], x: Tensor) -> None:
    size = x[0].numel()
    if wrong := [feature for feature in features if not -size <= feature < size]:
        raise NescioError(
            f"feature {wrong[0]} is out of range: inputs of shape {tuple(x.shape[1:])} have "
            f"{size} features, numbered 0..{size - 1}"
        )


@corruptions.register
def feature_scaling(features: int | Sequence[int] | None = None, *, factor: float = 2.0) -> Shifted:
    """Multiply some features by a factor per step.

    features: indices into the flattened input; negative ones count from the end. None: all.
    factor: factor per step; at strength s it is factor ** s.
    """
    if not 0 < factor < 1e6 or factor == 1:
        raise NescioError(f"`factor` must be above 0, below 1e6 and not 1, got {factor}")
    times, text = scaling(features), f"times {factor:g} a step"
    return Shifted("feature_scaling", text, lambda x, s, _: times(x, factor**s), images=False)


@corruptions.register
def gaussian_noise(*, deviation: float = 0.1, seed: int = 0) -> Shifted:
    """Add noise of standard deviation `deviation` per step, cut to the range of images.

    deviation: standard deviation per step.
    seed: seed of the random draws.
    """
    step = positive("deviation", deviation)

    def change(x: Tensor, strength: float, indices: Indices) -> Tensor:
        noise = normal(seed, indices, x[0].numel()).view(x.shape).to(x)
        return x + step * strength * noise

    return Shifted("gaussian_noise", f"noise of deviation {step:g} a step", change)


def normal(seed: int, indices: Indices, size: int) -> Tensor:
    """Standard normal numbers `(n, size)`, by pairs (Box and Muller, 1958).

    seed: seed of the random draws.
    indices: indices of the inputs, `(n,)`; each has its own draws.
    size: how many numbers each input has.
    """
    half = -(-size // 2)
    drawn = rows(derive(seed, "gaussian noise"), 0, indices, 2 * half, np.float64)
    radius = np.sqrt(-2 * np.log1p(-drawn[:, :half]))
    angle = 2 * np.pi * drawn[:, half:]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return torch.from_numpy(both[:, :size].astype(np.float32))


@corruptions.register
def impulse_noise(*, share: float = 0.08, seed: int = 0) -> Shifted:
    """Set a share of the pixels to 0 or 1, `share` more per step; those of a step stay.

    share: share of the pixels per step, at most 0.2.
    seed: seed of the random draws.
    """
    if not 0 < share <= 0.2:
        raise NescioError(f"`share` must be above 0 and at most 0.2 per step, got {share}")

    def change(x: Tensor, strength: float, indices: Indices) -> Tensor:
        size = x[0, 0].numel()
        drawn = uniform(seed, "impulse noise", indices, 2 * size).to(x.device)
        hit, white = drawn.view(len(x), 2, 1, *x.shape[2:]).unbind(1)
        return torch.where(hit < share * strength, (white < 0.5).to(x), x)

    return Shifted("impulse_noise", f"{100 * share:g} % of pixels lost a step", change)


@corruptions.register
def pixelation(*, share: float = 0.16) -> Shifted:
    """Average blocks of pixels; the image has `share` fewer rows and columns of them per step.

    share: share of the rows and columns that is lost per step, below 0.2.
    """
    if not 0 < share < 0.2:
        raise NescioError(f"`share` must be between 0 and 0.2 per step, got {share}")

    def change(x: Tensor, strength: float, _: Indices) -> Tensor:
        lines, columns = (max(1, round(side * (1 - share * strength))) for side in x.shape[2:])
        blocks = F.adaptive_avg_pool2d(x, (lines, columns))
        return F.interpolate(blocks, x.shape[2:], mode="nearest-exact")

    return Shifted("pixelation", f"{100 * share:g} % fewer pixels a side a step", change)


def warp(x: Tensor, turn: Tensor, move: Tensor, *, beyond: str = "zeros") -> Tensor:
    """Images whose pixel at position q is that of `x` at `turn (q - middle) + middle - move`.

    Bilinear between pixels. Positions are (column, row) in pixels.

    x: images, `(N, C, H, W)`.
    turn: matrices, `(N, 2, 2)`.
    move: shifts in pixels, `(N, 2)`.
    beyond: what is beyond the edge, "zeros", or "border" for the nearest pixel of the image.
    """
    positions = _positions(x)
    turned = torch.einsum("nij,hwj->nhwi", turn.to(x), positions)
    return _read_at(x, turned - move.to(x)[:, None, None], beyond=beyond)


def _positions(x: Tensor) -> Tensor:
    """Where the pixels of images are, from their middle, `(H, W, 2)`: (column, row)."""
    sides = [torch.arange(n, dtype=x.dtype, device=x.device) for n in reversed(x.shape[2:])]
    middle = x.new_tensor([(len(side) - 1) / 2 for side in sides])
    return torch.stack(torch.meshgrid(*sides, indexing="xy"), dim=-1) - middle


def _read_at(x: Tensor, positions: Tensor, *, beyond: str = "zeros") -> Tensor:
    """Images at positions `(N, H, W, 2)` from their middle."""
    scale = x.new_tensor([max(n - 1, 1) for n in reversed(x.shape[2:])]) / 2
    grid = positions / scale  # -1 and 1 are the middles of the outermost pixels
    return F.grid_sample(x, grid, mode="bilinear", padding_mode=beyond, align_corners=True)


@corruptions.register
def rotation(*, degrees: float = 15) -> Shifted:
    """Turn images counterclockwise by `degrees` per step; bilinear, zeros at the corners.

    degrees: angle per step.
    """
    step = positive("degrees", degrees)

    def change(x: Tensor, strength: float, _: Indices) -> Tensor:
        angle = math.radians(step * strength)
        cos, sin = math.cos(angle), math.sin(angle)
        turn = torch.tensor([[cos, -sin], [sin, cos]])
        return warp(x, turn.expand(len(x), 2, 2), torch.zeros(len(x), 2))

    return Shifted("rotation", f"turned by {step:g} degrees a step", change)


@corruptions.register
def translation(*, pixels: float = 2, seed: int = 0) -> Shifted:
    """Move each image by `pixels` per step in a random direction; zeros come in at the edge.

    pixels: move per step.
    seed: seed of the random draws.
    """
    step = positive("pixels", pixels)

    def change(x: Tensor, strength: float, indices: Indices) -> Tensor:
        angle = 2 * math.pi * uniform(seed, "translation", indices, 1)
        move = step * strength * torch.cat([angle.cos(), angle.sin()], dim=1)
        return warp(x, torch.eye(2).expand(len(x), 2, 2), move)

    return Shifted("translation", f"moved by {step:g} pixels a step", change)


@corruptions.register
def warping(*, stretch: float = 0.1, waves: int = 2, seed: int = 0) -> Shifted:
    """Deform each image by a smooth random field that stretches it by up to `stretch` per step.

    The field moves a pixel at q to read at q - tau(q), and is 0 at the edge.

    stretch: the largest norm of the derivative of tau over the image, per step, which is what
      stability to deformations is measured by (Mallat, 2012); below 1 nothing folds.
    waves: tau is a sum of sines with up to this number of half periods each way.
    seed: seed of the random draws.
    """
    step = positive("stretch", stretch)
    if not is_whole(waves, 1):
        raise NescioError(f"`waves` must be a whole number from 1 up, got {waves!r}")

    def change(x: Tensor, strength: float, indices: Indices) -> Tensor:
        field, slope = displacements(x.shape[2:], indices, waves, seed)
        largest = torch.linalg.matrix_norm(slope, 2).amax((1, 2))
        tau = step * strength * field / largest[:, None, None, None]
        return _read_at(x, _positions(x) - tau.to(x))

    return Shifted("warping", f"deformed, stretched by {100 * step:g} % a step", change)


def displacements(
    size: Sequence[int], indices: Indices, waves: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Random smooth fields `(N, H, W, 2)`, in pixels, and their derivatives `(N, H, W, 2, 2)`.

    size: height and width of the images.
    indices: indices of the inputs, `(N,)`, on which the draws depend.
    waves: number of sines each way.
    seed: seed of the random draws.
    """
    height, width = (int(n) for n in size)
    orders = torch.arange(1, waves + 1, dtype=torch.float64) * math.pi
    rows, columns = (torch.arange(n, dtype=torch.float64) / max(n - 1, 1) for n in (height, width))
    drawn = uniform(seed, "warping", indices, 2 * waves**2).double()
    weights = (2 * drawn - 1).view(-1, 2, waves, waves)  # (N, 2, row order, column order)
    bases = [torch.sin(at[:, None] * orders) for at in (rows, columns)]  # (H, K), (W, K)
    rises = [
        torch.cos(at[:, None] * orders) * orders / max(n - 1, 1)
        for at, n in ((rows, height), (columns, width))
    ]
    mixed = [
        torch.einsum("ndab,ha,wb->nhwd", weights, down, across)
        for down, across in (
            (bases[0], bases[1]),
            (bases[0], rises[1]),  # by the column
            (rises[0], bases[1]),  # by the row
        )
    ]
    return mixed[0], torch.stack(mixed[1:], dim=-1)
