"""MC dropout in the lecture: its three distributions, errors over passes, digits that turn."""

import math

import pytest
import torch
from torch import nn

from nescio import models
from nescio_papers.kit.images import InData
from nescio_papers.robust_deep_learning import dropout_digits, dropout_errors, mc_dropout


def test_the_three_distributions_have_their_closed_forms():
    found = mc_dropout.examples(math.e)
    near = -0.51 * math.log(0.51) - 0.49 * math.log(0.49)
    expected = {
        "all equal to 1": (0, 0, 0),
        "half-half": (0.5, math.log(2), math.log(2)),
        "all close to 0.5": (0, near, 0),
    }
    for name, values in expected.items():
        assert list(found[name].values()) == pytest.approx(values, abs=1e-12)


def test_in_bits_half_and_half_is_one_bit():
    assert mc_dropout.examples(2.0)["half-half"]["mutual_information"] == pytest.approx(1)


def test_what_the_lecture_has_wrong_is_marked():
    rows = {row.what: row for row in mc_dropout._comparisons(mc_dropout.examples(math.e))}
    wrong = [what for what, row in rows.items() if row.note]
    assert wrong == [
        "half-half: predictive_entropy",
        "half-half: mutual_information",
        "all close to 0.5: predictive_entropy",
    ]


def test_errors_over_passes_equal_those_of_fewer_passes():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
    x, y = torch.randn(600, 4), torch.randint(3, (600,))
    found = dropout_errors._wrong(models.mc_dropout(net, passes=6), x, y)
    for passes in (1, 3, 6):
        labels = models.mc_dropout(net, passes=passes)(x).labels
        assert found[passes - 1] == pytest.approx((labels != y).double().mean().item())


@pytest.mark.parametrize(("kind", "count"), [("no dropout", 0), ("dropout in all layers", 3)])
def test_where_dropout_stands(kind, count):
    images, labels = torch.zeros(2, 1, 28, 28), torch.zeros(2, dtype=torch.long)
    net = dropout_errors.NETWORKS[kind](InData((images, labels), (images, labels), 10))
    assert sum(isinstance(layer, nn.Dropout) for layer in net) == count
    assert net(images).shape == (2, 10)


def test_turning_by_right_angles_permutes_the_pixels():
    image = torch.rand(1, 8, 8)
    found = dropout_digits.turned(image, (0, 90, 180))
    for place, turns in enumerate((0, 1, 2)):
        torch.testing.assert_close(found[place], image.rot90(turns, (1, 2)), atol=1e-5, rtol=0)


def test_ties_of_the_variation_ratio_go_by_entropy():
    ratio, entropy = torch.tensor([0.5, 0.0, 0.0, 0.9]), torch.tensor([0.1, 0.7, 0.2, 0.3])
    assert dropout_digits._ordered(ratio, entropy).tolist() == [2, 1, 0, 3]
