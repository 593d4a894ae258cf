"""The pool loop: train, evaluate, choose, label, and again; all seeds of a step in one stack.

The state is on disk after each step. As every draw is a function of seeds and numbers of labels,
a run that was killed ends as it would have without.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import nescio
from nescio.applications.active_learning.candidates import Acquisition
from nescio.applications.active_learning.choose import choose, not_ood
from nescio.applications.active_learning.curves import FILE, WORK, Curves
from nescio.applications.active_learning.identity import settings_of
from nescio.applications.active_learning.pick import as_acquisition
from nescio.applications.active_learning.seeds_apart import run_apart
from nescio.applications.active_learning.simulation import (
    Epochs,
    Simulation,
    check_counts,
    drawn_labels,
    first_labels,
    is_count,
    read_pairs,
)
from nescio.core import (
    Classification,
    Engine,
    NescioError,
    check_same_run,
    derive,
    make_folder,
    owned,
)
from nescio.core import progress as progress_bar
from nescio.models import Model, Predictor

CHUNK = 2048  # samples at a time


def simulate(
    make_net: Callable[..., nn.Module],
    data: Any,
    *,
    test: Any,
    acquisition: str | Acquisition = "bald",
    start: Any = 20,
    balanced: bool = True,
    size: int = 10,
    labels: int = 1000,
    seeds: int | Sequence[int] = 5,
    members: int = 1,
    passes: int = 100,
    test_passes: int | None = None,
    candidates: int | None = 2000,
    guard: Any = None,
    validation_labels: int = 0,
    epochs: Epochs = 100,
    seed: int = 0,
    run: str | Path | None = None,
    engine: Engine | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Curves:
    """Learning curves of an acquisition: labels that are known are asked for, a batch at a time.

    Networks start from new weights in each step.

    make_net: a function that makes a network, as for `nescio.train`.
    data: the pool with its labels `(x, y)`, or a table.
    test: data to measure the accuracy on after each step.
    acquisition: a name (`nescio list acquisitions`), with options as in "batchbald,samples=10000",
      or a function of `Candidates`.
    start: number of labels at the start, or indices `(seeds, n)`.
    balanced: whether the labels at the start are balanced over the classes; otherwise drawn at
      random.
    size: labels per step.
    labels: number of labels at which the steps end, or up to size - 1 before.
    seeds: number of pools, each with a separate start, networks and candidates, or which ones by
      number; the start of a seed is the same for every acquisition, so curves can be compared in
      pairs. All of them train in one stack.
    members: networks per seed, an ensemble.
    passes: passes of MC dropout through each of them, the members of the posterior; 0: the networks
      as they are (a delta posterior where `members` is 1).
    test_passes: passes for the test accuracy, of the mean prediction; None: as many as `passes`.
    candidates: number of samples without labels that are drawn and scored in a step; None: all.
    guard: a guard; what it calls OOD is never asked for, at the start neither. None: all may be.
    validation_labels: labels of each seed beside `labels`, drawn at the start and never trained on,
      for `patience`.
    epochs: a number, or a function of the number of labels, for equally many updates in each step:
      `lambda labels: 400 * 64 // labels`.
    seed: seed of the random draws.
    run: folder for the state; the same call with the same folder continues, also to more labels.
      None: nothing is stored.
    engine: where seeds run, each by itself on one thread: `nescio.core.engine("ray")`, whose
      workers take a seed at a time, or "local", one after the other here, to the same bits. None:
      here, in one stack, which is faster than one after the other; the last bits may differ.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    options: options of `nescio.train`, such as `batch_size`, `learning_rate`, `schedule` and
      `augment`.
    """
    as_acquisition(acquisition)  # a wrong name is said before anything is trained
    make_net, pool, tested = read_pairs(make_net, data, test)
    test_passes = passes if test_passes is None else test_passes
    inside = _inside(guard, pool[0])
    check_counts(inside, locals(), options)
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not numbers or len(set(numbers)) < len(numbers) or not all(map(is_count, numbers)):
        raise NescioError("seeds must be positive: a number, or different numbers of seeds")
    how: dict[str, Any] = {"goal": labels, "balanced": balanced, "seed": seed}
    first = first_labels(pool[1], inside, start, numbers, **how)
    simulation = Simulation(
        make_net=make_net,
        pool=pool,
        test=tested,
        acquisition=acquisition,
        inside=inside,
        start=first,
        validation=_validation(pool[1], inside, first, validation_labels, numbers, seed),
        size=size,
        labels=labels,
        seeds=numbers,
        members=members,
        passes=passes,
        test_passes=test_passes,
        candidates=candidates,
        epochs=epochs,
        seed=seed,
        options=options,
    )
    folder = None if run is None else make_folder(Path(run))
    with nullcontext() if folder is None else owned(folder):
        return _run(simulation, folder, progress, engine)


def _inside(guard: Any, x: Tensor) -> Tensor:
    """The indices that may be asked; a guard looks at the pool once."""
    if guard is None:
        return torch.arange(len(x))
    parts = [not_ood(guard, part) for part in x.split(CHUNK)]
    return torch.cat(parts).nonzero()[:, 0]


def _validation(
    labels: Tensor, inside: Tensor, start: Tensor, count: int, seeds: Sequence[int], seed: int
) -> Tensor:
    """Samples that are labeled for validation only, `(R, count)`, none of them at the start."""
    how: dict[str, Any] = {"balanced": True, "seed": seed, "purpose": "validation"}
    wanted = count + start.shape[1]
    more = drawn_labels(labels, inside, wanted, seeds, **how) if count else start[:, :0]
    own = zip(more, start, strict=True)
    return torch.stack([drawn[~torch.isin(drawn, first)][:count] for drawn, first in own])


def _run(
    simulation: Simulation, folder: Path | None, show: bool | None, engine: Engine | None
) -> Curves:
    curves, steps = _begun(simulation, folder), _steps(simulation)
    if engine is not None and len(curves.labels) < steps:
        return run_apart(_to_the_end, simulation, curves, engine, folder, show)
    with progress_bar(steps, curves.acquisition, show=show) as advance:
        advance(min(steps, len(curves.labels)), str)
        while len(curves.labels) < steps:
            curves = _step(simulation, curves, last=len(curves.labels) == steps - 1)
            if folder is not None:
                curves.save(folder / FILE)
            advance(1, partial(_note, curves))
    return curves.first(steps)


def _steps(simulation: Simulation) -> int:
    return 1 + (simulation.labels - simulation.start.shape[1]) // simulation.size


def _to_the_end(simulation: Simulation, curves: Curves) -> Curves:
    """All steps that are left, without a word."""
    steps = _steps(simulation)
    while len(curves.labels) < steps:
        curves = _step(simulation, curves, last=len(curves.labels) == steps - 1)
    return curves


def _note(curves: Curves) -> str:
    return f"{curves.labels[-1]} labels, accuracy {np.median(curves.accuracy[:, -1]):.4f}"


def _begun(simulation: Simulation, folder: Path | None) -> Curves:
    """What is there of the run, or its beginning."""
    settings = settings_of(simulation)
    if folder is not None and (folder / FILE).exists():
        there = Curves.load(folder)
        check_same_run(folder / FILE, there.settings, settings)
        labels = int(there.labels[-1])
        if there.acquired.shape[1] == labels < simulation.labels:  # its last step acquires now
            return there.first(len(there.labels) - 1, labels=labels)
        return there
    seeds, start = simulation.start.shape
    return Curves(
        labels=np.zeros(0, np.int64),
        accuracy=np.zeros((seeds, 0)),
        acquired=simulation.start.numpy(),
        scores=np.full((seeds, start), np.nan),
        seconds=np.zeros((0, len(WORK))),
        seeds=simulation.seeds,
        settings=settings,
    )


def _step(simulation: Simulation, curves: Curves, *, last: bool) -> Curves:
    """One step: train on what was acquired, evaluate, and unless it is the last, acquire more."""
    acquired = torch.from_numpy(curves.acquired).contiguous()
    count, seconds = acquired.shape[1], dict.fromkeys(WORK, 0.0)
    with _timed(seconds, "train"):
        model = _trained(simulation, acquired)
    with _timed(seconds, "evaluate"):
        found = [
            _accuracy(simulation.predictor(model, row, count, simulation.test_passes), simulation)
            for row in range(len(acquired))
        ]
    size = 0 if last else simulation.size
    with _timed(seconds, "score"):
        chosen = [_chosen(simulation, model, row, own, size) for row, own in enumerate(acquired)]
    index, scores = (torch.stack(part) for part in zip(*chosen, strict=True))
    return curves.after(
        np.array(found), index.numpy(), scores.double().numpy(), np.array(list(seconds.values()))
    )


@contextmanager
def _timed(seconds: dict[str, float], what: str) -> Iterator[None]:
    before = process_time()
    yield
    seconds[what] += process_time() - before


def _trained(simulation: Simulation, acquired: Tensor) -> Model:
    """The networks of all seeds, trained in one stack on copies of their samples alone."""
    (x, y), count = simulation.pool, acquired.shape[1]
    used = torch.cat([acquired.flatten(), simulation.validation.flatten()]).unique()

    def rows(index: Tensor) -> list[Tensor]:
        own = torch.searchsorted(used, index)
        return [row for row in own for _ in range(simulation.members)]

    held = {"validation_rows": rows(simulation.validation)} if simulation.validation.numel() else {}
    numbers = [
        number * simulation.members + k
        for number in simulation.seeds
        for k in range(simulation.members)
    ]
    return nescio.train(
        simulation.make_net,
        (x[used], y[used]),
        rows=rows(acquired),
        members=numbers,
        epochs=simulation.epochs_for(count),
        seed=derive(simulation.seed, "training", count),
        **{"progress": False, **held, **simulation.options},
    )


def _accuracy(predictor: Predictor, simulation: Simulation) -> float:
    x, y = simulation.test
    right = sum(
        int((_prediction(predictor, part).labels == truth).sum())
        for part, truth in zip(x.split(CHUNK), y.split(CHUNK), strict=True)
    )
    return right / len(y)


def _prediction(predictor: Predictor, x: Any) -> Classification:
    found = predictor(x)
    if not isinstance(found, Classification):
        raise NescioError(f"acquisitions are for classes, got a {type(found).__name__}")
    return found


def _chosen(
    simulation: Simulation, model: Model, row: int, acquired: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """What a seed acquires next, as indices of the pool, and its scores."""
    if not size:
        return acquired[:0], torch.zeros(0)
    (x, _), named = simulation.pool, simulation.acquisition
    among = simulation.drawn_candidates(row, acquired)
    passes = 0 if named == "random" else simulation.passes  # it reads no prediction
    found = choose(
        simulation.predictor(model, row, len(acquired), passes),
        x[among],
        size,
        named,
        labeled=x[acquired],
        seed=simulation.draws("choice", row, len(acquired)),
    )
    return among[found.index.cpu()], found.score.cpu()
