"""What an environment is: a description, and S runs of it that move in lockstep."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from nescio.core import NescioError, as_tensor

Outcome = tuple[Tensor, Tensor, Tensor]
OUTCOME = ("observations", "rewards", "ended")  # what its three parts are


class Runs(Protocol):
    """S runs of an environment; a run draws what it would draw alone."""

    def reset(self, episode: int) -> Tensor:
        """Begin an episode: observations `(S, *shape)`, a function of the seeds and its number.

        Of a continuing environment, episode 0 begins and others continue from where the runs are.

        episode: number of the episode, from 0.
        """
        ...

    def step(self, actions: Tensor) -> Outcome:
        """Observations `(S, *shape)`, rewards `(S,)` and which runs ended `(S,)` after actions.

        Ended is what needs no further action: a goal, a fall, not the limit of steps. A run that
        ended still gets actions until all have; what it gives then is not read.

        actions: action of each run, `(S,)`.
        """
        ...


@runtime_checkable
class ContinuingRuns(Runs, Protocol):
    """Runs that begin only once, so that their state is a part of what is saved."""

    def state(self) -> dict[str, Tensor]:
        """All that the next step depends on, but the seeds."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a `state`."""
        ...


class Environment(Protocol):
    """A world that agents learn in: a frozen dataclass whose fields are numbers and texts."""

    @property
    def name(self) -> str:
        """A word for files and titles."""
        ...

    @property
    def actions(self) -> int:
        """How many actions there are, at least 2; they are 0, 1, ..."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        ...

    @property
    def steps(self) -> int:
        """The limit of steps of an episode; of a continuing environment, of a decision epoch."""
        ...

    @property
    def solved(self) -> float | None:
        """From which mean reward of `window` episodes it counts as solved, if that is defined."""
        ...

    @property
    def window(self) -> int:
        """Over how many episodes rewards are averaged."""
        ...

    @property
    def continuing(self) -> bool:
        """Whether the world goes on from episode to episode."""
        ...

    def start(self, seeds: Sequence[int]) -> Runs:
        """One run for each of the `seeds`."""
        ...


def as_actions(actions: Any, *, runs: int, count: int) -> Tensor:
    """Actions as integers, refused where one is not 0, ..., count - 1.

    actions: action of each run, `(runs,)`.
    runs: number of runs.
    count: number of actions.
    """
    given = as_tensor(actions, "actions")
    if tuple(given.shape) != (runs,) or given.is_floating_point() or given.dtype == torch.bool:
        raise NescioError(
            f"actions must be {runs} whole numbers, one for each run, got {given.dtype} of shape "
            f"{tuple(given.shape)}"
        )
    wrong = (given < 0) | (given >= count)
    if wrong.any():
        run = int(wrong.nonzero()[0])
        raise NescioError(
            f"the action of run {run} is {int(given[run])}; there are {count} actions, 0 to "
            f"{count - 1}"
        )
    return given.long()


NEEDED = ("name", "actions", "shape", "steps", "solved", "window", "continuing", "start")


def described(environment: Environment) -> dict[str, Any]:
    """What an environment is, as JSON: its name and its options."""
    if not is_dataclass(environment) or isinstance(environment, type):
        raise NescioError(
            "an environment is a value such as exploration.Chain(length=20), a dataclass; got "
            f"{environment!r}"
        )
    if lacking := [name for name in NEEDED if not hasattr(environment, name)]:
        raise NescioError(f"the environment {environment!r} lacks {', '.join(lacking)}")
    if environment.actions < 2:
        raise NescioError(f"there is nothing to decide with {environment.actions} action(s)")
    if environment.steps < 1:
        raise NescioError(
            f"an episode has 1 step or more, {environment.name} has {environment.steps}"
        )
    options = asdict(environment)
    try:
        json.dumps(options)
    except TypeError as error:
        raise NescioError(
            f"the fields of {environment.name} must be numbers and texts, which a file can hold: "
            f"{error}"
        ) from None
    return {"name": environment.name, **options}


def started(environment: Environment, seeds: Sequence[int]) -> Runs:
    """Runs of an environment, which can be resumed."""
    runs = environment.start(seeds)
    if environment.continuing and not isinstance(runs, ContinuingRuns):
        raise NescioError(
            f"{environment.name} is continuing, so its runs need state() and restore(state)"
        )
    return runs


def checked_start(observed: Any, environment: Environment, runs: int) -> Tensor:
    """What a reset gave, as a copy; refused where it is not of the shape said, or not finite."""
    seen = _copied(observed, f"the observations of a reset of {environment.name}")
    expected = (runs, *environment.shape)
    if tuple(seen.shape) != expected:
        raise NescioError(
            f"a reset of {environment.name} must give observations of shape {expected}, got "
            f"{tuple(seen.shape)}"
        )
    _check_seen(seen, environment)
    return seen


def _copied(given: Any, name: str) -> Tensor:
    """In float32, and as it is now: an environment may write to the same memory again."""
    return as_tensor(given, name).to(torch.float32, copy=True)


def _check_seen(observed: Tensor, environment: Environment) -> None:
    if not observed.isfinite().all():
        raise NescioError(f"an observation of {environment.name} is NaN or infinite in float32")


def checked_outcome(outcome: Any, environment: Environment, playing: Tensor) -> Outcome:
    """What a step gave, as copies; refused where it is not finite in a run that still plays."""
    what = f"a step of {environment.name}"
    several = isinstance(outcome, tuple | list)
    if not several or len(outcome) != len(OUTCOME):
        count = f" of {len(outcome)}" if several else ""
        raise NescioError(
            f"{what} must give three things, {', '.join(OUTCOME)}; got a "
            f"{type(outcome).__name__}{count}"
        )
    named = zip(outcome, OUTCOME, strict=True)
    observed, reward, ended = (_copied(part, f"the {name} of {what}") for part, name in named)
    runs = len(playing)
    expected = (runs, *environment.shape), (runs,), (runs,)
    found = tuple(tuple(part.shape) for part in (observed, reward, ended))
    if found != expected:
        raise NescioError(
            f"{what} must give {', '.join(OUTCOME[:2])} and ended of shapes {expected}, got {found}"
        )
    _check_reward(reward, environment, playing)
    _check_seen(observed[playing], environment)
    if not ((ended == 0) | (ended == 1))[playing].all():
        raise NescioError(f"{what} must say True or False for each run that ended, got {ended}")
    return observed, reward, ended == 1


def _check_reward(reward: Tensor, environment: Environment, playing: Tensor) -> None:
    lost = playing & ~reward.isfinite()
    if lost.any():
        run = int(lost.nonzero()[0])
        raise NescioError(
            f"the reward of run {run} of {environment.name} is {float(reward[run])}; rewards must "
            "be finite numbers in float32"
        )
