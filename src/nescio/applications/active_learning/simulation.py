"""What a simulated pool is: its data, its seeds, who starts with which labels, who is asked next.

Every draw is a function of (seed, number of the seed, number of labels), never of history.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from nescio.applications.active_learning.candidates import Acquisition
from nescio.core import (
    NescioError,
    as_targets,
    as_tensor,
    check_indices,
    derive,
    generator,
    only_tensor,
)
from nescio.data import door, is_frame, learn_columns
from nescio.models import Model, Predictor, mc_dropout
from nescio.nets import needed_by

Epochs = int | Callable[[int], int]
Pair = tuple[Any, Tensor]


@dataclass(frozen=True, eq=False, kw_only=True)
class Simulation:
    """All that stays the same while labels are acquired."""

    make_net: Callable[[], nn.Module]
    pool: Pair  # inputs (N, ...) and labels (N,)
    test: Pair
    acquisition: str | Acquisition
    inside: Tensor  # (K,) indices that may be asked: all, or what a guard does not call OOD
    start: Tensor  # (R, n) indices
    validation: Tensor  # (R, v) indices; v may be 0
    size: int
    labels: int
    seeds: tuple[int, ...]
    members: int  # networks for each seed
    passes: int
    test_passes: int
    candidates: int | None
    epochs: Epochs
    seed: int
    options: Mapping[str, Any]  # of `nescio.train`

    def numbers(self, row: int) -> list[int]:
        """The members of a seed, by their positions in the stack."""
        return list(range(row * self.members, (row + 1) * self.members))

    def of(self, row: int) -> "Simulation":
        """The same of one seed alone."""
        some = slice(row, row + 1)
        own: dict[str, Any] = {
            "start": self.start[some].clone(),
            "validation": self.validation[some].clone(),
        }
        return replace(self, seeds=self.seeds[some], **own)

    def draws(self, purpose: str, row: int, labels: int) -> int:
        """A seed for what a seed of the simulation does at a number of labels."""
        return derive(self.seed, purpose, self.seeds[row], labels)

    def drawn_candidates(self, row: int, acquired: Tensor) -> Tensor:
        """What a seed scores: some of what has no label, in the order of the pool."""
        free = torch.zeros(len(self.pool[1]), dtype=torch.bool)
        free[self.inside] = True
        free[acquired] = False
        free[self.validation[row]] = False
        left = free.nonzero()[:, 0]
        if self.candidates is None or self.candidates >= len(left):
            return left
        draws = generator(self.draws("candidates", row, len(acquired)))
        return left[torch.randperm(len(left), generator=draws)[: self.candidates]].sort().values

    def predictor(self, model: Model, row: int, labels: int, passes: int) -> Predictor:
        """The networks of a seed; with passes, sampled by MC dropout."""
        own = model.choose(self.numbers(row))
        if not passes:
            return own
        return mc_dropout(own, passes=passes, seed=self.draws("passes", row, labels))

    def epochs_for(self, labels: int) -> int:
        """How long the members train with a number of labels."""
        return self.epochs if isinstance(self.epochs, int) else int(self.epochs(labels))


def read_pairs(make_net: Any, data: Any, test: Any) -> tuple[Any, Pair, Pair]:
    """The factory without arguments, the pool and the test data, of one form.

    The encoding of a table is learned from the whole pool, whose inputs are known.
    """
    table = data[0] if isinstance(data, tuple) and data else None
    if is_frame(table) and needed_by(make_net):
        columns, make = learn_columns(table), make_net
        data, test = ((columns.numbers(x), y) for x, y in (data, test))
        make_net = lambda: make(columns.width)  # noqa: E731
    return make_net, _read(data, "the pool"), _read(test, "the test data")


def _read(data: Any, name: str) -> Pair:
    if isinstance(data, tuple) and data and hasattr(data[0], "__len__") and not len(data[0]):
        raise NescioError(f"{name} is empty; give inputs with labels (x, y)")
    x, y = door.read(data, name=name)
    y = as_tensor(y, "labels")
    if y.is_floating_point():
        raise NescioError(
            f"the labels of {name} are {y.dtype}; acquisitions are for classes, give whole numbers"
        )
    return only_tensor(x, "simulate"), as_targets(y, len(x), task="classification")


def first_labels(
    labels: Tensor,
    inside: Tensor,
    start: Any,
    seeds: Sequence[int],
    *,
    goal: int,
    balanced: bool,
    seed: int,
) -> Tensor:
    """The labels that each seed starts with, `(R, n)`: given, or drawn by seed from `inside`.

    balanced: equally many of each class, as far as `start` can be divided.
    """
    given = None if isinstance(start, int) else _given_start(start, len(labels), len(seeds))
    start = start if given is None else given.shape[1]
    if not 2 <= start <= goal:
        raise NescioError(f"start must be in 2..{goal}, the number of labels at the end")
    if given is not None:
        return given
    how: dict[str, Any] = {"balanced": balanced, "seed": seed, "purpose": "start"}
    return drawn_labels(labels, inside, start, seeds, **how)


def drawn_labels(
    labels: Tensor,
    inside: Tensor,
    count: int,
    seeds: Sequence[int],
    *,
    balanced: bool,
    seed: int,
    purpose: str,
) -> Tensor:
    """Indices that each seed draws from `inside`, `(R, count)`."""
    rows = []
    for number in seeds:
        draws = generator(seed, purpose, number)
        order = inside[torch.randperm(len(inside), generator=draws)]
        rows.append(_by_turns(labels[order], order, draws)[:count] if balanced else order[:count])
    return torch.stack(rows)


def _by_turns(labels: Tensor, order: Tensor, draws: torch.Generator) -> Tensor:
    """The indices so that the classes take turns: the first of each, the second of each, ...

    labels: in this random order.
    """
    classes = labels.unique(return_inverse=True)[1]
    turn = torch.empty_like(order)
    for number in range(int(classes.max()) + 1):
        own = (classes == number).nonzero()[:, 0]
        turn[own] = torch.arange(len(own))
    first = torch.randperm(int(classes.max()) + 1, generator=draws)  # who goes first in a turn
    return order[(turn * len(first) + first[classes]).argsort()]


def _given_start(start: Any, samples: int, seeds: int) -> Tensor:
    given = as_tensor(start, "start")
    if given.ndim != 2 or len(given) != seeds:
        raise NescioError(
            f"start must be a number, or indices ({seeds}, n) of the pool, one row for each seed, "
            f"got shape {tuple(given.shape)}"
        )
    for number, own in enumerate(given):
        check_indices(own, samples, f"start of seed {number}")
        if len(own.unique()) < len(own):
            raise NescioError(f"start of seed {number} has an index twice; give each once")
    return given.long()


def is_count(value: Any) -> bool:
    """Whether it is a whole number from 0 up."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def check_counts(inside: Tensor, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Refuse numbers that do not fit the pool, and options that the loop sets itself."""
    for name in ("size", "labels", "members"):
        if not is_count(given[name]) or not given[name]:
            raise NescioError(f"{name} must be a whole number from 1 up, got {given[name]!r}")
    for name in ("passes", "test_passes", "validation_labels"):
        if not is_count(given[name]):
            raise NescioError(f"{name} must be a whole number from 0 up, got {given[name]!r}")
    if given["labels"] + given["validation_labels"] > len(inside):
        kept = "" if given["guard"] is None else " that the guard does not call OOD"
        raise NescioError(
            f"labels={given['labels']} and {given['validation_labels']} for validation, but the "
            f"pool has {len(inside)} samples{kept}; give fewer labels, or a larger pool"
        )
    few = given["candidates"]
    if few is not None and few < given["size"]:
        raise NescioError(f"candidates={few} are fewer than size={given['size']} to choose")
    if taken := sorted({"rows", "validation_rows", "sample_weight"} & set(options)):
        raise NescioError(f"simulate sets {', '.join(taken)} of nescio.train itself; leave it out")
