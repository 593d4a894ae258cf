"""A network that is only read is left as it was."""

import pytest
import torch
from torch import nn

from nescio.nets.reading import at_rest


def test_modes_and_gradients_are_restored_also_after_an_error():
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).train()
    net[1].eval()
    net[0].weight.requires_grad_(False)
    with at_rest(net):
        assert not any(module.training for module in net.modules())
        assert not net(torch.ones(2, 4)).requires_grad
    with pytest.raises(RuntimeError, match="stop"), at_rest(net):
        raise RuntimeError("stop")
    assert [module.training for module in net] == [True, False, True, True]
    assert net.training
    assert [weight.requires_grad for weight in net.parameters()] == [False] + 5 * [True]
