"""Input scaling as the first layer of a network, so that it is saved and analysed with it."""

import torch
from torch import Tensor, nn


class Standardise(nn.Module):
    """Subtract `mean` and divide by `scale`, per feature; both are saved, neither is trained."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("scale", scale.clone())

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.scale


def standardised(net: nn.Module, x: Tensor) -> nn.Sequential:
    """Put a `Standardise` with the mean and deviation of `x` `(N, ...)` before `net`.

    A feature that never varies is only centred.
    """
    scale = x.std(0, correction=0)
    return nn.Sequential(Standardise(x.mean(0), torch.where(scale > 0, scale, 1.0)), net)
