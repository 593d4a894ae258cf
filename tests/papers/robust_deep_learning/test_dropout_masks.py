"""Errors by draws of the masks, image by image; and samples of digits that turn."""

import math

import pytest
import torch
from torch import nn

from nescio import models
from nescio_papers.robust_deep_learning import dropout_masks, dropout_turning


def test_sampling_from_the_dropout_on_gives_the_errors_of_the_whole_network():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
    x, y = torch.randn(200, 4), torch.randint(3, (200,))
    usual, sampled = dropout_masks.paired_errors(net, x, y, passes=400, masks=[0, 1])
    assert torch.equal(usual, models.plain(net)(x).labels != y)
    assert sampled.shape == (2, 200)
    assert not torch.equal(sampled[0], sampled[1])  # other masks
    whole = models.mc_dropout(net, passes=400, seed=5)(x).labels != y
    assert (sampled[0] != whole).double().mean() < 0.1  # the same mean, other draws


def test_the_difference_has_an_interval_over_images_and_masks():
    rng = torch.Generator().manual_seed(0)
    usual = torch.rand(5000, generator=rng) < 0.3
    sampled = torch.stack([usual & (torch.rand(5000, generator=rng) < 0.9) for _ in range(4)])
    found = dropout_masks.mask_numbers([usual], [sampled])
    gap = found["difference"]
    assert gap["value"] == pytest.approx(float(sampled.double().mean() - usual.double().mean()))
    images = (sampled.double() - usual.double()).mean(0)
    least = 1.96 * float(images.std()) / math.sqrt(5000)
    assert gap["high"] - gap["value"] > least  # the masks add to it
    assert dropout_masks.mask_fact("net", found).verdict == "holds"
    table = found["tables"][0][0]
    assert table["only MC wrong"] == 0
    assert table["only usual wrong"] == int((usual & ~sampled[0]).sum())
    assert table["p"] < 1e-6
    assert "lower for 4 and higher for 0 of 4" in dropout_masks.mask_note({"net": found})
    assert dropout_masks.mask_text({"net": found}).count("| net |") == 4


def test_no_difference_is_left_open():
    usual = torch.arange(100) < 30
    other = torch.arange(100) < 31
    found = dropout_masks.mask_numbers([usual], [torch.stack([usual, other])])
    assert dropout_masks.mask_fact("net", found).verdict == "open"


def samples(means, spread):
    """Logits of 50 passes of one digit at one angle: `(1, 50, 1, 3)`."""
    steps = torch.linspace(-spread, spread, 50, dtype=torch.float64)
    first = torch.stack([steps, -steps, torch.zeros(50)], -1)
    return (first + torch.tensor(means, dtype=torch.float64))[None, :, None]


def test_ranges_overlap_where_the_passes_do():
    sure, torn = samples([10.0, 2.0, 0.0], 1.0), samples([3.0, 2.0, -5.0], 2.0)
    assert not dropout_turning.ranges_overlap(sure).item()
    assert dropout_turning.ranges_overlap(torn).item()
    assert dropout_turning.output_spread(sure).item() < 0.01
    assert dropout_turning.output_spread(torn).item() > 0.8


def test_digits_are_judged_upright_and_where_the_mean_output_is_least_sure():
    upright, torn = samples([10.0, 2.0, 0.0], 1.0), samples([3.0, 2.0, -5.0], 2.0)
    digits = torch.cat([torch.cat([upright, torn], 2)] * 40)
    digits = digits + 0.1 * torch.randn(digits.shape, generator=torch.Generator().manual_seed(0))
    found = dropout_turning.turning_numbers(digits)
    assert found["angles where least sure"] == [1] * 40
    assert found["overlap"] == {"least sure": 40, "upright": 0}
    assert [one.verdict for one in dropout_turning.turning_facts(found)] == ["holds"] * 4
    still = dropout_turning.turning_numbers(digits[:, :, :1])
    facts = dropout_turning.turning_facts(still)
    assert [one.verdict for one in facts] == ["does not hold", "holds"] * 2
