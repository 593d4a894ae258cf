"""How well classes of functions fit random signs of more and more digits."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nescio import nets
from nescio.evaluation import Rademacher, linear_rademacher, rademacher
from nescio.evaluation.generalization import random_signs
from nescio_papers.kit import InData, Settings, folder_of, full_and_quick, size
from nescio_papers.robust_deep_learning.generalization_labels import PART, subset

NETWORK, LINEAR, ADAM, BOUNDED = (
    "two-layer network",
    "linear classifier",
    "linear classifier, by Adam",
    "linear, norm bounded (exact)",
)
ROUNDS, RIDGE = 200, 1e-8  # of Newton's method


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sizes of a run."""

    samples: tuple[int, ...] = size((125, 250, 500, 1000), quick=(10, 20))
    draws: int = size(10, quick=2)
    epochs: int = size(200, quick=3)
    patience: int = size(40, quick=2)
    width: int = size(256, quick=8)


FULL, QUICK = full_and_quick(Budget)
Complexities = dict[str, list[Rademacher]]  # by class, one per number of samples


def complexities(settings: Settings, digits: InData) -> Complexities:
    """The complexity of each class for each number of samples, on the same draws of signs."""
    sizes = QUICK if settings.quick else FULL
    x, _ = subset(digits.train, max(sizes.samples))
    radius = 1 / float(x.norm(dim=1).max())  # so that values lie between -1 and 1
    drawn: dict[str, Any] = {"draws": sizes.draws, "seed": settings.seed}
    found: Complexities = {NETWORK: [], LINEAR: [], ADAM: [], BOUNDED: []}
    for count in sizes.samples:
        some = x[:count]
        found[BOUNDED].append(linear_rademacher(some, radius=radius, **drawn))
        found[LINEAR].append(separated(some, **drawn))
        for name, widths in ((NETWORK, (sizes.width,)), (ADAM, ())):
            one = rademacher(
                partial(nets.mlp, x.shape[1], 2, widths=widths),
                some,
                **drawn,
                epochs=sizes.epochs,
                patience=sizes.patience,
                learning_rate=1e-3 if widths else 1e-2,
                run=folder_of(settings, PART) / f"signs-{len(widths)}-{count}",
                progress=False,
            )
            found[name].append(one)
    return found


def separated(x: Tensor, *, draws: int, seed: int) -> Rademacher:
    """The complexity of linear classifiers of x `(N, D)`, exact where every draw is separated.

    Training by gradients is far from it: where signs can just be separated, the margin is tiny.
    """
    ones = torch.ones(len(x), 1, dtype=torch.float64)
    left, size, _ = torch.linalg.svd(torch.cat([x.double(), ones], 1), full_matrices=False)
    features = left[:, size > 1e-9 * size[0]] * len(x) ** 0.5  # the same classifiers
    right = [_most_right(sign[:, None] * features) for sign in random_signs(len(x), draws, seed)]
    values = 2 * torch.stack(right) - 1
    done = bool((values == 1).all())
    return Rademacher(samples=len(x), values=values.numpy(), exact=done, seed=seed)


def _most_right(signed: Tensor) -> Tensor:
    """The largest share of rows z `(N, D)` with w.z > 0 that Newton's method finds.

    It lowers the sum of (1 - w.z)^2 over all z with w.z < 1, with a search along each step.
    """
    weight, best = signed.new_zeros(signed.shape[1]), signed.new_zeros(())
    small = RIDGE * torch.eye(len(weight), dtype=signed.dtype)
    lengths = torch.cat([torch.linspace(0.025, 1, 40), torch.logspace(-6, -1.7, 20)]).to(signed)
    for _ in range(ROUNDS):
        margins = signed @ weight
        best = torch.maximum(best, (margins > 0).double().mean())
        if best == 1:
            break
        short = signed[margins < 1]
        step = torch.linalg.solve(short.T @ short + small, short.sum(0)) - weight
        tried = margins + lengths[:, None] * (signed @ step)
        weight = weight + lengths[(1 - tried).clamp_min(0).square().sum(1).argmin()] * step
    return best
