"""`--device`: one option for every command that runs a network."""

import click
import numpy as np
import pytest
import torch
from click.testing import CliRunner

from nescio import calibration, models, nets
from nescio.cli import networks
from nescio.cli.main import main
from nescio.models import mc_dropout

RUN = ("train", "audit", "guard", "score", "predict", "compare", "monitor")


@pytest.mark.parametrize("name", RUN)
def test_every_command_that_runs_a_network_has_the_option(name):
    command = main.get_command(click.Context(main), name)
    (option,) = (one for one in command.params if one.name == "device")
    assert option.default == "cpu"


@pytest.mark.parametrize(
    ("name", "said"),
    [("tpuu", "not a device of this machine"), ("meta", "holds no numbers"), ("cuda", "cpu")],
)
def test_a_device_that_is_not_there_is_said(name, said, tmp_path):
    if name == "cuda" and torch.cuda.is_available():
        pytest.skip("it is there")
    words = ["train", "single", "--data", "half_moons", "--run", str(tmp_path / "r")]
    done = CliRunner().invoke(main, [*words, "--device", name])
    assert done.exit_code == 1
    assert said in done.output
    assert f"{name!r} is not a device of this machine" in done.output
    assert "there is: cpu" in done.output
    assert not (tmp_path / "r").exists()


def test_training_and_predicting_on_the_cpu_by_name(tmp_path):
    run, out = tmp_path / "r", tmp_path / "p.npz"
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 2), np.float32))
    for words in (
        ["train", "single", "--data", "half_moons", "--run", run, "--epochs", 1],
        ["predict", run, "--data", tmp_path / "x.npz", "--out", out],
    ):
        done = CliRunner().invoke(main, [*map(str, words), "--device", "cpu"])
        assert done.exit_code == 0, done.output
    assert np.load(out)["probs"].shape == (3, 2)


def test_networks_within_predictors_are_moved(monkeypatch):
    monkeypatch.setattr(networks, "device", lambda: torch.device("meta"))
    net = nets.mlp(2, 3, widths=(4,), dropout=0.5)
    whole = calibration.scaled(mc_dropout(models.plain(net), passes=3), 0.5, (0.0, 1.0, 0.0))
    assert networks.on_device(whole).inner.inner.device.type == "meta"
    assert whole.inner.inner.device.type == "cpu"
    assert next(networks.on_device(net).parameters()).device.type == "meta"
