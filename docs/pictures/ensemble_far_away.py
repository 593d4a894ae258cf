"""Ten networks on half-moons: far away all agree in most directions, and are certain there."""

import math

import torch
from matplotlib.figure import Figure

import nescio

FAR = 30.0


def draw() -> Figure:
    """The disagreement over the plane, and the confidence along one ray on which all agree."""
    moons = nescio.data.half_moons()
    model = nescio.train(
        lambda: nescio.nets.mlp(2, 2, widths=(25, 25)), moons.train, members=10, epochs=60
    )
    angle = 2 * math.pi * torch.arange(720) / 720
    rays = torch.stack([angle.cos(), angle.sin()], 1)
    votes = nescio.geometry.far_field(model, torch.zeros_like(rays), rays).limit.argmax(-1)
    agree = (votes == votes[0]).all(0)  # exactly, infinitely far away
    fig = Figure(figsize=(7, 3.5), layout="constrained")
    left, right = fig.subplots(1, 2)

    line = torch.linspace(-FAR, FAR, 241)
    grid = torch.cartesian_prod(line, line)
    disagreement = nescio.measures.mutual_information(model(grid)).view(241, 241).T
    shown = left.imshow(
        disagreement,
        origin="lower",
        extent=(-FAR, FAR, -FAR, FAR),
        cmap="Purples",
        vmin=0,
        vmax=0.69,
    )
    fig.colorbar(shown, ax=left, shrink=0.8, label="mutual information, nats")
    left.scatter(*moons.train[0].T, s=1, color="darkorange")
    left.annotate("training data", (2, 0), (5, -12), color="black", arrowprops={"arrowstyle": "-"})
    share = agree.float().mean().item()
    left.set_title(f"all ten agree in {share:.0%} of all directions", fontsize=10)

    ray = rays[int(agree.nonzero()[agree.sum() // 3])]
    distance = torch.logspace(-1, 3, 200)
    seen = model(distance[:, None] * ray)
    right.plot(distance, seen.member_probs.amax(-1).T, color="tab:blue", lw=0.7, alpha=0.6)
    right.plot(distance, seen.probs.amax(-1), color="black", lw=2)
    right.text(3, 0.6, "thin: each member\nthick: the ensemble", fontsize=9)
    right.set(xscale="log", ylim=(0.5, 1.01), xlabel="distance along a ray", ylabel="confidence")
    right.set_title("a ray on which they agree", fontsize=10)
    return fig
