"""Losses of networks with one output more than classes: a learned confidence, a reject class.

Learned confidence (DeVries and Taylor, 2018): the last output is the log-odds of a confidence c. In
training the network may ask for hints: its probabilities become c p + (1 - c) y. Each hint costs
-log c, at a price that holds their mean at a budget.

Reject class (Liu et al., 2019, deep gamblers): the network shares its stake between the C classes
and keeping it. A class pays `payoff` times its stake, and what is not staked is not lost: the loss
is -log(p_y + p_reject / payoff).
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
def learned_confidence(
    *, budget: float = 0.3, share: float = 0.5, ignore_index: int | None = None
) -> Loss:
    """Likelihood with hints where the network is unsure, and a price for asking.

    The network has one output more than there are classes. Its prediction is of the classes alone;
    `nescio.detectors.failure.extra_score("learned_confidence")` reads the rest.

    budget: the mean of -log c that the price is adapted to, by 1 % a step.
    share: the share of the samples in a batch that may get hints; the others teach the classes.
    ignore_index: the label of what is left out, one that is not a class.
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
        draws = [torch.rand(batch.x.shape[1], generator=g) for g in rng.generators("hints")]
        asked = (torch.stack(draws) < share).to(batch.x.device)  # who may get hints, (M, B)
        asked = asked.reshape(*asked.shape, *(1,) * (own.ndim - 2))  # all labels of a map, or none
        cost = -batch.mean(sure)
        price = batch.memory.setdefault(PRICE, outputs.new_full((len(outputs),), FIRST))
        loss = -batch.mean(torch.where(asked, hinted, own)) + price.clone() * cost
        price *= torch.where(cost.detach() > budget, STEP, 1 / STEP)
        return loss

    text = f"learned_confidence({head.name}(), {budget=}, {share=})"
    loss = Loss(description=text, head=head, score=head.nll, step=step)
    return loss.ignoring(ignore_index)


@losses.register
def reject_class(
    *, payoff: float = 4.0, free: float = 0.2, ignore_index: int | None = None
) -> Loss:
    """Negative log of what a bet on the classes pays; the last output is the reject class.

    The network has one output more than there are classes. Its prediction is of the classes alone;
    `nescio.detectors.failure.extra_score("reject_class")` reads the rest.

    payoff: from 1 (rejecting is free) to C (betting at chance is fair); smaller rejects more.
    free: share of the run, at its start, in which the payoff is at least C, so that rejecting gains
      nothing; without it the network may learn to reject all.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    if not (math.isfinite(payoff) and payoff > 1):
        raise NescioError(f"payoff must be a number above 1, got {payoff}")
    if not 0 <= free < 1:
        raise NescioError(f"free must be a share from 0 up and below 1, got {free}")
    head = with_score()

    def score(outputs: Tensor, y: Tensor) -> Tensor:
        return _bet(outputs, y, payoff)

    def step(forward: Forward, batch: Batch, _: Rng) -> Tensor:
        outputs = forward(batch.x)
        early = batch.step < free * batch.total
        fair = max(payoff, outputs.shape[-1] - 1.0)
        return batch.mean(_bet(outputs, batch.y, fair if early else payoff))

    text = f"reject_class({head.name}(), {payoff=}, {free=})"
    return Loss(description=text, head=head, score=score, step=step).ignoring(ignore_index)


def _bet(outputs: Tensor, y: Tensor, payoff: float) -> Tensor:
    logs = F.log_softmax(outputs, -1)
    own = logs.gather(-1, y[..., None])[..., 0]
    return -own.logaddexp(logs[..., -1] - math.log(payoff))
