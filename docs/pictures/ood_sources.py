"""OOD sources made from digits, and how confident a network that learned the digits is on each."""

import numpy as np
from matplotlib.figure import Figure

import nescio
from nescio.data import ood

ACROSS = 9  # images of each source


def draw() -> Figure:
    digits = nescio.data.digits()
    x = digits.train[0]
    model = nescio.train(
        lambda: nescio.nets.mlp((1, 8, 8), 10), digits.train, epochs=40, progress=False
    )
    shape = digits.features
    sources = {
        "test digits": ood.another(digits.test[0], "digits"),
        "uniform": ood.uniform(shape),
        "permuted": ood.permuted(x),
        "paper_noise": ood.paper_noise(x),
        "patches": ood.patches(x, grid=2),
        "overlaid": ood.overlaid(x, shift=1),
        "faded": ood.faded(x),
        "shapes": ood.shapes(shape),
        "strokes": ood.strokes(shape),
    }
    figure = Figure(figsize=(7, 5.4), layout="constrained")
    panels = figure.subplots(len(sources), 1)
    for axes, (name, source) in zip(panels, sources.items(), strict=True):
        gap = np.ones((8, 1))
        images = source.take(ACROSS)[:, 0].numpy()
        strip = np.concatenate([part for image in images for part in (image, gap)], 1)
        axes.imshow(strip[:, :-1], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        confidence = model(source.take(500)).probs.amax(-1).mean()
        axes.text(-2, 3.5, name, ha="right", va="center", family="monospace")
        axes.text(9 * ACROSS + 1, 3.5, f"{100 * confidence:.0f} %", va="center", weight="bold")
        axes.axis("off")
    panels[0].text(9 * ACROSS, -2.5, "confidence", fontsize=9)
    return figure
