"""The practical's code as it is, quirks and all: what its printed numbers were made with.

None of this is advice. The corrected runs use `nescio.losses`, `nescio.heads` and ordinary Adam.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio import nets
from nescio.core import HALF_LOG_TWO_PI, Gaussian, Head, Rng, categorical
from nescio.losses import Batch, Loss, plus, pointwise
from nescio.nets.stack import Forward
from nescio.training.optimizers import BETA1, BETA2

FLOOR = 1e-6


def frozen_adam(step: int, steps: int) -> float:
    """The factor on the rate when Adam is told at every step that it is the first.

    Its bias correction then stays at 1 - beta1 and 1 - beta2 and never fades: the steps are up to
    twice too long at first and in the end a third of the nominal rate.
    """
    del steps
    t = step + 1
    return (1 - BETA1**t) / (1 - BETA1) * math.sqrt((1 - BETA2) / (1 - BETA2**t))


def deviation_head() -> Head:
    """Mean and standard deviation, softplus(output) + 1e-6, of one normal target."""
    return Head(
        "deviation",
        {},
        "regression",
        2,
        _read,
        lambda outputs: _split(outputs)[0],
        _deviation_nll,
        _deviation_kl,
    )


def _split(outputs: Tensor) -> tuple[Tensor, Tensor]:
    mean, raw = outputs.chunk(2, dim=-1)
    return mean, F.softplus(raw) + FLOOR


def _read(outputs: Tensor) -> Gaussian:
    mean, deviation = _split(outputs)
    return Gaussian(mean, deviation.square())


def _deviation_nll(outputs: Tensor, y: Tensor) -> Tensor:
    mean, deviation = _split(outputs)
    scaled = ((y - mean) / deviation).square()
    return (deviation.log() + 0.5 * scaled + HALF_LOG_TWO_PI).sum(-1)


def _deviation_kl(p: Tensor, q: Tensor) -> Tensor:
    (m1, s1), (m2, s2) = _split(p), _split(q)
    ratio = (s1 / s2).square()
    return 0.5 * (ratio - 1 - ratio.log() + ((m1 - m2) / s2).square()).sum(-1)


def divided_nll() -> Loss:
    """The negative log-likelihood of classes, averaged over samples and, wrongly, over classes."""
    head = categorical()
    return pointwise(
        "divided_nll", head, lambda outputs, y: head.nll(outputs, y) / outputs.shape[-1]
    )


def norm_decay(base: Loss, *, strength: float = 1e-3) -> Loss:
    """Add `strength` times the norm of all weights, not its square: a pull that never grows."""

    def term(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        del batch, rng
        squares = [weight.flatten(1).square().sum(1) for weight in forward.parameters.values()]
        return strength * torch.stack(squares).sum(0).sqrt()

    return plus(base, f"norm_decay({base.description}, {strength=})", term)


def scaled_normal(
    inputs: int, outputs: int, widths: Sequence[int], scale: float | None = None
) -> Callable[[], nn.Module]:
    """A factory of networks with all weights and biases scale * N(0, 1).

    Without a scale every network draws its own, |N(0, 0.1)|, as in the practical's regression.
    """
    return partial(_scaled_normal, inputs, outputs, tuple(widths), scale)


@torch.no_grad()
def _scaled_normal(
    inputs: int, outputs: int, widths: Sequence[int], scale: float | None
) -> nn.Module:
    net: nn.Module = nets.mlp(inputs, outputs, widths=widths)
    chosen = abs(0.1 * torch.randn(()).item()) if scale is None else scale
    for weight in net.parameters():
        weight.normal_().mul_(chosen)
    return net
