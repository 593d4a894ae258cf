"""Members that train apart, on the workers of an engine, to the bits that they have together.

Networks that run one after the other can train anywhere. In a stack, the last bits of a product
depend on where its matrices lie in memory, to a multiple of 64 bytes. So a stack is cut only where
all matrices of a member lie as they do at its beginning: every 1, 2, 4, 8 or 16 members. Members
with unequal numbers of samples that step together fill up each other's last batch, and stay
together too.
"""

import math
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
from nescio.training.batches import PIECE, cohort_key
from nescio.training.loop import Saver
from nescio.training.loop import run as run_loop
from nescio.training.plan import Plan
from nescio.training.state import GROUPS, State

LINE = 64  # bytes that a processor reads at a time
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
    step = stride(plan)
    size = step * max(1, round(len(missing) / (engine.size() * step))) if plan.together else 1
    parts = []
    runs = enumerate(missing)  # places side by side: their distance from their rank is the same
    for _, group in groupby(runs, lambda one: (cohort_key(plan, one[1]), one[1] - one[0])):
        own = [place for _, place in group]
        even = len({plan.count(place) for place in own}) == 1
        cut = range(own[0] - own[0] % step, own[-1] + 1, size) if even else [own[0]]
        ends = [*cut[1:], own[-1] + 1]
        parts += [list(range(max(a, own[0]), b)) for a, b in zip(cut, ends, strict=True)]
    return parts


def stride(plan: Plan) -> int:
    """After how many members of a stack the next one lies in memory as the first one does."""
    if not plan.together:
        return 1
    net, size = plan.architecture.net, torch.empty((), dtype=plan.dtype).element_size()
    weights = [p.shape for p in net.parameters() if p.ndim > 1]
    widths = {math.prod(plan.data[0].shape[1:]), *(shape[0] for shape in weights)}
    samples = {n for place in range(len(plan.members)) for n in _batches(plan, place)}
    lengths = [width * count for width in widths for count in samples]
    lengths += [math.prod(shape) for shape in weights]
    return max(LINE // math.gcd(LINE, size * length) for length in lengths)


def _batches(plan: Plan, place: int) -> list[int]:
    """How many samples a member reads at a time, in training and in validation."""
    count, steps = plan.count(place), plan.steps_for(plan.count(place))
    whole = min(plan.batch_size, count)
    found = [whole, count - (steps - 1) * whole, plan.unlabeled_size]
    if plan.validation is not None:
        found += [PIECE, len(plan.validation[0]) % PIECE]
    if plan.validation_rows is not None:
        found += [PIECE, len(plan.validation_rows[place]) % PIECE]
    return [number for number in found if number]


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
