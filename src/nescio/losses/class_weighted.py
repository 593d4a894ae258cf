"""Classes that count more, where some are rare, as in label maps (Eigen and Fergus, 2015)."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from nescio.core import NescioError, Rng, as_tensor
from nescio.losses.batch import Batch
from nescio.losses.loss import Loss
from nescio.nets.stack import Forward


def class_weighted(base: Loss, weights: Sequence[float]) -> Loss:
    """Count each label by the weight of its class: the loss of a batch is the weighted mean.

    It is what torch's cross_entropy does with `weight`. Validation and history of validation weigh
    all labels alike. Probabilities are then those of data with the classes in other shares: larger
    for classes of large weight.

        class_weighted(nll(), [0.5, 1.0, 4.0])

    base: the loss that is changed.
    weights: a positive number for each class. `balanced_weights(labels, classes)` gives some.
    """
    table = torch.as_tensor(weights, dtype=torch.float64)
    if table.ndim != 1 or not len(table) or not (table.isfinite() & (table > 0)).all():
        raise NescioError(f"weights must be a positive number for each class, got {weights!r}")
    if base.head.task != "classification":
        raise NescioError(f"only classes have weights here; the {base.head.name} head has none")

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        if int(batch.y.max()) >= len(table):
            raise NescioError(
                f"{len(table)} weights for labels up to {int(batch.y.max())}; give one per class"
            )
        own = table.to(batch.low)[batch.y.long()]
        return base.step(forward, replace(batch, weight=batch.weighing(own)), rng)

    text = f"class_weighted({base.description}, {table.tolist()})"
    return base.with_step(text, step, weighted=base.weighted)


def balanced_weights(
    labels: Tensor, classes: int, *, power: float = 0.5, ignore_index: int | None = None
) -> list[float]:
    """(median share / share of the class) ** power, from all labels that count.

    A class that is absent weighs 1.

    >>> balanced_weights(torch.tensor([0, 0, 0, 0, 1, 1, 2]), 3, power=1.0)
    [0.5, 1.0, 2.0]

    labels: labels of any shape.
    classes: number of classes.
    power: 1 for median frequency balancing, 0 for equal weights.
    ignore_index: a label that does not count; None: all count.
    """
    counted = as_tensor(labels, "labels").flatten().long()
    counted = counted if ignore_index is None else counted[counted != ignore_index]
    negative = bool((counted < 0).any())
    found = torch.bincount(counted.clamp_min(0), minlength=classes).double()
    if negative or len(found) > classes or not found.any():
        raise NescioError(
            f"labels must be in 0..{classes - 1}, and some must count; name the one to leave out "
            "by ignore_index"
        )
    median = found[found > 0].median()
    return torch.where(found > 0, (median / found).pow(power), 1.0).tolist()
