"""Members that train apart, on the workers of an engine, to the bits that they have together.

A member's numbers do not depend on which others are in its stack, with one exception: members with
unequal numbers of samples that step together fill up each other's last batch. They stay together.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio.core import Engine, NescioError, make_folder, progress
from nescio.training.batches import cohort_key
from nescio.training.loop import Saver
from nescio.training.loop import run as run_loop
from nescio.training.plan import Plan
from nescio.training.state import GROUPS, State

FOLDER = "members"  # in that of a run: members that are finished while others are not
Part = tuple[list[int], State]  # places of members, and their state


def train_apart(
    state: State,
    plan: Plan,
    engine: Engine,
    folder: Path | None,
    config: Mapping[str, Any],
    show: bool | None,
) -> State:
    """The state at the end of a plan, its members trained by the workers of an engine.

    folder: of the run; members that are finished are kept there until all are.
    """
    if plan.data[0].device.type != "cpu":
        raise NescioError("the workers of an engine train on the CPU; leave the device out")
    done = [] if folder is None else _finished(folder / FOLDER, config, plan)
    missing = sorted(set(range(len(plan.members))) - {place for own, _ in done for place in own})
    tasks = [(own, _of(state, own)) for own in _parts(plan, missing, engine)]
    with progress(len(plan.members), "training members", show=show) as advance:
        advance(len(plan.members) - len(missing), str)
        for own, end in engine.as_finished(partial(_train, plan), tasks):
            if folder is not None:
                name = f"{own[0]:05d}-{own[-1]:05d}.safetensors"
                end.save(make_folder(folder / FOLDER) / name, {**config, "places": own})
            done.append((own, end))
            advance(len(own), str)
    return _joined([end for _, end in sorted(done, key=lambda part: part[0])], plan)


def forget(folder: Path) -> None:
    """Remove what was kept of members, once the whole is written."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def _train(plan: Plan, task: Part) -> Part:
    """What a worker does: some members, from their first step to their last."""
    places, state = task
    run_loop(state, _plan_of(plan, places), Saver(None, {}, torch.inf), show=False)
    return places, state


def _parts(plan: Plan, missing: Sequence[int], engine: Engine) -> list[list[int]]:
    """Places of members that train together: a part for each worker, or of a loop each alone."""
    if not missing:
        return []
    size = -(-len(missing) // engine.size()) if plan.together else 1
    parts = []
    runs = enumerate(missing)  # places side by side: their distance from their rank is the same
    for _, group in groupby(runs, lambda one: (cohort_key(plan, one[1]), one[1] - one[0])):
        own = [place for _, place in group]
        even = len({plan.count(place) for place in own}) == 1
        step = size if even else len(own)
        parts += [own[first : first + step] for first in range(0, len(own), step)]
    return parts


def _plan_of(plan: Plan, places: list[int]) -> Plan:
    """The plan of some of the members."""

    def some(each: tuple[Tensor, ...] | None) -> tuple[Tensor, ...] | None:
        return None if each is None else tuple(each[place] for place in places)

    weight, units = plan.weight, plan.units
    return replace(
        plan,
        members=tuple(plan.members[place] for place in places),
        rows=some(plan.rows),
        validation_rows=some(plan.validation_rows),
        weight=weight if weight is None or len(weight) == 1 else weight[places],
        units=None if units is None else (units[0][places], units[1][places]),
    )


def _of(state: State, places: list[int]) -> State:
    """A copy of the state of some members, at the beginning of a run."""
    first = state.optimizer
    own = {key: [tensor[places] for tensor in parts] for key, parts in first.state.items()}
    groups: dict[str, Any] = {
        name: {key: tensor[places] for key, tensor in getattr(state, name).items()}
        for name in GROUPS
    }
    logs: dict[str, Any] = {name: getattr(state, name)[places] for name in (*EACH, "sums")}
    logs |= {name: getattr(state, name)[:, places] for name in BY_EPOCH}
    if state.gradient.numel():
        logs["gradient"] = state.gradient[:, places]
    optimizer = replace(first, state=own)
    return State(optimizer=optimizer, active=list(range(len(places))), **groups, **logs)


EACH, BY_EPOCH = ("best_score", "best_epoch", "stopped"), ("train", "validation")


def _joined(states: Sequence[State], plan: Plan) -> State:
    """The state of all members at the end; nothing of it trains on."""
    first = states[0]
    groups: dict[str, Any] = {
        name: {
            key: torch.cat([getattr(state, name)[key] for state in states])
            for key in getattr(first, name)
        }
        for name in ("weights", "average", "best")
    }
    logs: dict[str, Any] = {
        name: torch.cat([getattr(state, name) for state in states]) for name in EACH
    }
    names = (*BY_EPOCH, *(["gradient"] if first.gradient.numel() else []))
    logs |= {name: torch.cat([getattr(s, name) for s in states], dim=1) for name in names}
    return State(
        optimizer=first.optimizer,
        active=[],
        sums=first.sums[:0],
        memory={},
        epoch=plan.epochs,
        **groups,
        **logs,
    )


def _finished(folder: Path, config: Mapping[str, Any], plan: Plan) -> list[Part]:
    """Members that an earlier call of the same run has finished."""
    found = []
    for path in sorted(folder.glob("*.safetensors")):
        first, last = (int(word) for word in path.stem.split("-"))
        own = list(range(first, last + 1))
        state = State.load(path, {**config, "places": own}, plan.data[0].device)
        found.append((own, state))
    return found
