"""Numbers of a whole data set carry the noise of the masks, and their intervals show it."""

import numpy as np
import torch
from torch import nn

import nescio
from nescio import models


def make_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 40), nn.ReLU(), nn.Dropout(0.5), nn.Linear(40, 3))


def test_masks_are_drawn_again():
    one = models.mc_dropout(make_net(), passes=3)
    other, again = one.redrawn(2)
    x = torch.randn(5, 4)
    assert len({str(p(x).probs.tolist()) for p in (one, other, again)}) == 3
    assert torch.equal(one.redrawn(1)[0](x).probs, other(x).probs)
    assert (other.passes, other.head) == (one.passes, one.head)


def test_the_interval_of_a_comparison_holds_other_masks():
    net, x = make_net(), 3 * torch.randn(400, 4)
    y, noise = net.eval()(x).argmax(1), torch.rand(50, 4)
    few = models.mc_dropout(net, passes=2)
    found = nescio.compare(
        {"few": few, "plain": net}, (x, y), {"noise": noise}, task="confidence", resamples=200
    )
    row = found.row("few", "test", "mean_max_confidence")
    means = [float(p(x).log_probs.amax(-1).exp().mean()) for p in few.redrawn(4)]
    assert row.low <= min(means) + 0.02
    assert row.high >= max(means) - 0.02
    assert row.value == float(np.float64(row.value))
    alone = nescio.metrics.bootstrap_mean(few(x).log_probs.amax(-1).exp(), resamples=200)
    assert row.high - row.low > 1.5 * (alone.high - alone.low)
