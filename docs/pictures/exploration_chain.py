"""Arrivals at the far end of a chain: never by epsilon-greedy, often by members with priors."""

import numpy as np
from matplotlib.figure import Figure

from nescio.applications import exploration

AGENTS = {
    "ensemble": ("#1f5f99", "ensemble with priors"),
    "dropout": ("#c98a1b", "dropout"),
    "epsilon_greedy": ("#b5371f", "epsilon-greedy"),
}
LENGTH, EPISODES, SEEDS = 20, 400, 3


def draw() -> Figure:
    """How often each of three seeds has reached the reward of 1 so far."""
    chain = exploration.Chain(length=LENGTH)
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    panel = figure.subplots()
    for place, (agent, (color, name)) in enumerate(AGENTS.items()):
        found = exploration.learn(
            chain, agent, episodes=EPISODES, seeds=SEEDS, widths=(32,), updates=15, progress=False
        )
        arrivals = np.cumsum(found.rewards >= 0.5, axis=1)
        panel.plot(range(1, EPISODES + 1), arrivals.T, color=color, linewidth=1.5)
        words = f"{name}:\n{arrivals[:, -1].sum()} arrivals in {SEEDS * EPISODES:,} episodes"
        panel.text(
            20,
            (0.9, 0.7, 0.5)[place],
            words,
            color=color,
            transform=panel.get_xaxis_transform(),
            va="center",
        )
    panel.yaxis.get_major_locator().set_params(integer=True)
    panel.set(xlabel="episode", ylabel="arrivals so far", xlim=(0, EPISODES))
    panel.set_title(
        f"{LENGTH} states: random actions arrive in 1 of {2 ** (LENGTH - 2):,} episodes",
        fontsize=10,
    )
    return figure
