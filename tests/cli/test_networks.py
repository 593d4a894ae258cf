"""A network by the name of its factory: what is found, and what is said where it is not."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from nescio.cli.networks import (
    factory_named,
    likely,
    load_network,
    load_weights,
    named_networks,
    named_predictor,
)
from nescio.core import NescioError

MODULE = """
from torch import nn
class MyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(2, 2)
    def forward(self, x):
        return self.out(x)
net = MyNet()
def make_net():
    return MyNet()
def trained():
    made = MyNet()
    nn.init.ones_(made.out.weight)
    nn.init.zeros_(made.out.bias)
    return made
"""
NAME = "networks_module_of_tests"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    (tmp_path / f"{NAME}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_function_or_a_class_makes_the_network():
    for name in ("make_net", "MyNet"):
        assert isinstance(load_network(f"{NAME}:{name}"), nn.Module)


@pytest.mark.parametrize("load", [load_network, factory_named])
def test_a_network_is_not_its_factory(load):
    words = rf"{NAME}:net is a network, a MyNet; name a function that returns it, such as def"
    with pytest.raises(NescioError, match=words):
        load(f"{NAME}:net")


def test_a_dot_in_place_of_the_colon_is_seen():
    with pytest.raises(NescioError, match=rf"did you mean {NAME}:make_net\?"):
        factory_named(f"{NAME}.make_net")
    assert likely("torch.nn.Linear") == "; did you mean torch.nn:Linear?"


@pytest.mark.parametrize(
    "text",
    ["nowhere.make_net", "nowhere.at.all", "run", f"{NAME}.py", "a/b.c", "..", "", f"{NAME}.a.b"],
)
def test_nothing_is_guessed_where_there_is_no_module(text):
    assert likely(text) == ""


@pytest.mark.parametrize("named", [named_networks, named_predictor])
def test_random_weights_are_refused(named):
    with pytest.raises(NescioError, match=rf"{NAME}:make_net makes .* random weights.*--w"):
        named(f"{NAME}:make_net", None, None)
    assert float(named(f"{NAME}:trained", None, None).out.weight.detach().sum()) == 4


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
@pytest.mark.parametrize("how", ["cut", "empty", "altered"])
def test_damaged_weights_are_said_to_be_damaged(tmp_path, ending, how):
    net, path = nn.Linear(60, 60), tmp_path / f"w.{ending}"
    save = save_file if ending == "safetensors" else torch.save
    save(net.state_dict(), path)
    load_weights(nn.Linear(60, 60), path)
    whole = bytearray(path.read_bytes())
    if how == "altered":
        if ending == "safetensors":
            pytest.skip("the format has no checksum")
        whole[whole.find(net.weight.detach().numpy().tobytes()[:64]) + 50] ^= 64
    path.write_bytes(whole[: {"cut": len(whole) // 2, "empty": 0}.get(how, len(whole))])
    words = {"cut": "cut off", "empty": "empty", "altered": "checksum"}[how]
    with pytest.raises(NescioError, match=rf"w\.{ending} is damaged: .*{words}.*copy it again"):
        load_weights(nn.Linear(60, 60), path)
