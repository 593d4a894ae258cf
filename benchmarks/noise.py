"""The papers' noise (half uniform, half permuted images, low-pass filtered) on one core."""

import time
from typing import TYPE_CHECKING

from benchmarks.timing import Benchmark, Numbers, Side, seconds

if TYPE_CHECKING:
    from torch import Tensor

COUNT = 10_000
SHAPES = {"28x28": (1, 28, 28), "32x32x3": (3, 32, 32)}

BENCHMARK = Benchmark(
    __name__,
    f"{COUNT:,} noise images of 28 x 28 on one core, a filter width each",
    peers=(
        Side("numpy and scipy, image by image", "scipy_loop", "scipy"),
        Side("numpy and a torch convolution, a width a batch of 128", "convolution"),
    ),
    quick={"count": 500},
    checks=("rate", "same_for_all"),
    note="The convolution does less: one width a batch, and images that depend on their batch. "
    "The rates are images a second of processor time: in one go, in batches of 128, and by "
    "indices in no order.",
)


def nescio_side(count: int = COUNT) -> Numbers:
    import torch

    from nescio.data.ood import paper_noise

    torch.set_num_threads(1)
    noise = paper_noise(_images("28x28"))
    noise.take(500)
    return {"warm": seconds(lambda: noise.take(count))}


def scipy_loop(count: int = COUNT) -> Numbers:
    import numpy as np
    from scipy.ndimage import gaussian_filter

    x = _images("28x28").numpy()
    draw = np.random.default_rng(0)

    def make() -> None:
        result = np.empty((count, 1, 28, 28), np.float32)
        for index in range(count):
            image = draw.random(784, dtype=np.float32)
            if index % 2:
                image[:] = draw.permutation(x[index % len(x), 0].reshape(-1)) / np.float32(255)
            sigma = draw.uniform(1, 2.5)
            blurred = gaussian_filter(image.reshape(28, 28), sigma, radius=7, mode="reflect")
            result[index, 0] = (blurred - blurred.min()) / (blurred.max() - blurred.min())

    return {"warm": seconds(make)}


def convolution(count: int = COUNT) -> Numbers:
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(1)
    x = _images("28x28")
    draw = torch.Generator().manual_seed(0)
    steps = torch.arange(-7.0, 8.0)

    def batch(first: int) -> "Tensor":
        chosen = x[torch.arange(first, first + 64) % len(x)].flatten(1).float() / 255
        order = torch.rand(chosen.shape, generator=draw).argsort(1)
        images = torch.cat([chosen.gather(1, order), torch.rand(64, 784, generator=draw)])
        sigma = 1 + 1.5 * torch.rand(1, generator=draw)
        taps = torch.exp(-0.5 * (steps / sigma) ** 2)
        taps = taps / taps.sum()
        padded = F.pad(images.reshape(-1, 1, 28, 28), (7, 7, 7, 7), "reflect")
        blurred = F.conv2d(F.conv2d(padded, taps.reshape(1, 1, 15, 1)), taps.reshape(1, 1, 1, 15))
        low, high = blurred.amin((1, 2, 3), True), blurred.amax((1, 2, 3), True)
        return (blurred - low) / (high - low)

    batch(0)
    return {"warm": seconds(lambda: [batch(first) for first in range(0, count, 128)])}


def rate() -> Numbers:
    """Images a second of processor time, in several ways of asking for them."""
    import torch

    from nescio.data.ood import paper_noise

    torch.set_num_threads(1)
    found = {}
    for name in SHAPES:
        noise = paper_noise(_images(name))
        indices = torch.arange(COUNT)
        mixed = torch.randperm(COUNT, generator=torch.Generator().manual_seed(0))
        asked = {"": [indices], " by 128": indices.split(128), " scattered": mixed.split(128)}
        noise.take(500)
        for way, parts in asked.items():
            times = []
            for _ in range(5):
                start = time.process_time()
                for part in parts:
                    noise(part)
                times.append(time.process_time() - start)
            found[f"{name}{way}"] = COUNT / min(times)
    return found


def same_for_all() -> Numbers:
    """Images that differ when made in batches of other sizes, or in another order: none."""
    import torch

    from nescio.data.ood import paper_noise

    different = 0
    for name in SHAPES:
        noise = paper_noise(_images(name))
        whole = noise.take(2000)
        for size in (1, 7, 128):
            parts = torch.cat([noise(part) for part in torch.arange(2000).split(size)])
            different += int((parts != whole).flatten(1).any(1).sum())
        mixed = torch.randperm(2000, generator=torch.Generator().manual_seed(0))
        different += int((noise(mixed) != whole[mixed]).flatten(1).any(1).sum())
    if different:
        raise RuntimeError(f"{different} images depend on their batch")
    return {"different images": different}


def _images(name: str) -> "Tensor":
    """Made-up bytes: how they look does not matter here."""
    import torch

    draw = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (10_000, *SHAPES[name]), dtype=torch.uint8, generator=draw)
