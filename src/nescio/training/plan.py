"""What stays the same while members train: networks, loss, data, and who sees which samples."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from nescio.core import Rng, Schedule, as_batch, padded, without_ignored
from nescio.data.augmentation import Augment, augment
from nescio.losses import Loss
from nescio.nets import entering, reads_tokens
from nescio.nets.stack import Dense, Stack

Pair = tuple[Tensor, Tensor]
Rows = tuple[Tensor, ...]  # of each member the indices of its samples, int64


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that stays the same while the members train."""

    loss: Loss
    architecture: Stack
    by_hand: Dense | None  # gradients in closed form, where network and loss allow it
    data: Pair  # images may be bytes
    validation: Pair | None
    members: tuple[int, ...]
    epochs: int
    batch_size: int
    learning_rate: float
    schedule: Schedule
    clip: float | None
    patience: int | None
    seed: int
    bootstrap: bool
    augments: tuple[Augment, ...] = ()
    rows: Rows | None = None  # None: all samples for every member
    validation_rows: Rows | None = None  # of the data, where each member has its own
    weight: Tensor | None = None  # (M, N) or (1, N), of the samples
    units: Pair | None = None  # mean and deviation of the targets of each member, (M, D)
    unlabeled: Tensor | None = None  # inputs without labels
    unlabeled_size: int = 0  # how many of them each step has
    half: bool = False  # whether products and convolutions are in bfloat16
    average: Schedule | None = None  # the decay of the moving average of the weights, by step

    @property
    def dtype(self) -> torch.dtype:
        """Number type of the network; bytes are converted to it a batch at a time."""
        return next((p.dtype for p in self.architecture.net.parameters()), torch.float32)

    def entering(self, x: Tensor) -> Tensor:
        """Inputs as the networks read them: floats, or tokens."""
        found: Tensor = entering(x, x.device, self.dtype, tokens=self._tokens)
        return found

    @cached_property
    def _tokens(self) -> bool:
        return reads_tokens(self.architecture.net)

    @property
    def validates(self) -> bool:
        """Whether members have a validation score."""
        return self.validation is not None or self.validation_rows is not None

    @cached_property
    def table(self) -> Tensor | None:
        """The rows of all members, `(M, n)`; the shorter ones end in zeros."""
        return None if self.rows is None else padded(self.rows)

    def count(self, index: int) -> int:
        """The number of samples of a member, by its index."""
        return len(self.data[0]) if self.rows is None else len(self.rows[index])

    def steps_for(self, samples: int) -> int:
        """Steps per epoch; a single sample left over joins the last batch (BatchNorm needs two)."""
        whole, rest = divmod(samples, min(samples, self.batch_size))
        return max(1, whole + (rest > 1))

    @cached_property
    def steps(self) -> int:
        """Steps per epoch, of the member with the most samples."""
        return max(self.steps_for(self.count(index)) for index in range(len(self.members)))

    @cached_property
    def together(self) -> bool:
        """Whether all members run in one go, rather than one after the other."""
        return self.architecture.takes(self.data[0].shape[1:])

    @cached_property
    def fills(self) -> bool:
        """Whether members may be given samples of weight 0 beside theirs, which change nothing."""
        return (
            self.together
            and self.loss.weighted
            and not self.augments
            and not self.architecture.draws
        )

    @cached_property
    def label_counts(self) -> Tensor | None:
        """How many labels of each sample count, `(N,)`; None where none is ignored."""
        counts = without_ignored(self.data[1], self.loss.ignore_index)[1]
        return None if counts is None else counts.reshape(len(counts), -1).sum(1).to(self.dtype)

    @property
    def work(self) -> int:
        """Multiply-adds of what runs in one go, roughly: all members, or one in a loop."""
        weights = sum(p.numel() for p in self.architecture.net.parameters())
        return weights * (len(self.members) if self.together else 1) * self.batch_size

    @cached_property
    def ranges(self) -> Pair:
        """The smallest and the largest value of each feature; with rows, `(M, 1, ...)`.

        Inputs without labels are among them.
        """
        low, high = self._over_rows(lambda x: x.amin(0)), self._over_rows(lambda x: x.amax(0))
        if self.unlabeled is None:
            return low, high
        ends = as_batch(torch.stack(self.unlabeled.aminmax(dim=0)), self.dtype)
        return low.minimum(ends[0]), high.maximum(ends[1])

    def _over_rows(self, end: Callable[[Tensor], Tensor]) -> Tensor:
        x = self.data[0]
        if self.rows is None:
            return as_batch(end(x), self.dtype)
        return torch.stack([as_batch(end(x[own]), self.dtype)[None] for own in self.rows])

    def augmented(self, inputs: Tensor, rng: Rng) -> Tensor:
        """Inputs `(A, B, ...)` of some members, changed at random, as the networks read them."""
        return self.entering(augment(self.augments, inputs, rng))

    def in_units(self, y: Tensor, members: list[int]) -> Tensor:
        """Targets `(A, B, D)` of some members in the units that their networks learn."""
        if self.units is None:
            return y
        mean, scale = (statistic[members][:, None] for statistic in self.units)
        return (y - mean) / scale
