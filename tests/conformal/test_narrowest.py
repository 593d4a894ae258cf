"""Which kind of interval is chosen, and that choosing keeps the coverage."""

import numpy as np
import pytest
import torch

import nescio
from nescio.conformal import narrowest, spread
from nescio.core import NescioError


def sample(kind, count, seed, members=3):
    """Targets whose noise is as the variances say, as the members disagree, or constant."""
    draw = torch.Generator().manual_seed(seed)
    mean = 3 * torch.randn(count, 1, generator=draw).double()
    deviation = torch.exp(torch.randn(count, 1, generator=draw)).double()
    y = mean + torch.randn(count, 1, generator=draw) * (1 if kind == "residual" else deviation)
    wrong = 5 * torch.rand(count, 1, generator=draw).double() + 0.1
    said = deviation if kind == "normalized" else wrong
    apart = deviation if kind == "spread" else torch.rand(count, 1, generator=draw).double()
    places = torch.linspace(-1, 1, members).double()[:, None, None] * apart
    places = 1e-3 * places if kind == "normalized" else places
    return nescio.Gaussian(mean + places, (said**2).expand_as(places + mean)), y


@pytest.mark.parametrize("kind", ["normalized", "spread", "residual"])
def test_the_kind_that_fits_the_noise_is_chosen(kind):
    prediction, y = sample(kind, 2000, seed=0)
    assert narrowest(prediction, y).name == kind


def test_choosing_keeps_the_coverage():
    """The mean coverage over calibration sets is at least 1 - miscoverage, up to chance."""
    covered = []
    for seed in range(50):
        prediction, y = sample("residual", 400, seed)
        low, high = narrowest(prediction[:200], y[:200], miscoverage=0.2)(prediction[200:])
        covered.append(float(((low <= y[200:]) & (y[200:] <= high)).double().mean()))
    error = np.std(covered) / np.sqrt(len(covered))
    assert np.mean(covered) >= 0.8 - 3 * error
    assert np.mean(covered) <= 0.8 + 2 / 150 + 3 * error  # 1 / (n + 1) by rounding


def test_few_samples_calibrate_the_usual_kind_and_none_chooses():
    prediction, y = sample("normalized", 60, seed=0)
    intervals = narrowest(prediction, y)
    assert intervals.name == "normalized"
    assert intervals.options["samples"] == 60
    flat = nescio.Gaussian(prediction.mean[:1], torch.ones(1, 60, 1).double())
    assert narrowest(flat, y).name == "residual"


def test_groups_and_files(tmp_path):
    prediction, y = sample("normalized", 400, seed=0)
    groups = torch.arange(400) % 2
    fitted = narrowest(prediction, y, by=groups)
    fitted.save(tmp_path / "intervals.safetensors")
    again = nescio.load(tmp_path / "intervals.safetensors")
    assert torch.equal(again(prediction, groups)[0], fitted(prediction, groups)[0])


def test_the_spread_is_that_of_the_means_and_the_noise():
    prediction, y = sample("spread", 300, seed=0)
    low, high = spread(prediction, y, noise=0.5)(prediction)
    unit = (prediction.mean.var(0, correction=0) + 0.25).sqrt()
    ratio = (high - low) / unit
    assert torch.allclose(ratio, ratio[:1].expand_as(ratio), rtol=1e-9)


def test_bad_input_is_refused():
    prediction, y = sample("spread", 50, seed=0)
    with pytest.raises(NescioError, match="two members"):
        spread(prediction.choose([0]), y)
    same = nescio.Gaussian(prediction.mean[:1].repeat(2, 1, 1), torch.ones(2, 50, 1).double())
    with pytest.raises(NescioError, match="agree exactly"):
        spread(same, y)
    with pytest.raises(NescioError, match="noise"):
        spread(prediction, y, noise=-1.0)
    with pytest.raises(NescioError, match="use `residual` for means"):
        narrowest(prediction.mean, y)
