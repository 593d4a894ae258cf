"""Multi-layer perceptrons."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from torch import nn

from nescio.core import NescioError
from nescio.nets.factory import check_dropout, network

ACTIVATIONS = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "tanh": nn.Tanh, "swish": nn.SiLU}


@network
def mlp(
    inputs: int | Sequence[int],
    outputs: int,
    *,
    widths: Sequence[int] = (100, 100),
    activation: str = "relu",
    slope: float = 0.01,
    dropout: float = 0.0,
) -> nn.Module:
    """Fully connected layers with ReLU, leaky ReLU, tanh or Swish between, and dropout after each.

    `inputs` is a number of features or the shape of an image; `slope` is that of leaky ReLU.
    """
    if activation not in ACTIVATIONS:
        raise NescioError(f"unknown activation {activation!r}; known: {', '.join(ACTIVATIONS)}")
    check_dropout(dropout)
    shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
    sizes = (prod(shape), *widths)
    if min(*sizes, outputs) < 1:
        raise NescioError(f"sizes must be positive, got inputs {shape}, widths {tuple(widths)}")
    layers: list[nn.Module] = [nn.Flatten()] if len(shape) > 1 else []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), _activation(activation, slope)]
        layers += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


def _activation(name: str, slope: float) -> nn.Module:
    return nn.LeakyReLU(slope) if name == "leaky_relu" else ACTIVATIONS[name]()
