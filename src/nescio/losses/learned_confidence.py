"""A confidence that the network learns beside its answer (DeVries and Taylor, 2018).

The last output is the log-odds of a confidence c. In training the network may ask for hints: its
probabilities become c p + (1 - c) y. Each hint costs -log c, at a price that holds their mean at a
budget.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, Rng, with_score
from nescio.core.registry import losses
from nescio.losses.loss import Batch, Loss
from nescio.nets.stack import Forward

PRICE = "price of hints"  # in the memory of the run, (M,)
FIRST = 0.1  # as in the authors' code
STEP = 1.01


@losses.register
def learned_confidence(*, budget: float = 0.3, share: float = 0.5) -> Loss:
    """Likelihood with hints where the network is unsure, and a price for asking.

    The network has an output more than there are classes. Its prediction is of the classes alone;
    `nescio.detectors.failure.extra_score("learned_confidence")` reads the rest.

    budget: the mean of -log c that the price is adapted to, by 1 % a step.
    share: of the samples in a batch that may get hints, so that the classes are still learnt.
    """
    if not (math.isfinite(budget) and budget > 0):
        raise NescioError(f"budget must be positive and finite, got {budget}")
    if not 0 < share <= 1:
        raise NescioError(f"share must be above 0 and at most 1, got {share}")
    head = with_score()

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        outputs = forward(batch.x)
        own = -head.nll(outputs, batch.y)  # log p_y
        sure, unsure = F.logsigmoid(outputs[..., -1]), F.logsigmoid(-outputs[..., -1])
        hinted = (sure + own).logaddexp(unsure)  # log(c p_y + 1 - c)
        asked = _asked(rng, batch, share)
        cost = -sure.mean(1)
        price = batch.memory.setdefault(PRICE, outputs.new_full((len(outputs),), FIRST))
        loss = -torch.where(asked, hinted, own).mean(1) + price.clone() * cost
        price *= torch.where(cost.detach() > budget, STEP, 1 / STEP)
        return loss

    text = f"learned_confidence({head.name}(), {budget=}, {share=})"
    return Loss(text, head, head.nll, step)


def _asked(rng: Rng, batch: Batch, share: float) -> Tensor:
    """Which samples may get hints, `(M, B)`."""
    samples = batch.x.shape[1]
    draws = [torch.rand(samples, generator=source) for source in rng.generators("hints")]
    return (torch.stack(draws) < share).to(batch.x.device)
