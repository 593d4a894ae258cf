"""Part `softmax`: the softmax of two logits, and how its gradient saturates."""

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from nescio.report.plots.look import add_title, with_look
from nescio_papers.kit import Claim, Findings, Settings
from nescio_papers.know_your_limits.surfaces import Floats, Grid

FIGURE = "figure-4.png"
REACH = 10.0


def softmax(settings: Settings) -> Findings:
    """Figure 4: the first softmax output over the plane of logits, and the norm of its gradient."""
    grid = Grid((-REACH, REACH, -REACH, REACH), 0.5 if settings.quick else 0.25)
    logits = grid.points.clone().requires_grad_()
    first = logits.softmax(-1)[:, 0]
    (slope,) = torch.autograd.grad(first.sum(), logits)
    probs, norms = first.detach().numpy(), slope.norm(dim=-1).numpy()
    numbers = _numbers(grid, probs, norms)
    caption = (
        "Softmax of two logits depends on their difference alone: sigma(z1 - z2), to "
        f"{numbers['error of the value']:.0e} here. Its gradient is at most "
        f"{numbers['largest gradient']:.4f}, on the diagonal, and "
        f"{numbers['gradient at a difference of 10']:.1e} at a difference of 10."
    )
    claim = Claim(
        "Ulmer and Cinà, lemma 9 and figure 4",
        "The softmax saturates: its gradient goes to zero as one logit goes to infinity.",
        "with the other logit fixed, yes: the gradient norm is sqrt(2) p (1 - p), at most "
        f"{numbers['largest gradient']:.4f} and {numbers['gradient at a difference of 10']:.1e} at "
        "a difference of 10; but where both logits grow together (z1 = z2 = 10) it stays "
        f"{numbers['gradient on the diagonal']:.4f}, and in the proof all logits grow together",
        verdict="partly",
    )
    return Findings(
        numbers=numbers,
        figures={FIGURE: _figure(grid, probs, norms)},
        captions={FIGURE: caption},
        claims=[claim],
    )


def _numbers(grid: Grid, probs: Floats, norms: Floats) -> dict[str, Any]:
    z = grid.points.numpy()
    gap = z[:, 0] - z[:, 1]
    closed = 1 / (1 + np.exp(-gap))
    steep = np.sqrt(2) * closed * (1 - closed)
    corner = np.argmin(np.abs(z - REACH).sum(1))
    ten = np.argmin(np.abs(z - (REACH, 0)).sum(1))
    return {
        "error of the value": float(np.abs(probs - closed).max()),
        "error of the gradient": float(np.abs(norms - steep).max()),
        "largest gradient": float(norms.max()),
        "gradient at a difference of 10": float(norms[ten]),
        "gradient on the diagonal": float(norms[corner]),
    }


@with_look
def _figure(grid: Grid, probs: Floats, norms: Floats) -> Figure:
    figure = Figure(figsize=(10.8, 4.9), layout="constrained")
    across, up = np.meshgrid(*grid.axes)
    panels = (
        (probs, "Purples", "probability of class 1", "softmax of two logits"),
        (norms, "YlGn", "norm of its gradient", "its gradient"),
    )
    for i, (values, colors, label, title) in enumerate(panels):
        axis: Any = figure.add_subplot(1, 2, i + 1, projection="3d")
        axis.plot_surface(across, up, grid.shaped(values), cmap=colors, rcount=41, ccount=41)
        axis.set(xlabel="logit $z_1$", ylabel="logit $z_2$", zlabel=label)
        axis.set_xticks([-10, -5, 0, 5, 10])
        axis.set_yticks([-10, -5, 0, 5, 10])
        axis.xaxis.labelpad = axis.yaxis.labelpad = axis.zaxis.labelpad = 9
        axis.set_title(title, loc="left")
        axis.view_init(28, -125)
    add_title(
        figure,
        "Softmax is flat away from the diagonal, and as steep as ever along it",
    )
    return figure
