"""Rows to train on and rows to test on: folds and leave-one-out, for `train(rows=...)`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError, as_tensor, check_indices, generator


@dataclass(frozen=True, eq=False, repr=False)
class Splits:
    """For each split the rows to train on and the rows to test on; each row is tested once.

    train: indices of the samples that each split trains on.
    test: indices of the samples that each split tests on.
    each: how often a split occurs, one after the other: its members.
    """

    train: tuple[Tensor, ...]
    test: tuple[Tensor, ...]
    each: int = 1

    def __len__(self) -> int:
        return len(self.train)

    def __repr__(self) -> str:
        different, samples = len(self) // self.each, len(self.train[0]) + len(self.test[0])
        return f"Splits({different} of {samples} samples, {self.each} member(s) each)"

    def repeated(self, each: int) -> "Splits":
        """The same with each split `each` times, for as many members."""
        if each < 1:
            raise NescioError(f"a split needs at least one member, got {each}")
        train, test = (
            [own for own in rows for _ in range(each)] for rows in (self.train, self.test)
        )
        return Splits(tuple(train), tuple(test), each * self.each)


def folds(samples: int, count: int, *, seed: int = 0) -> Splits:
    """`count` folds of random samples, of equal sizes up to one: a split trains without its fold.

    >>> parts = folds(10, 5).repeated(2)  # two members for each fold
    >>> len(parts), parts.train[0].tolist() == parts.train[1].tolist()
    (10, True)

    samples: number of samples in all.
    count: number of folds.
    seed: seed of the random draws.
    """
    if int(count) != count or not 2 <= count <= samples:
        raise NescioError(f"the number of folds must be in 2..{samples}, a whole one, got {count}")
    order = torch.randperm(samples, generator=generator(seed, "folds"))
    return splits_of([part.sort().values for part in order.tensor_split(int(count))], samples)


def leave_one_out(samples: int) -> Splits:
    """As many splits as `samples`, each of which trains without one of them."""
    if samples < 2:
        raise NescioError(f"leaving one out needs at least 2 samples, got {samples}")
    return splits_of(list(torch.arange(samples).split(1)), samples)


def splits_of(parts: Sequence[Any], samples: int) -> Splits:
    """Splits that train without one of several parts.

    parts: lists of indices in which each sample is once.
    samples: number of samples in all.
    """
    given = [as_tensor(part, "a part") for part in parts]
    for index, part in enumerate(given):
        check_indices(part, samples, f"part {index}")
    test = [part.long() for part in given]
    counts = torch.bincount(torch.cat(test), minlength=samples) if test else torch.zeros(samples)
    if (counts != 1).any():
        odd = int((counts != 1).nonzero()[0])
        raise NescioError(
            f"the parts are not a partition: sample {odd} is in {int(counts[odd])} of them; each "
            "sample must be in exactly one"
        )
    if len(test) < 2:
        raise NescioError("one part leaves nothing to train on; give two or more")
    every = torch.arange(samples)
    train = [every[torch.ones(samples, dtype=torch.bool).index_fill(0, p, False)] for p in test]
    return Splits(tuple(train), tuple(test))
