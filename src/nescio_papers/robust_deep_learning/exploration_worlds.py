"""Part `exploration`: agents that draw what they might not know, and those that act at random."""

from dataclasses import replace
from importlib.util import find_spec

from nescio.report.plots.reward_plot import reward_curves
from nescio_papers.kit import Findings, Settings, absent, joined, slug
from nescio_papers.robust_deep_learning import exploration_pictures as pictures
from nescio_papers.robust_deep_learning.exploration_races import Race, races
from nescio_papers.robust_deep_learning.exploration_verdicts import (
    WORDS,
    Found,
    compared,
    numbers,
    rewards_table,
)

INTRODUCTION = (
    "All agents learn by double Q-learning with the same networks, replay and updates, ten seeds "
    "in lockstep in one stack; they differ in how they explore. `ensemble` draws one of its "
    "5 or 10 members for an episode, each with a fixed random prior network; `dropout` draws one "
    "mask for an episode (rate 0.1); `epsilon-greedy` acts at random with a probability that falls "
    "from 1 to 0.05. Intervals are those of the mean over seeds (95 %, Student's t), and "
    "differences are paired by seed. Options were chosen with four other seeds; on the chain with "
    "four of the ten."
)
TEXTS = {
    "bandit": "Ten arms with standard normal means and noise of standard deviation 1.",
    "chain": "A chain of 20 states whose reward of 1 is at the far end and whose start is near a "
    "reward of 0.001. Episodes end after 18 steps, the shortest way: one action back is one too "
    "many, and random actions arrive in 1 of 262,144 episodes.",
    "maze": "The world of the lecture's figure 5.3, after the demo of ConvNetJS: walls, good items "
    "(+5) and bad items (-6), nine eyes, five actions, and up to 1.1 for driving straight on "
    "without walls in sight. It has no episodes; a batch is 40 decisions, 20 updates follow each. "
    "The source does not say how long its batches are: with 40 decisions, its burn-in of 25 is "
    "the 1,000 decisions of the demo. Here, the burn-in fades: the probability of a random action "
    "falls from 1 to 0 over 25 batches, for epsilon-greedy to 0.05 over 25, or over 200 (slow). "
    "An agent that turns on the spot in the open has a reward of exactly 1 for each decision.",
    "cart_pole": "CartPole-v1 of Gymnasium; random actions fade over 25 episodes for all agents. "
    "The time is that to a mean of 100 over 10 episodes.",
    "mountain_car": "MountainCar-v0 of Gymnasium, an episode of 200 decisions without the goal has "
    "-200. Only epsilon-greedy acts at random; the scale of the priors is 10. The time is that to "
    "the first goal.",
}
WORLD, CHAIN_VALUES, CAR_VALUES = (
    f"exploration-{name}.png" for name in ("maze-world", "chain-values", "mountain-car-values")
)


def run(settings: Settings) -> Findings:
    """A bandit, a chain, the maze, then CartPole and MountainCar."""
    every = {name: _world(settings, race) for name, race in races(settings).items()}
    return joined(every, INTRODUCTION)


def _world(settings: Settings, race: Race) -> Findings:
    if race.name in ("cart_pole", "mountain_car") and find_spec("gymnasium") is None:
        return absent("Gymnasium", "pip install nescio[exploration]")
    if race.name == "mountain_car":
        pictures.car_looks(settings, race)  # on the way, before everything is learned
    found = {name: race.learned(settings, name) for name in race.agents}
    own, extra = _rewards(race, found), EXTRAS.get(race.name)
    if extra is None:
        return own
    both = joined({"rewards": own, "extra": extra(settings, race, found)})
    return replace(both, numbers=own.numbers)


def _rewards(race: Race, found: Found) -> Findings:
    file = f"exploration-{slug(race.name)}.png"
    title = f"{WORDS[race.name]}: mean reward while learning"
    figure = reward_curves(
        found,
        title=title[0].upper() + title[1:],
        reward=race.goal,
        window=max(race.window, min(10, race.episodes)),
        episode="batch of 40 decisions" if race.environment.continuing else "episode",
    )
    caption = f"Rewards on {WORDS[race.name]}, mean over seeds with 95 % intervals."
    return Findings(
        numbers=numbers(race, found),
        figures={file: figure},
        captions={file: caption},
        text="\n\n".join([TEXTS[race.name], rewards_table(race, found)]),
    )


def _chain(settings: Settings, race: Race, found: Found) -> Findings:
    del found
    return Findings(
        figures={CHAIN_VALUES: pictures.chain_values(settings, race)},
        captions={
            CHAIN_VALUES: "What the members of an ensemble think of both directions along the "
            "chain, early and late, of one seed: they differ where they have not been. The start "
            "is state 1; rewards are 0.001 in state 0 and 1 in state 19."
        },
    )


def _maze(settings: Settings, race: Race, found: Found) -> Findings:
    return Findings(
        figures={WORLD: pictures.maze_world(settings, race)},
        captions={WORLD: "The maze from above; an eye has the color of what it sees."},
        comparisons=compared(race, found),
    )


def _car(settings: Settings, race: Race, found: Found) -> Findings:
    del found
    return Findings(
        figures={CAR_VALUES: pictures.car_values(settings, race)},
        captions={
            CAR_VALUES: "The value of position and velocity by the mean of the members (above) and "
            "the standard deviation of Q over members (below), as the car explores."
        },
    )


EXTRAS = {"chain": _chain, "maze": _maze, "mountain_car": _car}
