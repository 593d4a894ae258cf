"""Outliers made from inputs of a network: a detector can be chosen by them, without OOD data."""

from collections.abc import Iterator

import torch
from torch import Tensor

from nescio.core import as_batch, generator
from nescio.data.ood.drawn import faded, overlaid, patches
from nescio.data.ood.noise import permuted

OFF = 1.0  # ranges by which one number is moved off its mean
STRETCH = 2.0  # times the distance from the mean
BLUR = 7  # pixels that are averaged


def from_inputs(x: Tensor, count: int, *, seed: int = 0) -> dict[str, Tensor]:
    """`count` outliers of several kinds, by name, made from inputs `(N, ...)` of real numbers.

    Of all inputs: uniform noise in the range of each number, means of two inputs, halves of two
    inputs. Of images also patches of several images, permuted pixels, two images on top of each
    other, faded and blurred ones; of other inputs each number from another input, one number that
    is off or from another input, and inputs at twice the distance from their mean.

    x: the inputs, `(N, ...)`.
    count: number of outliers of each kind.
    seed: seed of the random draws.
    """
    real = as_batch(x, torch.float64 if x.dtype == torch.float64 else torch.float32)
    rng = generator(seed, "outliers")
    first, second = (torch.randint(len(x), (count,), generator=rng) for _ in range(2))
    a, b = real[first], real[second]
    low, high = real.amin(0), real.amax(0)
    drawn = torch.rand(a.shape, generator=rng).to(a)
    found = {"uniform": low + (high - low) * drawn, "mixed": (a + b) / 2}
    kinds = _of_images(real, a, b, seed) if x.ndim == 4 else _of_numbers(real, a, b, rng)
    return found | dict(kinds)


def _of_images(x: Tensor, a: Tensor, b: Tensor, seed: int) -> Iterator[tuple[str, Tensor]]:
    count, (height, width) = len(a), x.shape[2:]
    halves = a.clone()
    halves[..., width // 2 :] = b[..., width // 2 :]
    yield "halves", halves
    for grid in (2, 4):
        if height % grid == width % grid == 0:
            yield f"{grid} x {grid} patches", patches(x, grid=grid, seed=seed).take(count).to(x)
    yield "permuted", permuted(x, seed=seed).take(count).to(x)
    if min(height, width) > 4:
        yield "overlaid", overlaid(x, seed=seed).take(count).to(x)
    yield "faded", faded(x, seed=seed).take(count).to(x)
    if min(height, width) > BLUR:
        edge = [BLUR // 2] * 4
        wide = torch.nn.functional.pad(a, edge, mode="reflect")
        yield "blurred", torch.nn.functional.avg_pool2d(wide, BLUR, 1)


def _of_numbers(
    x: Tensor, a: Tensor, b: Tensor, rng: torch.Generator
) -> Iterator[tuple[str, Tensor]]:
    rows, one, two = x.flatten(1), a.flatten(1), b.flatten(1)
    count, width = one.shape
    own = torch.arange(width)
    yield "shuffled", rows[torch.randint(len(x), one.shape, generator=rng), own].view_as(a)
    yield "halves", torch.where(torch.rand(one.shape, generator=rng) < 0.5, one, two).view_as(a)
    number, column = torch.arange(count), torch.randint(width, (count,), generator=rng)
    swapped = one.clone()
    swapped[number, column] = two[number, column]
    yield "one swapped", swapped.view_as(a)
    off = one.clone()
    sign = 2 * torch.randint(2, (count,), generator=rng) - 1
    spread = (rows.amax(0) - rows.amin(0))[column]
    off[number, column] = rows.mean(0)[column] + OFF * sign * spread
    yield "one off", off.view_as(a)
    middle = rows.mean(0)
    yield "stretched", (middle + STRETCH * (one - middle)).view_as(a)
    if x.ndim == 3:
        order = torch.rand(count, x.shape[2], generator=rng).argsort(1)
        yield "permuted", a.gather(2, order[:, None].expand_as(a))
