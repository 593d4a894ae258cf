"""The generalized entropy of the largest probabilities (GEN: Liu, Lochman and Zach, 2023)."""

import math

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.core.registry import detectors
from nescio.detectors.activations import View
from nescio.detectors.detector import Detector, State, scores
from nescio.detectors.kit.blocks import by_rows, check_classes
from nescio.detectors.msp import log_odds


@detectors.register
def generalized_entropy(*, gamma: float = 0.1, top: int = 100) -> Detector:
    """The sum of p^gamma (1 - p)^gamma over the most probable classes.

    gamma: below 1, so that small probabilities weigh; 1 counts about as 1 - sum of p^2 does.
    top: how many of the largest probabilities count; all of them where there are fewer classes.
    """
    if not 0 < gamma <= 1:
        raise NescioError(f"gamma must be above 0 and at most 1, got {gamma}")
    if not 1 <= top < math.inf or top != int(top):
        raise NescioError(f"top must be a whole number of classes, at least 1, got {top}")
    return Detector("generalized_entropy", {"gamma": float(gamma), "top": int(top)})


@scores.named("generalized_entropy")
def score(view: View, state: State, layers: tuple[str, ...], *, gamma: float, top: int) -> Tensor:
    """The sum over the largest probabilities of each row."""
    del state, layers
    logits = check_classes(view.logits)
    return by_rows(logits, 1.0, lambda block: _generalized(block, gamma, top))


def _generalized(logits: Tensor, gamma: float, top: int) -> Tensor:
    """From logarithms: neither p near 0 nor 1 - p near 0 is lost.

    For the largest p, log(1 - p) is its log-odds against plus log p; the others are at most 1/2.
    """
    odds = log_odds(logits)
    logs = logits.log_softmax(-1)
    first, label = logs.max(-1)
    logs = logs.scatter(-1, label[:, None], -torch.inf)  # p^gamma = 0
    if top < logits.shape[-1]:
        logs = logs.topk(max(top - 1, 0), sorted=False).values
    rest = (gamma * (logs + (-logs.exp()).log1p())).exp().sum(-1)
    return rest + (gamma * (2 * first + odds)).exp()
