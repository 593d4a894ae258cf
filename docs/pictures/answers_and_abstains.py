"""The same network twice: alone it answers everywhere; guarded, it abstains away from the data."""

import matplotlib.patheffects as effects
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import nn

import nescio

COLORS = ("#3b78b5", "#e8b04a", "#a33e4f")
CENTERS = torch.tensor([[-2.4, -1.2], [0.3, 2.6], [2.4, -1.0]])
WIDE, HIGH = np.linspace(-9, 9, 361), np.linspace(-8, 8, 321)
BOX = (-9, 9, -8, 8)
FAR = (-7.6, -4.4)  # one input, in both pictures


def blobs(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    return CENTERS[labels] + 0.8 * torch.randn(count, 2, generator=rng), labels


def trained(x: torch.Tensor, y: torch.Tensor) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net.eval()


def say(axis: Axes, words: str, at: tuple[float, float], to: tuple[float, float]) -> None:
    """Words on the picture, with a line to what they are about."""
    halo = [effects.withStroke(linewidth=3, foreground="white")]
    line = {"arrowstyle": "-", "color": "black", "shrinkA": 0, "shrinkB": 0}
    text = axis.annotate(words, to, at, arrowprops=line, fontsize=11, ha="center", va="center")
    text.set_path_effects(halo)


def draw() -> Figure:
    train = blobs(600, 0)
    net = trained(*train)
    guard = nescio.guard(net, blobs(2000, 1), train=train, risk=0.003, progress=False)
    grid = torch.tensor(np.stack(np.meshgrid(WIDE, HIGH), -1).reshape(-1, 2), dtype=torch.float32)
    with torch.no_grad(), nescio.core.quiet():  # most of the grid is out of range
        confidence, label = net(grid).softmax(1).max(1)
        decision = guard(grid).decision.numpy().reshape(len(HIGH), len(WIDE))
    labels = label.numpy().reshape(decision.shape)
    strength = confidence.numpy().reshape(decision.shape) ** 2  # pale where it is not confident

    figure = Figure(figsize=(8, 3.9), layout="constrained")
    plain, guarded = figure.subplots(1, 2)
    for axis, title in ((plain, "A plain network"), (guarded, "The same network, guarded")):
        axis.set_title(title, fontsize=13, weight="bold")
        axis.set(xticks=[], yticks=[])
    options = {"cmap": ListedColormap(COLORS), "origin": "lower", "extent": BOX, "vmax": 2}
    plain.imshow(labels, alpha=strength, **options)
    guarded.imshow(np.ma.masked_where(decision != 0, labels), **options)
    guarded.contourf(WIDE, HIGH, decision == 1, [0.5, 1.5], colors="none", hatches=["////"])
    for axis in (plain, guarded):
        axis.scatter(*train[0][:200].T, c="white", s=7, edgecolors="black", linewidths=0.4)
        axis.plot(*FAR, "X", color="black", markeredgecolor="white", markersize=11)
    with torch.no_grad():
        far = float(net(torch.tensor([FAR])).softmax(1).max())
    assert far > 0.999
    say(plain, "no data here,\nover 99.9 % confident", (-4.4, -6.4), FAR)
    say(plain, "training data", (-5.6, 2.6), (-3.1, -0.4))
    say(guarded, "answers", (6.9, -3.9), (3.4, -1.6))
    say(guarded, "abstains: unsure", (-5.2, 4.4), (-1.2, 1.2))
    say(guarded, "abstains: unlike the training data", (-0.6, -6.6), FAR)
    return figure
