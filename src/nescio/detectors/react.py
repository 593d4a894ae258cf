"""Energy of clipped features (ReAct: Sun, Guo and Li, 2021)."""

from torch import Tensor

from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, scores
from nescio.detectors.kit.last_layer import energy_of, last_layer
from nescio.detectors.kit.percentiles import percentile as percentile_of


@detectors.register
def react(train: Activations, *, percentile: float = 90.0) -> Detector:
    """The free energy after features are clipped at a percentile of the training features.

    percentile: of all numbers of the features before the last linear layer, from 0 to 100. At 100
    training data keep their energy.
    """
    layer, states = last_layer(train, "react")
    for member, state in enumerate(states):
        state["limit"] = percentile_of(train.features[layer][member], percentile)
    return Detector(
        "react",
        {"percentile": float(percentile)},
        (layer,),
        tuple(states),
        train.made,
        train.hashes,
    )


@scores.named("react")
def score(view: View, state: State, layers: tuple[str, ...], *, percentile: float) -> Tensor:
    """The free energy of the logits of clipped features."""
    del percentile
    features = view.features[layers[0]]
    return energy_of(features.minimum(state["limit"].to(features.dtype)), state)
