"""Which samples to label next, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from nescio.applications.active_learning.candidates import Acquisition, Candidates
from nescio.core import Dirichlet, measures


@dataclass(frozen=True, eq=False, kw_only=True)
class Chosen:
    """A batch of k samples to label, in the order of asking.

    index: indices of the samples in the pool, `(k,)`.
    score: scores of the acquisition, `(k,)`, larger where a label is wanted more.
    predicted: the most probable class, `(k,)`; `(k, H, W)` of label maps.
    confidence: the largest probability, `(k,)`, averaged over the pixels of a label map.
    why: why each was chosen, k sentences.
    left_out: number of samples that the guard calls OOD.
    """

    index: Tensor
    score: Tensor
    predicted: Tensor
    confidence: Tensor
    why: tuple[str, ...]
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        left = f", {self.left_out} left out as OOD" if self.left_out else ""
        return f"Chosen({len(self)} samples: {self.index.tolist()}{left})"


def described(
    candidates: Candidates, acquisition: Acquisition, index: Tensor, score: Tensor, ties: Tensor
) -> Chosen:
    """The batch with what is predicted, and in words why.

    ties: how many samples have the score of each chosen one, `(k,)`; 0 where all are chosen.
    """
    prediction = candidates.prediction[index]
    confidence = prediction.probs.amax(-1)
    if confidence.ndim > 1:
        confidence = measures.mean_per_sample(confidence)
    reasons = _reasons(candidates, acquisition, score.tolist(), ties.tolist())
    answers = _answers(prediction.labels, confidence, candidates.classes)
    return Chosen(
        index=index,
        score=score,
        predicted=prediction.labels,
        confidence=confidence,
        why=tuple(f"{reason}; {answer}." for reason, answer in zip(reasons, answers, strict=True)),
    )


def _answers(labels: Tensor, confidence: Tensor, classes: Sequence[str] | None) -> list[str]:
    if labels.ndim > 1:
        return [f"the mean confidence is {c:.2f}" for c in confidence.tolist()]
    pairs = zip(labels.tolist(), confidence.tolist(), strict=True)
    names = classes or [f"class {label}" for label in range(int(labels.max()) + 1)]
    return [f"{names[label]} is predicted with confidence {c:.2f}" for label, c in pairs]


def _reasons(
    candidates: Candidates, acquisition: Acquisition, scores: Sequence[float], ties: Sequence[int]
) -> list[str]:
    """Why each sample is wanted, without the prediction."""
    part = getattr(acquisition, "func", acquisition)  # without its options
    name = getattr(part, "__name__", type(part).__name__)
    words = getattr(part, "because", f"Its score by {name} is {{score:.3g}}")
    alone = candidates.prediction.members == 1 and not isinstance(candidates.prediction, Dirichlet)
    if getattr(part, "of_members", False) and alone:
        drawn = f"It was drawn at random: with a single member, {name} is 0 for every sample"
        return [drawn for _ in scores]
    every = [words.format(score=score) for score in scores]
    if name == "random":
        return every
    return [
        f"{one}, and it was drawn at random among {tied:,} with this score" if tied else one
        for one, tied in zip(every, ties, strict=True)
    ]
