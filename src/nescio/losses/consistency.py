"""Little labels: the same answer under other masks and augmentations, for inputs without labels.

The Pi-model (Laine and Aila, 2017), the mean teacher (Tarvainen and Valpola, 2017), and the
consistency under transformations of Sajjadi et al. (2016). All compare class probabilities of the
labeled and the unlabeled inputs of a step. The base loss is the mean over the labels. The papers
divide it by all inputs of the batch, and multiply the largest weight by labels / inputs: the same
objective times labels / inputs, a factor that Adam does not see.

Labeled and unlabeled inputs run in one batch, so that the statistics of BatchNorm are those of
both. The second pass of `pi_model` counts in them, the teacher's does not.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from nescio.core import RAMP, Head, NescioError, Rng, ramp_up
from nescio.core.registry import losses
from nescio.losses.loss import Batch, Loss
from nescio.losses.with_ood import Beside
from nescio.nets.stack import Forward

Gap = Callable[[Tensor, Forward, Batch, Rng], Tensor]  # probabilities -> scores (M, B + U, ...)


@losses.register
def pi_model(base: Loss, *, weight: float = 100.0, ramp: float = RAMP) -> Loss:
    """Add the squared distance between two passes over all inputs, labeled and unlabeled.

    The passes differ by dropout and augmentations.

    base: the loss that the term is added to.
    weight: weight of the distance, the mean over inputs and classes.
    ramp: share of the training in which the weight grows, from 0 in the first epoch.
    """

    def gap(probs: Tensor, forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        second = probabilities(base.head, forward.again("second"), batch.again("second", rng))
        if batch.step == 0:
            check_random(probs, second, "pi_model")
        return (probs - second).square().mean(-1)

    text = f"pi_model({base.description}, {weight=}, {ramp=})"
    return consistent(base, text, gap, weight=weight, ramp=ramp)


@losses.register
def mean_teacher(
    base: Loss,
    *,
    weight: float = 100.0,
    ramp: float = RAMP,
    decay: float = 0.999,
    early_decay: float = 0.99,
) -> Loss:
    """Add the squared distance from the answers of the averaged network, which is the result.

    The averaged network is validated, kept by `patience`, returned and saved. As published, the
    teacher runs in training mode; unlike there, the statistics of BatchNorm are averaged too. An
    `average` of the training replaces both decays.

    base: the loss that the term is added to.
    weight: weight of the distance, the mean over inputs and classes.
    ramp: share of the training in which the weight grows, from 0 in the first epoch.
    decay: decay of the moving average of the weights, which is validated and returned.
    early_decay: decay during the ramp.
    """
    if not (0 < decay < 1 and 0 < early_decay < 1):
        raise NescioError(f"decays are between 0 and 1, got {decay} and {early_decay}")

    def gap(probs: Tensor, forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        teacher = forward.average.again("teacher")
        with torch.no_grad():
            target = probabilities(base.head, teacher, batch.again("teacher", rng))
        return (probs - target).square().mean(-1)

    def average(step: int, steps: int) -> float:
        return early_decay if step < ramp * steps else decay

    text = f"mean_teacher({base.description}, {weight=}, {ramp=}, {decay=}, {early_decay=})"
    return replace(consistent(base, text, gap, weight=weight, ramp=ramp), average=average)


@losses.register
def transformation_consistency(
    base: Loss,
    *,
    weight: float = 1.0,
    passes: int = 4,
    exclusivity: float = 0.0,
    ramp: float = 0.0,
) -> Loss:
    """Add the squared distances of all pairs of `passes` over labeled and unlabeled inputs.

    The passes differ by dropout and augmentations; distances are summed over pairs and classes, and
    averaged over inputs.

    base: the loss that the term is added to.
    weight: weight of the distances.
    passes: number of passes, 2 or more.
    exclusivity: weight of the mutual exclusivity of the first pass, - sum_k p_k prod_{l != k} (1 -
      p_l), which favors one class.
    ramp: share of the training in which both weights grow, from 0 in the first epoch; 0: they are
      constant.
    """
    if passes < 2 or not 0 <= exclusivity < math.inf:
        raise NescioError(
            f"transformation_consistency needs passes >= 2 and exclusivity >= 0, got {passes} and "
            f"{exclusivity}"
        )

    def gap(probs: Tensor, forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        names = [f"pass {number}" for number in range(1, passes)]
        others = [
            probabilities(base.head, forward.again(name), batch.again(name, rng)) for name in names
        ]
        if batch.step == 0:
            check_random(probs, others[0], "transformation_consistency")
        every = torch.stack([probs, *others])
        # The sum over pairs is the number of passes times the sum of squares around the mean.
        pairs = passes * (every - every.mean(0)).square().sum((0, -1))
        return weight * pairs + exclusivity * mutual_exclusivity(probs)

    text = f"transformation_consistency({base.description}, {weight=}, {passes=}, {exclusivity=}"
    check_weight(weight)
    return consistent(base, f"{text}, {ramp=})", gap, weight=1.0, ramp=ramp)


def mutual_exclusivity(probs: Tensor) -> Tensor:
    """- sum_k p_k prod_{l != k} (1 - p_l) over the last axis: -1 where one class has it all."""
    rest = 1 - probs
    others = 1 - torch.eye(probs.shape[-1], dtype=probs.dtype, device=probs.device)
    # (..., K, C): the factors of class k, with 1 for itself; no division, which 1 - p = 0 forbids.
    factors = 1 + (rest[..., None, :] - 1) * others
    return -(probs * factors.prod(-1)).sum(-1)


def consistent(base: Loss, description: str, gap: Gap, *, weight: float, ramp: float) -> Loss:
    """`base`, and a ramped weight times the mean of `gap` over labeled and unlabeled inputs.

    Both read one pass over all inputs, so that BatchNorm sees them together.
    """
    name = description.partition("(")[0]
    check_weight(weight)
    check_ramp(ramp)
    if base.head.task != "classification":
        raise NescioError(
            f"{name} compares class probabilities; the {base.head.name} head has none"
        )

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        check_unlabeled(batch, name)
        data_term, outputs = with_unlabeled(base, forward, batch, rng)
        scores = gap(base.head.center(outputs).exp(), forward, batch, rng)
        return data_term + weight * share_of_ramp(batch, ramp) * batch.mean(scores)

    return base.with_step(description, step)


def with_unlabeled(base: Loss, forward: Forward, batch: Batch, rng: Rng) -> tuple[Tensor, Tensor]:
    """The base loss `(M,)`, and the outputs `(M, B + U, ...)` on all inputs from the same pass."""
    assert batch.unlabeled is not None
    joined = Beside(
        forward.architecture,
        forward.tensors,
        forward.rng,
        averaged=forward.averaged,
        inner=forward,
        others=batch.unlabeled,
    )
    data_term, labeled = base(joined, batch, rng), batch.x.shape[1]
    if not joined.outputs:  # the base loss reads no outputs
        return data_term, forward(batch.inputs)
    both, count = joined.outputs[0], batch.unlabeled.shape[1]
    return data_term, torch.cat([both[:, :labeled], both[:, -count:]], 1)


def probabilities(head: Head, forward: Forward, batch: Batch) -> Tensor:
    """Class probabilities `(M, B + U, ..., C)` of another pass."""
    return head.center(forward(batch.inputs)).exp()


def share_of_ramp(batch: Batch, ramp: float) -> float:
    """How much of its weight a term has: 0 in the first epoch, then along `ramp_up` to 1."""
    if ramp == 0:
        return 1.0
    if batch.total <= batch.steps:
        raise NescioError(
            "the weight of unlabeled inputs is 0 in the first epoch, and the training has only "
            "one; train for more epochs, or say ramp=0"
        )
    return 0.0 if batch.step < batch.steps else ramp_up(batch.step, ramp * batch.total)


def check_weight(weight: float) -> None:
    """Refuse a weight that is not a number from 0 up."""
    if not 0 <= weight < math.inf:
        raise NescioError(f"weight must be a number from 0 up, got {weight}")


def check_ramp(ramp: float) -> None:
    """Refuse a ramp that is longer than the training."""
    if not 0 <= ramp <= 1:
        raise NescioError(
            f"ramp is a share of the training, from 0 to 1, got {ramp:g}: it would take {ramp:g} "
            f"times as long as the training; 80 of 300 epochs are ramp=80/300 = {RAMP:.3f}"
        )


def check_unlabeled(batch: Batch, name: str) -> None:
    """Refuse a batch without inputs that have no labels."""
    if batch.unlabeled is None:
        raise NescioError(
            f"{name} learns from inputs without labels, and there are none; give them as "
            "nescio.train(..., unlabeled=x), on the command line as --unlabeled DATA"
        )


def check_random(first: Tensor, second: Tensor, name: str) -> None:
    """Refuse two passes that are the same."""
    if torch.equal(first, second):
        raise NescioError(
            f"{name} compares passes with different dropout masks and augmentations, and the two "
            "are the same here, so the term would be 0; give the network dropout, or "
            "augment=[noise(0.15)], or crops(2) for images"
        )
