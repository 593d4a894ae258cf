"""Acquisitions that score each sample by itself, from the prediction.

Entropy, variation ratio, mean standard deviation and BALD as in Gal et al. (2017), BALD after
Houlsby et al. (2011). Of a label map, `(M, N, H, W, C)`, a score is the mean over its pixels.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from nescio.applications.active_learning.candidates import Candidates, because
from nescio.core import Classification, measures
from nescio.core.registry import acquisitions

NUMBERS = 1 << 20  # of a prediction that are worked on at a time


@acquisitions.register
@because("It was drawn at random")
def random(candidates: Candidates) -> Tensor:
    """Samples drawn at random: what every other acquisition is compared with.

    candidates: unlabeled samples with their prediction.
    """
    return torch.zeros(len(candidates), device=candidates.prediction.device)  # ties are random


@acquisitions.register
@because("The largest probability is low: least confidence {score:.3g}")
def least_confidence(candidates: Candidates) -> Tensor:
    """One minus the largest probability.

    candidates: unlabeled samples with their prediction.
    """
    return each(measures.least_confidence, candidates.prediction)


@acquisitions.register
@because("The two most probable classes are close: minus their margin is {score:.3g}")
def margin(candidates: Candidates) -> Tensor:
    """Minus the gap between the two largest probabilities.

    candidates: unlabeled samples with their prediction.
    """
    return each(_minus_margin, candidates.prediction)


def _minus_margin(prediction: Classification) -> Tensor:
    top = prediction.probs.topk(min(2, prediction.classes)).values
    return top[..., 1:].sum(-1) - top[..., 0]


@acquisitions.register
@because("The probabilities are spread over classes: entropy {score:.3g} nats")
def entropy(candidates: Candidates) -> Tensor:
    """Entropy of the mean probabilities, in nats.

    candidates: unlabeled samples with their prediction.
    """
    return each(measures.predictive_entropy, candidates.prediction)


@acquisitions.register
@because("Members vote for different classes: variation ratio {score:.3g}", of_members=True)
def variation_ratio(candidates: Candidates) -> Tensor:
    """Share of the members that do not vote for the most frequent class.

    candidates: unlabeled samples with their prediction.
    """
    return each(measures.variation_ratio, candidates.prediction)


@acquisitions.register
@because("The members differ: mean standard deviation {score:.3g}", of_members=True)
def mean_std(candidates: Candidates) -> Tensor:
    """Standard deviation of the probabilities over members, averaged over classes.

    candidates: unlabeled samples with their prediction.
    """
    return each(lambda p: measures.class_variances(p).sqrt().mean(-1), candidates.prediction)


@acquisitions.register
@because("The members disagree: mutual information {score:.3g} nats", of_members=True)
def bald(candidates: Candidates) -> Tensor:
    """Mutual information of the label and the member, in nats: how much the members disagree.

    candidates: unlabeled samples with their prediction.
    """
    scores = each(measures.mutual_information, candidates.prediction)
    return torch.where(scores > 8 * torch.finfo(scores.dtype).eps, scores, 0.0)  # else rounding


def each(measure: Callable[[Classification], Tensor], prediction: Classification) -> Tensor:
    """A measure of every sample, `(N,)`, a part of the samples at a time."""
    values = torch.cat([measure(part) for part in parts_of(prediction)])
    return values if values.ndim == 1 else measures.mean_per_sample(values)


def parts_of(prediction: Classification) -> Iterator[Classification]:
    """The prediction of some samples after the other, so that what is computed stays small."""
    numbers = prediction.members * prediction.batch_shape[1:].numel() * prediction.classes
    step = max(1, NUMBERS // numbers)
    return (prediction[start : start + step] for start in range(0, len(prediction), step))
