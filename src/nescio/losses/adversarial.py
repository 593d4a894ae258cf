"""Adversarial training: by gradient signs (Goodfellow et al., 2015), by attacks (Madry, 2018).

Virtual adversarial training (Miyato et al., 2018) makes answers smooth; it needs no label.
"""

from dataclasses import replace

import torch
from torch import Tensor

from nescio.attacks import Ascent
from nescio.core import NescioError, Rng
from nescio.core.registry import losses
from nescio.losses.loss import Batch, Loss, plus
from nescio.losses.with_ood import ADVICE, check_logits_head, label_odds, random_start
from nescio.nets.stack import Forward


@losses.register
def adversarial(base: Loss, *, share: float = 0.01) -> Loss:
    """Average `base` on the batch and on x + radius * sign(gradient).

    The moved inputs are constants: the sign has no derivative, so nothing is lost by that.

    base: the loss of both.
    share: radius of each feature, as a share of its range in the training data (1 % in the paper).
    """
    if not share >= 0:
        raise NescioError(f"share must not be negative, got {share}")

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        x = batch.numbers.detach().requires_grad_()
        clean = base(forward, replace(batch, x=x), rng)
        (slope,) = torch.autograd.grad(clean.sum(), x, retain_graph=True)
        moved = batch.x + share * (batch.high - batch.low) * slope.sign()
        return 0.5 * (clean + base(forward, replace(batch, x=moved), rng))

    text = f"adversarial({base.description}, {share=})"
    return base.with_step(text, step, weighted=base.weighted)


@losses.register
def adversarial_training(base: Loss, *, attack: Ascent | None = None, clean: float = 0.0) -> Loss:
    """The base loss on inputs that a label attack has moved.

    base: the loss of the moved inputs, of class logits.
    attack: how inputs are moved; None: 10 steps of 0.075 in the linf ball of radius 0.3, within [0,
      1].
    clean: share of the inputs that are not moved.
    """
    check_logits_head(base)
    if not 0 <= clean <= 1:
        raise NescioError(f"clean must be in [0, 1], got {clean}")
    ascent = attack or Ascent(radius=0.3, steps=10, step=0.075, best=False)

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        frozen, still = forward.frozen(), round(clean * batch.numbers.shape[1])
        if still == batch.x.shape[1]:
            return base(forward, batch, rng)
        center, labels = batch.x[:, still:], batch.y[:, still:]
        weight = None if batch.weight is None else batch.weight[:, still:]
        ascent.check(center, lead=2, what="training inputs", advice=ADVICE)
        start = random_start(ascent, center, rng)

        def objective(x: Tensor) -> Tensor:
            return label_odds(base.head.logits(frozen(x)), labels, weight)

        moved, _ = ascent(objective, center, start=start, lead=2)
        x = torch.cat([batch.x[:, :still], moved], 1)
        return base(forward, replace(batch, x=x), rng)

    text = f"adversarial_training({base.description}, {ascent.description}, {clean=})"
    return base.with_step(text, step)


PROBE = 1e-2  # length of the first trial step, as a share of the radius' unit


@losses.register
def virtual_adversarial(
    base: Loss,
    *,
    radius: float = 0.05,
    weight: float = 1.0,
    iterations: int = 1,
    probe: float = PROBE,
    entropy: float = 0.0,
) -> Loss:
    """Add the divergence between the answers at x and at the worst input within `radius`.

    Distances are measured in units of each feature's training range. Labels are never read: where
    a step has unlabeled inputs, all its inputs count alike. The statistics of BatchNorm count every
    pass, also those at moved inputs, where the published code counts the first alone.

    base: the loss that the term is added to.
    radius: how far the worst input may be.
    weight: weight of the divergence.
    iterations: number of trial steps that find the direction.
    probe: length of the trial step whose gradient is the direction.
    entropy: weight of the mean entropy of the answers at x, for classes; it is 0 or 1 in the paper.
    """
    if not (radius > 0 and weight >= 0 and iterations >= 1 and probe > 0 and entropy >= 0):
        raise NescioError(
            "virtual_adversarial needs radius > 0, weight >= 0, iterations >= 1, probe > 0 and "
            "entropy >= 0"
        )
    if entropy and base.head.task != "classification":
        raise NescioError(f"entropy is that of classes; the {base.head.name} head has none")

    def term(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        inputs = batch.inputs.to(batch.numbers)
        with torch.set_grad_enabled(entropy > 0):
            answers = forward(inputs)
        outputs = answers.detach()  # the answers at x are constants

        def gap(offset: Tensor) -> Tensor:  # mean divergence of each member, (M,)
            moved = forward(inputs + (batch.high - batch.low) * offset)
            return batch.mean(base.head.divergence(outputs, moved))

        draw = rng.normal(inputs.shape[1:], "virtual", like=inputs)
        direction = _unit(draw, draw)
        for _ in range(iterations):
            trial = (probe * direction).requires_grad_()
            (slope,) = torch.autograd.grad(gap(trial).sum(), trial)
            direction = _unit(slope, direction)
        found = weight * gap(radius * direction)
        if not entropy:
            return found
        logs = base.head.center(answers)
        return found - entropy * batch.mean((logs.exp() * logs).sum(-1))

    text = f"virtual_adversarial({base.description}, {radius=}, {weight=}, {iterations=}"
    others = [f"{probe=}"] * (probe != PROBE) + [f"{entropy=}"] * (entropy > 0)
    return plus(base, ", ".join([text, *others]) + ")", term)


def _unit(direction: Tensor, otherwise: Tensor) -> Tensor:
    """Each sample scaled to length 1, first by its largest entry; `otherwise` where it is zero."""
    axes = tuple(range(2, direction.ndim))
    largest = direction.abs().amax(axes, keepdim=True)
    direction = torch.where(largest > 0, direction / largest, otherwise)
    length: Tensor = torch.linalg.vector_norm(direction, dim=axes, keepdim=True)
    return direction / length
