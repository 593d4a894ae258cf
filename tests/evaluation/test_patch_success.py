"""Success of patches: counted by hand, beside the gray patch, in views that were not trained on."""

import pytest
import torch
from torch import nn

from nescio import NescioError, attacks
from nescio.attacks import Views
from nescio.evaluation import patch_success

QUIET = Views(angle=5, scale=(0.9, 1.1), brightness=0.1)


def situation():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    x = torch.rand(300, 1, 8, 8)
    y = net(x).argmax(1)
    y[:40] = (y[:40] + 1) % 3  # answered wrongly: they do not count
    return net, x, y


@pytest.mark.parametrize("target", [None, 1])
def test_shares_are_counts(target):
    net, x, y = situation()
    patch = attacks.patch(net, x, y, target=target, size=0.5, steps=40, views=QUIET)
    found = patch_success(patch, net, (x, y), seed=7)
    right = net(x).argmax(1) == y
    right &= y != target if target is not None else True
    for shown, share in ((patch, found.share), (patch.gray(), found.gray)):
        after = net(shown(x, seed=7)).argmax(1)
        misled = after != y if target is None else after == target
        assert share.value == pytest.approx(float(misled[right].double().mean()))
        assert share.low <= share.value <= share.high
    assert found.samples == int(right.sum()) < 300
    assert found.gain.value == pytest.approx(found.share.value - found.gray.value)
    assert found.gain.low > 0
    said = "wrongly" if target is None else "as class 1"
    assert f"answered {said} with the patch" in found.words()


def test_other_views():
    net, x, y = situation()
    patch = attacks.patch(net, x, y, size=0.5, steps=5, views=QUIET)
    small = patch_success(patch, net, (x, y), views=Views(scale=(0.1, 0.1)))
    assert small.share.value < patch_success(patch, net, (x, y)).share.value


def test_images_that_do_not_count():
    net, x, y = situation()
    patch = attacks.patch(net, x, target=1, steps=1)
    with pytest.raises(NescioError, match="none of the 40 images counts"):
        patch_success(patch, net, (x[:40], y[:40]))
