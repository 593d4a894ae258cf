"""Divergence from the mean answers to each class (KL matching: Hendrycks et al., 2022)."""

import torch
from torch import Tensor

from nescio.core import NescioError, unknown
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, scores
from nescio.detectors.kit.blocks import by_rows, check_classes
from nescio.detectors.kit.last_layer import check_width, parts

CLASSES = ("predicted", "true")


@detectors.register
def kl_matching(train: Activations, *, by: str = "predicted") -> Detector:
    """The least divergence KL(p || d) of the answer p from the mean answers d to a class.

    The paper takes the means over data that the network was not trained on: on training data,
    where it is more confident, they are sharper.

    by: "predicted", a mean over the samples that the network gives to a class, no labels needed;
    "true", over those that have the label.
    """
    if by not in CLASSES:
        raise NescioError(unknown("way to form classes", by, CLASSES))
    labels = train.known().long() if by == "true" else None
    states = []
    for logits in train.logits:
        classes = check_classes(logits).argmax(-1) if labels is None else labels.to(logits.device)
        states.append({"logs": _mean_logs(logits, classes)})
    return fitted("kl_matching", train, {"by": by}, states)


@scores.named("kl_matching")
def score(view: View, state: State, **_: str) -> Tensor:
    """The least divergence over the classes, in float64 on the way."""
    check_width(view.logits, state["logs"])
    logs = state["logs"]
    return by_rows(view.logits, 1.0, lambda block: _least(block, logs))


def _least(logits: Tensor, logs: Tensor) -> Tensor:
    own = logits.double().log_softmax(-1)
    probs = own.exp()
    cross = (probs @ logs.T).amax(-1)
    return ((probs * own).sum(-1) - cross).to(logits.dtype)


def _mean_logs(logits: Tensor, classes: Tensor) -> Tensor:
    """Logarithms `(K, C)` in float64 of the mean probabilities of each class that has samples.

    Summed relative to the largest logarithm met, so that no probability vanishes.
    """
    known, indices = classes.unique(return_inverse=True)
    shape = (len(known), logits.shape[-1])
    highest = torch.full(shape, -torch.inf, dtype=torch.float64, device=logits.device)
    for rows, block in parts(logits):
        index = indices[rows, None].expand_as(block)
        highest.scatter_reduce_(0, index, block.double().log_softmax(-1), "amax")
    sums = torch.zeros_like(highest)
    for rows, block in parts(logits):
        own = indices[rows]
        sums.index_add_(0, own, (block.double().log_softmax(-1) - highest[own]).exp_())
    means: Tensor = sums / indices.bincount()[:, None]
    return highest + means.log()
