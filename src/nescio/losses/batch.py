"""What a loss reads beside the networks: one batch of every member."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from nescio.core import NescioError, Rng, without_ignored
from nescio.nets.stack import Tensors

Wanted = tuple[Tensor, Callable[[Tensor], None]]  # an input, and who takes its gradient


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One training batch of every member, and what losses ask about the training set.

    x: inputs, `(M, B, ...)`.
    y: labels `(M, B)`, label maps `(M, B, H, W)`, or targets `(M, B, D)`.
    points: size of the training set; where members differ, of each, `(M,)`.
    low, high: smallest and largest training value of each feature; with rows, `(M, 1, ...)`.
    weight: weights of the samples, `(M, B)`, or one for each label; None: all count alike.
    index: indices of the samples in the data, `(M, B)`; None: unknown.
    data_points: size of the data that `index` counts, of all members.
    unlabeled: inputs without labels, `(M, U, ...)`; None: there are none.
    unlabeled_index: indices of these inputs among all of their kind, `(M, U)`.
    unlabeled_points: number of all inputs without labels.
    original: `x` before the augmentation, `(M, B, ...)`; None: there is none.
    unlabeled_original: `unlabeled` before the augmentation, `(M, U, ...)`.
    augment: the augmentation, a function of inputs and random numbers; None: there is none.
    averaged: the moving average of the weights by name, each `(M, ...)`; None: there is none.
    steps: number of batches per epoch.
    step: number of the step in the whole run, from 0.
    total: number of steps of the whole run.
    memory: what the loss stores between steps by name, each `(M, ...)`.
    wanted: tensors whose gradients are handed back after the step, each with the function that gets
      them.
    """

    x: Tensor
    y: Tensor
    points: int | Tensor
    low: Tensor
    high: Tensor
    weight: Tensor | None = None
    index: Tensor | None = None
    data_points: int = 0
    unlabeled: Tensor | None = None
    unlabeled_index: Tensor | None = None
    unlabeled_points: int = 0
    original: Tensor | None = None
    unlabeled_original: Tensor | None = None
    augment: Callable[[Tensor, Rng], Tensor] | None = None
    averaged: Tensors | None = None
    steps: int = 1
    step: int = 0
    total: int = 1
    memory: dict[str, Tensor] = field(default_factory=dict)
    wanted: list[Wanted] = field(default_factory=list)

    def members(self, part: slice) -> "Batch":
        """The batch of some members, the slice `part`."""
        memory = {name: tensor[part] for name, tensor in self.memory.items()}
        own = {"x": self.x[part], "y": self.y[part], "memory": memory, "wanted": []}
        own |= {name: getattr(self, name)[part] for name in self._by_member()}
        if self.averaged is not None:
            own["averaged"] = {name: tensor[part] for name, tensor in self.averaged.items()}
        return replace(self, **own)  # type: ignore[arg-type]

    @property
    def size(self) -> int:
        """The size of the training set, where it is the same for all members."""
        if isinstance(self.points, Tensor):
            raise NescioError("members have different numbers of samples; read batch.points")
        return self.points

    def _by_member(self) -> list[str]:
        """The fields, beside x and y, that have a member axis here."""
        names = "index", "weight", "unlabeled", "unlabeled_index", "original", "unlabeled_original"
        optional = [name for name in names if getattr(self, name) is not None]
        ends = ["low", "high"] if self.low.ndim == self.x.ndim else []
        return [*optional, *ends, *(["points"] if isinstance(self.points, Tensor) else [])]

    @property
    def numbers(self) -> Tensor:
        """The inputs x of a loss that moves them, or makes others of their kind; never tokens."""
        if not self.x.is_floating_point():
            raise NescioError(
                "this loss moves its inputs or mixes in others, and tokens are names, not numbers; "
                "train networks that read tokens with a loss that reads the batch as it is"
            )
        return self.x

    @property
    def inputs(self) -> Tensor:
        """All inputs, `(M, B + U, ...)`: those with labels, then those without."""
        return self.x if self.unlabeled is None else torch.cat([self.x, self.unlabeled], 1)

    def again(self, name: str, rng: Rng) -> "Batch":
        """The same samples with other augmentations, a function of `name` too, as Forward.again.

        rng: that of the step. Without augmentations it is the same batch.
        """
        if self.augment is None or self.original is None:
            return self
        if self.y.ndim == 4:
            raise NescioError(
                "augmentations move the pixels of label maps, so the answers of two views are not "
                "those of the same pixels; leave augment= out here: dropout makes the passes differ"
            )
        draws, without = rng.again(name), self.unlabeled_original
        if without is not None:
            without = self.augment(without, draws.again("unlabeled"))
        return replace(self, x=self.augment(self.original, draws), unlabeled=without)

    def counting(self, ignore_index: int | None) -> "Batch":
        """The same with labels that equal `ignore_index` as class 0 of weight 0."""
        y, counts = without_ignored(self.y, ignore_index)
        if counts is None:
            return self
        weight = counts.to(self.low.dtype)
        return replace(self, y=y, weight=weight if self.weight is None else self.weighing(weight))

    def weighing(self, values: Tensor) -> Tensor:
        """The `values` `(M, B, ...)` times the weights, of samples or of labels."""
        if self.weight is None:
            return values
        return values * self.weight.reshape(
            *self.weight.shape, *(1,) * (values.ndim - self.weight.ndim)
        )

    def mean(self, scores: Tensor) -> Tensor:
        """The weighted mean `(M,)` of `scores` `(M, B, ...)`, of a member without weights 0.

        All losses average by it, so that samples and labels without weight count in none. Scores
        of unlabeled inputs may follow, `(M, B + U, ...)`; each counts 1.
        """
        if self.weight is None:
            return scores.flatten(1).mean(1)
        weights, labeled = torch.ones_like(scores), self.weight.shape[1]
        weights[:, :labeled] = self.weighing(weights[:, :labeled])
        scores = torch.where(weights > 0, scores, 0.0) * weights
        total = weights.flatten(1).sum(1)
        return scores.flatten(1).sum(1) / torch.where(total > 0, total, 1.0)

    def total_weight(self) -> Tensor:
        """How much the batch counts for each member, `(M,)`: the number of labels by default."""
        return self.weighing(torch.ones_like(self.y, dtype=self.low.dtype)).flatten(1).sum(1)
