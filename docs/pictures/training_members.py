"""Six networks that train at once: all fit the data, and anchors make them disagree elsewhere."""

import numpy as np
import torch
from matplotlib.figure import Figure

import nescio
from nescio import heads, losses, nets

COLORS = ["#31688e", "#35b779", "#440154", "#d95f0e", "#7f7f7f", "#b5367a"]


def draw() -> Figure:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-2, -0.7, 20), rng.uniform(0.7, 2, 20)])[:, None]
    y = np.sin(2 * x) + 0.1 * rng.normal(size=x.shape)
    likelihood = losses.nll(heads.fixed_variance(variance=0.01))
    prior = {"0.*": 10.0, "*": 0.05}  # variances of the first layer and of the last
    kinds = {
        "deep ensemble": likelihood,
        "anchored ensemble": losses.anchored(likelihood, prior_variance=prior),
    }
    figure = Figure(figsize=(7, 3), layout="constrained")
    panels = figure.subplots(1, 3)
    grid = torch.linspace(-4, 4, 300)[:, None]
    for index, (axes, (name, loss)) in enumerate(zip(panels[1:], kinds.items(), strict=True)):
        model = nescio.train(
            lambda: nets.mlp(1, 1, widths=(100,)),
            (x, y),
            loss=loss,
            members=6,
            epochs=2000,
            batch_size=None,
            learning_rate=0.01,
            progress=False,
        )
        answer = model(grid)
        center, spread = answer.mixture_mean[:, 0], answer.epistemic[:, 0].sqrt()
        axes.fill_between(grid[:, 0], center - 2 * spread, center + 2 * spread, color="#c6dbef")
        for member, color in zip(answer.mean, COLORS, strict=True):
            axes.plot(grid[:, 0], member[:, 0], color=color, lw=1)
        axes.plot(x, y, "k.", ms=4)
        axes.set(title=name, ylim=(-5, 5), yticks=[], xlabel="x")
        if not index:
            for member, color in zip(np.asarray(model.history.train).T, COLORS, strict=True):
                panels[0].plot(1 + np.arange(len(member)), member, color=color, lw=1)
    panels[0].set(xscale="log", xlabel="epoch", title="loss of each member", yscale="symlog")
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_fontsize(10)
    return figure
