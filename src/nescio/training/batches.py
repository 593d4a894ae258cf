"""Which samples each member sees in which step: cohorts of members, orders, weights, batches.

Members whose epochs have equally many steps form a cohort and step together. Their last batches may
differ in length: the shorter ones are filled up with samples of weight 0. Where that could change a
member (its network draws masks, or its loss reads no weights), members of a cohort have equally
many samples.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nescio.core import Rng, as_batch
from nescio.data.augmentation import augment
from nescio.losses import Batch
from nescio.training.plan import Plan, Rows

PIECE = 1024  # validation samples of a member at a time


@dataclass(frozen=True, kw_only=True)
class Cohort:
    """Members side by side in the stack whose epochs have equally many steps."""

    part: slice  # of the active members
    members: list[int]  # their indices in the plan
    counts: list[int]  # how many samples each has
    steps: int
    order: Tensor | None  # (A, n) samples in the order of this epoch; None: all, as they are

    @property
    def is_even(self) -> bool:
        """Whether all members have equally many samples."""
        return len(set(self.counts)) == 1


def cohorts(plan: Plan, active: list[int], rng: Rng) -> list[Cohort]:
    """The active members, in cohorts, with the orders of an epoch; `rng` is that of the epoch."""

    def key(index: int) -> int:
        count = plan.count(index)
        return plan.steps_for(count) if plan.fills else count

    found, start = [], 0
    for _, group in groupby(active, key):  # a plan has members in the order of their counts
        members = list(group)
        part = slice(start, start + len(members))
        start = part.stop
        counts = [plan.count(index) for index in members]
        order = _order(plan, members, counts, rng.of(part))
        steps = plan.steps_for(counts[0])
        found.append(Cohort(part=part, members=members, counts=counts, steps=steps, order=order))
    return found


def _order(plan: Plan, members: list[int], counts: list[int], rng: Rng) -> Tensor | None:
    """The samples of each member in the order of the epoch, `(A, n)`; shorter ones are filled up."""
    x, whole = plan.data[0], plan.steps_for(counts[0]) == 1 and not plan.bootstrap
    rows = None if plan.rows is None else _padded([plan.rows[index] for index in members])
    if whole:
        return rows
    orders = rng.orders(counts)
    if plan.bootstrap:  # a sample with replacement, the same in every epoch
        orders = rng.at().choices(counts).gather(1, orders)
    orders = orders.to(x.device)
    return orders if rows is None else rows.gather(1, orders)


def _padded(rows: Sequence[Tensor]) -> Tensor:
    """Rows of equal length, `(A, n)`; what is added has weight 0."""
    return pad_sequence(list(rows), batch_first=True)


def make_batch(
    plan: Plan, cohort: Cohort, epoch: int, step: int, memory: dict[str, Tensor]
) -> Batch:
    """The batch of a cohort in one of its steps."""
    x, y = plan.data
    start, last = step * plan.batch_size, step == cohort.steps - 1
    members = len(cohort.members)
    if cohort.order is None:
        index = torch.arange(len(x), device=x.device).expand(members, -1)
        images, targets = x.expand(members, *x.shape), y.expand(members, *y.shape)
    else:
        index = cohort.order[:, start : None if last else start + plan.batch_size]
        images, targets = x[index], y[index]
    if plan.augments:
        ids = tuple(plan.members[i] for i in cohort.members)
        images = augment(plan.augments, images, Rng(plan.seed, ids, (epoch, step)))
    low, high = plan.ranges
    if plan.rows is not None:
        low, high = low[cohort.members], high[cohort.members]
    return Batch(
        x=as_batch(images, plan.dtype),
        y=plan.in_units(targets, cohort.members),
        index=index,
        weight=_weight(plan, cohort, index, start, last),
        points=cohort.counts[0] if cohort.is_even else torch.tensor(cohort.counts, device=x.device),
        low=low,
        high=high,
        steps=cohort.steps,
        step=epoch * cohort.steps + step,
        total=plan.epochs * cohort.steps,
        memory=memory,
    )


def _weight(plan: Plan, cohort: Cohort, index: Tensor, start: int, last: bool) -> Tensor | None:
    """The weights of samples, `(A, B)`, 0 for what only fills up a batch; None: all count alike."""
    weight = None
    if plan.weight is not None:
        owners = torch.tensor(cohort.members)[:, None] if len(plan.weight) > 1 else 0
        weight = plan.weight[owners, index]
    if not last or cohort.is_even:
        return weight
    left = torch.tensor(cohort.counts)[:, None] - start
    real = (torch.arange(index.shape[1]) < left).to(index.device, plan.dtype)
    return real if weight is None else real * weight


def validation_pieces(
    plan: Plan, members: list[int]
) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Inputs, targets and weights `(A, B, ...)` of the validation data of some members, in pieces.

    Weights are None where all members have equally many samples.
    """
    if plan.validation_rows is None:
        assert plan.validation is not None
        x, y = plan.validation
        for inputs, targets in zip(x.split(PIECE), y.split(PIECE), strict=True):
            both = (as_batch(inputs, plan.dtype), targets)
            wide, own = (part.expand(len(members), *part.shape) for part in both)
            yield wide, plan.in_units(own, members), None
        return
    x, y = plan.data
    rows: Rows = tuple(plan.validation_rows[index] for index in members)
    counts = torch.tensor([len(own) for own in rows])[:, None]
    every = _padded(rows)
    for start in range(0, every.shape[1], PIECE):
        index = every[:, start : start + PIECE]
        real = torch.arange(start, start + index.shape[1]) < counts
        weight = None if real.all() else real.to(x.device, plan.dtype)
        yield as_batch(x[index], plan.dtype), plan.in_units(y[index], members), weight
