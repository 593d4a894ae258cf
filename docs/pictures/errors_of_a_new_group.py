"""A group that training never had: its errors get the best failure scores, and none is found."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import metrics, nets
from nescio.detectors import failure


def draw() -> Figure:
    """Two classes and a new group of class 1 on the side of class 0; error rates by coverage."""
    moons = nescio.data.half_moons(train=600, test=1000, noise=0.3)
    model = nescio.train(
        lambda: nets.mlp(2, 2, widths=(30, 30)), moons.train, epochs=60, learning_rate=0.01
    )
    rng = torch.Generator().manual_seed(0)
    group = torch.tensor([-1.6, 1.3]) + 0.15 * torch.randn(60, 2, generator=rng)
    x, y = moons.test
    both = torch.cat([x, group]), torch.cat([y, torch.ones(60, dtype=y.dtype)])
    score = failure.recommended(nescio.observe(model, moons.train, progress=False))
    fig = Figure(figsize=(7, 3.5), layout="constrained")
    left, right = fig.subplots(1, 2)
    for label, color in ((0, "0.75"), (1, "tab:blue")):
        left.scatter(*x[y == label].T, s=4, color=color)
    left.scatter(*group.T, s=8, color="darkorange")
    left.annotate("class 0", (0, 1), (-0.2, 1.75), color="0.4")
    left.annotate("class 1", (1, -0.5), (0.8, -1.4), color="tab:blue")
    left.annotate("new group,\nalso class 1", (-1.6, 1.3), (-2.1, 1.85), color="darkorange")
    left.set(xticks=[], yticks=[], ylim=(-1.7, 2.4))
    tested = ((x, y), "test data", "black", 0.02), (both, "with the new group", "darkorange", 0.2)
    for data, name, color, height in tested:
        seen = nescio.observe(model, data, progress=False)
        wrong = model(data[0]).labels != data[1]
        curve = metrics.risk_coverage(score(seen), wrong)
        right.plot(curve.coverage, curve.risk, color=color, lw=2)
        right.text(0.33, height, name, color=color)
    right.set(
        xlabel="coverage (best scores first)", ylabel="error rate among these", ylim=(-0.01, 0.6)
    )
    return fig
