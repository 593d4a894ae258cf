"""MC dropout with 100 passes of a convolutional network on 512 images of 28 x 28."""

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.timing import Benchmark, Numbers, Side, seconds, use_threads

if TYPE_CHECKING:
    from torch import Tensor, nn

IMAGES, PASSES = 512, 100
MEASURED = 5  # passes
COMPARED, SAMPLES = 16, 1000  # images and passes of the check
LIMIT = 6.0  # standard errors; chance alone gives the largest of all differences some 3 to 4

BENCHMARK = Benchmark(
    __name__,
    f"MC dropout before the last layer, {PASSES} passes, {IMAGES} images of 28 x 28",
    peers=(
        Side("loop over passes", "naive"),
        Side("one forward pass", "forward"),
    ),
    quick={"images": 64},
    checks=("agreement",),
    note=f"The loop made {MEASURED} of the {PASSES} passes; its time is scaled.",
)


def nescio_side(images: int = IMAGES) -> Numbers:
    import nescio

    net, x = _network(), _images(images)
    predictor = nescio.models.mc_dropout(net, passes=PASSES, seed=0)
    predictor(x)
    return {"warm": median(seconds(lambda: predictor.outputs(x).softmax(-1)) for _ in range(5))}


def forward(images: int = IMAGES) -> Numbers:
    """One deterministic pass, the measure of all."""
    import torch

    net, x = _network(), _images(images)
    with torch.inference_mode():
        net(x)
        return {"warm": median(seconds(lambda: net(x)) for _ in range(5))}


def naive(images: int = IMAGES) -> Numbers:
    """Pass after pass with the dropout layers in training mode."""
    import torch

    net, x = _with_dropout(_network()), _images(images)
    with torch.inference_mode():
        net(x).softmax(1)
        total = seconds(lambda: [net(x).softmax(1) for _ in range(MEASURED)])
    return {"warm": total * PASSES / MEASURED, "passes_measured": MEASURED}


def agreement() -> Numbers:
    """The largest differences to the loop in mean and variance over passes, in standard errors."""
    import torch

    import nescio

    net, x = _network(), _images(COMPARED)
    ours = nescio.models.mc_dropout(net, passes=SAMPLES, seed=0).outputs(x).softmax(-1)
    with torch.inference_mode():
        noisy = _with_dropout(net)
        loop = torch.stack([noisy(x).softmax(1) for _ in range(SAMPLES)])
    found = {"mean": _mean_distance(ours, loop), "variance": _variance_distance(ours, loop)}
    if max(found.values()) > LIMIT:
        raise RuntimeError(f"the passes differ from the loop by {found} standard errors")
    return found


def _mean_distance(a: "Tensor", b: "Tensor") -> float:
    """Largest standardized difference of the means over the first axis."""
    error = (a.double().var(0) / len(a) + b.double().var(0) / len(b)).sqrt()
    return float(((a.double().mean(0) - b.double().mean(0)).abs() / error).max())


def _variance_distance(a: "Tensor", b: "Tensor") -> float:
    """The same for the logarithms of the variances, whose errors follow from the kurtosis."""
    logs, squares = [], []
    for sample in (a.double(), b.double()):
        centered = sample - sample.mean(0)
        variance = centered.square().mean(0)
        logs.append(variance.log())
        squares.append((centered.pow(4).mean(0) / variance.square() - 1) / len(sample))
    return float(((logs[0] - logs[1]).abs() / (squares[0] + squares[1]).sqrt()).max())


def _network() -> "nn.Module":
    import torch
    from torch import nn

    use_threads()
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 1024), nn.ReLU(), nn.Dropout(0.5), nn.Linear(1024, 10),
    ).eval()  # fmt: skip


def _images(number: int) -> "Tensor":
    import torch

    return torch.rand(number, 1, 28, 28, generator=torch.Generator().manual_seed(1))


def _with_dropout(net: "nn.Module") -> "nn.Module":
    from torch import nn

    for module in net.modules():
        module.training = isinstance(module, nn.Dropout)
    return net
