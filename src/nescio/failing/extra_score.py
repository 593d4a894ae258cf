"""The score that a network was trained to give beside its classes, read from its last output."""

from dataclasses import replace

from torch import Tensor

from nescio.activations import Activations, View
from nescio.detectors.detector import Detector, State, scores
from nescio.errors import NescioError
from nescio.heads import classes_of
from nescio.registry import unknown

LOSSES = ("learned_confidence", "reject_class")


def extra_score(loss: str) -> Detector:
    """The last output of a network trained with a loss of that name, as a score.

    loss: "learned_confidence", minus the log-odds of the confidence; "reject_class", the log-odds
    of the reject class.
    """
    if loss not in LOSSES:
        raise NescioError(unknown("loss with a score", loss, LOSSES))
    return Detector("extra_score", {"loss": loss})


@scores.named("extra_score")
def score(view: View, state: State, layers: tuple[str, ...], *, loss: str) -> Tensor:
    """The last output alone, or against the others."""
    del state, layers
    classes, last = classes_of(view.logits), view.logits[:, -1]
    return -last if loss == "learned_confidence" else last - classes.logsumexp(-1)


def without_score(activations: Activations) -> Activations:
    """The activations of the classes alone, for detectors that read all outputs as classes."""
    weight, bias = activations.weight, activations.bias
    return replace(
        activations,
        logits=classes_of(activations.logits),
        weight=None if weight is None else weight[:, :-1],
        bias=None if bias is None else bias[:, :-1],
        answers=(),
    )
