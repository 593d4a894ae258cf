"""Weights of classes: those of torch's cross_entropy, and shares counted by hand."""

import pytest
import torch
from torch.nn import functional as F

import nescio
from nescio import NescioError, heads, losses, nets
from nescio.core import Rng
from nescio.losses import Batch, balanced_weights, class_weighted
from nescio.nets.stack import Forward, Stack, stack

WEIGHTS = [0.5, 1.0, 4.0]


@pytest.mark.parametrize("ignored", [None, 255])
def test_it_is_that_of_torch(ignored):
    net = nets.dilated_cnn((2, 5, 6), 3, width=4, depth=1).double()
    x, y = torch.rand(1, 4, 2, 5, 6).double(), torch.randint(3, (1, 4, 5, 6))
    if ignored is not None:
        y[:, :, :2] = ignored
    loss = class_weighted(losses.nll(), WEIGHTS).ignoring(ignored)
    batch = Batch(x=x, y=y, points=4, low=torch.zeros(2, 5, 6), high=torch.ones(2, 5, 6))
    found = loss(Forward(Stack(net), stack([net])), batch, Rng(0, (0,)))
    own = {} if ignored is None else {"ignore_index": ignored}
    truth = F.cross_entropy(net(x[0]), y[0], torch.tensor(WEIGHTS).double(), **own)
    torch.testing.assert_close(found[0], truth)


def test_a_rare_class_is_found_more_often():
    draws = torch.Generator().manual_seed(0)
    y = (torch.rand(500, generator=draws) < 0.1).long()
    x = y[:, None] + torch.randn(500, 1, generator=draws)
    plain, weighted = (
        nescio.train(lambda: nets.mlp(1, 2), (x, y), loss=loss, epochs=20, learning_rate=0.01)
        for loss in (losses.nll(), class_weighted(losses.nll(), balanced_weights(y, 2, power=1.0)))
    )
    assert (weighted(x).labels == 1).sum() > 2 * (plain(x).labels == 1).sum()


def test_balanced_weights_by_hand():
    labels = torch.tensor([[0, 0, 0, 0], [1, 255, 255, 255]])
    assert balanced_weights(labels, 3, ignore_index=255) == pytest.approx([0.5, 1.0, 1.0])
    assert balanced_weights(labels, 2, power=0.0, ignore_index=255) == [1.0, 1.0]
    assert balanced_weights(labels.numpy(), 2, power=0.0, ignore_index=255) == [1.0, 1.0]
    for wrong in (labels, labels.where(labels < 255, -1)):
        with pytest.raises(NescioError, match=r"labels must be in 0\.\.2"):
            balanced_weights(wrong, 3)


@pytest.mark.parametrize("weights", [[], [1.0, 0.0], [1.0, float("nan")], [[1.0]], [-1.0]])
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(NescioError, match="a positive number for each class"):
        class_weighted(losses.nll(), weights)


def test_too_few_weights_and_numbers_are_refused():
    x, y = torch.rand(9, 2), torch.arange(9) % 3
    with pytest.raises(NescioError, match="2 weights for labels up to 2"):
        nescio.train(
            lambda: nets.mlp(2, 3), (x, y), loss=class_weighted(losses.nll(), [1.0, 2.0]), epochs=1
        )
    with pytest.raises(NescioError, match="only classes have weights"):
        class_weighted(losses.nll(heads.gaussian()), [1.0])
