"""A third of the pool is unreadable: entropy asks for little else, and loses to random choice."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import nets
from nescio.applications import active_learning as al

COLORS = {"random": "0.45", "entropy": "#b5371f", "bald": "#1f5f99"}
CLEAN, BLENDS, START = 800, 400, 20


def draw() -> Figure:
    """Digits, and blends of three digits, which people can only guess."""
    digits = nescio.data.digits()
    draws = torch.Generator().manual_seed(0)
    x, y = digits.train[0][:CLEAN], digits.train[1][:CLEAN]
    three = torch.randint(0, CLEAN, (3, BLENDS), generator=draws)
    guesses = torch.randint(0, 10, (BLENDS,), generator=draws)
    pool = torch.cat([x, x[three].mean(0)]), torch.cat([y, guesses])
    curves = {
        name: al.simulate(
            lambda: nets.mlp((1, 8, 8), 10, widths=(64,), dropout=0.3),
            pool,
            test=digits.test,
            acquisition=name,
            start=START,
            size=10,
            labels=120,
            seeds=5,
            passes=20,
            candidates=None,
            epochs=60,
            batch_size=None,
            learning_rate=0.01,
            progress=False,
        )
        for name in COLORS
    }
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    for place, name in enumerate(COLORS):
        share = (curves[name].acquired[:, START:] >= CLEAN).mean()
        left.barh(place, share, color=COLORS[name])
        left.text(share + 0.02, place, f"{share:.0%}", va="center")
    left.axvline(BLENDS / (CLEAN + BLENDS), color="black", linestyle="--", linewidth=1)
    left.text(0.36, 2.45, "share in the pool", fontsize=8, va="bottom")
    left.set_yticks(range(len(COLORS)), COLORS)
    left.set(xlim=(0, 1), ylim=(-0.5, 2.75), xticks=[])
    left.set_title("unreadable among the questions", fontsize=10)
    for name, color in COLORS.items():
        band = curves[name].interval()
        at = curves[name].labels
        right.plot(at, band.value, color=color)
        right.fill_between(at, band.low, band.high, color=color, alpha=0.15, linewidth=0)
        right.text(at[-1] + 2, band.value[-1], name, color=color, va="center")
    right.set(xlabel="labels", xlim=(20, 145))
    right.set_title("test accuracy on digits", fontsize=10)
    return figure
