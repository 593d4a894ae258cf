"""The pools of active learning on MNIST: which methods run on which, each in a folder."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio import nets
from nescio.applications.active_learning import Curves, simulate
from nescio.applications.active_learning.curves import FILE
from nescio.core import Engine, LocalEngine, as_batch, generator, make_folder
from nescio.evaluation.compare import Absent
from nescio_papers.kit import (
    InData,
    Settings,
    all_images,
    folder_of,
    full_and_quick,
    size,
    slug,
    spread,
)
from nescio_papers.robust_deep_learning.active_features import edges

PART = "active-learning"
START, STEP = 20, 10  # labels
HIDDEN, DROPOUT = 128, 0.5
COPIES = 3
NOISE = 0.1 * 0.3081  # of repeated images: 0.1 standard deviations of all pixels
MNIST, REPEATED = "MNIST", "repeated MNIST"
RANDOM, BALD, BATCH, RATIO, ENTROPY = (
    "random",
    "BALD",
    "BatchBALD",
    "variation ratio",
    "entropy",
)
BATCH_OF_5, BALD_20 = "BatchBALD, 5 at a time", "BALD, 20 passes"
JOINT = "batchbald,samples=100"
DELTA_BALD, DELTA_CONFIDENCE, DELTA_ENTROPY = (
    "BALD, delta",
    "least confidence, delta",
    "entropy, delta",
)


@dataclass(frozen=True)
class Budget:
    """The sizes of a run."""

    train: int | None = size(None, quick=300)  # images of the pool at most
    test: int | None = size(None, quick=100)
    labels: int = size(1010, quick=40)  # at the end
    few: int = size(310, quick=40)  # at the end of repeated MNIST and of batches of 5
    some: int = size(250, quick=30)  # that learned convolutions are trained with too
    seeds: int = size(5, quick=2)
    passes: int = size(50, quick=4)  # of MC dropout
    few_passes: int = size(20, quick=3)
    candidates: int = size(5000, quick=100)  # that are scored in a step
    copied: int = size(10_000, quick=100)  # images of repeated MNIST; all copies are scored
    updates: int = size(300, quick=10)  # of each network
    convolution_updates: int = size(300, quick=3)
    batch: int = size(64, quick=32)
    rate: float = size(1e-2, quick=1e-2)
    workers: int = size(2, quick=1)


FULL, QUICK = full_and_quick(Budget)


@dataclass(frozen=True, kw_only=True)
class Method:
    """How samples are chosen, and what the posterior is."""

    acquisition: str
    pool: str = MNIST
    passes: str | None = "passes"  # of MC dropout, by the budget; None: a delta posterior
    batch: int = STEP
    short: bool = False  # ends at few labels


METHODS: Mapping[str, Method] = {
    BALD: Method(acquisition="bald"),
    BALD_20: Method(acquisition="bald", passes="few_passes"),
    BATCH: Method(acquisition=JOINT),
    RANDOM: Method(acquisition="random", passes=None),
    RATIO: Method(acquisition="variation_ratio"),
    ENTROPY: Method(acquisition="entropy"),
    BATCH_OF_5: Method(acquisition=JOINT, batch=5, short=True),
    DELTA_BALD: Method(acquisition="bald", passes=None, short=True),
    DELTA_CONFIDENCE: Method(acquisition="least_confidence", passes=None),
    DELTA_ENTROPY: Method(acquisition="entropy", passes=None, short=True),
}
ON_COPIES: Mapping[str, Method] = {
    name: replace(METHODS[name], pool=REPEATED, short=True) for name in (BATCH, BALD, RANDOM)
}
Task = tuple[Settings, str, Method]


def budget(settings: Settings) -> Budget:
    """The sizes of this run."""
    return QUICK if settings.quick else FULL


def digits(sizes: Budget) -> InData | Absent:
    """The images of the pool and of the test, or what is missing."""
    return all_images("mnist", train=sizes.train, test=sizes.test)


def curves(settings: Settings) -> dict[str, dict[str, Curves]]:
    """All learning curves by pool and method; those that are finished are read."""
    every = {MNIST: METHODS, REPEATED: ON_COPIES}
    tasks = [(settings, name, method) for part in every.values() for name, method in part.items()]
    if settings.engine is None:
        for _ in LocalEngine(budget(settings).workers).as_finished(run_method, tasks):
            pass
    else:
        _on_engine(settings.engine, tasks)
    return {
        pool: {name: Curves.load(folder(settings, name, method)) for name, method in part.items()}
        for pool, part in every.items()
    }


def folder(settings: Settings, name: str, method: Method) -> Any:
    """Where the run of a method is."""
    return folder_of(settings, PART) / slug(f"{method.pool} {name}")


def _on_engine(engine: Engine, tasks: Sequence[Task]) -> None:
    """Run the methods that are not finished; workers may not have the folder, so curves return."""
    left = [task for task in tasks if not (folder(*task) / FILE).exists()]
    for task, found in engine.as_finished(_elsewhere, left):
        found.save(make_folder(folder(*task)) / FILE)


def _elsewhere(task: Task) -> tuple[Task, Curves]:
    return task, _simulated(task, None)


def run_method(task: Task) -> None:
    """One method on one pool, all seeds; continues where it stopped."""
    _simulated(task, folder(*task))


def _simulated(task: Task, run: Path | None) -> Curves:
    settings, _, method = task
    sizes = budget(settings)
    pool, test = features(sizes, method.pool)
    return simulate(
        lambda: network(pool[0].shape[1]),
        pool,
        test=test,
        acquisition=method.acquisition,
        start=START,
        size=method.batch,
        labels=sizes.few if method.short else sizes.labels,
        seeds=sizes.seeds,
        passes=getattr(sizes, method.passes) if method.passes else 0,
        test_passes=0,
        candidates=sizes.candidates if method.pool == MNIST else None,
        epochs=lambda labels: epochs(labels, sizes.updates, sizes.batch),
        batch_size=sizes.batch,
        learning_rate=sizes.rate,
        schedule="cosine",
        seed=settings.seed,
        run=run,
        progress=False,
    )


def network(inputs: int) -> nn.Module:
    """A hidden layer with dropout on the fixed features."""
    made: nn.Module = nets.mlp(inputs, 10, widths=(HIDDEN,), dropout=DROPOUT)
    return made


def epochs(labels: int, updates: int, batch: int) -> int:
    """As many as give about the same number of updates for any number of labels."""
    return max(1, round(updates / math.ceil(labels / batch)))


@cache
def features(sizes: Budget, name: str) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Features and labels of a pool and of the test images, centered by the pool's mean."""
    found = digits(sizes)
    assert isinstance(found, InData)
    x, y = found.train
    if name == REPEATED:
        x, y = spread(found.train, sizes.copied)
        pool, y = torch.cat([edges(noisy(x, copy)) for copy in range(COPIES)]), y.repeat(COPIES)
    else:
        pool = edges(x)
    center = pool.mean(0)
    scale = (pool - center).square().mean().sqrt()
    return ((pool - center) / scale, y), ((edges(found.test[0]) - center) / scale, found.test[1])


def noisy(images: Tensor, copy: int) -> Tensor:
    """A copy of all images with small noise, another for each copy."""
    x = as_batch(images)
    return x + NOISE * torch.randn(x.shape, generator=generator(copy, "repeated MNIST"))
