"""Simplified Hopfield energy: likeness to a class's mean feature (SHE: Zhang et al., 2023)."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, unknown
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores
from nescio.detectors.kit.last_layer import check_width, class_sums, right_classes

# features (N, 1, F) or (N, F) and patterns that fit -> unlikeness
SIMILARITIES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "inner": lambda features, patterns: -(features * patterns).sum(-1),
    "cosine": lambda features, patterns: -F.cosine_similarity(features, patterns, dim=-1),
    "euclidean": lambda features, patterns: (features - patterns).norm(dim=-1),
}


@detectors.register
def she(train: Activations, *, layer: str | None = None, similarity: str = "inner") -> Detector:
    """Minus the inner product of the features with the mean features of the predicted class.

    The mean is over training samples that the network gets right. An input of a class without any
    is compared with the patterns of all other classes, and the most alike counts.

    layer: whose features; without it, those before the last linear layer.
    similarity: "inner", as published; "cosine" and "euclidean" leave out the length of features.
    """
    if similarity not in SIMILARITIES:
        raise NescioError(unknown("similarity", similarity, SIMILARITIES))
    name = train.layer(layer)
    states = []
    for logits, features in zip(train.logits, train.features[name], strict=True):
        right = right_classes(logits, train.known())
        sums, counts = class_sums(features, right, train.classes)
        if not counts.any():
            raise NescioError(
                "she needs training samples that the network gets right, and there are none; check "
                "that labels and logits belong together"
            )
        patterns = (sums / counts.clamp_min(1)[:, None]).float()
        states.append({"patterns": patterns, "counts": counts})
    return fitted("she", train, {"similarity": similarity}, states, name)


@scores.named("she")
def score(view: View, state: State, *, similarity: str) -> Tensor:
    """Minus the likeness to the pattern of the predicted class."""
    features, unlike = only_layer(view), SIMILARITIES[similarity]
    patterns, known = state["patterns"].to(features.dtype), state["counts"] > 0
    check_width(features, patterns)
    label = view.logits.argmax(-1)
    result = unlike(features, patterns[label])
    lost = ~known[label]
    if not lost.any():
        return result
    nearest = torch.stack([unlike(features[lost], mean) for mean in patterns[known]]).amin(0)
    return result.masked_scatter(lost, nearest)
