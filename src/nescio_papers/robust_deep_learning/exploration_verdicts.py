"""What is said of exploration by uncertainty, judged on our worlds; the lecture's numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nescio.applications.exploration import Rewards
from nescio_papers.kit import Claim, Comparison, Sample, sample, table, verdict, verdict_of
from nescio_papers.robust_deep_learning.exploration_races import (
    ALONE,
    BURN_IN,
    DROPOUT,
    ENSEMBLE,
    GREEDY,
    SLOW,
    Race,
)

SOURCE = "lecture, Application in Reinforcement Learning"
THESIS = "lecture, figure 5.4 (Gal, 2016)"
FIGURES, OWN = "our own goal", "a question of ours"
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


def overall(rewards: Rewards) -> Sample:
    """The mean reward over all episodes, by seed: who learns faster has more."""
    return sample(rewards.rewards.mean(1))


def said(one: Sample) -> str:
    """A mean with half the width of its interval."""
    return f"{one.mean:.4g} ± {one.half:.2g}"


def faster(race: Race, found: Found) -> list[Claim]:
    """Does each agent that samples from what it does not know beat epsilon-greedy?"""
    rivals = {name: found[name] for name in (GREEDY, SLOW) if name in found}
    return [_faster(race, found, name, rival) for name in (DROPOUT, ENSEMBLE) for rival in rivals]


def _faster(race: Race, found: Found, name: str, rival: str) -> Claim:
    own, other = overall(found[name]), overall(found[rival])
    gain = own - other
    wins = sum(value > 0 for value in gain.values)
    return Claim(
        SOURCE,
        "Use uncertainty estimates (e.g. a dropout Q-network) to drive exploration, e.g. Thompson "
        f"sampling, and converge faster ({name} against {rival}, {WORDS[race.name]}).",
        f"mean reward of {race.episodes} episodes: {said(own)} against {said(other)}; difference "
        f"paired by seed {said(gain)}, more in {wins} of {len(gain.values)} seeds (95 % intervals)",
        verdict=verdict(gain.above, gain.mean > 0),
    )


def batches(race: Race, found: Found) -> Claim:
    """The time to a reward of 1 in the maze, beside the lecture's."""
    times = {name: found[name].episodes_to(race.goal, window=race.window) for name in found}
    said = "; ".join(f"{name} {_time(times[name])}" for name in found)
    return Claim(
        THESIS,
        "In the maze, dropout gets an average reward above 1 within 25 batches after a burn-in of "
        "25, epsilon-greedy within 175.",
        f"median number of batches to a mean reward above 1 (over {race.window} batches), burn-in "
        f"included: {said}",
        verdict=verdict_of(*(times[DROPOUT].high < times[one].low for one in (SLOW, GREEDY))),
    )


def _time(times: Any) -> str:
    """A median with its interval, and how many seeds there were."""
    count = len(times.by_seed)
    if not np.isfinite(times.median):
        return f"not in most seeds ({times.reached} of {count})"
    high = f"{times.high:g}" if np.isfinite(times.high) else "never"
    return f"{times.median:g} ({times.low:g} to {high}; {times.reached} of {count} seeds)"


def compared(race: Race, found: Found) -> list[Comparison]:
    """The lecture's batches to an average reward of 1 beside ours, burn-in included."""
    rows = []
    for name, count in PUBLISHED.items():
        median = found[name].episodes_to(race.goal, window=race.window).median
        what = f"maze, batches to an average reward of 1, burn-in included: {name}"
        rows.append(Comparison(what, count + BURN_IN, median, note="here batches of 40 decisions"))
    return rows


def chain_figures(found: Found) -> list[Claim]:
    """How many seeds solve the chain within 2,000 episodes."""
    times = {name: rewards.first(WITHIN).episodes_to() for name, rewards in found.items()}
    seeds = len(times[ENSEMBLE].by_seed)
    most = round(GREEDY_AT_MOST * seeds)
    start = f"Chain of length 20, {WITHIN:,} episodes:"
    return [
        Claim(
            FIGURES,
            f"{start} ensembles with priors solve it in {seeds} of {seeds} seeds.",
            f"ensemble: {_time(times[ENSEMBLE])} episodes",
            verdict=verdict(times[ENSEMBLE].reached == seeds, times[ENSEMBLE].reached > seeds / 2),
        ),
        Claim(
            FIGURES,
            f"{start} epsilon-greedy solves it in at most {most} of {seeds} seeds; dropout is "
            "reported as it is.",
            f"epsilon-greedy: {times[GREEDY].reached} of {seeds}; dropout: {times[DROPOUT].reached}"
            f" of {seeds}",
            verdict=verdict(times[GREEDY].reached <= most),
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


def burn_in_matters(race: Race, found: Found) -> Claim:
    """Does dropout find out about actions that it never took?"""
    times = {name: found[name].episodes_to(race.goal, window=race.window) for name in found}
    with_it, alone = times[DROPOUT], times[ALONE]
    return Claim(
        OWN,
        "Dropout's uncertainty is enough to drive exploration: no random actions are needed (the "
        "maze without the burn-in).",
        f"seeds with a mean reward above 1: {alone.reached} of {len(alone.by_seed)} without random "
        f"actions, {with_it.reached} of {len(with_it.by_seed)} with a burn-in that fades over "
        f"{BURN_IN} batches",
        verdict=verdict(alone.reached >= with_it.reached, alone.reached > len(alone.by_seed) / 2),
    )
