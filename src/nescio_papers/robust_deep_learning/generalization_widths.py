"""Double descent: errors, calibration and the far field over the width (Belkin et al., 2019).

Random features with the least-squares solution of the smallest norm, and two-layer networks whose
layers are both trained. In all of them the trained weights number n K where the training data are
just interpolated: width = n where only the last layer is trained.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio import metrics, nets
from nescio.core import generator, kept
from nescio.data.dataset import Part
from nescio.evaluation.generalization import noisy_labels
from nescio.geometry import far_field, through_origin
from nescio.training import train
from nescio_papers.kit import InData, Settings, folder_of, full_and_quick, size, slug
from nescio_papers.robust_deep_learning.generalization_labels import PART, subset

FOURIER, FIXED, TRAINED = (
    "random Fourier features",
    "two-layer network, first layer random",
    "two-layer network, both layers trained",
)
CLASSES, POOL, FAR, RAYS = 10, 2, 10.0, 20
Numbers = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sizes of a run."""

    samples: int = size(1000, quick=20)  # of random features
    trained_samples: int = size(500, quick=20)
    test: int = size(2000, quick=30)
    seeds: int = size(5, quick=2)
    ratios: tuple[float, ...] = size(
        (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 8.0),
        quick=(0.5, 1.0, 2.0),
    )
    trained_ratios: tuple[float, ...] = size(
        (0.1, 0.25, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.6, 2.0, 3.0, 5.0, 10.0),
        quick=(0.5, 2.0),
    )
    updates: int = size(1500, quick=3)
    noise: float = size(0.2, quick=0.2)  # of the labels of trained networks


FULL, QUICK = full_and_quick(Budget)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sweep:
    """Numbers of each seed at each width."""

    kind: str
    samples: int
    widths: list[int]
    ratios: list[float]  # trained weights over samples times classes
    numbers: list[list[Numbers]]  # by width, then by seed

    def values(self, name: str) -> list[list[float]]:
        """One number by width and seed."""
        return [[one[name] for one in row] for row in self.numbers]


def budget(settings: Settings) -> Budget:
    """The sizes of this run."""
    return QUICK if settings.quick else FULL


def sweeps(settings: Settings, digits: InData, ood: Tensor | None) -> list[Sweep]:
    """All three kinds; each width is stored as it is done."""
    made = [_features(settings, kind, digits, ood) for kind in (FOURIER, FIXED)]
    return [*made, _trained(settings, digits, ood)]


def _stored(settings: Settings, kind: str, width: int, make: Callable[[], Any]) -> Any:
    sizes, seed = budget(settings), settings.seed
    used = ("trained_samples", "updates", "noise") if kind == TRAINED else ("samples",)
    sized = {name: getattr(sizes, name) for name in (*used, "test", "seeds")}
    key = {"kind": kind, "width": width, "seed": seed, **sized}
    return kept(folder_of(settings, PART) / f"{slug(kind)}-{width}.json", key, make)


def _features(settings: Settings, kind: str, digits: InData, ood: Tensor | None) -> Sweep:
    sizes = budget(settings)
    widths = [round(ratio * sizes.samples) for ratio in sizes.ratios]
    test = subset(digits.test, sizes.test)
    other = None if ood is None else subset((ood, ood), sizes.test)[0].double()

    def one(width: int, seed: int) -> Numbers:
        x, y = draw(digits, sizes.samples, settings.seed + seed)
        net = random_features(kind, x.double(), y, width, settings.seed + seed)
        return measured(net, (x.double(), y), (test[0].double(), test[1]), other)

    def row(width: int) -> list[Numbers]:
        return [one(width, seed) for seed in range(sizes.seeds)]

    return Sweep(
        kind=kind,
        samples=sizes.samples,
        widths=widths,
        ratios=[width / sizes.samples for width in widths],
        numbers=[_stored(settings, kind, width, partial(row, width)) for width in widths],
    )


def draw(digits: InData, count: int, seed: int) -> Part:
    """A random subset of the training images."""
    rows = torch.randperm(len(digits.train[0]), generator=generator(seed, "subset"))[:count]
    return subset((digits.train[0][rows], digits.train[1][rows]), count)


class Cosine(nn.Module):
    """The cosine of each unit: random Fourier features (Rahimi and Recht, 2007)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.cos()


def random_features(kind: str, x: Tensor, y: Tensor, width: int, seed: int) -> nn.Module:
    """A two-layer network in float64 whose last layer alone is fitted, by least squares.

    Of all last layers with the smallest squared error it has that of the smallest norm.
    """
    draws = generator(seed, kind)
    spread = 5.0 if kind == FOURIER else math.sqrt(x.shape[1])
    weight = torch.randn(width, x.shape[1], generator=draws, dtype=torch.float64) / spread
    shift = torch.rand(width, generator=draws, dtype=torch.float64)
    bias = 2 * math.pi * shift if kind == FOURIER else 0.2 * shift - 0.1
    bend = Cosine() if kind == FOURIER else nn.ReLU()
    features = bend(F.linear(x, weight, bias))
    targets = F.one_hot(y, CLASSES).double()
    solution = _least_squares(features, targets)  # (width, K)
    first, last = nn.Linear(x.shape[1], width), nn.Linear(width, CLASSES, bias=False)
    net = nn.Sequential(first, bend, last).double()
    with torch.no_grad():
        first.weight.copy_(weight)
        first.bias.copy_(bias)
        last.weight.copy_(solution.T)
    return net


def _least_squares(features: Tensor, targets: Tensor) -> Tensor:
    """The solution of the smallest norm; by QR, or by SVD where a unit is silent on all digits."""
    solve = torch.linalg.lstsq
    try:
        solution: Tensor = solve(features, targets, driver="gels").solution
    except RuntimeError:  # torch.linalg.LinAlgError is one
        solution = solve(features, targets, driver="gelsd").solution
    return solution


def _trained(settings: Settings, digits: InData, ood: Tensor | None) -> Sweep:
    """Two-layer networks on squared error, all seeds in one stack; images of half the side."""
    sizes = budget(settings)
    count, features = sizes.trained_samples, len(_small(digits.test[0][:1])[0])
    widths = [
        max(1, round(ratio * CLASSES * count / (features + CLASSES + 1)))
        for ratio in sizes.trained_ratios
    ]
    parts = [_noisy(digits, count, sizes.noise, settings.seed + i) for i in range(sizes.seeds)]
    x, y = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
    test = _small(digits.test[0][: sizes.test]), digits.test[1][: sizes.test]
    other = None if ood is None else _small(ood[: sizes.test])

    def row(width: int) -> list[Numbers]:
        model = train(
            partial(nets.mlp, features, CLASSES, widths=(width,)),
            (x, F.one_hot(y, CLASSES).to(x)),
            head="fixed_variance",
            members=sizes.seeds,
            rows=torch.arange(len(x)).view(sizes.seeds, count),
            epochs=sizes.updates,
            batch_size=None,
            learning_rate=0.01,
            schedule="cosine",
            seed=settings.seed,
            run=folder_of(settings, PART) / f"two-layers-{width}",
            progress=False,
        )
        return [measured(model.member(i), part, test, other) for i, part in enumerate(parts)]

    weights = [width * (features + CLASSES + 1) + CLASSES for width in widths]
    return Sweep(
        kind=TRAINED,
        samples=count,
        widths=widths,
        ratios=[one / (count * CLASSES) for one in weights],
        numbers=[_stored(settings, TRAINED, width, partial(row, width)) for width in widths],
    )


def _small(images: Tensor) -> Tensor:
    """Images `(N, 1, H, W)` of half the side, as vectors from 0 to 1."""
    floats = subset((images, images), len(images))[0].view(images.shape)
    return F.avg_pool2d(floats, POOL).flatten(1)


def _noisy(digits: InData, count: int, noise: float, seed: int) -> Part:
    rows = torch.randperm(len(digits.train[0]), generator=generator(seed, "subset"))[:count]
    x, y = _small(digits.train[0][rows]), digits.train[1][rows]
    return x, noisy_labels(y, noise, CLASSES, seed)


@torch.no_grad()
def measured(net: nn.Module, fitted: Part, test: Part, ood: Tensor | None) -> Numbers:
    """Errors, calibration and confidence, near and far, of a network fitted to one-hot labels."""
    outputs = net(test[0])
    probs = on_simplex(outputs)
    right = outputs.argmax(1) == test[1]
    numbers = {
        "train_error": float((net(fitted[0]).argmax(1) != fitted[1]).double().mean()),
        "test_error": float((~right).double().mean()),
        "squared_error": float((outputs - F.one_hot(test[1], CLASSES)).square().sum(1).mean()),
        "ece": metrics.ece(probs.amax(1), right),
        "confidence": float(probs.amax(1).mean()),
        "confidence_far": float(on_simplex(net(FAR * test[0])).amax(1).mean()),
        "far_field": math.nan,
        "ood_auroc": math.nan,
    }
    if not any(isinstance(layer, Cosine) for layer in net.modules()):
        rays = through_origin(test[0][:RAYS].double())
        numbers["far_field"] = float(far_field(net, *rays).confidence.mean())
    if ood is not None:
        numbers["ood_auroc"] = metrics.auroc(-outputs.amax(1), -net(ood).amax(1))
    return numbers


def on_simplex(outputs: Tensor) -> Tensor:
    """The nearest probabilities `(N, K)` to outputs that were fitted to 0 and 1."""
    ordered, _ = outputs.sort(dim=1, descending=True)
    count = torch.arange(1, outputs.shape[1] + 1).to(outputs)
    levels = (ordered.cumsum(1) - 1) / count  # of the first k outputs, shifted to sum to 1
    last = (ordered > levels).sum(1, keepdim=True) - 1
    return (outputs - levels.gather(1, last)).clamp_min(0)
