"""Part `softmax`: the softmax of two logits, and how its gradient saturates."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from nescio.report.plots.look import add_title, with_look
from nescio_papers.kit import Claim, Findings, Settings, exactly
from nescio_papers.know_your_limits.surfaces import Floats, Grid

FIGURE = "figure-4.png"
SMALL = 1e-3  # a gradient below has gone to zero, 10 out
REACH = 10.0


def softmax(settings: Settings) -> Findings:
    """Figure 4: the first softmax output over the plane of logits, and the norm of its gradient."""
    grid = Grid((-REACH, REACH, -REACH, REACH), 0.5 if settings.quick else 0.25)
    logits = grid.points.clone().requires_grad_()
    first = logits.softmax(-1)[:, 0]
    (slope,) = torch.autograd.grad(first.sum(), logits)
    probs, norms = first.detach().numpy(), slope.norm(dim=-1).numpy()
    numbers = _numbers(grid, probs, norms)
    numbers["derivatives of a wrong sign"] = int((slope.numpy() * (1, -1) <= 0).sum())
    caption = (
        "Softmax of two logits depends on their difference alone: sigma(z1 - z2), to "
        f"{numbers['error of the value']:.0e} here. Its gradient is at most "
        f"{numbers['largest gradient']:.4f}, on the diagonal, and "
        f"{numbers['gradient at a difference of 10']:.1e} at a difference of 10."
    )
    return Findings(
        numbers=numbers,
        figures={FIGURE: _figure(grid, probs, norms)},
        captions={FIGURE: caption},
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


def softmax_claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """What the paper says about softmax and entropy; all of it has a closed form."""
    saturates = "gradient norm of the softmax, one logit at 10, the other at"
    why = "sqrt(2) p (1 - p)"
    return [
        Claim(
            source="Ulmer and Cinà, lemma 9 and figure 4",
            sentence="The derivative of the softmax of c in any logit goes to zero as the logit of "
            "c goes to plus or minus infinity.",
            facts=[
                exactly(
                    f"{saturates} 0",
                    numbers["gradient at a difference of 10"],
                    below=SMALL,
                    why=f"{why}; the same with the signs changed",
                )
            ],
            note="the other logits stay where they are",
        ),
        Claim(
            source="Ulmer and Cinà, proof of proposition 1",
            sentence="Lemma 9 implies that the first factor of every part in the sum of Equation "
            "14 will tend to zero in the limit.",
            facts=[
                exactly(
                    f"{saturates} 10 as well",
                    numbers["gradient on the diagonal"],
                    below=SMALL,
                    why=why,
                )
            ],
            note="in the proof all logits grow, and lemma 9 is about one",
        ),
        Claim(
            source="Ulmer and Cinà, definition 3",
            sentence="The softmax function is an example for a component-wise strictly monotonic "
            "function.",
            facts=[
                exactly(
                    "derivatives of a softmax output in the logits with another sign than at 0",
                    numbers.get("derivatives of a wrong sign", math.nan),
                    below=0.5,
                    why="p_c (1 - p_c) is above 0 and -p_c p_k below 0 for all finite logits",
                )
            ],
        ),
        Claim(
            source="Ulmer and Cinà, appendix A.1",
            sentence="The sigmoid function is a special case of the softmax for binary "
            "classification.",
            facts=[
                exactly(
                    "largest difference of softmax and sigmoid",
                    numbers["error of the value"],
                    below=1e-12,
                    why="exp(a) / (exp(a) + exp(b)) = 1 / (1 + exp(b - a)); the rest is rounding",
                )
            ],
        ),
        Claim(
            source="Ulmer and Cinà, section 3.3",
            sentence="Entropy is maximal when all probability mass is centered on a single class, "
            "and minimum when the predictive distribution is uniform.",
            facts=[
                exactly(
                    "entropy of one class alone less that of two equal ones (nats)",
                    -math.log(2),
                    above=0,
                    why="0 and log C",
                )
            ],
        ),
    ]


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
