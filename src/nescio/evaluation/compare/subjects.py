"""What a comparison compares: predictors and detectors under their names."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nescio.core import NescioError, numbers
from nescio.evaluation.answers import as_classification
from nescio.evaluation.compare.ood_inputs import AdversarialNoise, AdversarialSamples, pieces
from nescio.models import plain

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Look:
    """What is kept of the answers to N inputs."""

    scores: Array  # (N,) float64, larger = further out


@dataclass(frozen=True, eq=False)
class Answers(Look):
    """The same of a predictor."""

    confidence: Array  # (N,)
    labels: Array  # (N,) the most probable classes
    classes: int

    def where(self, chosen: Array) -> "Answers":
        """Those to some of the inputs."""
        parts = (self.scores[chosen], self.confidence[chosen], self.labels[chosen])
        return Answers(*parts, self.classes)


@dataclass(frozen=True, eq=False)
class Subject:
    """A predictor, ranked by a measure, or a detector, which has none."""

    name: str
    source: Callable[[Tensor], Any]
    measure: Callable[[Any], Tensor] | None

    def look(self, row: str, inputs: Iterable[Tensor]) -> Look:
        """Ask about all inputs, a piece at a time."""
        if self.measure is None:
            return Look(np.concatenate([self._scores(row, piece) for piece in inputs]))
        parts = []
        for piece in inputs:
            with torch.no_grad():
                prediction = as_classification(self.source(piece))
            logs = prediction.log_probs
            parts.append((self.measure(prediction), logs.amax(-1).exp(), logs.argmax(-1)))
        scores, confidence, labels = (
            torch.cat(column).numpy() for column in zip(*parts, strict=True)
        )
        return Answers(scores, confidence, labels, prediction.classes)

    def _scores(self, row: str, piece: Tensor) -> Array:
        where = f"detector {self.name!r} on {row!r}"
        with torch.no_grad():
            given = self.source(piece)
        try:
            scores = numbers("scores", given, axes=1).astype(np.float64)
        except NescioError as error:
            raise NescioError(f"{where}: {error}") from None
        if len(scores) != len(piece):
            raise NescioError(
                f"{where} gave {len(scores)} scores for {len(piece)} inputs; expected one each"
            )
        if np.isnan(scores).any():
            raise NescioError(f"{where} gave NaN, which has no rank; expected numbers or +-inf")
        return scores

    def obstacle(self, attack: AdversarialNoise | AdversarialSamples, x: Tensor) -> str | None:
        """Why it cannot be attacked, or None; `x` is an input to try."""
        if self.measure is not None:
            if callable(getattr(self.source, "answer", None)):
                return None
            return f"a {type(self.source).__name__} has no method answer(x) with gradients"
        if isinstance(attack, AdversarialSamples):
            return "a detector has no label to get wrong"
        with torch.inference_mode(False), torch.enable_grad():
            score = self.source(next(pieces(x)).clone().requires_grad_())
        if isinstance(score, Tensor) and score.requires_grad:
            return None
        return "its scores have no gradient"


def as_subjects(predictors: Any, detectors: Any, measure: Callable[..., Tensor]) -> list[Subject]:
    """What a user gave, by name."""
    named = predictors if isinstance(predictors, Mapping) else {"network": predictors}
    scored = {} if detectors is None else detectors
    if not isinstance(scored, Mapping):
        raise NescioError('detectors come by name: detectors={"energy": function}')
    if not named and not scored:
        raise NescioError("nothing to compare: there is no predictor and no detector")
    for name, given in [*named.items(), *scored.items()]:
        if not callable(given):
            kind = type(given).__name__
            raise NescioError(f"{name!r} must be a network or a function of inputs, got a {kind}")
    if both := sorted(named.keys() & scored.keys()):
        raise NescioError(f"{both[0]!r} is a predictor and a detector; give one another name")
    sources = {name: plain(n) if isinstance(n, nn.Module) else n for name, n in named.items()}
    return [
        *(Subject(name, source, measure) for name, source in sources.items()),
        *(Subject(name, source, None) for name, source in scored.items()),
    ]
