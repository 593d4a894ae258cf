"""A guard answers near the data, is unsure between the classes, and calls the rest OOD."""

import warnings

import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import nescio

COLORS = ["#9ecae1", "#fdd0a2", "#636363"]  # answer, unsure, ood
SIDE = 220


def _quietly(guard: nescio.guards.Guard, x: torch.Tensor) -> nescio.guards.Decisions:
    with warnings.catch_warnings():  # the map is larger than the range of the data
        warnings.simplefilter("ignore")
        return guard(x)


def draw() -> Figure:
    moons = nescio.data.half_moons(train=1000, validation=2000, noise=0.25)
    model = nescio.train(lambda: nescio.nets.mlp(2, 2), moons.train, epochs=60, progress=False)
    guard = nescio.guard(model, moons.validation, train=moons.train, risk=0.02, progress=False)

    figure = Figure(figsize=(7, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[5, 4])
    x, y = np.meshgrid(np.linspace(-3.5, 4.5, SIDE), np.linspace(-3, 3.5, SIDE))
    grid = torch.tensor(np.stack([x, y], -1).reshape(-1, 2), dtype=torch.float32)
    decision = _quietly(guard, grid).decision.reshape(SIDE, SIDE)
    left.pcolormesh(x, y, decision, cmap=ListedColormap(COLORS), vmin=0, vmax=2, rasterized=True)
    inputs, labels = moons.test
    for label, mark in enumerate(["o", "^"]):
        chosen = inputs[labels == label][:120]
        left.scatter(*chosen.T, s=9, marker=mark, color=["#08519c", "#a63603"][label], lw=0)
    left.text(-3.2, -2.7, "OOD: not like the data", color="white", weight="bold")
    left.text(-2.9, 0.5, "answer", color="#08306b", weight="bold")
    line = {"color": "white", "arrowstyle": "-"}
    left.annotate("unsure", (1.0, 0.5), (2.6, 2.2), color="white", weight="bold", arrowprops=line)
    left.set(xticks=[], yticks=[], title="what the guard decides")

    found = guard(moons.validation[0])
    wrong = (found.label != moons.validation[1]).double()
    ranks = torch.arange(1, len(wrong) + 1)
    risk = wrong[found.failure_score.argsort()].cumsum(0) / ranks
    right.plot(100 * ranks / len(ranks), 100 * risk, color="#08519c")
    own = guard.rules[0].coverage
    at, measured, bound = (
        100 * v for v in (own.answered / len(ranks), own.errors / own.answered, own.bound)
    )
    right.axhline(2, color="#a50026", lw=1, ls="--")
    right.text(1, 2.12, "risk = 2 %", color="#a50026")
    right.plot([at, at], [measured, bound], color="#a50026", lw=2)
    right.plot(at, bound, "_", color="#a50026", ms=12, mew=2)
    right.plot(at, measured, "o", color="#08519c", ms=8)
    right.text(at + 3, 1.1, "chosen: its\n95 % bound\nkeeps the risk", va="top", fontsize=9)
    right.set(xlabel="answered, %", ylabel="wrong among the answers, %", xlim=(0, 101))
    right.set(title="how the threshold is chosen")
    right.spines[["top", "right"]].set_visible(False)
    return figure
