"""The evidence of a Dirichlet network grows without bound far away; a density takes it back."""

import math

import torch
from matplotlib.figure import Figure

import nescio
from nescio import losses, nets, recipes


def draw() -> Figure:
    """The median log precision over rays, of three networks on three classes in the plane."""
    rng, y = torch.Generator().manual_seed(0), torch.arange(300) % 3
    middle = torch.tensor([[0.0, 2.0], [-1.7, -1.0], [1.7, -1.0]])
    x = middle[y] + 0.4 * torch.randn(300, 2, generator=rng)
    make, options = lambda: nets.mlp(2, 3, widths=(50, 50)), {"epochs": 40, "learning_rate": 5e-3}
    noise = nescio.data.ood.uniform((2,), low=-6.0, high=6.0)
    exposed = recipes.dirichlet_ood(ood=noise).loss_for(x)
    trained = {
        "shown nothing": nescio.train(make, (x, y), loss=losses.reverse_kl(), **options),
        "shown noise in [-6, 6]²": nescio.train(make, (x, y), loss=exposed, **options),
        "posterior network": nescio.train(
            lambda: nets.posterior_network(2, 3, latent=2, widths=(50,)),
            (x, y),
            loss=recipes.posterior_network().loss,
            epochs=40,
            learning_rate=0.01,
        ),
    }
    angle = 2 * math.pi * torch.arange(360) / 360
    rays = torch.stack([angle.cos(), angle.sin()], 1)
    distance = torch.logspace(-0.5, 2, 60)
    fig = Figure(figsize=(7, 3.5), layout="constrained")
    axes = fig.subplots()
    for (name, model), color in zip(
        trained.items(), ("darkorange", "tab:blue", "black"), strict=True
    ):
        logs = torch.stack([model(d * rays).log_precision.median() for d in distance])
        axes.plot(distance, logs / math.log(10), color=color, lw=2)
        axes.text(108, logs[-1] / math.log(10), name, color=color, va="center", fontsize=9)
    axes.axvspan(0.3, 3, color="0.93")
    axes.text(0.33, 60, "data", color="0.4")
    axes.text(6.3, 0.15, "noise was shown up to here", color="tab:blue", fontsize=9)
    axes.axvline(6, color="tab:blue", ls=":", lw=1)
    axes.set(
        xscale="log",
        yscale="symlog",
        xlim=(0.3, 900),
        ylim=(0, 100),
        xlabel="distance from the middle",
    )
    axes.set_ylabel("log10 of the precision (evidence)")
    axes.set_xticks([1, 10, 100], ["1", "10", "100"])
    return fig
