"""Adversarial training on labels (Madry et al., 2018): the loss at the worst point of a ball."""

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
def adversarial_training(base: Loss, *, attack: Ascent | None = None, clean: float = 0.0) -> Loss:
    """The base loss on inputs that a label attack has moved; `clean` is the share of unmoved ones.

    attack: 10 steps of 0.075 in the linf ball of radius 0.3 by default, within [0, 1].
    """
    check_logits_head(base)
    if not 0 <= clean <= 1:
        raise NescioError(f"clean must be in [0, 1], got {clean}")
    ascent = attack or Ascent(0.3, 10, 0.075, best=False)

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
    return Loss(text, base.head, base.score, step)
