"""Evidential regression takes noise for missing knowledge; the members of an ensemble less so."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import heads, losses, nets


def draw() -> Figure:
    """Data of equal density whose noise grows: which part of the deviation is epistemic?"""
    draws = torch.Generator().manual_seed(0)
    x = torch.rand(3000, 1, generator=draws) * 4 - 2
    noise = torch.where(x > 0, 0.8, 0.1)
    y = x.sin() + noise * torch.randn(3000, 1, generator=draws)
    options = {"epochs": 60, "learning_rate": 0.005, "standardize_targets": True}
    evidential = nescio.train(
        lambda: nets.mlp(1, 4, widths=(50,)),
        (x, y),
        loss=losses.evidential_regression(),
        **options,
    )
    ensemble = nescio.train(
        lambda: nets.mlp(1, 2, widths=(50,)),
        (x, y),
        loss=losses.nll(heads.gaussian()),
        members=5,
        **options,
    )
    grid = torch.linspace(-2, 2, 300)[:, None]
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(x[:1500, 0], y[:1500, 0], ".", markersize=2, color="0.6")
    left.plot(grid[:, 0], grid[:, 0].sin(), color="black")
    left.set_title("3,000 samples, equally dense everywhere", fontsize=10)
    left.set(xlabel="x", ylabel="y")
    lines = ((evidential, "#b5371f", "evidential"), (ensemble, "#1f5f99", "ensemble of five"))
    for model, color, name in lines:
        deviation = model(grid).epistemic.detach().sqrt()[:, 0]
        right.plot(grid[:, 0], deviation, color=color, linewidth=2)
        right.text(1.95, deviation[200:].max() + 0.02, name, color=color, ha="right", va="bottom")
    right.set_title("epistemic deviation of the prediction", fontsize=10)
    right.set(xlabel="x", ylim=(0, 1.15))
    return figure
