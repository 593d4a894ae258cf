"""Dropout under control: where masks come from, and what they look like."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nescio.core import NescioError, generator
from nescio.nets.modes import MaskPerPass, draw_mask, mask_shape, masks_from

X = torch.ones(6, 4, 3, 3)


def test_a_mask_is_zero_or_the_inverse_of_keeping():
    mask = draw_mask((200, 300), 0.2, generator(0), torch.empty(0, dtype=torch.float64))
    assert mask.dtype == torch.float64
    assert mask.unique().tolist() == pytest.approx([0, 1.25])
    assert mask.mean().item() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("function", "shape"),
    [(F.dropout, [4, 3, 3]), (F.dropout2d, [4, 1, 1]), (F.dropout3d, [4, 1, 1])],
)
def test_the_mask_covers_features_or_whole_channels(function, shape):
    assert mask_shape(function, X) == shape


CALLS = [
    lambda x: F.dropout(x, 0.5),
    lambda x: F.dropout(x, p=0.5, training=True),
    lambda x: F.dropout(input=x, p=0.5),
    lambda x: torch.dropout(x, 0.5, True),
    lambda x: torch.dropout(x, p=0.5, train=True),
    nn.Dropout(0.5),
    lambda x: nn.Dropout(0.5, inplace=True)(x.clone()),
]


@pytest.mark.parametrize("call", CALLS)
def test_every_way_to_call_dropout_draws_from_the_generator(call):
    expected = X * draw_mask(X.shape, 0.5, generator(3), X)
    with masks_from(generator(3)):
        assert torch.equal(call(X), expected)


def test_channels_are_dropped_whole_and_each_input_has_its_own_mask():
    with masks_from(generator(3)):
        dropped = F.dropout2d(X, 0.5)
    assert torch.equal(dropped, dropped[..., :1, :1].expand_as(X))
    assert len(dropped[:, :, 0, 0].unique(dim=0)) > 1


def test_dropout_that_is_off_stays_off_in_training_steps():
    with masks_from(generator(3)):
        assert F.dropout(X, 0.5, training=False) is X
        assert nn.Dropout(0.5).eval()(X) is X
        assert nn.Dropout(0.0)(X) is X


def test_alpha_dropout_cannot_be_shared_by_inputs():
    with pytest.raises(NescioError, match="alpha dropout"), MaskPerPass([generator(0)] * 2, 6):
        nn.AlphaDropout(0.5)(X)


def test_a_pass_shares_its_mask_between_inputs_and_is_always_on():
    mode = MaskPerPass([generator(t) for t in range(3)], len(X))
    with mode:
        waiting = F.dropout(X, 0.5, training=False)
    passes = mode.expanded(waiting).unflatten(0, (3, 6))
    assert mode.drawn == 1
    assert torch.equal(passes, passes[:, :1].expand_as(passes))
    assert torch.equal(passes[1, 0], draw_mask(X.shape[1:], 0.5, generator(1), X))
    assert not torch.equal(passes[0], passes[1])


def test_nothing_is_drawn_where_p_is_zero():
    with MaskPerPass([generator(0)], 6) as mode:
        assert nn.Dropout(0.0)(X) is X
    assert mode.drawn == 0
