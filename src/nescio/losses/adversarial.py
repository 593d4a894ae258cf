"""Adversarial training: by gradient signs (Goodfellow et al., 2015), by attacks (Madry, 2018)."""

from dataclasses import replace

import torch
from torch import Tensor

from nescio.attacks import Ascent
from nescio.core import NescioError, Rng
from nescio.core.registry import losses
from nescio.losses.loss import Batch, Loss
from nescio.losses.with_ood import ADVICE, check_logits_head, label_odds, random_start
from nescio.nets.stack import Forward


@losses.register
def adversarial(base: Loss, *, share: float = 0.01) -> Loss:
    """Average `base` on the batch and on x + radius * sign(gradient).

    The radius of each feature is `share` of its range in the training data (1 % in the paper).
    The moved inputs are constants: the sign has no derivative, so nothing is lost by that.
    """
    if not share >= 0:
        raise NescioError(f"share must not be negative, got {share}")

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        x = batch.x.detach().requires_grad_()
        clean = base(forward, replace(batch, x=x), rng)
        (slope,) = torch.autograd.grad(clean.sum(), x, retain_graph=True)
        moved = batch.x + share * (batch.high - batch.low) * slope.sign()
        return 0.5 * (clean + base(forward, replace(batch, x=moved), rng))

    return base.with_step(f"adversarial({base.description}, {share=})", step)


@losses.register
def adversarial_training(base: Loss, *, attack: Ascent | None = None, clean: float = 0.0) -> Loss:
    """The base loss on inputs that a label attack has moved; `clean` is the share of unmoved ones.

    attack: 10 steps of 0.075 in the linf ball of radius 0.3 by default, within [0, 1].
    """
    check_logits_head(base)
    if not 0 <= clean <= 1:
        raise NescioError(f"clean must be in [0, 1], got {clean}")
    ascent = attack or Ascent(radius=0.3, steps=10, step=0.075, best=False)

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        frozen, still = forward.frozen(), round(clean * batch.x.shape[1])
        if still == batch.x.shape[1]:
            return base(forward, batch, rng)
        center, labels = batch.x[:, still:], batch.y[:, still:]
        ascent.check(center, lead=2, what="training inputs", advice=ADVICE)
        start = random_start(ascent, center, rng)
        moved, _ = ascent(lambda x: label_odds(frozen(x), labels), center, start=start, lead=2)
        x = torch.cat([batch.x[:, :still], moved], 1)
        return base(forward, replace(batch, x=x), rng)

    text = f"adversarial_training({base.description}, {ascent.description}, {clean=})"
    return base.with_step(text, step)
