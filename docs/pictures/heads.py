"""The same kind of numbers, read by five heads: probabilities, one label, several, a density."""

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation

from nescio import heads

BLUE = "#31688e"


def draw() -> Figure:
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    panels = figure.subplots(1, 5)
    outputs = torch.tensor([[[2.0, 1.2, 0.5]]])  # (members, samples, outputs)
    show(panels[0], "categorical", heads.categorical().read(outputs).probs[0], "abc")
    show(panels[1], "binary", heads.binary().read(outputs[..., :1]).probs[0], "01")
    show(panels[2], "multilabel", heads.multilabel().read(outputs).probs[0], "abc")

    density = heads.gaussian().read(outputs[..., :2])
    mean, spread = float(density.mean), float(density.variance) ** 0.5
    grid = np.linspace(mean - 4, mean + 4, 200)
    values = np.exp(-(((grid - mean) / spread) ** 2) / 2) / spread / np.sqrt(2 * np.pi)
    panels[3].fill_between(grid, values, color=BLUE, alpha=0.8)
    panels[3].set(ylim=(0, 0.6), yticks=[], xlabel="target", title="gaussian\n2.0, 1.2")

    alpha = heads.dirichlet().read(outputs).alpha[0, 0]
    corners = np.array([[0, 0], [1, 0], [0.5, 0.866]])
    shares = np.random.default_rng(0).dirichlet(np.ones(3), 6000)
    weight = torch.distributions.Dirichlet(alpha).log_prob(torch.tensor(shares)).exp()
    at = shares @ corners
    panels[4].tripcolor(Triangulation(*at.T), weight, shading="gouraud", cmap="Blues")
    panels[4].set(title="dirichlet\n2.0, 1.2, 0.5", aspect="equal", ylim=(-0.15, 1.1))
    for corner, name in zip(corners, "abc", strict=True):
        panels[4].text(*(corner * 1.12 - 0.06), name, ha="center", va="center")
    panels[4].axis("off")
    for axes in panels[:4]:
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels:
        axes.title.set_fontsize(9)
    return figure


def show(axes, name: str, probs: torch.Tensor, classes: str) -> None:
    """Probabilities as bars."""
    axes.bar(list(classes), probs, color=BLUE)
    numbers = {"binary": "2.0"}.get(name, "2.0, 1.2, 0.5")
    axes.set(ylim=(0, 1), yticks=[0, 0.5, 1], title=f"{name}\n{numbers}")
    axes.set_xlabel("each by itself" if name == "multilabel" else "sum to 1")
