"""Permuted images: the same pixels, channels together, every image equally often."""

import pytest
import torch

from nescio.core import NescioError
from nescio.data import ood


def test_the_pixels_of_an_image_stay_and_channels_stay_together():
    x = torch.arange(6 * 3 * 5 * 4, dtype=torch.uint8).reshape(6, 3, 5, 4)
    x = (x.int() % 251).to(torch.uint8)
    made = (ood.permuted(x, seed=1).take(12) * 255).round().to(torch.uint8).flatten(2)
    known = {tuple(map(tuple, image.flatten(1).T.tolist())): i for i, image in enumerate(x)}
    sources = []
    for image in made:  # pixels as triples, sorted, name the image they came from
        triples = sorted(map(tuple, image.T.tolist()))
        match = [i for pixels, i in known.items() if sorted(pixels) == triples]
        assert len(match) == 1
        sources += match
    assert sorted(sources[:6]) == list(range(6))
    assert sources[6:] == sources[:6]
    assert not torch.equal(made[0], made[6])  # another order the next time


def test_images_come_in_an_order_given_by_the_seed():
    x = torch.arange(50.0)[:, None].repeat(1, 2)
    firsts = [tuple(ood.permuted(x, seed=s).take(50)[:, 0].tolist()) for s in range(3)]
    assert all(sorted(first) == list(range(50)) for first in firsts)
    assert len({*firsts, tuple(range(50))}) == 4


def test_all_orders_are_equally_likely():
    x = torch.arange(3.0).repeat(1, 1)
    kinds, counts = ood.permuted(x, seed=1).take(6000).unique(dim=0, return_counts=True)
    assert len(kinds) == 6
    assert torch.all((counts - 1000).abs() < 120)  # four deviations


def test_pixels_go_everywhere():
    x = torch.zeros(1, 1, 28, 28)
    x[0, 0, 0, 0] = 1
    where = ood.permuted(x).take(20_000).flatten(1).sum(0)  # 25.5 +- 5 each
    assert where.sum() == 20_000
    assert where.min() >= 5
    assert where.max() <= 50
    expected = 20_000 / 784
    statistic = ((where - expected) ** 2 / expected).sum()
    assert abs(statistic - 783) < 4 * (2 * 783) ** 0.5


def test_large_images_are_shuffled_too():
    x = torch.arange(2500.0).reshape(1, 1, 50, 50)
    found = ood.permuted(x).take(2).flatten(1)
    assert torch.equal(found.sort(1).values, torch.arange(2500.0).repeat(2, 1))
    assert not torch.equal(found[0], found[1])


def test_bad_shapes_are_refused():
    with pytest.raises(NescioError, match=r"must be \(N, F\) or \(N, C, H, W\), got \(2, 3, 3\)"):
        ood.permuted(torch.zeros(2, 3, 3))
