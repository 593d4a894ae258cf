"""Random labels on MNIST digits, and digits whose pixels say nothing (Zhang et al., 2017)."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from nescio import nets
from nescio.core import as_batch, generator
from nescio.data.dataset import Part
from nescio.evaluation import RandomLabels, fit_random_labels
from nescio_papers.kit import InData, Settings, folder_of, full_and_quick, size, slug

PART = "generalization"
TRUE, RANDOM = "true labels", "random labels"
SHUFFLED, PIXELS, GAUSSIAN = "shuffled pixels", "random pixels", "Gaussian"
CHANGES = (SHUFFLED, PIXELS, GAUSSIAN)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sizes of a run."""

    train: int = size(1000, quick=40)
    test: int = size(1000, quick=40)
    seeds: int = size(5, quick=2)
    epochs: int = size(400, quick=3)
    width: int = size(256, quick=8)
    shares: tuple[float, ...] = size((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), quick=(0.0, 1.0))


FULL, QUICK = full_and_quick(Budget)


def budget(settings: Settings) -> Budget:
    """The sizes of this run."""
    return QUICK if settings.quick else FULL


def subset(part: Part, count: int) -> Part:
    """The first images as vectors of numbers from 0 to 1, and their labels."""
    x, y = part
    return as_batch(x[:count]).flatten(1), y[:count]


def by_share(settings: Settings, digits: InData) -> RandomLabels:
    """Networks on labels of which more and more are random."""
    return _fitted(settings, digits, "labels", budget(settings).shares)


def by_inputs(settings: Settings, digits: InData) -> dict[str, RandomLabels]:
    """Networks on true labels of images whose pixels were changed."""
    found = {}
    for kind in CHANGES:
        train, test = (changed(kind, part, settings.seed) for part in _parts(settings, digits))
        found[kind] = _fitted(settings, InData(train, test, digits.classes), slug(kind), (0.0,))
    return found


def _parts(settings: Settings, digits: InData) -> tuple[Part, Part]:
    sizes = budget(settings)
    return subset(digits.train, sizes.train), subset(digits.test, sizes.test)


def _fitted(
    settings: Settings, digits: InData, name: str, shares: tuple[float, ...]
) -> RandomLabels:
    sizes = budget(settings)
    train, test = _parts(settings, digits)
    return fit_random_labels(
        partial(nets.mlp, train[0].shape[1], digits.classes, widths=(sizes.width,)),
        train,
        test,
        shares=shares,
        seeds=sizes.seeds,
        epochs=sizes.epochs,
        seed=settings.seed,
        run=folder_of(settings, PART) / name,
        progress=False,
    )


def changed(kind: str, part: Part, seed: int) -> Part:
    """Images `(N, D)` with all pixels in one other order, each in its own order, or as noise."""
    x, y = part
    draws = generator(seed, kind)
    if kind == SHUFFLED:
        return x[:, torch.randperm(x.shape[1], generator=draws)], y
    if kind == PIXELS:
        order: Tensor = torch.rand(x.shape, generator=draws).argsort(1)
        return x.gather(1, order), y
    return x.mean() + x.std() * torch.randn(x.shape, generator=draws), y
