"""Input scaling as the first layer of a network, so that it is saved and analyzed with it."""

from collections import OrderedDict

import torch
from torch import Tensor, nn


class Standardize(nn.Module):
    """Subtract `mean` and divide by `scale`, per feature; both are saved, neither is trained."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("scale", scale.clone())

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.scale


def scaled(net: nn.Module, mean: Tensor, scale: Tensor) -> nn.Sequential:
    """`net` behind a `Standardize`, as the layers `scaling` and `net`."""
    return nn.Sequential(OrderedDict(scaling=Standardize(mean, scale), net=net))


def is_scaled(net: nn.Module) -> bool:
    """Whether `net` was made by `scaled`."""
    return isinstance(net, nn.Sequential) and len(net) == 2 and isinstance(net[0], Standardize)


def standardized(net: nn.Module, x: Tensor) -> nn.Sequential:
    """Put a `Standardize` with the mean and deviation of `x` `(N, ...)` before `net`.

    A feature that never varies is only centered.
    """
    wide = x.double()  # in float32 a constant feature has a deviation of rounding noise
    varies = x.amax(0) > x.amin(0)
    scale = torch.where(varies, wide.std(0, correction=0), 1.0)
    return scaled(net, wide.mean(0).to(x.dtype), scale.to(x.dtype))
