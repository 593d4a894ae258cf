"""Agents: how Q-learning explores. All of them learn in the same way and differ in this alone."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from nescio.core import NescioError
from nescio.core.registry import agents


@dataclass(frozen=True, kw_only=True)
class Agent:
    """How actions are drawn: a member, masks or chance. The three combine.

    name: name of the kind of agent.
    members: networks for each run, one of which acts in an episode.
    prior: scale of the fixed random network that is added to each.
    share: share of the transitions that a member learns from.
    dropout: rate of dropout.
    masks: whether masks of dropout are drawn for each `"episode"` or `"step"`.
    epsilon: probability of a random action after `decay` episodes, to which it falls from 1.
    decay: number of episodes over which it falls.
    """

    name: str
    members: int = 1
    prior: float = 0.0
    share: float = 1.0
    dropout: float = 0.0
    masks: Literal["episode", "step"] = "episode"
    epsilon: float = 0.0
    decay: int = 0

    def __post_init__(self) -> None:
        rules = {
            "a whole number of members": isinstance(self.members, int) and self.members >= 1,
            "a prior of 0 or more": 0 <= self.prior < float("inf"),
            "a share above 0 and up to 1": 0 < self.share <= 1,
            "a rate of dropout of 0 or more and below 1": 0 <= self.dropout < 1,
            "masks for each 'episode' or 'step'": self.masks in ("episode", "step"),
            "an epsilon of 0 to 1": 0 <= self.epsilon <= 1,
            "a decay of 0 or more": self.decay >= 0,
        }
        for words, holds in rules.items():
            if not holds:
                raise NescioError(f"an agent needs {words}, got {self}")

    @property
    def described(self) -> dict[str, Any]:
        """All options, as JSON."""
        return asdict(self)

    def chance(self, episode: int) -> float:
        """The probability of a random action in an episode.

        episode: number of the episode, from 0.
        """
        if episode >= self.decay:
            return self.epsilon
        return 1 - (1 - self.epsilon) * episode / self.decay


@agents.register
def ensemble(*, members: int = 10, prior: float = 3.0, share: float = 0.5) -> Agent:
    """Thompson sampling: one member of an ensemble acts for a whole episode.

    Bootstrapped Q-networks with fixed prior networks (Osband et al., 2016 and 2018).

    members: number of networks for each run.
    prior: scale of the random network that is added to each member and never trained; 0: none.
    share: probability that a member learns from a transition.
    """
    return Agent(name="ensemble", members=members, prior=prior, share=share)


@agents.register
def dropout(*, rate: float = 0.1, masks: Literal["episode", "step"] = "episode") -> Agent:
    """Thompson sampling by dropout: one mask for a whole episode (Gal, 2016, section 5.2).

    rate: rate of dropout, in training too.
    masks: whether masks are drawn for each `"episode"` or for each `"step"`.
    """
    return Agent(name="dropout", dropout=rate, masks=masks)


@agents.register
def epsilon_greedy(*, epsilon: float = 0.05, decay: int = 100) -> Agent:
    """The best action by the network, or with probability epsilon any action.

    epsilon: probability of a random action in the end.
    decay: number of episodes over which the probability falls from 1 to epsilon.
    """
    return Agent(name="epsilon_greedy", epsilon=epsilon, decay=decay)


def as_agent(agent: Agent | str) -> Agent:
    """An agent, or one by name with its options, as in "ensemble,members=5"."""
    if isinstance(agent, str):
        built: Agent = agents.built(agent)()
        return built
    if not isinstance(agent, Agent):
        raise NescioError(
            f"an agent is a name, one of {', '.join(agents)}, or a value such as "
            f"exploration.ensemble(members=5); got a {type(agent).__name__}"
        )
    return agent
