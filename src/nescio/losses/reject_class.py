"""A class for "I do not know", trained as a bet (Liu et al., 2019, deep gamblers).

The network shares its stake between the C classes and keeping it. A class pays `payoff` times what
was put on it, what is kept is not lost: the loss is -log(p_y + p_reject / payoff).
"""

import math

from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, Rng, with_score
from nescio.core.registry import losses
from nescio.losses.loss import Batch, Loss
from nescio.nets.stack import Forward


@losses.register
def reject_class(*, payoff: float = 4.0, free: float = 0.2) -> Loss:
    """Negative log of what a bet on the classes pays; the last output is the reject class.

    The network has an output more than there are classes. Its prediction is of the classes alone;
    `nescio.detectors.failure.extra_score("reject_class")` reads the rest.

    payoff: from 1 (rejecting is free) to C (betting at chance is fair); smaller rejects more.
    free: share of the run, at its start, in which the payoff is at least C, so that rejecting
    gains nothing; without it the network may learn to reject all.
    """
    if not (math.isfinite(payoff) and payoff > 1):
        raise NescioError(f"payoff must be a number above 1, got {payoff}")
    if not 0 <= free < 1:
        raise NescioError(f"free must be a share from 0 up and below 1, got {free}")
    head = with_score()

    def score(outputs: Tensor, y: Tensor) -> Tensor:
        return _bet(outputs, y, payoff)

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        del rng
        outputs = forward(batch.x)
        early = batch.step < free * batch.total
        fair = max(payoff, outputs.shape[-1] - 1.0)
        return _bet(outputs, batch.y, fair if early else payoff).mean(1)

    text = f"reject_class({head.name}(), {payoff=}, {free=})"
    return Loss(text, head, score, step)


def _bet(outputs: Tensor, y: Tensor, payoff: float) -> Tensor:
    logs = F.log_softmax(outputs, -1)
    own = logs.gather(-1, y[..., None])[..., 0]
    return -own.logaddexp(logs[..., -1] - math.log(payoff))
