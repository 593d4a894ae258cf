"""The linear regions of two ReLU networks: on half-moons, and on a plane through three digits."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import geometry, nets
from nescio.core.running import one_thread


@one_thread()
def draw() -> Figure:
    """A network on half-moons, and a convolutional one on the plane through three digits."""
    moons = nescio.data.half_moons()
    net = nescio.train(
        lambda: nets.mlp(2, 2, widths=(25, 25)), moons.train, epochs=60, progress=False
    ).member(0)
    figure = Figure(figsize=(11.4, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    found = geometry.regions(net, [(-4.0, 5.0), (-4.0, 4.5)])
    x, y = moons.train
    geometry.draw_regions(found, left, points=x[::6], labels=y[::6], names=("upper", "lower"))
    left.set_title(f"half-moons, 2-25-25-2: {len(found):,} linear regions", loc="left")
    for axis in (left, right):
        axis.title.set_fontsize(11)

    digits = nescio.data.digits()
    images, labels = digits.train
    cnn = nescio.train(lambda: nets.digit_cnn(), digits.train, epochs=8, progress=False).member(0)
    three = torch.stack([images[labels == k][0] for k in (0, 1, 8)])
    plane = geometry.regions(cnn, geometry.around(three), plane=three)
    geometry.draw_regions(plane, right, points=three, labels=[0, 1, 8])
    right.set_title(f"a CNN, three digits: {len(plane):,} linear regions", loc="left")
    return figure
