"""An attack on the probability stops where it has rounded to 1; one on the log-odds goes on."""

import torch
from matplotlib.figure import Figure
from torch import nn

import nescio
from nescio import attacks


class Sharp(nn.Module):
    """A network with larger logits: the same answers, probabilities of 1."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return 20 * self.net(x)


def draw() -> Figure:
    """The error rate by the radius of the attack, for two objectives on one network."""
    digits = nescio.data.digits()
    x, y = (part[:200] for part in digits.test)
    make = lambda: nescio.nets.mlp((1, 8, 8), 10)  # noqa: E731
    net = Sharp(nescio.train(make, digits.train, epochs=30, learning_rate=3e-3).member(0))

    def probability(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return 1 - net(x).softmax(-1).gather(1, y[:, None])[:, 0]

    objectives = {"log-odds\nagainst the label": attacks.label_loss(net), "1 - p": probability}
    radii = torch.linspace(0.02, 0.2, 7).tolist()
    fig = Figure(figsize=(7, 3.5), layout="constrained")
    axes = fig.subplots()
    curves = {}
    for (name, objective), color in zip(
        objectives.items(), ("darkorange", "tab:blue"), strict=True
    ):
        found = [attacks.pgd(objective, x, y, radius=r, steps=10, start="input") for r in radii]
        curves[name] = [(net(one.x).argmax(1) != y).float().mean().item() for one in found]
        blind = found[-1].blind.float().mean().item()
        axes.plot(radii, curves[name], color=color, lw=2)
        label = f"raises {name};\n{blind:.0%} of the images\nhave no gradient"
        axes.text(0.204, curves[name][-1] + 0.01, label, color=color, va="top", fontsize=9)
    axes.fill_between(radii, *curves.values(), color="0.9")
    axes.text(0.13, 0.55, "looks robust,\nis not", color="0.35", fontsize=10)
    axes.set(xlim=(0, 0.285), ylim=(0, 1.02), xlabel="radius of the attack (pixels are 0 to 1)")
    axes.set_xticks([0, 0.05, 0.1, 0.15, 0.2])
    axes.set_ylabel("error rate under attack")
    return fig
