"""The seeds of a simulation on the workers of an engine, each by itself."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from nescio.applications.active_learning.curves import FILE, Curves
from nescio.applications.active_learning.identity import settings_of
from nescio.applications.active_learning.simulation import Simulation
from nescio.core import Engine, LocalEngine, check_same_run, make_folder, one_thread, progress

FOLDER = "seeds"  # in that of a run: seeds that are finished while others are not
Continue = Callable[[Simulation, Curves], Curves]  # to the last step


def run_apart(
    go_on: Continue,
    simulation: Simulation,
    curves: Curves,
    engine: Engine,
    folder: Path | None,
    show: bool | None,
) -> Curves:
    """The curves of all seeds to the last step.

    go_on: what a worker does with one seed. curves: as far as they are. folder: of the run; seeds
    that are finished are kept there until all are.
    """
    engine = engine if engine.is_remote else LocalEngine(1)
    own = None if folder is None else folder / FOLDER
    rows = range(len(simulation.seeds))
    done = {row: found for row in rows if (found := _kept(own, simulation, row)) is not None}
    tasks = [(row, _row(curves, row)) for row in rows if row not in done]
    with progress(len(rows), curves.acquisition, show=show) as advance:
        advance(len(done), str)
        for row, found in engine.as_finished(partial(_one, go_on, simulation), tasks):
            done[row] = found
            if own is not None:
                place = make_folder(own / str(simulation.seeds[row]))
                said = settings_of(simulation.of(row))
                replace(found, settings={**said, "labels": simulation.labels}).save(place / FILE)
            advance(1, str)
    whole = _joined([done[row] for row in rows], curves)
    if folder is not None and own is not None:
        whole.save(folder / FILE)
        shutil.rmtree(own, ignore_errors=True)
    return whole


@one_thread()
def _one(go_on: Continue, simulation: Simulation, task: tuple[int, Curves]) -> tuple[int, Curves]:
    row, curves = task
    return row, go_on(simulation.of(row), curves)


def _kept(folder: Path | None, simulation: Simulation, row: int) -> Curves | None:
    """A seed that an earlier call has finished; None: there is none."""
    place = None if folder is None else folder / str(simulation.seeds[row])
    if place is None or not (place / FILE).exists():
        return None
    there = Curves.load(place)
    said = {**settings_of(simulation.of(row)), "labels": simulation.labels}
    check_same_run(place / FILE, there.settings, said)
    return there


def _row(curves: Curves, row: int) -> Curves:
    """The curve of one seed; the seconds, which nobody has by seed, stay with the first."""
    some = slice(row, row + 1)
    return replace(
        curves,
        accuracy=curves.accuracy[some],
        acquired=curves.acquired[some],
        scores=curves.scores[some],
        seconds=curves.seconds if row == 0 else 0 * curves.seconds,
        seeds=curves.seeds[some],
    )


def _joined(each: Sequence[Curves], whole: Curves) -> Curves:
    return replace(
        whole,
        labels=each[0].labels,
        accuracy=np.concatenate([one.accuracy for one in each]),
        acquired=np.concatenate([one.acquired for one in each]),
        scores=np.concatenate([one.scores for one in each]),
        seconds=np.sum([one.seconds for one in each], axis=0),
    )
