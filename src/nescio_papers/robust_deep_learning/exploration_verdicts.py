"""What is said of exploration by uncertainty, judged on our worlds; the lecture's numbers."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nescio.applications.exploration import Rewards
from nescio_papers.kit import Claim, Comparison, Sample, exactly, sample, table
from nescio_papers.robust_deep_learning.exploration_races import (
    ALONE,
    BURN_IN,
    DROPOUT,
    ENSEMBLE,
    GREEDY,
    SLOW,
    Race,
)
from nescio_papers.robust_deep_learning.stored_facts import RECALLED, number, over_seeds

SOURCE = "lecture, Application in Reinforcement Learning"
THESIS = "Gal (2016), figure 5.4"
FIGURES, OWN = "here, our own goal", "here, a question of ours"
PUBLISHED = {DROPOUT: 25, SLOW: 175}  # batches after the burn-in to a reward of 1
WITHIN, GREEDY_AT_MOST = 2000, 0.1  # episodes of the chain; share of seeds
WORDS = {
    "bandit": "a bandit with ten arms",
    "chain": "a chain of 20 states",
    "maze": "the maze",
    "cart_pole": "CartPole",
    "mountain_car": "MountainCar",
}
Found = Mapping[str, Rewards]
Agents = Mapping[str, Any]  # the stored numbers of a world by agent


def overall(rewards: Rewards) -> Sample:
    """The mean reward over all episodes, by seed: who learns faster has more."""
    return sample(rewards.rewards.mean(1))


def said(one: Sample) -> str:
    """A mean with half the width of its interval."""
    return f"{one.mean:.4g} ± {one.half:.2g}"


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """The claims by stored rewards and times of the seeds."""
    claims = []
    for world, agents in numbers.items():
        if "absent" in agents:
            continue
        claims += faster(world, agents)
        claims += EXTRAS[world](agents) if world in EXTRAS else []
    return claims


def faster(world: str, agents: Agents) -> list[Claim]:
    """Does each agent that samples from what it does not know beat epsilon-greedy?"""
    rivals = [name for name in (GREEDY, SLOW) if name in agents]
    return [_faster(world, agents, name, rival) for name in (DROPOUT, ENSEMBLE) for rival in rivals]


def _faster(world: str, agents: Agents, name: str, rival: str) -> Claim:
    own, other = (sample(agents[one]["mean_reward"]["values"]) for one in (name, rival))
    gain = own - other
    wins = sum(value > 0 for value in gain.values)
    return Claim(
        source=SOURCE,
        sentence="Use uncertainty estimates (e.g. a dropout Q-network) to drive exploration, e.g. "
        f"Thompson sampling, and converge faster ({name} against {rival}, {WORDS[world]}).",
        facts=[
            over_seeds(
                "mean reward of all episodes less that of the other, paired by seed", gain, above=0
            )
        ],
        note=f"{said(own)} against {said(other)}; more in {wins} of {len(gain.values)} seeds",
    )


def times(agents: Agents, name: str) -> list[float]:
    """The episodes or batches to the goal by seed; NaN where it was not reached."""
    return [number(one) for one in agents[name]["episodes_to_goal"]["by_seed"]]


def reached(agents: Agents, name: str) -> list[float]:
    """Whether each seed reached the goal, as 1 or 0."""
    return [float(one is not None) for one in agents[name]["episodes_to_goal"]["by_seed"]]


def batches(agents: Agents) -> Claim:
    """The time to a reward of 1 in the maze, beside the published one.

    A reward that is reached within the burn-in, by random actions too, says nothing of the time
    after it.
    """
    own = sample(times(agents, DROPOUT))
    what = "batches to a mean reward above 1, burn-in included"
    return Claim(
        source=THESIS,
        sentence="In the maze, dropout gets an average reward above 1 within 25 batches after a "
        "burn-in of 25, epsilon-greedy within 175.",
        facts=[
            *(
                over_seeds(f"{what}: {name}", times(agents, name), below=after + BURN_IN + 1)
                for name, after in PUBLISHED.items()
            ),
            *(
                over_seeds(
                    f"{what}: {rival} less dropout, paired by seed",
                    sample(times(agents, rival)) - own,
                    above=0,
                )
                for rival in (SLOW, GREEDY)
            ),
        ],
        needs=[
            over_seeds(f"{what}: {name}", times(agents, name), above=BURN_IN) for name in PUBLISHED
        ],
        note=f"25 and 175 {RECALLED}",
    )


def _time(times: Any) -> str:
    """A median with its interval, and how many seeds there were."""
    count = len(times.by_seed)
    if not np.isfinite(times.median):
        return f"not in most seeds ({times.reached} of {count})"
    high = f"{times.high:g}" if np.isfinite(times.high) else "never"
    return f"{times.median:g} ({times.low:g} to {high}; {times.reached} of {count} seeds)"


def compared(race: Race, found: Found) -> list[Comparison]:
    """The published batches to an average reward of 1 beside ours, burn-in included."""
    rows = []
    for name, count in PUBLISHED.items():
        median = found[name].episodes_to(race.goal, window=race.window).median
        what = f"maze, batches to an average reward of 1, burn-in included: {name}"
        rows.append(
            Comparison(
                what, count + BURN_IN, median, note=f"{RECALLED}; here batches of 40 decisions"
            )
        )
    return rows


def chain_figures(agents: Agents) -> list[Claim]:
    """How many seeds solve the chain within 2,000 episodes."""
    solved = {name: round(sum(reached(agents, name))) for name in agents}
    seeds = len(reached(agents, ENSEMBLE))
    most = round(GREEDY_AT_MOST * seeds)
    start = f"Chain of length 20, {WITHIN:,} episodes:"
    why = "these seeds are counted in full"
    return [
        Claim(
            source=FIGURES,
            sentence=f"{start} ensembles with priors solve it in {seeds} of {seeds} seeds.",
            facts=[
                exactly(
                    f"seeds of {seeds} in which the ensemble solves it",
                    solved[ENSEMBLE],
                    why=why,
                    above=seeds - 0.5,
                )
            ],
        ),
        Claim(
            source=FIGURES,
            sentence=f"{start} epsilon-greedy solves it in at most {most} of {seeds} seeds; "
            "dropout is reported as it is.",
            facts=[
                exactly(
                    f"seeds of {seeds} in which epsilon-greedy solves it",
                    solved[GREEDY],
                    why=why,
                    below=most + 0.5,
                )
            ],
            note=f"dropout {solved[DROPOUT]}",
        ),
    ]


def numbers(race: Race, found: Found) -> dict[str, Any]:
    """Rewards and times by agent, as plain numbers."""
    return {name: _numbers(race, rewards) for name, rewards in found.items()}


def _numbers(race: Race, rewards: Rewards) -> dict[str, Any]:
    own: dict[str, Any] = {
        "mean_reward": overall(rewards).numbers(),
        "last_reward": _last(rewards).numbers(),
    }
    if race.goal is not None:
        times = rewards.episodes_to(race.goal, window=race.window)
        own["episodes_to_goal"] = {
            "goal": race.goal,
            "window": race.window,
            "reached_seeds": times.reached,
            "median": times.median,
            "by_seed": times.by_seed.tolist(),
        }
    return own


def _last(rewards: Rewards) -> Sample:
    """The mean reward of the last fifth of the episodes."""
    return sample(rewards.rewards[:, -max(1, rewards.episodes // 5) :].mean(1))


def rewards_table(race: Race, found: Found) -> str:
    """Mean rewards by agent, those of the last fifth, and the time to the goal."""
    header = ["agent", "reward, all episodes", "reward, last fifth"]
    rows = [[name, said(overall(own)), said(_last(own))] for name, own in found.items()]
    if race.goal is not None:
        header.append(f"episodes to {race.goal:g} (median, 95 % interval)")
        for row, own in zip(rows, found.values(), strict=True):
            row.append(_time(own.episodes_to(race.goal, window=race.window)))
    return table(header, rows)


def burn_in_matters(agents: Agents) -> Claim:
    """Does dropout find out about actions that it never took?"""
    alone, with_it = (sample(reached(agents, name)) for name in (ALONE, DROPOUT))
    return Claim(
        source=OWN,
        sentence="Dropout's uncertainty is enough to drive exploration: no random actions are "
        "needed (the maze without the burn-in).",
        facts=[
            over_seeds(
                "share of seeds with a mean reward above 1 less that with a burn-in, paired (as "
                "good: a tenth less)",
                alone - with_it,
                above=-0.1,
                form=".0%",
            )
        ],
        note=f"{sum(alone.values):.0f} and {sum(with_it.values):.0f} of {len(alone.values)} seeds; "
        f"the burn-in fades over {BURN_IN} batches",
    )


EXTRAS: Mapping[str, Callable[[Agents], list[Claim]]] = {
    "chain": chain_figures,
    "maze": lambda agents: [batches(agents), burn_in_matters(agents)],
}
