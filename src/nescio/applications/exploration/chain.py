"""A chain of states whose reward is at the far end (Osband et al., 2016, section 5.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from nescio.applications.exploration.environment import Outcome, as_actions
from nescio.core import NescioError, generator

NEAR, FAR = 0.001, 1.0


@dataclass(frozen=True, kw_only=True)
class Chain:
    """States in a row: a small reward at the near end, a reward of 1 at the far end.

    An episode begins in the second state. A step to the first state gives 0.001; a step to the last
    state gives 1 and ends the episode (in the paper it continues there). Which of the two actions
    leads on is drawn for each state and seed: without that, a network that always takes the same
    action, as many do before they learn, would be at the far end at once.

    length: number of states.
    slack: steps that an episode has beyond the shortest way to the far end. With 0, one action back
      is one too many, and random actions arrive in one of 2 ** (length - 2) episodes; the chain of
      the paper has 11.
    """

    length: int = 20
    slack: int = 0

    def __post_init__(self) -> None:
        if self.length < 3 or self.slack < 0:
            raise NescioError(
                "a chain has a length of 3 or more and a slack of 0 or more, got "
                f"{self.length} and {self.slack}"
            )

    name = "chain"
    actions = 2
    solved = FAR / 2
    window = 20
    continuing = False

    @property
    def steps(self) -> int:
        """The limit of steps of an episode."""
        return self.length - 2 + self.slack

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one observation: a 1 at the state, zeros elsewhere."""
        return (self.length,)

    def observations(self) -> Tensor:
        """The observations of all states, in their order."""
        return torch.eye(self.length)

    def start(self, seeds: Sequence[int]) -> "ChainRuns":
        """One chain for each of the `seeds`."""
        return ChainRuns(self, tuple(seeds))


class ChainRuns:
    """Chains side by side."""

    def __init__(self, chain: Chain, seeds: tuple[int, ...]) -> None:
        self.chain, self.row = chain, torch.arange(len(seeds))
        drawn = [torch.rand(chain.length, generator=generator(seed, "chain")) for seed in seeds]
        self.onward = (torch.stack(drawn) < 0.5).long()  # (S, length), the action that leads on
        self.position = torch.zeros(len(seeds), dtype=torch.long)

    def reset(self, episode: int) -> Tensor:  # noqa: ARG002
        """Back to the second state."""
        self.position = torch.ones_like(self.row)
        return self._observed()

    def _observed(self) -> Tensor:
        return one_hot(self.position, self.chain.length).float()

    def step(self, actions: Tensor) -> Outcome:
        """One state on or back; before the first state there is none."""
        actions = as_actions(actions, runs=len(self.row), count=2)
        on = actions == self.onward[self.row, self.position]
        last = self.chain.length - 1
        self.position = (self.position + 2 * on.long() - 1).clamp(0, last)
        ended = self.position == last
        return self._observed(), NEAR * (self.position == 0) + FAR * ended, ended
