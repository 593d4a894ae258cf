"""An agent that learns: S runs in lockstep, K members each, all of them in one stack.

An episode is played by all runs, with the networks as they are; then come the updates. Every draw
is a function of (seed, run, episode), so a run in a stack is the run alone, and a state that was
saved and loaded resumes to the same bits.
"""

import json
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import nescio
from nescio.applications.exploration.agents import Agent, as_agent
from nescio.applications.exploration.environment import (
    ContinuingRuns,
    Environment,
    Runs,
    checked_outcome,
    checked_start,
    described,
    started,
)
from nescio.applications.exploration.q_learning import QLearning, packed, td_loss
from nescio.applications.exploration.replay import Replay, Transitions
from nescio.core import (
    NescioError,
    Rng,
    as_tensor,
    check_same_run,
    derive,
    digest,
    generator,
    load_tensors,
    one_thread,
    save_tensors,
)
from nescio.models import mc_dropout
from nescio.nets import Stack, mlp, refusing_shapes

KIND, FILE = "learner", "learner.safetensors"
PASSES = 20  # of dropout, where the spread of values is asked for
Play = Callable[[Tensor, int], Tensor]  # observations (S, *shape) and the step -> values (S, A)


def learner(
    environment: Environment,
    agent: Agent | str,
    *,
    seeds: int | Sequence[int] = 10,
    make_net: Callable[[], nn.Module] | None = None,
    seed: int = 0,
    run: str | Path | None = None,
    **options: Any,
) -> "QLearner":
    """An agent at the beginning, or where the folder `run` has it.

    environment: a value such as `Chain(length=20)`.
    agent: a name with options, such as "ensemble,members=20,prior=3", or a value such as
      `ensemble(members=20)`.
    seeds: number of runs, or which ones by number.
    make_net: a function without arguments that makes a network from an observation to one value per
      action; None: an mlp.
    seed: seed of the networks and the actions; the worlds depend on the numbers of the runs alone.
    run: folder with the state of an earlier call; None: the agent begins.
    options: options of `QLearning`, such as `discount` and `learning_rate`.
    """
    world, agent, rule = described(environment), as_agent(agent), QLearning.of(options)
    numbers = _numbers(seeds)
    make = make_net or (
        lambda: mlp(
            environment.shape, environment.actions, widths=rule.widths, dropout=agent.dropout
        )
    )
    members = [number * agent.members + k for number in numbers for k in range(agent.members)]
    how: dict[str, Any] = {"members": members, "loss": td_loss()}
    networks = nescio.stepper(make, learning_rate=rule.learning_rate, seed=seed, **how)
    priors = nescio.stepper(make, seed=derive(seed, "prior"), **how)
    state = QLearner(
        environment=environment,
        agent=agent,
        rule=rule,
        seeds=numbers,
        seed=seed,
        networks=networks,
        prior=priors.weights,
        settings=_as_read(
            {
                "environment": world,
                "agent": agent.described,
                "learning": rule.described,
                "seed": seed,
                "network": {
                    "layers": str(networks.net),
                    "weights": digest(*networks.weights.values()),
                },
            }
        ),
    )
    if run is not None and (Path(run) / FILE).exists():
        state.restore(Path(run) / FILE)
    return state


def _as_read(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as they are read from a file: tuples are lists."""
    read: dict[str, Any] = json.loads(json.dumps(settings))
    return read


def _numbers(seeds: int | Sequence[int]) -> tuple[int, ...]:
    try:
        numbers = tuple(range(seeds) if isinstance(seeds, int) else map(operator.index, seeds))
    except TypeError:
        numbers = ()
    if not numbers or len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise NescioError(
            "seeds must be a positive whole number, or the numbers of some runs, 0 or more and all "
            f"different; got {seeds!r}"
        )
    return numbers


@dataclass(kw_only=True, eq=False, repr=False)
class QLearner:
    """S runs and their networks; made by `learner`, changed by `episode`.

    environment: the environment.
    agent: how actions are drawn.
    rule: how the networks learn.
    seeds: numbers of the runs.
    seed: seed of the networks and the actions.
    networks: the S x K networks that learn.
    prior: weights of networks that are added and never trained.
    settings: what makes it the learner it is, in JSON.
    rewards: sum of rewards of each episode so far, `(S,)` each.
    """

    environment: Environment
    agent: Agent
    rule: QLearning
    seeds: tuple[int, ...]
    seed: int
    networks: nescio.Stepper
    prior: dict[str, Tensor]
    settings: dict[str, Any]
    rewards: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runs: Runs = started(self.environment, self.seeds)
        self.replay = Replay(len(self.seeds), self.rule.capacity)
        self.target = self._copied()
        if self.agent.dropout and not self._stack.draws:
            raise NescioError("dropout explores by dropout layers, and the network has none")
        self._check_network()

    def _check_network(self) -> None:
        probe = torch.zeros(len(self.networks.members), 1, *self.environment.shape)
        with torch.no_grad(), refusing_shapes(probe[0]):
            found = self._stack(self.networks.weights, probe)
        if tuple(found.shape[1:]) != (1, self.environment.actions):
            raise NescioError(
                f"the network must give {self.environment.actions} values, one for each action of "
                f"{self.environment.name}, for an observation {self.environment.shape}; it gave "
                f"{tuple(found.shape[2:])}"
            )

    def __repr__(self) -> str:
        what = f"{self.agent.name} on {self.environment.name}"
        return f"QLearner({what}, {len(self.seeds)} seeds, {len(self.rewards)} episodes)"

    @cached_property
    def _stack(self) -> Stack:
        return Stack(self.networks.net)

    def _copied(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.networks.weights.items()}

    def episode(self) -> Tensor:
        """Play an episode in all runs, then learn; the rewards `(S,)`."""
        number = len(self.rewards)
        with one_thread():
            rewards = self._play(number)
        self._learn(number)
        self.rewards.append(rewards)
        return rewards

    def _draws(self, purpose: str, episode: int) -> list[torch.Generator]:
        return [generator(self.seed, purpose, run, episode) for run in self.seeds]

    @torch.no_grad()
    def _play(self, episode: int) -> Tensor:
        """Act until all runs ended, and store what was seen; the sums of the rewards."""
        values, steps = self._player(episode), self.environment.steps
        chance, draws = self.agent.chance(episode), self._draws("actions", episode)
        drawn = torch.stack([torch.rand(2, steps, generator=g) for g in draws], 2)  # (2, T, S)
        at_random, other = drawn[0] < chance, (drawn[1] * self.environment.actions).long()
        seen = checked_start(self.runs.reset(episode), self.environment, len(self.seeds))
        playing = torch.ones(len(self.seeds), dtype=torch.bool)
        moments = []
        for step in range(steps):
            action = torch.where(at_random[step], other[step], values(seen, step).argmax(-1))
            outcome = self.runs.step(action.clone())
            after, reward, ended = checked_outcome(outcome, self.environment, playing)
            moments.append((seen, action, reward, after, ended, playing))
            seen, playing = after, playing & ~ended
            if not playing.any():
                break
        return self._stored(episode, moments)

    def _stored(self, episode: int, moments: Sequence[tuple[Tensor, ...]]) -> Tensor:
        parts = (torch.stack(part, 1) for part in zip(*moments, strict=True))
        seen, action, reward, after, ended, real = parts
        draws, size = self._draws("share", episode), (len(moments), self.agent.members)
        drawn = torch.stack([torch.rand(size, generator=g) for g in draws])
        new = Transitions(
            seen=seen,
            action=action,
            reward=reward,
            after=after,
            ended=ended,
            members=drawn < self.agent.share,
        )
        self.replay.add(new, real)
        return torch.where(real, reward, 0.0).double().sum(1)

    def _player(self, episode: int) -> Play:
        """The networks that act in an episode: one member of each run, with its masks."""
        members = self.agent.members
        draws = self._draws("member", episode)
        chosen = [int(torch.randint(members, (), generator=g)) for g in draws]
        index = torch.arange(len(self.seeds)) * members + torch.tensor(chosen)
        weights = {name: tensor[index] for name, tensor in self.networks.weights.items()}
        prior = {name: tensor[index] for name, tensor in self.prior.items()}

        def values(seen: Tensor, step: int) -> Tensor:
            rng = None
            if self.agent.dropout:
                place = (episode,) if self.agent.masks == "episode" else (episode, step)
                rng = Rng(self.seed, self.seeds, ("masks", *place))
            return self._values(weights, prior, seen[:, None], rng)[:, 0]

        return values

    def _values(
        self,
        weights: dict[str, Tensor],
        prior: dict[str, Tensor],
        x: Tensor,
        rng: Rng | None = None,
    ) -> Tensor:
        """Values `(M, N, A)` of networks with their priors at `(M, N, *shape)`."""
        values = self._stack(weights, x, rng)
        return values + self._prior(prior, x) if self.agent.prior else values

    def _prior(self, weights: dict[str, Tensor], x: Tensor) -> Tensor:
        return self.agent.prior * self._stack(weights, x)

    def _learn(self, episode: int) -> None:
        size = self.rule.updates, self.rule.batch_size
        draws = self._draws("replay", episode)
        chance = torch.stack([torch.rand(size, generator=g) for g in draws], 1)
        for own in chance:  # (S, B)
            self.update(self.replay.draw(own))
            if self.networks.steps % self.rule.target_every == 0:
                self.target = self._copied()

    def update(self, batch: Transitions) -> Tensor:
        """One step of all networks on transitions of each run; the losses `(M,)`.

        batch: transitions, `(S, B)` of each part.
        """
        x, targets = self._targets(batch)
        weight = None
        if self.agent.share < 1:
            weight = batch.members.movedim(-1, 1).flatten(0, 1).to(x.dtype)
        return self.networks.step(x, targets, weight)

    def _each(self, part: Tensor) -> Tensor:
        """What is of each run `(S, ...)`, for each of its members `(M, ...)`."""
        return part.repeat_interleave(self.agent.members, 0)

    @torch.no_grad()
    def _targets(self, batch: Transitions) -> tuple[Tensor, Tensor]:
        """The inputs `(M, B, *shape)` of an update, and its targets without the priors."""
        x, after = self._each(batch.seen), self._each(batch.after)
        action = self._each(batch.action)[..., None]
        both = self.networks.weights, self.target
        online, target = (self._stack(weights, after) for weights in both)
        prior = torch.zeros(())
        if self.agent.prior:
            before, later = self._prior(self.prior, torch.cat([x, after], 1)).split(x.shape[1], 1)
            online, target = online + later, target + later
            prior = before.gather(-1, action)[..., 0]
        best = (online if self.rule.double else target).argmax(-1, keepdim=True)
        later_value = target.gather(-1, best)[..., 0] * ~self._each(batch.ended)
        value = self._each(batch.reward) + self.rule.discount * later_value - prior
        return x, packed(action[..., 0], value, self.environment.actions)

    @torch.no_grad()
    def values(self, observations: Any, *, passes: int = PASSES) -> Tensor:
        """Q of every run, member, observation and action, `(S, K, N, A)`.

        observations: `(N, *shape)`.
        passes: number of passes of dropout, which are its members.
        """
        x = as_tensor(observations, "observations").float()
        every = x.expand(len(self.networks.members), *x.shape)
        if not self.agent.dropout:
            found = self._values(self.networks.weights, self.prior, every)
        else:
            found = mc_dropout(self.networks.live, passes=passes, seed=self.seed).outputs(x)
            if self.agent.prior:
                found = found + self._prior(self.prior, every).repeat_interleave(passes, 0)
        each: Tensor = found.unflatten(0, (len(self.seeds), -1))
        return each

    def save(self, path: Path) -> None:
        """Write everything that the next episode depends on into one file at `path`."""
        world = self.runs.state() if isinstance(self.runs, ContinuingRuns) else {}
        parts = {
            "weights": self.networks.weights,
            "optimizer": self.networks.optimizer.tensors(),
            "target": self.target,
            "replay": self.replay.state(),
            "world": world,
        }
        tensors = {f"{part}/{name}": t for part, own in parts.items() for name, t in own.items()}
        tensors["rewards"] = torch.stack(self.rewards, 1)
        counts = {"updates": self.networks.steps, "seeds": list(self.seeds)}
        save_tensors(path, tensors, {"kind": KIND, "settings": self.settings, **counts})

    def restore(self, path: Path) -> None:
        """Continue from what `save` wrote at `path`, if it is of the same learner."""
        tensors, manifest = load_tensors(path, KIND)
        mine = {**self.settings, "seeds": list(self.seeds)}
        check_same_run(path, {**manifest["settings"], "seeds": manifest["seeds"]}, mine)

        def under(part: str) -> dict[str, Tensor]:
            start = f"{part}/"
            return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}

        for own, part in (
            (self.networks.weights, "weights"),
            (self.networks.optimizer.tensors(), "optimizer"),
            (self.target, "target"),
        ):
            for name, tensor in under(part).items():
                own[name].copy_(tensor)
        self.networks.optimizer.steps = self.networks.rounds = manifest["updates"]
        self.replay.restore(under("replay"))
        self.rewards = list(tensors["rewards"].unbind(1))
        if isinstance(self.runs, ContinuingRuns):
            self.runs.restore(under("world"))
