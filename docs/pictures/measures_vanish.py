"""Where members agree far from the data, every measure says that all is known."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import measures, nets

SHOWN = {
    "predictive_entropy": ("#b5371f", "predictive entropy"),
    "mutual_information": ("#1f5f99", "mutual information"),
    "variation_ratio": ("#c98a1b", "variation ratio"),
}

TITLES = ("one direction: members differ far away", "another: they agree, all measures are 0")


def draw() -> Figure:
    """Measures along the ray from the center of the half-moons, by the distance."""
    moons = nescio.data.half_moons()
    model = nescio.train(
        lambda: nets.mlp(2, 2, widths=(25, 25)), moons.train, members=10, epochs=40, seed=0
    )
    steps = torch.logspace(-1, 3, 200)
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for panel, angle, title in zip(panels, (0.3, 2.4), TITLES, strict=True):
        way = torch.tensor([angle]).cos(), torch.tensor([angle]).sin()
        said = model(torch.tensor([0.5, 0.25]) + steps[:, None] * torch.cat(way))
        for name, (color, words) in SHOWN.items():
            values = getattr(measures, name)(said).detach()
            panel.plot(steps, values, color=color, linewidth=1.8, label=words)
        panel.axvspan(0.1, 1.6, color="0.92")
        panel.set_title(title, fontsize=10)
        panel.set(xscale="log", xlabel="distance from the center of the data", xlim=(0.1, 1000))
    panels[0].set_ylabel("nats, or share of votes")
    panels[0].text(0.2, 0.2, "data", fontsize=9, color="0.35")
    panels[1].legend(frameon=False)
    return figure
