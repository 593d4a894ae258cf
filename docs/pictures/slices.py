"""An error rate of 11 % hides a slice of 39 %, which a search over columns finds and tests."""

from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

import nescio


def draw() -> Figure:
    rng = np.random.default_rng(0)
    age, site = rng.uniform(20, 90, 4000), rng.choice(["north", "south", "west"], 4000)
    wrong = rng.random(4000) < np.where((age > 70) & (site == "west"), 0.4, 0.08)
    (found,) = nescio.evaluation.find_slices(wrong, {"age": age, "site": site}).found
    inside = found.holds({"age": age, "site": site})

    figure = Figure(figsize=(7, 2.9), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    edges = np.arange(20, 91, 5)
    for axes, name in zip(panels, ["north", "south", "west"], strict=True):
        for low, high in pairwise(edges):
            chosen = (site == name) & (age >= low) & (age < high)
            color = "#a50026" if inside[chosen].mean() > 0.5 else "#92a8c4"
            axes.bar(low, 100 * wrong[chosen].mean(), 4.6, align="edge", color=color)
        axes.axhline(100 * wrong.mean(), color="black", lw=1, ls="--")
        axes.set(title=f"site = {name}", xlabel="age", xlim=(19, 91), xticks=[20, 50, 70, 90])
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("wrong answers, %")
    panels[0].text(20, 14, f"all samples: {100 * wrong.mean():.0f} %", fontsize=9)
    words = " and\n".join(map(str, found.conditions))
    words = f"found:\n{words}\n{100 * found.errors / found.samples:.0f} % wrong"
    panels[2].text(68, 44, words, ha="right", va="top", fontsize=9, color="#a50026")
    return figure
