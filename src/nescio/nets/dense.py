"""Stacked linear and ReLU layers by hand: losses and gradients without the cost of autograd.

Small networks spend most of a training step in autograd's bookkeeping. Where a network is only
linear layers with ReLU between, and the loss knows its derivative, the chain rule is a few
products. Everything else goes through autograd, with the same result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nescio.core import Slope
from nescio.nets.stack import Stack, Tensors


@dataclass(frozen=True)
class Dense:
    """The names of the weights and biases of linear layers with ReLU between them."""

    weights: tuple[str, ...]
    biases: tuple[str, ...]

    @torch.inference_mode()
    def __call__(
        self, tensors: Tensors, x: Tensor, y: Tensor, slope: Slope
    ) -> tuple[Tensor, list[Tensor]]:
        """Mean scores `(M,)`, and their gradients in the order weight, bias, weight, bias, ..."""
        hidden = [x.flatten(2).transpose(1, 2)]  # (M, F, N), as in a stack
        for weight, bias in zip(self.weights, self.biases, strict=True):
            after = torch.baddbmm(tensors[bias][:, :, None], tensors[weight], hidden[-1])
            hidden.append(after if weight == self.weights[-1] else after.clamp_min_(0))
        scores, rise = slope(hidden.pop().transpose(1, 2), y)
        return scores.mean(1), self._backward(tensors, hidden, rise.transpose(1, 2) / x.shape[1])

    def _backward(self, tensors: Tensors, hidden: list[Tensor], rise: Tensor) -> list[Tensor]:
        slopes: list[Tensor] = []
        for weight, before in zip(reversed(self.weights), reversed(hidden), strict=True):
            slopes = [torch.bmm(rise, before.mT), rise.sum(2), *slopes]
            if weight != self.weights[0]:
                rise = torch.bmm(tensors[weight].mT, rise)
                rise = torch.ops.aten.threshold_backward(rise, before, 0)
        return slopes


def dense(architecture: Stack, features: Sequence[int] = (1,)) -> Dense | None:
    """The network as dense layers for inputs of this shape, or None where it is anything else."""
    layers = [layer for layer in _flat(architecture.net) if not isinstance(layer[1], nn.Flatten)]
    linear, between = layers[::2], layers[1::2]
    if not (
        architecture.takes(features)
        and len(linear) == len(between) + 1
        and all(type(layer) is nn.Linear and layer.bias is not None for _, layer in linear)
        and all(type(layer) is nn.ReLU for _, layer in between)
    ):
        return None
    names = [f"{name}.{part}" for name, _ in linear for part in ("weight", "bias")]
    if tuple(names) != architecture.trained:  # frozen weights: autograd knows how
        return None
    return Dense(tuple(names[::2]), tuple(names[1::2]))


def _flat(net: nn.Module) -> Sequence[tuple[str, nn.Module]]:
    every = net.named_modules(remove_duplicate=False)  # a shared ReLU may occur several times
    return [(name, module) for name, module in every if not list(module.children())]
