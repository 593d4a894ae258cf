"""A calibrated model comes back from its folder, also from one of an earlier format."""

import json

import pytest
import torch
from torch import nn

import nescio
from nescio import calibration
from nescio.calibration.saving import FILE, MAP, load, save_settings
from nescio.core import NescioError
from nescio.models import plain


def saved(folder):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Linear(2, 3)
    model = plain(net)
    model.save(folder)
    return net, model


@pytest.mark.parametrize("name", nescio.core.registry.calibrators)
def test_every_calibration_comes_back(name, tmp_path):
    net, model = saved(tmp_path)
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(300, 2, generator=rng), torch.randint(3, (300,), generator=rng)
    y = torch.where(torch.rand(300, generator=rng) < 0.7, model(x).labels, y)
    before = nescio.core.registry.calibrators[name](model, (x, y))
    save_settings(tmp_path, calibrated=before)
    after = load(tmp_path, net=net)
    assert isinstance(after, calibration.Calibrated)
    assert torch.equal(after(x).probs, before(x).probs)


def test_folders_from_before_there_were_maps_are_read(tmp_path):
    net, _ = saved(tmp_path)
    old = {"sampler": None, "sampling": {}, "scaling": {"slope": 0.5, "intercept": [0, 1, 2]}}
    (tmp_path / FILE).write_text(json.dumps(old))
    found = load(tmp_path, net=net)
    assert found.temperature == 2
    assert found.intercept == (0.0, 1.0, 2.0)


def test_a_lost_map_is_missed(tmp_path):
    net, model = saved(tmp_path)
    save_settings(tmp_path, calibrated=calibration.scaled(model, 0.5, (0.0, 0.0, 0.0)))
    (tmp_path / MAP).unlink()
    with pytest.raises(NescioError, match="no file"):
        load(tmp_path, net=net)
