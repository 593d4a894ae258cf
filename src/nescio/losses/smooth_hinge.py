"""The smooth hinge (Koh and Liang, 2017, section 4.2): a hinge loss with two derivatives."""

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import Head, NescioError, categorical
from nescio.core.registry import losses
from nescio.losses.loss import Loss, named_head, pointwise

EXACT = 40.0  # beyond it, softplus is its argument in float64


@losses.register
def smooth_hinge(head: Head | None = None, *, temperature: float = 0.1) -> Loss:
    """Sum over the other classes of t log(1 + exp((1 - margin) / t)), averaged over samples.

    The margin is the logit of the label less that of the other class; of two classes the sum has
    one term, the published loss. It goes to the hinge max(0, 1 - margin) as t goes to 0.

    head: how outputs are read; None: class logits.
    temperature: t, above 0; published are 0.001 and 0.1.
    """
    if not (math.isfinite(temperature) and temperature > 0):
        raise NescioError(f"temperature must be positive and finite, got {temperature}")
    head = head or categorical()
    if head.task != "classification":
        raise NescioError(f"the smooth hinge needs logits of classes, the head is {head.name}")

    def score(outputs: Tensor, labels: Tensor) -> Tensor:
        logits = head.logits(outputs)
        index = labels[..., None]
        gaps = (1 - logits.gather(-1, index) + logits) / temperature
        others = torch.ones_like(gaps).scatter(-1, index, 0.0)
        return temperature * (F.softplus(gaps, threshold=EXACT) * others).sum(-1)

    text = f"smooth_hinge({named_head(head)}, {temperature=})"
    return replace(pointwise("smooth_hinge", head, score), description=text)
