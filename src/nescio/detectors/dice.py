"""Energy with the weights that matter (DICE: Sun and Li, 2022)."""

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores
from nescio.detectors.kit.last_layer import energy_of, last_layer, parts


@detectors.register
def dice(train: Activations, *, sparsity: float = 0.9) -> Detector:
    """The free energy with those last weights alone whose mean contribution is largest.

    The contribution of a weight is its product with the mean training feature.

    sparsity: the share of all weights that is set to zero.
    """
    if not 0 <= sparsity < 1:
        raise NescioError(f"sparsity must be at least 0 and below 1, got {sparsity}")
    layer, states = last_layer(train, "dice")
    for member, state in enumerate(states):
        mean = _mean(train.features[layer][member]).to(state["weight"].device)
        state["weight"] = _sparse(state["weight"], mean, sparsity)
    return fitted("dice", train, {"sparsity": float(sparsity)}, states, layer)


@scores.named("dice")
def score(view: View, state: State, **_: float) -> Tensor:
    """The free energy of the logits of the sparse layer."""
    return energy_of(only_layer(view), state)


def _mean(features: Tensor) -> Tensor:
    sums = [block.sum(0, dtype=torch.float64) for _, block in parts(features)]
    return torch.stack(sums).sum(0) / len(features)


def _sparse(weight: Tensor, mean: Tensor, sparsity: float) -> Tensor:
    """The weights whose contribution is above that percentile of all; 0 for the others."""
    contribution = (weight.double() * mean).flatten()
    gone = contribution.sort(stable=True).indices[: round(sparsity * len(contribution))]
    return weight.flatten().index_fill(0, gone, 0.0).view_as(weight)
