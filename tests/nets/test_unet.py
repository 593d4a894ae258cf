"""The U-Net: any size of image, its stem, and MC dropout that shares the way down."""

import pytest
import torch

import nescio
from nescio import NescioError, models, nets


@pytest.mark.parametrize("stem", [1, 2, 3])
@pytest.mark.parametrize("size", [(90, 120), (23, 17), (5, 8), (1, 1)])
def test_odd_sizes_run(stem, size):
    net = nets.unet((3, 90, 120), 4, width=2, depth=3, stem=stem).eval()
    with torch.no_grad():
        assert net(torch.rand(2, 3, *size)).shape == (2, 4, *size)


def test_a_pixel_is_answered_from_all_levels():
    """The last pixels of an odd image count too: pooling and blocks of pixels lose none."""
    for stem in (1, 2):
        net = nets.unet((1, 13, 11), 2, width=4, depth=3, stem=stem).double().eval()
        x = torch.rand(1, 1, 13, 11, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(net(x)[0, 0, 6, 5], x)
        assert (slope != 0).double().mean() > 0.9
        (slope,) = torch.autograd.grad(net(x).square().sum(), x)
        assert slope[0, 0, -1, -1] != 0


def test_passes_of_mc_dropout_together_are_those_one_by_one():
    net = nets.unet((3, 9, 14), 4, width=3, depth=3, dropout=0.5)
    x = torch.rand(5, 3, 9, 14)
    predictor = models.mc_dropout(net, passes=4)
    together = predictor(x)
    assert together.batch_shape == (5, 9, 14)
    for index, member in enumerate(predictor.networks()):
        alone = models.mc_dropout(net, passes=index + 1)(x[2:3])
        torch.testing.assert_close(
            together.member_probs[index, 2:3], alone.member_probs[index], atol=1e-5, rtol=1e-4
        )
        assert member.masks == (0, index)
    assert together.member_probs.std(0).max() > 0


def test_it_learns_a_map_with_spread(tmp_path):
    draws = torch.Generator().manual_seed(0)
    x = torch.rand(24, 3, 9, 11, generator=draws)
    y = x.argmax(1)
    y[:, :2] = 255
    model = nescio.train(
        lambda: nets.unet((3, 9, 11), 6, width=8, depth=2, dropout=0.1),
        (x, y),
        head="gaussian_logits",
        ignore_index=255,
        epochs=25,
        batch_size=8,
        learning_rate=0.01,
        run=tmp_path / "run",
    )
    assert (model(x).labels == y)[:, 2:].double().mean() > 0.9
    again = nescio.load(tmp_path / "run")
    assert torch.equal(again(x).probs, model(x).probs)


def test_bad_sizes_are_refused():
    with pytest.raises(NescioError, match="sizes must be positive"):
        nets.unet(depth=0)
    with pytest.raises(NescioError, match="unet reads images"):
        nets.unet((3, 90))
    with pytest.raises(NescioError, match="dropout must be in"):
        nets.unet(dropout=1.0)
