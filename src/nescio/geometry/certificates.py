"""Far from its centers an rbf network has low confidence, provably (Hein et al., 2019, th. 3.2).

With `alpha = max over classes r, k of sum_l |alpha_rl - alpha_kl|`, K classes and the distance r to
the nearest center, every probability is within epsilon of 1 / K where
`r^2 >= log(alpha / log(1 + K epsilon)) / gamma`.
"""

from dataclasses import dataclass
from math import log, log1p, sqrt
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import NescioError
from nescio.geometry.tracing.instances import as_points, blocks, together
from nescio.models import Predictor, networks
from nescio.nets.factory import is_scaled
from nescio.nets.rbf import RBF, find_rbf

OUTWARD = 1 + 1e-12  # the radius is rounded up
BYTES = 64 << 20  # of the distances of one block of points


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Certificate:
    """Beyond `radius` from every center all probabilities are within `epsilon` of 1 / classes.

    Distances are those the network sees: of scaled inputs where it scales them.

    radius: distance beyond which the bound holds, `()`, or `(M,)` of a model; 0 where it holds
      everywhere.
    epsilon: largest distance of a probability from 1 / classes.
    classes: number of classes.
    alpha: what the difference of two logits cannot exceed, of the shape of `radius`.
    gamma: how fast the kernel falls, of the shape of `radius`.
    centers: centers of each member, `(L, F)`.
    scaling: mean and scale of the inputs of each member; None where it does not scale them.
    """

    radius: Tensor
    epsilon: float
    classes: int
    alpha: Tensor
    gamma: Tensor
    centers: tuple[Tensor, ...]
    scaling: tuple[tuple[Tensor, Tensor] | None, ...]

    def __repr__(self) -> str:
        radius = ", ".join(f"{r:.4g}" for r in self.radius.reshape(-1).tolist())
        return f"Certificate(radius {radius}, epsilon {self.epsilon:g}, {self.classes} classes)"

    def distance(self, x: Any) -> Tensor:
        """The distance of the inputs `x` to the nearest center, `(N,)`; `(M, N)` of a model."""
        points = as_points(x, "x")
        found = [
            _nearest(points, centers, scaling)
            for centers, scaling in zip(self.centers, self.scaling, strict=True)
        ]
        return torch.stack(found) if self.radius.ndim else found[0]

    def covers(self, x: Any) -> Tensor:
        """Whether the bound holds at each of the inputs `x`, `(N,)`.

        Of a model, whether it holds for each of its members. The mixture of members that are within
        epsilon is so too.
        """
        beyond = self.distance(x) >= self.radius[..., None]
        return beyond.all(0) if self.radius.ndim else beyond


def certificate(net: nn.Module | Predictor, epsilon: float = 0.01) -> Certificate:
    """How far from its centers an rbf network is within `epsilon` of the uniform answer.

    net: a network of `nets.rbf`, by itself or behind a `Standardize`, or a model of such networks.
    epsilon: largest distance of a probability from 1 / classes, between 0 and 1.
    """
    if not 0 < epsilon < 1:
        raise NescioError(f"epsilon must be between 0 and 1, got {epsilon}")
    members = _members(net)
    layers = [_rbf(member) for member in members]
    classes = len(layers[0].alpha)
    rows = [layer.alpha.detach().double().cpu() for layer in layers]
    alphas = [max(float((r - one).abs().sum(1).max()) for one in r) for r in rows]
    gammas, allowed = [layer.gamma for layer in layers], log1p(classes * epsilon)
    radii = [
        0.0 if alpha <= allowed else sqrt(log(alpha / allowed) / gamma) * OUTWARD
        for alpha, gamma in zip(alphas, gammas, strict=True)
    ]
    of_members = [torch.tensor(v, dtype=torch.float64) for v in (radii, alphas, gammas)]
    radius, alpha, gamma = (together(net, list(v)) for v in of_members)
    return Certificate(
        radius=radius,
        epsilon=float(epsilon),
        classes=classes,
        alpha=alpha,
        gamma=gamma,
        centers=tuple(layer.centers.detach().double().cpu() for layer in layers),
        scaling=tuple(_scaling(member) for member in members),
    )


def _members(net: nn.Module | Predictor) -> list[nn.Module]:
    if not isinstance(net, nn.Module) and not callable(getattr(net, "networks", None)):
        raise NescioError(_refusal(net))
    members = networks(net)
    if not all(member.is_bare and member.head.name == "categorical" for member in members):
        raise NescioError(_refusal(net))
    return [member.net for member in members]


def _refusal(net: object) -> str:
    return (
        f"a certificate needs a network of nets.rbf, got {type(net).__name__}. A ReLU network has "
        "none: far away its confidence is high nearly everywhere; geometry.far_field computes it"
    )


def _rbf(net: nn.Module) -> RBF:
    layer = find_rbf(net)
    if layer is None:
        raise NescioError(_refusal(net))
    if len(layer.alpha) < 2:
        raise NescioError(
            "a certificate needs a classifier of at least two classes, got one output"
        )
    return layer


def _scaling(net: nn.Module) -> tuple[Tensor, Tensor] | None:
    if not is_scaled(net):
        return None
    layer = net[0]  # type: ignore[index]
    return layer.mean.double().cpu(), layer.scale.double().cpu()


def _nearest(x: Tensor, centers: Tensor, scaling: tuple[Tensor, Tensor] | None) -> Tensor:
    size, wanted = x[0].numel(), centers.shape[1]
    if size != wanted or (scaling is not None and scaling[0].shape != x.shape[1:]):
        raise NescioError(
            f"points of shape {tuple(x.shape[1:])}, the centers have {wanted} features"
        )
    x = (x if scaling is None else (x - scaling[0]) / scaling[1]).flatten(1)
    rows = max(1, BYTES // (8 * len(centers)))
    exact = "donot_use_mm_for_euclid_dist"
    found = [
        torch.cdist(x[block], centers, compute_mode=exact).amin(1) for block in blocks(len(x), rows)
    ]
    return torch.cat(found)
