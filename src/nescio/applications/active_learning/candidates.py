"""What an acquisition reads: predictions and features of unlabeled samples, and what is wanted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from nescio.core import Classification, NescioError, generator

Picked = tuple[Tensor, Tensor]  # index (k,) in the order of asking, score (k,)
Acquisition = Callable[..., Tensor | Picked]  # scores (N,), or a batch that was picked together
A = TypeVar("A", bound=Acquisition)


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidates:
    """Unlabeled samples, of which some are to be labeled.

    An acquisition returns one score per sample, larger where a label is wanted more; those that
    look at a batch as a whole return the batch, `(index, score)` of shape `(size,)` each.

    prediction: predictions of the members, `(M, N, C)`.
    size: number of samples to be labeled.
    seed: seed of the random draws, which decides among equal scores.
    read_features: returns the features `(N, F)`; called if an acquisition asks for them.
    read_labeled: returns the features of the labeled samples, `(L, F)`.
    classes: names of the classes; None: their numbers.
    """

    prediction: Classification
    size: int
    seed: int
    read_features: Callable[[], Tensor | None]
    read_labeled: Callable[[], Tensor | None]
    classes: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.prediction)

    @cached_property
    def features(self) -> Tensor:
        """Features of the samples, `(N, F)`."""
        found = self.read_features()
        if found is None:
            raise NescioError(
                "this acquisition reads features; give pick(..., features=...), of shape "
                "(samples, features), or use choose, which reads them from the network"
            )
        return found

    @cached_property
    def labeled_features(self) -> Tensor | None:
        """Features of the samples that have labels, `(L, F)`; None: there are none."""
        return self.read_labeled()

    @cached_property
    def rank(self) -> Tensor:
        """A random rank of each sample, `(N,)`: among equal scores the lowest rank is first."""
        order = torch.randperm(len(self), generator=generator(self.seed, "ties"))
        return order.to(self.prediction.device)

    def best(self, scores: Tensor) -> Tensor:
        """The index of the largest of the `scores`, `()`; among equal ones a random one."""
        tied = (scores == scores.max()).nonzero()[:, 0]
        return tied[self.rank[tied].argmin()]

    def ordered(self, scores: Tensor) -> Tensor:
        """All indices by falling `scores`; those of equal scores in a random order."""
        shuffled = self.rank.argsort()
        return shuffled[scores[shuffled].sort(descending=True, stable=True).indices]


def because(words: str, *, of_members: bool = False) -> Callable[[A], A]:
    """Say why an acquisition wants a sample.

    words: a sentence; `{score}` in it is the score of the sample.
    of_members: whether the score is what members disagree about, so that a single one gives 0.
    """

    def said(acquisition: A) -> A:
        acquisition.because = words  # type: ignore[attr-defined]
        acquisition.of_members = of_members  # type: ignore[attr-defined]
        return acquisition

    return said
