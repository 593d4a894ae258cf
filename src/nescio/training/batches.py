"""Which samples each member sees in which step: cohorts of members, orders, weights, batches.

Members whose epochs have equally many steps form a cohort and step together. Their last batches may
differ in length: the shorter ones are filled up with samples of weight 0. Where that could change a
member (its network draws masks, or its loss reads no weights), members of a cohort have equally
many samples.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError, Rng, as_labels, padded
from nescio.data.augmentation import augment_pairs
from nescio.losses import Batch
from nescio.training.plan import Plan, Rows

PIECE, LABELS = 1024, 1 << 20  # validation samples of a member at a time, and labels of maps


@dataclass(frozen=True, kw_only=True)
class Cohort:
    """Members side by side in the stack whose epochs have equally many steps."""

    part: slice  # of the active members
    members: list[int]  # their indices in the plan
    counts: list[int]  # how many samples each has
    steps: int
    order: Tensor | None  # (A, n) samples in the order of this epoch; None: all, as they are
    weight: Tensor | None  # (A, n) their weights, 0 for what fills up; None: all count alike
    unlabeled: Tensor | None  # (A, u) inputs without labels in the order of this epoch

    @property
    def is_even(self) -> bool:
        """Whether all members have equally many samples."""
        return len(set(self.counts)) == 1

    def share(self, plan: Plan, batch: Batch) -> float | Tensor:
        """How much a batch counts in the mean loss of the epoch: its share of all weights."""
        if self.weight is None and plan.label_counts is None:
            return batch.x.shape[1] / self.counts[0]
        assert batch.index is not None
        order = batch.index if self.order is None else self.order
        return _amount(plan, batch.index, batch.weight) / _amount(plan, order, self.weight)


def _amount(plan: Plan, index: Tensor, weight: Tensor | None) -> Tensor:
    """The sum of weights over samples `(A, B)` and the labels of each that count."""
    labels = plan.label_counts
    counted = torch.ones_like(index, dtype=plan.dtype) if labels is None else labels[index]
    return (counted if weight is None else counted * weight).sum(1)


def cohorts(plan: Plan, active: list[int], rng: Rng) -> list[Cohort]:
    """The active members, in cohorts, with the orders of an epoch; `rng` is that of the epoch."""
    found, start = [], 0
    for _, group in groupby(
        active, partial(cohort_key, plan)
    ):  # a plan has members in the order of their counts
        members = list(group)
        part = slice(start, start + len(members))
        start = part.stop
        counts = [plan.count(index) for index in members]
        order = _order(plan, members, counts, rng.of(part))
        weight = _weight(plan, members, counts, order)
        cohort = Cohort(
            part=part,
            members=members,
            counts=counts,
            steps=plan.steps_for(counts[0]),
            order=order,
            weight=weight,
            unlabeled=_unlabeled_order(plan, plan.steps_for(counts[0]), rng.of(part)),
        )
        if plan.bootstrap:
            _check_drawn(plan, cohort)
        found.append(cohort)
    return found


def cohort_key(plan: Plan, index: int) -> int:
    """What members of a cohort have in common: the steps of an epoch, or the samples."""
    count = plan.count(index)
    return plan.steps_for(count) if plan.fills else count


def _check_drawn(plan: Plan, cohort: Cohort) -> None:
    """Refuse a bootstrap sample in which nothing counts."""
    if cohort.order is None or (plan.weight is None and plan.label_counts is None):
        return
    empty = (_amount(plan, cohort.order, cohort.weight) == 0).nonzero()
    if len(empty):
        raise NescioError(
            f"the bootstrap sample of member {plan.members[cohort.members[int(empty[0])]]} has no "
            "sample with a weight and a label that counts; leave bootstrap out, or the samples "
            "that do not count"
        )


def _order(plan: Plan, members: list[int], counts: list[int], rng: Rng) -> Tensor | None:
    """The samples of each member in the order of the epoch, `(A, n)`, filled up."""
    rows = None if plan.table is None else plan.table[members, : max(counts)]
    if plan.steps_for(counts[0]) == 1 and not plan.bootstrap:
        return rows
    orders = rng.orders(counts)
    if plan.bootstrap:  # a sample with replacement, the same in every epoch
        orders = rng.at().choices(counts).gather(1, orders)
    orders = orders.to(plan.data[0].device)
    return orders if rows is None else rows.gather(1, orders)


def _unlabeled_order(plan: Plan, steps: int, rng: Rng) -> Tensor | None:
    """Which inputs without labels the members see in an epoch; each once before one comes again."""
    if plan.unlabeled is None:
        return None
    (epoch,), needed, total = rng.place, steps * plan.unlabeled_size, len(plan.unlabeled)
    first, start = divmod(int(epoch) * needed, total)  # the walk continues from epoch to epoch
    rounds = range(first, first - (-(start + needed) // total))
    sources = zip(*(rng.at(number).generators("unlabeled") for number in rounds), strict=True)
    orders = [torch.cat([torch.randperm(total, generator=g) for g in own]) for own in sources]
    return torch.stack(orders)[:, start : start + needed].to(plan.unlabeled.device)


def _weight(
    plan: Plan, members: list[int], counts: list[int], order: Tensor | None
) -> Tensor | None:
    """The weights of samples in the order of the epoch; None where all count alike."""
    weight = None
    if plan.weight is not None:
        weight = plan.weight[members] if len(plan.weight) > 1 else plan.weight
        weight = weight.expand(len(members), -1)
        weight = weight if order is None else weight.gather(1, order)
    if len(set(counts)) == 1:
        return weight
    device = plan.data[0].device
    real = torch.arange(max(counts), device=device) < torch.tensor(counts, device=device)[:, None]
    return real.to(plan.dtype) if weight is None else real * weight


def _numbers(counts: list[int], plan: Plan) -> Tensor:
    return torch.tensor(counts, dtype=plan.dtype, device=plan.data[0].device)


def make_batch(plan: Plan, cohort: Cohort, epoch: int, step: int) -> Batch:
    """The batch of a cohort in one of its steps."""
    x, y = plan.data
    start, last = step * plan.batch_size, step == cohort.steps - 1
    span, members = slice(start, None if last else start + plan.batch_size), len(cohort.members)
    if cohort.order is None:
        index = torch.arange(len(x), device=x.device).expand(members, -1)
        images, targets = x.expand(members, *x.shape), y.expand(members, *y.shape)
    else:
        index = cohort.order[:, span]
        images, targets = x[index], y[index]
    original = images
    rng = Rng(plan.seed, tuple(plan.members[i] for i in cohort.members), (epoch, step))
    if plan.augments:
        images, targets = augment_pairs(plan.augments, images, targets, rng, plan.loss.ignore_index)
    low, high = plan.ranges
    if plan.rows is not None:
        low, high = low[cohort.members], high[cohort.members]
    matters = cohort.weight is not None and (last or plan.weight is not None)
    return Batch(
        x=plan.entering(images),
        y=plan.in_units(as_labels(targets), cohort.members),
        weight=cohort.weight[:, span] if cohort.weight is not None and matters else None,
        index=index,
        data_points=len(x),
        original=original if plan.augments else None,
        augment=plan.augmented if plan.augments else None,
        **_unlabeled_inputs(plan, cohort, step, rng),
        points=cohort.counts[0] if cohort.is_even else _numbers(cohort.counts, plan),
        low=low,
        high=high,
        steps=cohort.steps,
        step=epoch * cohort.steps + step,
        total=plan.epochs * cohort.steps,
    )


def _unlabeled_inputs(plan: Plan, cohort: Cohort, step: int, rng: Rng) -> dict[str, Any]:
    """Inputs without labels for a step, `(A, U, ...)`, changed as the others are."""
    if plan.unlabeled is None or cohort.unlabeled is None:
        return {}
    size = plan.unlabeled_size
    index = cohort.unlabeled[:, step * size : (step + 1) * size]
    inputs = plan.unlabeled[index]
    return {
        "unlabeled": plan.augmented(inputs, rng.again("unlabeled"))
        if plan.augments
        else plan.entering(inputs),
        "unlabeled_index": index,
        "unlabeled_points": len(plan.unlabeled),
        "unlabeled_original": inputs if plan.augments else None,
    }


def validation_pieces(
    plan: Plan, members: list[int]
) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Validation inputs and targets `(A, B, ...)` of some members, in pieces.

    With each comes which of them are there, `(A, B)`, where members have different numbers.
    """
    if plan.validation_rows is None:
        assert plan.validation is not None
        x, y = plan.validation
        piece = _piece(y)
        for inputs, targets in zip(x.split(piece), y.split(piece), strict=True):
            both = plan.entering(inputs), as_labels(targets)
            wide, own = (part.expand(len(members), *part.shape) for part in both)
            yield wide, plan.in_units(own, members), None
        return
    x, y = plan.data
    rows: Rows = tuple(plan.validation_rows[index] for index in members)
    counts = torch.tensor([len(own) for own in rows], device=x.device)[:, None]
    every, piece = padded(rows), _piece(y)
    for start in range(0, every.shape[1], piece):
        index = every[:, start : start + piece]
        real = torch.arange(start, start + index.shape[1], device=x.device) < counts
        targets = plan.in_units(as_labels(y[index]), members)
        yield plan.entering(x[index]), targets, None if real.all() else real


def _piece(targets: Tensor) -> int:
    """How many validation samples are judged at a time."""
    return max(1, min(PIECE, LABELS // max(1, targets[0].numel())))
