"""Failure scores read from a network's outputs: its score beside the classes, the true class's.

The true class probability (Corbière et al., 2019) is what an oracle would rank answers by: above
1/2 the answer is right, below 1/C it is wrong. It needs the label, so it cannot score new inputs:
it is the best that a network's own probabilities can do, and what ConfidNet learns.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from nescio.core import (
    Classification,
    NescioError,
    check_ignore_index,
    check_labels,
    classes_of,
    unknown,
    without_ignored,
)
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, scores

EXTRA = "extra_score"
Answer: TypeAlias = Callable[[Any], Tensor]
LOSSES = ("learned_confidence", "reject_class")


def extra_score(loss: str) -> Detector:
    """The last output of a network trained with a loss of that name, as a score.

    loss: "learned_confidence", minus the log-odds of the confidence; "reject_class", the log-odds
      of the reject class.
    """
    if loss not in LOSSES:
        raise NescioError(unknown("loss with a score", loss, LOSSES))
    return Detector(name=EXTRA, options={"loss": loss})


@scores.named(EXTRA)
def score(view: View, _: State, *, loss: str) -> Tensor:
    """The last output alone, or against the others."""
    _refuse_classes(view.answer)
    classes, last = classes_of(view.logits), view.logits[:, -1]
    return -last if loss == "learned_confidence" else last - classes.logsumexp(-1)


def without_score(activations: Activations) -> Activations:
    """The `activations` of the classes alone, for detectors that read all outputs as classes."""
    _refuse_classes(next(iter(activations.answers), None))
    weight, bias = activations.weight, activations.bias
    answers: Sequence[Answer | None] = [*activations.answers] or [None] * activations.members
    return replace(
        activations,
        logits=classes_of(activations.logits),
        weight=None if weight is None else weight[:, :-1],
        bias=None if bias is None else bias[:, :-1],
        answers=[_Classes(answer) for answer in answers],
    )


@dataclass(frozen=True, eq=False)
class _Classes:
    """What a network answers, without the score."""

    answer: Answer | None

    def __call__(self, x: Tensor) -> Tensor:
        if self.answer is None:
            raise NescioError("this detector asks the network, and there is none; use observe")
        return classes_of(self.answer(x))


def _refuse_classes(answer: Answer | None) -> None:
    if isinstance(answer, _Classes):
        raise NescioError(
            "these activations went through without_score: the score is no longer among them; "
            "give those with all outputs (compare takes the classes itself)"
        )


def true_class_probability(
    prediction: Classification,
    labels: Tensor,
    *,
    normalized: bool = False,
    ignore_index: int | None = None,
) -> Tensor:
    """The probability of the true class, `(*batch,)`; its negative ranks errors first.

    prediction: probabilities of the classes.
    labels: true classes, `(*batch,)`.
    normalized: divide by the largest probability; then it is 1 exactly where the answer is right.
    ignore_index: the label of what is left out, which has NaN; None: nothing is.
    """
    known, counts = without_ignored(labels, check_ignore_index(ignore_index, prediction.classes))
    own = prediction.log_prob(known)
    found = (own - prediction.log_probs.amax(-1) if normalized else own).exp()
    return found if counts is None else found.where(counts.to(found.device), torch.nan)


def log_odds_against(prediction: Classification, answers: Tensor) -> Tensor:
    """Log of (1 - p) / p for given answers, `(*batch,)`: the confidence of others in one's answers.

    With an ensemble's or MC dropout's prediction and the answers of one network, it scores the
    errors of that network.

    prediction: probabilities p of the classes.
    answers: classes, `(*batch,)`.
    """
    logs = prediction.log_probs
    answers = check_labels(answers, prediction.classes, prediction.batch_shape)
    index = answers.to(logs.device)[..., None]
    others = logs.scatter(-1, index, -math.inf).logsumexp(-1)
    return others - logs.gather(-1, index)[..., 0]
