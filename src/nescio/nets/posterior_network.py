"""Posterior networks: a density in a small latent space gives the evidence.

The posterior network (Charpentier et al., 2020) has a density for each class, and the evidence of a
class is its count times the density. The natural posterior network (Charpentier et al., 2022) has
one density, whose evidence the softmax of a linear layer divides among the classes. Densities are
normalizing flows: radial flows (Rezende and Mohamed, 2015) before a standard normal. They integrate
to 1, so evidence is not for sale everywhere, and it falls like a normal density far away in latent
space. Along a ray of inputs latent numbers grow, unless the encoder stops listening to it.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core import NescioError
from nescio.nets.convolutional import small_cnn
from nescio.nets.factory import network
from nescio.nets.mlp import mlp

FAR = 1e15  # latent numbers beyond it count as that, so that squares do not overflow
DENSITIES = ("classes", "shared")


class RadialFlows(nn.Module):
    """K densities on R^D: `(N, D)` to log densities `(N, K)`, each by its own chain of flows.

    A flow is u = z + b (z - c) / (a + |z - c|) with a > 0 and b > -a, which is one to one.
    """

    def __init__(self, densities: int, features: int, flows: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(features)
        self.center = nn.Parameter(torch.empty(flows, densities, features).uniform_(-bound, bound))
        self.width = nn.Parameter(torch.empty(flows, densities).uniform_(-bound, bound))
        self.pull = nn.Parameter(torch.empty(flows, densities).uniform_(-bound, bound))

    def forward(self, z: Tensor) -> Tensor:
        features = z.shape[1]
        u = z.clamp(-FAR, FAR)[:, None, :]  # (N, 1, D), then (N, K, D)
        logs = torch.zeros_like(u[..., 0])
        for center, width, pull in zip(self.center, self.width, self.pull, strict=True):
            a = F.softplus(width)
            b = F.softplus(pull) - a
            gap = u - center
            radius = torch.linalg.vector_norm(gap, dim=-1)
            h = 1 / (a + radius)
            u = u + (b * h)[..., None] * gap
            logs = logs + (features - 1) * torch.log1p(b * h) + torch.log1p(a * b * h * h)
        normal = -0.5 * (u.square().sum(-1) + features * math.log(2 * math.pi))
        return logs + normal


class Posterior(nn.Module):
    """An encoder, and the log evidence `(N, C)` of its latent numbers."""

    log_counts: Tensor
    latent_layer = "norm"  # what detectors and guards read

    def __init__(
        self, encoder: nn.Module, latent: int, flows: int, counts: Sequence[float], *, shared: bool
    ) -> None:
        super().__init__()
        classes = len(counts)
        self.encoder = encoder
        self.norm = nn.BatchNorm1d(latent, affine=False)  # densities are on a known scale
        self.flows = RadialFlows(1 if shared else classes, latent, flows)
        self.classes = nn.Linear(latent, classes) if shared else None
        self.register_buffer("log_counts", torch.tensor(counts).log())

    def forward(self, x: Tensor) -> Tensor:
        z = self.norm(self.encoder(x))
        logs: Tensor = self.flows(z) + self.log_counts
        if self.classes is not None:
            logs = logs + self.classes(z.clamp(-FAR, FAR)).log_softmax(-1)
        return logs


@network
def posterior_network(
    inputs: int | Sequence[int],
    outputs: int,
    *,
    latent: int = 6,
    flows: int = 6,
    density: str = "classes",
    counts: Sequence[float] | None = None,
    widths: Sequence[int] = (100, 100),
) -> nn.Module:
    """Log evidence of each class, its count times a density in a small latent space.

    Its head is `heads.dirichlet(activation="exp", floor=1)`: concentrations are evidence + 1.

    inputs: number of features, for an mlp with these `widths`, or the shape of an image, for
      small_cnn.
    outputs: number of classes.
    latent: dimension of the latent space, which densities are of.
    flows: number of radial flows of a density.
    density: "classes", one for each class (posterior network), or "shared", one for all, divided by
      a softmax (natural posterior network); few radial flows are too smooth for many classes.
    counts: number of samples of each class; None: sqrt(4 pi)^latent for each, at which a usual
      latent vector has an evidence of about 1 at the start.
    widths: widths of the hidden layers of the mlp.
    """
    if min(latent, flows, outputs) < 1:
        raise NescioError(f"sizes must be positive, got {latent=}, {flows=}, {outputs=}")
    if density not in DENSITIES:
        raise NescioError(f"density must be 'classes' or 'shared', got {density!r}")
    budget = [math.sqrt(4 * math.pi) ** latent] * outputs
    given = budget if counts is None else [float(count) for count in counts]
    if len(given) != outputs or not all(0 < count < math.inf for count in given):
        raise NescioError(f"counts must be {outputs} positive numbers, got {counts}")
    if isinstance(inputs, int) or len(inputs) != 3:
        encoder = mlp(inputs, latent, widths=widths)
    else:
        encoder = small_cnn(inputs, latent)
    return Posterior(encoder, latent, flows, given, shared=density == "shared")
