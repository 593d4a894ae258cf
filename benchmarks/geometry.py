"""Linear regions, far fields and first confident factors against evaluating the network."""

import math
from functools import partial
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.timing import Benchmark, Numbers, Side, seconds, use_threads

if TYPE_CHECKING:
    from torch import Tensor, nn

BOX = [(-5.0, 5.0), (-5.0, 5.0)]
SMALL, LARGE = (2, 25, 25, 25, 2), (2, 150, 150, 3)
RAYS, BLOCK = 10_000, 64
NOISE, LENET_RAYS, GRID, SHARE = 1000, 100, 600, 20
GROWING = (50, 100, 200, 400, 830)  # hidden units of two layers: up to a million regions

BENCHMARKS = (
    Benchmark(
        __name__,
        "all linear regions of 2-25-25-25-2 on [-5, 5]^2",
        peers=(),
        ours="small_regions",
        checks=("area_error",),
    ),
    Benchmark(
        __name__,
        "all linear regions of 2-150-150-3 on [-5, 5]^2",
        peers=(),
        ours="large_regions",
        checks=("growth",),
        note="The growth check is on two hidden layers of 50 to 830 units: nanoseconds per region "
        "and hidden unit, by the number of regions, streamed in blocks, with the peak of the "
        "process's memory in MB (torch itself takes about 300).",
    ),
    Benchmark(
        __name__,
        f"far field of a LeNet on {RAYS:,} rays",
        peers=(
            Side(f"one float64 forward pass, {BLOCK} images at a time", "forward_in_blocks"),
            Side("one float64 forward pass, all at once", "forward"),
        ),
        ours="lenet_far_field",
        quick={"rays": 256},
        rounds=1,
    ),
    Benchmark(
        __name__,
        f"far field of a LeNet on {RAYS:,} rays through images of which most pixels are 0",
        peers=(Side(f"one float64 forward pass, {BLOCK} images at a time", "zeros_in_blocks"),),
        ours="zeros_far_field",
        quick={"rays": 256},
        rounds=1,
        note="Digits of 20 x 20 pixels in a frame of zeros: the windows of poolings tie there.",
    ),
    Benchmark(
        __name__,
        f"first factor with 99.9 % confidence, {NOISE:,} rays, strided convolutions",
        peers=(
            Side(f"grid of {GRID} factors, float64", "grid_double"),
            Side(f"grid of {GRID} factors, float32", "grid_single"),
        ),
        ours="first_confident",
        quick={"rays": 40},
        rounds=1,
        note=f"The grids were timed on one ray in {SHARE} and their time is scaled. A grid gives "
        "an upper bound only, to its own step.",
    ),
    Benchmark(
        __name__,
        f"first factor with 99.9 % confidence, {LENET_RAYS} rays, LeNet with max pooling",
        peers=(Side(f"grid of {GRID} factors, float64", "lenet_grid"),),
        ours="lenet_first_confident",
        quick={"rays": 20},
        rounds=1,
        note=f"The grid was timed on one ray in {SHARE} and its time is scaled.",
    ),
)


def small_regions() -> Numbers:
    return _regions(SMALL)


def large_regions() -> Numbers:
    return _regions(LARGE)


def _regions(widths: tuple[int, ...]) -> Numbers:
    from nescio import geometry

    use_threads()
    found = []
    for seed in range(3):
        net = _random_mlp(widths, seed)
        walk = partial(geometry.regions, net, BOX)
        pieces = len(walk())
        time = median(seconds(walk) for _ in range(5))
        found.append((time, pieces))
    time, pieces = sorted(found)[1]
    return {"warm": time, "regions": pieces}


def area_error() -> Numbers:
    """How far the areas of the pieces are from that of the box, relatively."""
    from nescio import geometry

    worst = 0.0
    for widths in (SMALL, LARGE):
        areas = geometry.regions(_random_mlp(widths, 0), BOX).areas
        worst = max(worst, abs(areas.sum().item() / 100 - 1))
    if worst > 1e-9:
        raise RuntimeError(f"the areas miss the box by {worst}")
    return {"area": worst}


def growth() -> Numbers:
    """Nanoseconds a piece and unit as the network grows, and the memory at the end."""
    import resource

    from nescio import geometry

    use_threads()
    found = {}
    for width in GROWING:
        net = _random_mlp((2, width, width, 3), 0)
        count = 0

        def walk(net: "nn.Module" = net) -> None:
            nonlocal count
            count = sum(len(block) for block in geometry.stream_regions(net, BOX))

        time = seconds(walk)
        found[f"{count:,} regions"] = 1e9 * time / (count * 2 * width)
    found["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def lenet_far_field(rays: int = RAYS) -> Numbers:
    return _far_field(_noise(rays))


def zeros_far_field(rays: int = RAYS) -> Numbers:
    return _far_field(_framed(rays))


def _far_field(x: "Tensor") -> Numbers:
    from nescio import geometry

    use_threads()
    net = _lenet()
    geometry.far_field(net, *geometry.through_origin(x[:64]))
    return {"warm": seconds(lambda: geometry.far_field(net, *geometry.through_origin(x)))}


def forward_in_blocks(rays: int = RAYS) -> Numbers:
    return _forward(_noise(rays), BLOCK)


def zeros_in_blocks(rays: int = RAYS) -> Numbers:
    return _forward(_framed(rays), BLOCK)


def forward(rays: int = RAYS) -> Numbers:
    return _forward(_noise(rays), rays)


def _forward(x: "Tensor", block: int) -> Numbers:
    import torch

    use_threads()
    net = _lenet().double()
    with torch.inference_mode():
        net(x[:64])
        return {"warm": seconds(lambda: [net(part) for part in x.split(block)])}


def first_confident(rays: int = NOISE) -> Numbers:
    return _first(_strided(), rays)


def lenet_first_confident(rays: int = LENET_RAYS) -> Numbers:
    return _first(_lenet(), rays)


def _first(net: "nn.Module", rays: int) -> Numbers:
    from nescio import geometry

    use_threads()
    _train(net)
    x = _noise(rays)
    geometry.first_confident(net, *geometry.through_origin(x[:2]))
    found = []
    time = seconds(lambda: found.append(geometry.first_confident(net, *geometry.through_origin(x))))
    factor = found[0].factor
    return {"warm": time, "median": factor.median().item(), "never": factor.isinf().sum().item()}


def grid_double(rays: int = NOISE) -> Numbers:
    return _grid(_strided(), rays, "float64")


def grid_single(rays: int = NOISE) -> Numbers:
    return _grid(_strided(), rays, "float32")


def lenet_grid(rays: int = LENET_RAYS) -> Numbers:
    return _grid(_lenet(), rays, "float64")


def _grid(net: "nn.Module", rays: int, dtype: str) -> Numbers:
    """Evaluate the factors 1 to 10^4, spaced evenly on a log scale, ray by ray."""
    import torch

    use_threads()
    _train(net)
    kind = getattr(torch, dtype)
    x, net = _noise(max(1, rays // SHARE)).to(kind), net.to(kind)
    factors = torch.logspace(0, 4, GRID, dtype=kind).reshape(-1, 1, 1, 1)

    def walk() -> None:
        for sample in x:
            for part in factors.split(BLOCK):
                net(part * sample).softmax(1).amax(1)

    with torch.inference_mode():
        net(x[:1])
        return {"warm": seconds(walk) * rays / len(x)}


def _random_mlp(widths: tuple[int, ...], seed: int) -> "nn.Module":
    """Weights N(0, 2 / inputs) and biases N(0, 1), so that the box is full of bends."""
    import torch
    from torch import nn

    draw = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layer = nn.Linear(inputs, outputs)
        with torch.no_grad():
            layer.weight.normal_(0, math.sqrt(2 / inputs), generator=draw)
            layer.bias.normal_(generator=draw)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _lenet() -> "nn.Module":
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10),
    ).eval()  # fmt: skip


def _strided() -> "nn.Module":
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(), nn.Flatten(),
        nn.Linear(1568, 120), nn.ReLU(), nn.Linear(120, 10),
    ).eval()  # fmt: skip


def _train(net: "nn.Module") -> None:
    """Three epochs on the embedded digits, enlarged to 28 x 28: the same on every machine."""
    import torch
    from torch.nn import functional as F

    import nescio

    small, labels = nescio.data.digits(seed=0).train
    images = F.interpolate(small, (28, 28), mode="bilinear")
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    order = torch.Generator().manual_seed(0)
    for _ in range(3):
        for batch in torch.randperm(len(labels), generator=order).split(50):
            optimizer.zero_grad()
            F.cross_entropy(net(images[batch]), labels[batch]).backward()
            optimizer.step()


def _noise(number: int) -> "Tensor":
    import torch

    draw = torch.Generator().manual_seed(1)
    return torch.rand(number, 1, 28, 28, generator=draw, dtype=torch.float64)


def _framed(number: int) -> "Tensor":
    """The embedded digits, enlarged to 20 x 20, in a frame of zeros."""
    from torch.nn import functional as F

    import nescio

    small, _ = nescio.data.digits(seed=0).train
    images = F.interpolate(small.double(), (20, 20))
    copies = -(-number // len(images))
    return F.pad(images, (4, 4, 4, 4)).repeat(copies, 1, 1, 1)[:number]
