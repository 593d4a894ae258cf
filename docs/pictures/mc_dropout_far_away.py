"""MC dropout and Bayes by backprop on half-moons become certain along rays away from the data."""

import math

import torch
from matplotlib.figure import Figure

import nescio
from nescio import losses, models, nets


def draw() -> Figure:
    """The passes along one ray, and the share of all rays on which a predictor is certain."""
    moons = nescio.data.half_moons()
    dropped = nescio.train(
        lambda: nets.mlp(2, 2, widths=(50, 50), dropout=0.2), moons.train, epochs=60
    )
    bayes = nescio.train(
        lambda: nets.bayesian_mlp(2, 2, widths=(25, 25)),
        moons.train,
        loss=losses.elbo(losses.nll()),
        epochs=150,
        learning_rate=1e-2,
        schedule="cosine",
    )
    sampled = {
        "MC dropout": models.mc_dropout(dropped, passes=50),
        "Bayes by backprop": models.weight_samples(bayes, passes=50),
    }
    angle = 2 * math.pi * torch.arange(360) / 360
    rays = torch.stack([angle.cos(), angle.sin()], 1)
    distance = torch.logspace(-1, 3, 40)
    fig = Figure(figsize=(7, 3.5), layout="constrained")
    left, right = fig.subplots(1, 2)

    seen = sampled["MC dropout"](distance[:, None] * rays[110])
    left.plot(distance, seen.member_probs[..., 1].T, color="tab:blue", lw=0.6, alpha=0.5)
    left.plot(distance, seen.probs[:, 1], color="black", lw=2)
    left.text(3, 0.45, "thin: 50 passes\nthick: their mean", fontsize=9)
    left.set(xscale="log", xlabel="distance along a ray", ylabel="probability of class 1")
    left.set_title("MC dropout on one ray", fontsize=10)

    for (name, predictor), color, at in zip(
        sampled.items(), ("navy", "darkorange"), (0.45, 0.2), strict=True
    ):
        confident = [
            (predictor(d * rays).probs.amax(-1) > 0.99).float().mean().item() for d in distance
        ]
        right.plot(distance, confident, color=color, lw=2)
        right.text(3, at, f"{name}:\n{confident[-1]:.0%} at 1000", color=color, fontsize=9)
    right.set(xscale="log", xlabel="distance", ylim=(0, 1.02))
    right.set_title("share of rays with confidence > 0.99", fontsize=10)
    return fig
