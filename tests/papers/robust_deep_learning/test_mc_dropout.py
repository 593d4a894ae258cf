"""MC dropout in the lecture: its three distributions, errors over passes, digits that turn."""

import math

import pytest
import torch
from torch import nn

from nescio import models
from nescio.evaluation.compare import Absent
from nescio.nets.factory import made_by
from nescio_papers.kit import Settings
from nescio_papers.kit.images import InData
from nescio_papers.robust_deep_learning import (
    dropout_digits,
    dropout_errors,
    dropout_lecture,
    failure,
    mc_dropout,
)


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


@pytest.mark.parametrize(
    ("kind", "rates"),
    [
        (dropout_errors.NONE, []),
        (dropout_errors.LAST, [0.5]),
        (dropout_errors.ALL, [0.2, 0.2, 0.5]),
    ],
)
def test_where_dropout_stands(kind, rates):
    images, labels = torch.zeros(2, 1, 28, 28), torch.zeros(2, dtype=torch.long)
    net = dropout_errors.network(kind, InData((images, labels), (images, labels), 10))
    assert [layer.p for layer in net.modules() if isinstance(layer, nn.Dropout)] == rates
    assert net(images).shape == (2, 10)
    assert made_by(net) is None or kind != dropout_errors.ALL  # its record would rebuild another


def test_turning_by_right_angles_permutes_the_pixels():
    image = torch.rand(1, 8, 8)
    found = dropout_digits.turned(image, (0, 90, 180))
    for place, turns in enumerate((0, 1, 2)):
        torch.testing.assert_close(found[place], image.rot90(turns, (1, 2)), atol=1e-5, rtol=0)


def test_ties_of_the_variation_ratio_go_by_entropy():
    ratio, entropy = torch.tensor([0.5, 0.0, 0.0, 0.9]), torch.tensor([0.1, 0.7, 0.2, 0.3])
    assert dropout_digits._ordered(ratio, entropy).tolist() == [2, 1, 0, 3]


def test_the_predictive_entropy_is_not_the_aleatoric_part():
    claim = mc_dropout.entropy_claim(mc_dropout.examples(math.e))
    assert claim.verdict == "does not hold"
    assert "half-half: entropy 0.6931, of which aleatoric 0;" in claim.measured
    assert "all close to 0.5: entropy 0.6929, of which aleatoric 0.6929" in claim.measured


def test_one_variation_ratio_has_many_mutual_informations():
    claim = mc_dropout.variation_claim()
    assert claim.verdict == "holds in part"  # it is 0 where all passes agree, and no more
    near = mc_dropout.passes((0.51, 0.49))
    assert near["variation_ratio"] == 0.5
    assert near["mutual_information"] == pytest.approx(2 * 0.01**2, rel=1e-3)


KINDS = {
    "no dropout": {"usual": [0.03, 0.031, 0.029], "sampled": None},
    "dropout before the last layer": {
        "usual": [0.02, 0.021, 0.0195],
        "sampled": [[0.03, 0.018], [0.03, 0.0195], [0.03, 0.0175]],
    },
}


def test_dropout_is_compared_with_none_by_training():
    assert dropout_errors.training_claim(KINDS).verdict == "holds"
    worse = KINDS | {
        "dropout in all layers": {"usual": [0.05, 0.052, 0.05], "sampled": [[0.1]] * 3}
    }
    assert dropout_errors.training_claim(worse).verdict == "holds in part"


def test_errors_of_mc_dropout_are_paired_by_training():
    found = dropout_errors.sampling_claim(KINDS)
    assert found.verdict == "holds"
    (one,) = found.facts
    assert one.value == pytest.approx((-0.002 - 0.0015 - 0.002) / 3)
    usual = KINDS["dropout before the last layer"]["usual"]
    equal = {"dropout before the last layer": {"usual": usual, "sampled": [[0.02]] * 3}}
    assert dropout_errors.sampling_claim(equal).verdict == "open"


def test_the_verdicts_need_only_what_is_stored():
    numbers = {"examples": mc_dropout.examples(math.e), "errors": KINDS}
    assert len(mc_dropout.judge(numbers)) == 4
    assert len(mc_dropout.judge(numbers | {"errors": {"absent": "no digits"}})) == 2


def test_lenet_is_that_of_caffe_with_dropout_before_the_last_layer():
    net = dropout_lecture.lenet()
    assert sum(p.numel() for p in net.parameters()) == 431_080
    assert isinstance(net[-2], nn.Dropout)
    assert net[-2].p == 0.5
    assert net(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_the_lectures_set_up_is_run_as_stated(tmp_path):
    images = torch.rand(120, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    digits = InData((images, torch.arange(120) % 10), (images[:40], torch.arange(40) % 10), 10)
    settings, sizes = Settings(quick=True, folder=tmp_path), dropout_lecture.QUICK
    model = dropout_lecture.trained(settings, sizes, digits)
    assert model.notes["optimizer"] == "sgd"
    assert model.notes["learning_rate"] == 0.01
    assert "strength=5e-07" in model.notes["loss"]  # of the sum of squares: a decay of 1e-6
    found = dropout_lecture.turning(settings, sizes, model, digits)
    assert [row.published for row in found.comparisons] == [1, 1, 1, 1, 1, 5, 5, 7, 7, 7, 7]
    assert len(found.numbers["labels"]) == 12
    assert list(found.figures) == ["lenet-turning.png"]
    (claim,) = dropout_lecture.judge({"turning": found.numbers})
    assert claim.verdict == "not reached here"  # noise cannot be learned
    assert "not tested, since LeNet's test error" in claim.measured


def test_the_digits_and_the_photographs_are_run_and_judged(tmp_path, monkeypatch):
    def images(channels, side):
        rows = torch.rand(60, channels, side, side, generator=torch.Generator().manual_seed(1))
        labels = torch.arange(60) % 10
        return InData((rows, labels), (rows[:30], labels[:30]), 10)

    monkeypatch.setattr(dropout_lecture, "all_images", lambda *_, **__: images(1, 28))
    monkeypatch.setattr(failure, "images", lambda *_: Absent("no photographs"))
    settings = Settings(quick=True, folder=tmp_path)
    found = dropout_lecture.run(settings)
    assert "CIFAR-10 is not at hand: no photographs" in found.text
    numbers = found.numbers["errors"][dropout_lecture.LENET]
    assert numbers["images"] == 30
    assert len(numbers["tables"][0]) == dropout_lecture.QUICK.masks
    assert "McNemar's p" in found.text
    assert len(dropout_lecture.judge(found.numbers)) == 2

    monkeypatch.setattr(failure, "images", lambda *_: images(3, 32))
    found = dropout_lecture.run(settings)
    numbers = found.numbers["errors"][dropout_lecture.RESIDUAL]
    assert len(numbers["usual"]) == 2  # the networks of the part `failure`, without its folds
    (kept,) = (tmp_path / "failure").glob("*/*/model.safetensors")
    assert kept.parent.parts[-2:] == ("cifar-10-resnet-20", "network")
    *_, claim = dropout_lecture.judge(found.numbers)
    assert "ResNet-20 on CIFAR-10" in claim.sentence
    assert claim.verdict == "not reached here"  # noise cannot be learned


def test_networks_that_were_stored_under_another_name_must_have_learned_too():
    errors = [{"usual": [0.44, 0.43, 0.45], "difference": {"value": 0.0, "low": -0.1, "high": 0.1}}]
    found = {"tables": [], **errors[0]}
    claim = dropout_lecture._sampling_claim("small networks on CIFAR-10", found)
    assert claim.verdict == "not reached here"


def test_the_digit_most_like_the_printed_one_is_shown():
    labels = torch.tensor([[1] * 12, [1] * 5 + [5, 5] + [7] * 5, [7] * 12])
    assert dropout_lecture.alike(labels) == 1
