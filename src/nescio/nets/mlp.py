"""Multi-layer perceptrons, with a normal distribution over each weight (Blundell et al., 2015)."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core import NescioError, layer_noise
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

    inputs: number of features, or the shape of an image, which is flattened.
    outputs: number of outputs, such as classes.
    widths: widths of the hidden layers.
    activation: "relu", "leaky_relu", "tanh" or "swish".
    slope: slope of leaky ReLU below zero.
    dropout: dropout rate after each hidden layer, in [0, 1).
    """
    if activation not in ACTIVATIONS:
        raise NescioError(f"unknown activation {activation!r}; known: {', '.join(ACTIVATIONS)}")
    check_dropout(dropout)
    shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
    sizes = (math.prod(shape), *widths)
    if min(*sizes, outputs) < 1:
        raise NescioError(f"sizes must be positive, got inputs {shape}, widths {tuple(widths)}")
    layers: list[nn.Module] = [nn.Flatten()] if len(shape) > 1 else []
    for before, after in pairwise(sizes):
        bend = nn.LeakyReLU(slope) if activation == "leaky_relu" else ACTIVATIONS[activation]()
        layers += [nn.Linear(before, after), bend]
        layers += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


class VariationalLinear(nn.Module):
    """A linear layer whose weights are normal with mean and spread softplus(rho).

    In training the outputs are sampled, not the weights (local reparameterization, Kingma et al.,
    2015): the same distribution with less noisy gradients. In evaluation the mean weights are used;
    `predictors.weight_samples` draws whole networks.
    """

    def __init__(self, inputs: int, outputs: int, *, spread: float) -> None:
        super().__init__()
        start = nn.Linear(inputs, outputs)
        rho = math.log(math.expm1(spread))  # the inverse of softplus
        self.weight_mean = nn.Parameter(start.weight.detach().clone())
        self.bias_mean = nn.Parameter(start.bias.detach().clone())
        self.weight_rho = nn.Parameter(torch.full_like(start.weight, rho))
        self.bias_rho = nn.Parameter(torch.full_like(start.bias, rho))

    def forward(self, x: Tensor) -> Tensor:
        mean = F.linear(x, self.weight_mean, self.bias_mean)
        if not self.training:
            return mean
        weight, bias = F.softplus(self.weight_rho).square(), F.softplus(self.bias_rho).square()
        spread = F.linear(x.square(), weight, bias).sqrt()
        return mean + spread * layer_noise(mean.shape, mean)


@network
def bayesian_mlp(
    inputs: int | Sequence[int],
    outputs: int,
    *,
    widths: Sequence[int] = (100, 100),
    activation: str = "relu",
    spread: float = 0.02,
    dropout: float = 0.0,
) -> nn.Module:
    """An mlp with a distribution over each weight, for the loss `elbo` (Bayes-by-backprop).

    inputs: number of features, or the shape of an image, which is flattened.
    outputs: number of outputs, such as classes.
    widths: widths of the hidden layers.
    activation: "relu", "leaky_relu", "tanh" or "swish".
    spread: standard deviation of the weights at the start.
    dropout: dropout rate after each hidden layer, in [0, 1).
    """
    if not spread > 0:
        raise NescioError(f"spread must be positive, got {spread}")
    plain = mlp(inputs, outputs, widths=widths, activation=activation, dropout=dropout)
    layers = [
        VariationalLinear(layer.in_features, layer.out_features, spread=spread)
        if isinstance(layer, nn.Linear)
        else layer
        for layer in plain.children()
    ]
    return nn.Sequential(*layers)
