"""Away from the training data, 90 % intervals are too narrow, calibrated ones too."""

import numpy as np
import torch
from matplotlib.figure import Figure

import nescio
from nescio import heads, losses, metrics, nets

TRUTH = {"color": "black", "linewidth": 1.2, "linestyle": "--"}


def draw() -> Figure:
    """One Gaussian network, five of them, and calibrated intervals, on and off the data."""
    draws = torch.Generator().manual_seed(0)
    x = torch.rand(800, 1, generator=draws) * 4 - 2
    y = x.sin() + 0.15 * torch.randn(800, 1, generator=draws)
    model = nescio.train(
        lambda: nets.mlp(1, 2, widths=(50, 50)),
        (x[:400], y[:400]),
        loss=losses.nll(heads.gaussian()),
        members=5,
        epochs=80,
        learning_rate=0.005,
        seed=0,
    )
    calibrated = nescio.conformal.normalized(model(x[400:]), y[400:], miscoverage=0.1)
    kinds = {
        "one network": lambda at: ends(model.member(0), at),
        "ensemble of five": lambda at: ends(model, at),
        "ensemble, conformal": lambda at: calibrated(model(at)),
    }
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    grid = torch.linspace(-6, 6, 400)[:, None]
    for panel, (name, intervals) in zip(panels, kinds.items(), strict=True):
        low, high = (end[:, 0].detach() for end in intervals(grid))
        panel.axvspan(-2, 2, color="0.92")
        panel.fill_between(grid[:, 0], low, high, color="#4c8dc4", alpha=0.55, linewidth=0)
        panel.plot(grid[:, 0], grid[:, 0].sin(), **TRUTH)
        inside, outside = held(intervals, 0, 2), held(intervals, 2, 6)
        panel.set_title(f"{name}\nholds {inside:.0%} on the data, {outside:.0%} off", fontsize=9)
        panel.set(xlim=(-6, 6), ylim=(-2.5, 2.5), xlabel="x")
    panels[0].text(0, -2.35, "training data", ha="center", fontsize=8, color="0.35")
    panels[0].text(-4.7, 1.15, "truth", ha="center", fontsize=8)
    panels[0].set_ylabel("90 % interval")
    return figure


def ends(source: object, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The ends of the network's own 90 % intervals."""
    alone = isinstance(source, torch.nn.Module)
    said = (nescio.models.plain(source, head="gaussian") if alone else source)(x)
    return said.quantile(0.05), said.quantile(0.95)


def held(intervals: object, near: float, far: float) -> float:
    """The share of new values between two distances from 0 that the intervals hold."""
    draws = np.random.default_rng(1)
    x = torch.as_tensor(draws.uniform(near, far, (4000, 1)) * draws.choice([-1, 1], (4000, 1)))
    x = x.float()
    y = x.sin() + 0.15 * torch.as_tensor(draws.normal(size=(4000, 1))).float()
    return float(metrics.coverage(*intervals(x), y))
