"""Fifteen members on five folds in one stack: the error on unseen rows grows while they overfit."""

import numpy as np
import torch
from matplotlib.figure import Figure

import nescio
from nescio import data, losses, models, nets

BLUE, RED = "#31688e", "#d95f0e"
EPOCHS = (1, 3, 10, 30, 100, 300, 1000, 3000)


def draw() -> Figure:
    draws = torch.Generator().manual_seed(0)
    x = torch.rand(80, 3, generator=draws)
    y = 100 + 20 * x[:, :1] + 4 * torch.randn(80, 1, generator=draws)
    parts = data.folds(len(x), 5, seed=0).repeated(3)

    figure = Figure(figsize=(7, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    trained = np.zeros((len(parts), len(x)))
    for member, rows in enumerate(parts.train):
        trained[member, rows] = 1
    left.imshow(trained, cmap="Blues", vmax=1.6, aspect="auto", interpolation="nearest")
    left.set(xlabel="samples", ylabel="members", title="which samples each member trains on")
    left.set(xticks=[], yticks=[])

    seen, unseen = [], []
    for epochs in EPOCHS:
        model = nescio.train(
            lambda: nets.mlp(3, 1, widths=(50, 50)),
            (x, y),
            loss=losses.squared_error(),
            members=len(parts),
            rows=parts.train,
            standardize=True,
            standardize_targets=True,
            learning_rate=0.005,
            batch_size=None,
            epochs=epochs,
            progress=False,
        )
        seen.append((model(x).mixture_mean - y).square().mean().sqrt())
        unseen.append((models.out_of_fold(model, parts, x).mixture_mean - y).square().mean().sqrt())
    right.plot(EPOCHS, unseen, "o-", color=RED)
    right.plot(EPOCHS, seen, "o-", color=BLUE)
    right.text(
        1500, unseen[-1] - 0.5, "out of fold", color=RED, weight="bold", ha="right", va="top"
    )
    right.text(100, seen[4] - 0.6, "all members", color=BLUE, weight="bold", ha="right", va="top")
    right.set(xscale="log", xlabel="epochs", title="root mean squared error", ylim=(0, None))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_fontsize(10)
    return figure
