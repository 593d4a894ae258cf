"""Influence against retraining: one sample, groups, and all layers of a network."""

from copy import deepcopy
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

import nescio
from nescio import losses, nets
from nescio.applications.influence import influence

SAMPLES = 120
LOSS = losses.weight_decay(losses.nll(), strength=0.005)
Pair = tuple[Tensor, Tensor]


def draw() -> Figure:
    """The change of a test loss, predicted and measured, for single samples and for groups."""
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, 5, generator=draws).double()
    noise = 0.7 * torch.randn(SAMPLES, generator=draws)
    data = x, (x[:, 0] + x[:, 1] + noise > 0).long()
    test = x.new_tensor([[0.2, 0.1, 0.5, -0.5, 0.3]]), torch.tensor([0])
    every = torch.arange(SAMPLES)
    ones = [every[every != i] for i in every[::2]]
    linear, network = (minimum(make(*widths), data) for widths in ((), (16,)))
    found = influence(linear, data, test).values[0]
    order = found.argsort(descending=True)
    counts = range(2, 42, 2)
    groups = [order[count:].sort().values for count in counts]
    sums = torch.stack([found[order[:count]].sum() for count in counts])
    last = influence(network, data, test).values[0]
    figure = Figure(figsize=(7, 2.8), layout="constrained")
    panels = figure.subplots(1, 3)
    compared(panels[0], found[::2], change(linear, data, test, ones))
    compared(panels[1], sums, change(linear, data, test, groups))
    compared(panels[2], last[::2], change(network, data, test, ones))
    titles = ("logistic regression,\none sample", "logistic regression,\n2 to 40 samples at once")
    for panel, title in zip(panels, (*titles, "network, last layer,\none sample"), strict=True):
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("predicted change of the loss", fontsize=9)
        panel.tick_params(labelsize=7)
    panels[0].set_ylabel("after retraining", fontsize=9)
    return figure


def make(*widths: int) -> nn.Module:
    """A network of two classes in float64; without widths, logistic regression."""
    torch.manual_seed(0)
    return nets.mlp(5, 2, widths=widths, activation="tanh").double()


def minimum(net: nn.Module, data: Pair, **options: Any) -> nescio.models.Model:
    """Networks trained to their minimum, from the weights of `net`."""
    return nescio.train(
        lambda: deepcopy(net),
        data,
        loss=LOSS,
        optimizer="lbfgs",
        batch_size=None,
        epochs=300,
        **options,
    )


def change(full: nescio.models.Model, data: Pair, test: Pair, rows: list[Tensor]) -> Tensor:
    """How the test loss changes if the network is trained again on these rows alone."""
    again = minimum(full.member(0), data, rows=rows, members=len(rows))
    x, y = test
    before, after = (-model(x).member_log_probs[:, 0, int(y)] for model in (full, again))
    return (after - before).detach()


def compared(panel: Axes, predicted: Tensor, actual: Tensor) -> None:
    """Predicted against actual changes, with the line where both are equal."""
    both = torch.cat([predicted, actual])
    low, high = float(both.min()), float(both.max())
    panel.plot([low, high], [low, high], color="0.7")
    panel.plot(predicted, actual, "o", markersize=3.5, color="#1f5f99")
    share = float(torch.corrcoef(torch.stack([predicted, actual]))[0, 1])
    slope = float(predicted @ actual / predicted.square().sum())
    words = f"R = {share:.2f}\nslope {slope:.2f}"
    panel.text(0.95, 0.06, words, transform=panel.transAxes, ha="right", fontsize=9)
