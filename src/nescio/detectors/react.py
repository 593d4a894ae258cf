"""Energy of clipped features (ReAct: Sun, Guo and Li, 2021)."""

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores
from nescio.detectors.kit.last_layer import energy_of, last_layer


@detectors.register
def react(train: Activations, *, percentile: float = 90.0) -> Detector:
    """The free energy after features are clipped at a percentile of the training features.

    percentile: of all numbers of the features before the last linear layer, from 0 to 100. At 100
    training data keep their energy.
    """
    if not 0 <= percentile <= 100:
        raise NescioError(f"a percentile is from 0 to 100, got {percentile}")
    layer, states = last_layer(train, "react")
    for member, state in enumerate(states):
        features = train.features[layer][member]  # torch.quantile stops at 16 million numbers
        limit = np.percentile(features.float().cpu().numpy(), percentile)
        state["limit"] = torch.tensor(limit, dtype=torch.float32, device=features.device)
    return fitted("react", train, {"percentile": float(percentile)}, states, layer)


@scores.named("react")
def score(view: View, state: State, **_: float) -> Tensor:
    """The free energy of the logits of clipped features."""
    features = only_layer(view)
    return energy_of(features.minimum(state["limit"].to(features.dtype)), state)
