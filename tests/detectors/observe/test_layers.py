"""Which layers are meant: by name, pattern, index, type, or none."""

import pytest
import torch
from torch import nn

import nescio
from nescio.core import NescioError
from nescio.detectors.observe.layers import POOLS, traced

CALLED = [
    "features.0", "features.1", "features.2", "features", "block.conv", "block.norm",
    "block.relu#1", "block.relu#2", "block", "head.0", "head.1", "head.2", "head.3", "head", "fc",
]  # fmt: skip


def names(net, x, layers):
    return list(nescio.observe(net, x, layers=layers).features)


def test_calls_are_found_in_their_order(net, x):
    calls = traced(net, lambda: net(x))
    assert [call.name for call in calls] == CALLED
    inner = {"features", "block", "head"}
    assert [call.name for call in calls if not call.leaf] == [n for n in CALLED if n in inner]


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("block", ["block"]),
        ("features.*", ["features.0", "features.1", "features.2"]),
        ("*.1", ["features.1", "head.1"]),
        ("block.relu#2", ["block.relu#2"]),
        ("block.relu#*", ["block.relu#1", "block.relu#2"]),
        (-1, ["fc"]),
        (-2, ["head.3"]),
        (0, ["features.0"]),
        (-6, ["block.relu#2"]),
        (nn.Conv2d, ["features.0", "block.conv"]),
        (nn.Linear, ["head.1", "fc"]),
        (nn.modules.batchnorm._BatchNorm, ["block.norm"]),
        (None, ["input of fc"]),
        ("input of block.conv", ["input of block.conv"]),
        (["fc", nn.Linear, -1, None, "head.0"], ["fc", "head.1", "input of fc", "head.0"]),
        ([], []),
        ("*", CALLED),
    ],
    ids=str,
)  # fmt: skip
def test_layers_are_chosen(net, x, layers, expected):
    assert names(net, x, layers) == expected


def test_every_call_of_a_layer_has_its_own_values(net, x):
    found = nescio.observe(net, x, layers=["block.norm", "block.relu#*", "block"], pool="flatten")
    first, second = (found.features[f"block.relu#{turn}"] for turn in (1, 2))
    torch.testing.assert_close(first, found.features["block.norm"].relu())
    torch.testing.assert_close(second, found.features["block"])
    assert not torch.equal(first, second)


def test_the_input_of_a_layer_is_what_came_before_it(net, x):
    found = nescio.observe(net, x, layers=["features", "input of block", "input of features.0"])
    assert torch.equal(found.features["features"], found.features["input of block"])
    torch.testing.assert_close(found.features["input of features.0"][0], x.mean((2, 3)))


def test_inputs_by_keyword():
    class Keyword(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(input=x.relu())

    x = torch.randn(5, 4)
    found = nescio.observe(Keyword(), x)
    assert torch.equal(found.features["input of fc"][0], x.relu())
    assert found.last == "input of fc"


@pytest.mark.parametrize("layers", [-2, "head.3", "head", ["features.0", "head.3"]], ids=str)
def test_a_layer_whose_output_enters_the_last_linear_one_is_recognized(net, x, layers):
    found = nescio.observe(net, x, layers=layers)
    assert found.last == list(found.features)[-1]
    assert torch.equal(found.weight[0], net.fc.weight)


@pytest.mark.parametrize(
    "layers", ["features.0", "head.1", ["features.0", "features.1"], []], ids=str
)
def test_other_layers_come_without_a_last_one(net, x, layers):
    assert nescio.observe(net, x, layers=layers).weight is None


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ("blok", r"no layer matches 'blok'; near: block.*a pass calls 15 layers: features.0, "),
        ("input of fcc", r"no layer matches 'input of fcc'; near: fc"),
        ("layer4.*", "no layer matches 'layer4"),
        ("block.relu", r"'block.relu' is called 2 times.*block.relu#1, block.relu#2"),
        ("block.relu#3", "no layer matches 'block.relu#3'; near: block.relu#"),
        ("unused", "'unused' exists but is not called"),
        (12, "there is no layer 12: a pass calls 12 layers"),
        (-13, "there is no layer -13"),
        (nn.Conv3d, "no layer matches 'Conv3d'"),
        (True, "layers are named by a name.*got True"),
        (1.5, "got 1.5"),
        ([["fc"]], "got .*fc"),
    ],
    ids=str,
)
def test_what_matches_nothing_is_refused(net, x, layers, message):
    with pytest.raises(NescioError, match=message):
        nescio.observe(net, x, layers=layers)


def test_a_long_list_is_cut():
    net = nn.Sequential(*(nn.ReLU() for _ in range(60)))
    with pytest.raises(NescioError, match=r"60 layers: 0, 1, .*14, \.\.\., 55, 56, 57, 58, 59$"):
        nescio.observe(net, torch.randn(3, 2), layers="x")


def test_a_network_without_a_linear_layer():
    net = nn.Sequential(nn.Conv2d(1, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x = torch.randn(5, 1, 4, 4)
    with pytest.raises(NescioError, match=r"calls no linear layer.*name layers=, one of 0, 1, 2"):
        nescio.observe(net, x)
    assert names(net, x, -2) == ["1"]


def test_a_layer_that_only_some_passes_call():
    class Sometimes(nn.Module):
        def __init__(self):
            super().__init__()
            self.extra, self.fc = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x):
            return self.fc(self.extra(x) if x.amax() < 1 else x)

    x = torch.zeros(8, 3)
    x[6] = 2
    with pytest.raises(NescioError, match="'extra' was called 0 times in this pass"):
        nescio.observe(Sometimes(), x, layers="extra", batch_size=4)


def test_a_layer_that_gives_no_tensor():
    class Pair(nn.Module):
        def forward(self, x):
            return {"x": x}

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair, self.fc = Pair(), nn.Linear(3, 2)

        def forward(self, x):
            return self.fc(self.pair(x)["x"])

    with pytest.raises(NescioError, match="'pair' gives a dict, not a tensor"):
        nescio.observe(Net(), torch.randn(4, 3), layers="pair")


def test_wrapped_networks_are_read_in_dist(net, x):
    found = nescio.observe(nn.DataParallel(net), x)
    assert list(found.features) == ["input of fc"]


def test_a_large_network_of_another_style():
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    net = nn.Sequential(nn.Linear(3, 8), encoder, nn.Flatten(), nn.Linear(40, 4))
    x = torch.randn(6, 5, 3)
    expected = net.eval()[:2](x).detach()
    found = nescio.observe(net.train(), x, layers=["1", None], pool="tokens")
    torch.testing.assert_close(found.features["1"][0], expected.mean(1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        found.logits[0], net[3](net[2](expected)).detach(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("shape", "cells"),
    [((2, 8, 8), 4), ((32, 8, 8), 4), ((33, 8, 8), 2), ((200, 8, 8), 1), ((8, 3, 9), 3)],
)
def test_a_grid_has_as_many_cells_as_give_512_features(shape, cells):
    maps = torch.rand(2, *shape)
    expected = nn.functional.adaptive_avg_pool2d(maps, cells).flatten(1)
    torch.testing.assert_close(POOLS["grid"](maps), expected)


def test_a_head_without_classes_is_refused(net, x):
    with pytest.raises(NescioError):
        nescio.observe(net, x, head="gaussian")
