"""One label per class: unlabeled inputs help in most draws and harm in some."""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import nescio
from nescio import losses, nets
from nescio.data.augmentation import noise

DRAWS, WORST = 24, 8
COLORS = ("#1f5f99", "#b5371f")


def draw() -> Figure:
    """Labels alone and virtual adversarial training on 24 draws of one label per class."""
    moons = nescio.data.half_moons(train=500)
    x, y = moons.train
    draws = torch.Generator().manual_seed(0)
    rows = torch.stack([torch.cat([one(y == k, draws) for k in (0, 1)]) for _ in range(DRAWS)])
    alone = {"loss": losses.nll(), "augment": noise(0.12)}
    virtual = {
        "loss": losses.virtual_adversarial(losses.nll(), radius=0.1),
        "unlabeled": x,
        "unlabeled_size": 100,
    }
    options = {"rows": rows, "members": DRAWS, "batch_size": None, "epochs": 800, "seed": 0}
    models = [
        nescio.train(
            lambda: nets.mlp(2, 2, widths=(64, 64)), (x, y), learning_rate=0.01, **options, **how
        )
        for how in (alone, virtual)
    ]
    right = [
        (model(moons.test[0]).member_probs.argmax(-1) == moons.test[1]).float().mean(1)
        for model in models
    ]
    figure = Figure(figsize=(7, 2.7), layout="constrained")
    panels = figure.subplots(1, 3)
    for panel, model, share, name in zip(
        panels, models, right, ("labels alone", "virtual adversarial"), strict=False
    ):
        areas(panel, model.member(WORST))
        for kind, color, mark in zip((0, 1), COLORS, "os", strict=True):
            panel.plot(*x[y == kind].T, ".", markersize=1.5, color=color)
            label = x[rows[WORST][kind]]
            panel.plot(*label, mark, markersize=9, color=color, markeredgecolor="black")
        panel.set_title(f"{name}: {share[WORST]:.0%} right", fontsize=9)
    harmed = right[1] < right[0]
    panels[2].plot([0, 1], [0, 1], color="0.7")
    panels[2].plot(right[0][~harmed], right[1][~harmed], "o", markersize=4, color="#1f5f99")
    panels[2].plot(right[0][harmed], right[1][harmed], "s", markersize=5, color="#b5371f")
    panels[2].set_title(f"{DRAWS} draws: {int(harmed.sum())} get worse", fontsize=9)
    panels[2].set(xlim=(0.2, 1.02), ylim=(0.2, 1.02), xlabel="accuracy, labels alone")
    panels[2].set_ylabel("virtual adversarial")
    return figure


def one(of_class: torch.Tensor, draws: torch.Generator) -> torch.Tensor:
    """The index of a sample of a class."""
    return torch.where(of_class)[0][torch.randperm(int(of_class.sum()), generator=draws)[:1]]


def areas(panel: Axes, net: torch.nn.Module) -> None:
    """Color the plane by the predicted class."""
    u, v = torch.meshgrid(
        torch.linspace(-1.6, 2.7, 160), torch.linspace(-1.2, 1.6, 120), indexing="xy"
    )
    with torch.no_grad():
        labels = net(torch.stack([u, v], -1).flatten(0, 1)).argmax(-1).view(u.shape)
    panel.contourf(u, v, labels, levels=[-0.5, 0.5, 1.5], colors=["#cfe0ef", "#f3d9c9"])
    panel.set(xticks=[], yticks=[])
