"""Temporal ensembling against a dictionary of running averages."""

import sys

import pytest
import torch
from tests.losses.test_consistency import batch_of, everything, forward_of, silent
from torch import nn

from nescio import losses
from nescio.core import NescioError, Rng
from nescio.losses.temporal_ensembling import _once
from nescio.nets.stack import Forward


def test_targets_are_the_corrected_averages_of_earlier_answers():
    """Z <- a Z + (1 - a) z for every input when it comes, and the target is Z / (1 - a^t)."""
    forward, memory, earlier = forward_of(nn.Dropout(0.5)), {}, {}
    loss = losses.temporal_ensembling(silent(), weight=1.0, ramp=0.0, momentum=0.6)
    for time in range(4):
        rng = Rng(5, (0, 1), (time, 0))
        batch = batch_of(memory=memory)
        batch.unlabeled_index[:, time % 5] = 6 + (time % 2)  # others come in between
        now = Forward(forward.architecture, forward.tensors, rng)
        probs = now(everything(batch)).softmax(-1).detach()
        truth = torch.zeros(2, 11, dtype=torch.float64)
        for member in range(2):
            keys = [("x", i) for i in range(6)]
            keys += [("u", int(i)) for i in batch.unlabeled_index[member]]
            for sample, key in enumerate(keys):
                z, t = earlier.get((member, *key), (torch.zeros(4, dtype=torch.float64), 0))
                own = probs[member, sample]
                if t:
                    truth[member, sample] = (own - z / (1 - 0.6**t)).square().mean()
                earlier[(member, *key)] = 0.6 * z + 0.4 * own, t + 1
        torch.testing.assert_close(loss(now, batch, rng), truth.mean(1))


def test_an_input_twice_in_a_batch_counts_once():
    position = torch.tensor([[4, 2, 4, 7, 2, 4], [0, 1, 2, 3, 4, 5]])
    assert _once(position).tolist() == [[4, 2, -1, 7, -1, -1], [0, 1, 2, 3, 4, 5]]
    forward, batch = forward_of(nn.Dropout(0.5)), batch_of()
    batch.unlabeled_index[:] = 3
    loss = losses.temporal_ensembling(silent(), ramp=0.0)
    loss(forward, batch, Rng(5, (0, 1), (3, 0)))
    stored = batch.memory["temporal_ensembling"]
    first = forward(everything(batch)).softmax(-1)[:, 6]
    torch.testing.assert_close(stored[:, 6 + 3], 0.4 * first.detach())
    assert (stored[:, -1] == 0).all()


def test_memory_is_said_before_it_is_taken(monkeypatch):
    monkeypatch.setattr(sys.modules[_once.__module__], "BYTES", 1000)
    with pytest.raises(NescioError, match=r"GB: 16 inputs x 2 members x 4 numbers; train fewer"):
        losses.temporal_ensembling(silent())(forward_of(), batch_of(), Rng(5, (0, 1), (3, 0)))
    with pytest.raises(NescioError, match="momentum must be in"):
        losses.temporal_ensembling(losses.nll(), momentum=1.0)
