import math
from importlib import import_module

import pytest
import torch
from torch import Tensor, nn

from nescio import measures, models, nets
from nescio.core import Categorical, NescioError
from nescio.core.registry import calibrators
from nescio.core.registry import measures as registered
from nescio.models import mc_dropout, uncertainty_maps
from nescio.models.predictor import Predictor
from nescio.models.uncertainty_maps import Mixture

DROPOUT, MAPS = (import_module(f"nescio.models.{n}") for n in ("mc_dropout", "uncertainty_maps"))
NAMES = ("least_confidence", "predictive_entropy", "expected_entropy", "mutual_information")


def conv(seed: int = 0, *, classes: int = 5) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.Dropout2d(0.4),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Conv2d(6, classes, 3, padding=1),
    )


def images(count: int = 5, *, height: int = 7, width: int = 9) -> Tensor:
    return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(1))


def assert_same_as_measures(predictor: Predictor, x: Tensor, near: float = 2e-7) -> None:
    maps, prediction = uncertainty_maps(predictor, x, probs=True), predictor(x)
    assert maps.members == prediction.members
    assert torch.equal(maps.labels, prediction.labels)
    torch.testing.assert_close(maps.probs, prediction.probs, rtol=1e-5, atol=near)
    for name in NAMES:
        expected = registered[name](prediction.to(torch.float64))
        torch.testing.assert_close(getattr(maps, name).double(), expected, rtol=1e-4, atol=near)


@pytest.mark.parametrize("small", [64 << 20, 1])
def test_streamed_passes_are_the_measures_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(DROPOUT, "STREAMED", small)
    assert_same_as_measures(mc_dropout(conv(), passes=7), images())


def test_a_pass_at_a_time_gives_parts_that_are_the_prediction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DROPOUT, "STREAMED", 1)
    predictor, x = mc_dropout(conv(), passes=3), images(2)
    whole = predictor(x)
    parts = list(predictor.streamed(x))
    assert [start for start, _ in parts] == [0, 0, 0, 1, 1, 1]
    assert all(part.batch_shape == (1, 7, 9) and part.members == 1 for _, part in parts)
    for at, (start, part) in enumerate(parts):
        expected = whole.choose([at % 3])[start]
        torch.testing.assert_close(part.logits, expected.logits, rtol=1e-5, atol=1e-6)


def test_models_and_plain_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MAPS, "OUTPUTS", 4 * 3 * 63 * 5 * 2)
    assert_same_as_measures(models.ensemble([conv(seed) for seed in range(3)]), images())
    alone = uncertainty_maps(conv(), images())
    assert alone.members == 1
    assert alone.mutual_information.abs().max() == 0
    torch.testing.assert_close(alone.predictive_entropy, alone.expected_entropy)


def test_dropout_of_several_networks_and_calibrated_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DROPOUT, "STREAMED", 5000)
    sampled = mc_dropout(models.ensemble([conv(seed) for seed in range(2)]), passes=4)
    assert_same_as_measures(sampled, images())
    y = sampled(images()).labels
    y[:, 0] = 4 - y[:, 0]  # some are wrong
    for name, near in {"temperature": 2e-7, "isotonic": 1e-3}.items():  # steps enlarge rounding
        assert_same_as_measures(calibrators[name](sampled, (images(), y)), images(), near)


def test_joined_information_of_agreeing_and_disjoint_members() -> None:
    def mixture(*probs: float) -> Mixture:
        return Mixture.of(Categorical.from_probs(torch.tensor([[probs]], dtype=torch.float64)))

    same = mixture(0.2, 0.8)
    assert float(same.joined(same).information) == 0
    assert float(mixture(1, 0).joined(mixture(0, 1)).information) == pytest.approx(math.log(2))
    three = mixture(0.2, 0.8).joined(mixture(0.5, 0.5)).joined(mixture(0.9, 0.1))
    probs = torch.tensor([[[0.2, 0.8]], [[0.5, 0.5]], [[0.9, 0.1]]], dtype=torch.float64)
    exact = measures.mutual_information(Categorical.from_probs(probs))
    assert float(three.information) == pytest.approx(float(exact), abs=1e-15)


def test_odd_sizes_one_image_and_choosing() -> None:
    maps = uncertainty_maps(mc_dropout(conv(), passes=2), images(1, height=1, width=3))
    assert maps.labels.shape == (1, 1, 3)
    several = uncertainty_maps(conv(), images(4))
    assert len(several[[0, 2]]) == 2
    assert torch.equal(several[1:3].labels, several.labels[1:3])
    assert several.probs is None
    torch.testing.assert_close(several.confidence, models.plain(conv())(images(4)).probs.amax(-1))


def test_bad_input_is_refused() -> None:
    with pytest.raises(NescioError, match="classes, got a Gaussian"):
        uncertainty_maps(models.plain(nets.mlp(2, 1), head="fixed_variance"), torch.zeros(3, 2))
    with pytest.raises(NescioError):
        uncertainty_maps(conv(), torch.zeros(0, 3, 7, 9))
    with pytest.raises(NescioError, match="NaN"):
        uncertainty_maps(conv(), torch.full((1, 3, 7, 9), torch.nan))


def test_one_label_per_sample_works_too() -> None:
    net = nets.mlp(4, 3, dropout=0.2)
    x = torch.randn(6, 4)
    maps = uncertainty_maps(mc_dropout(net, passes=9), x)
    prediction = mc_dropout(net, passes=9)(x)
    torch.testing.assert_close(maps.mutual_information, measures.mutual_information(prediction))
