"""Weight decay is the squared norm of the trained weights, times its strength."""

import pytest
import torch
from torch import nn

from nescio import losses
from nescio.core import NescioError, Rng
from nescio.losses import Batch
from nescio.nets import standardized
from nescio.nets.stack import Forward, Stack, stack

RNG = Rng(0, (0, 1))


def test_the_term_is_strength_times_the_sum_of_squares():
    x = torch.randn(2, 6, 3)
    nets = [standardized(nn.Linear(3, 2), 9 * x[0] + 5) for _ in range(2)]
    nets[1][1].bias.requires_grad_(True)
    nets[0][1].weight.data.mul_(3)
    forward = Forward(Stack(nets[0]), stack(nets))
    batch = Batch(
        x=x, y=torch.zeros(2, 6, dtype=torch.long), points=6, low=x.amin(1), high=x.amax(1)
    )
    base = losses.nll()
    term = losses.weight_decay(base, strength=0.1)(forward, batch, RNG) - base(forward, batch, RNG)
    squares = [sum(p.square().sum() for p in net[1].parameters()).item() for net in nets]
    assert term.tolist() == pytest.approx([0.1 * square for square in squares], rel=1e-4)


@pytest.mark.parametrize("strength", [-1e-3, float("nan")])
def test_negative_strengths_are_refused(strength):
    with pytest.raises(NescioError, match="strength must not be negative"):
        losses.weight_decay(losses.nll(), strength=strength)
