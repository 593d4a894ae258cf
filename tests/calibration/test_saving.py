"""A predictor comes back from its folder: the model, its sampler, its calibration."""

import pytest
import torch
from torch import nn

import nescio
from nescio import calibration
from nescio.core import DamagedError, NescioError
from nescio.core.files import PREDICTOR
from nescio.core.registry import calibrators
from nescio.models import mc_dropout, plain
from nescio.models.mc_dropout import MCDropout


def network(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))


def data(model):
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(300, 2, generator=rng), torch.randint(3, (300,), generator=rng)
    return x, torch.where(torch.rand(300, generator=rng) < 0.7, model(x).labels, y)


@pytest.mark.parametrize("name", calibrators)
@pytest.mark.parametrize("sampled", [False, True])
def test_every_calibration_comes_back(name, sampled, tmp_path):
    net = network()
    inner = mc_dropout(plain(net), passes=5, seed=3) if sampled else plain(net)
    x, y = data(inner)
    before = calibrators[name](inner, (x, y))
    before.save(tmp_path)
    after = nescio.load(tmp_path, net=net)
    assert isinstance(after, calibration.Calibrated)
    assert isinstance(after.inner, MCDropout) == sampled
    assert torch.equal(after(x).probs, before(x).probs)


def test_a_sampler_of_a_module_is_saved_with_its_head(tmp_path):
    net, x = network(), torch.randn(9, 2)
    before = mc_dropout(net, passes=4, seed=2, head="dirichlet")
    after = nescio.load(before.save(tmp_path), net=net)
    assert torch.equal(after(x).probs, before(x).probs)
    assert after.head.name == "dirichlet"


def test_settings_of_another_model_are_refused(tmp_path):
    calibration.scaled(plain(network()), 0.5, (0.0, 0.0, 0.0)).save(tmp_path)
    plain(network(1)).write(tmp_path)
    with pytest.raises(DamagedError, match="saved with another model.safetensors"):
        nescio.load(tmp_path, net=network())
    (tmp_path / PREDICTOR).unlink()
    assert isinstance(nescio.load(tmp_path, net=network()), nescio.Model)


def test_a_lost_model_is_missed(tmp_path):
    calibration.scaled(plain(network()), 0.5, (0.0, 0.0, 0.0)).save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(NescioError, match="no file"):
        nescio.load(tmp_path, net=network())
