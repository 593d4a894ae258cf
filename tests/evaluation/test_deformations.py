"""Deformations: changes against direct computation, bounds, and what is refused."""

import math

import pytest
import torch
from torch import nn

from nescio import models, nets
from nescio.core import NescioError
from nescio.data import corruptions
from nescio.evaluation import ShiftCurves, deformations

X = torch.rand(20, 1, 12, 12, generator=torch.Generator().manual_seed(0))
with torch.random.fork_rng():
    torch.manual_seed(0)
    NET = nets.digit_cnn((1, 12, 12), 4).eval()
    FRONT = nets.scattering((1, 12, 12), 4, orientations=4).eval()


@pytest.mark.parametrize("kind", ["rotation", "translation", "warping"])
def test_changes_grow_with_the_size_and_stay_below_the_bound(kind, tmp_path):
    found = deformations({"plain": NET, "scattering": FRONT, "front": FRONT[0]}, X, kind)
    assert found.strengths[0] == 0
    for name in ("plain", "scattering", "front", "inputs"):
        change = found.curve(name, "change")
        assert change[0] == 0
        assert change[1] < change[-1]
        assert all(
            low <= value <= high
            for low, value, high in zip(
                found.curve(name, "change", "low"), change, found.curve(name, "change", "high"),
                strict=True,
            )
        )  # fmt: skip
        if name != "inputs":
            bound = found.curve(name, "bound")
            assert all(c <= b + 1e-12 for c, b in zip(change, bound, strict=True))
    assert found.curve("plain", "flipped")[0] == 0
    assert found.subjects("flipped") == ["plain", "scattering"]
    found.save(tmp_path / "curves.json")
    assert ShiftCurves.load(tmp_path / "curves.json") == found
    assert "plain" in str(found)


def test_the_numbers_are_those_of_the_outputs():
    found = deformations(NET, X, "rotation", [10])
    net = NET.double()
    with torch.no_grad():
        before, after = (net(x.double()) for x in (X, corruptions.rotation(degrees=10)(X, 1)))
    NET.float()
    pairs = [(before[i] - before[j]).square().sum() for i in range(20) for j in range(20)]
    apart = math.sqrt(sum(pairs) / 400)
    change = (after - before).norm(dim=1).mean() / apart
    assert found.curve("network", "change")[1] == pytest.approx(float(change), rel=1e-6)
    flipped = (after.argmax(1) != before.argmax(1)).double().mean()
    assert found.curve("network", "flipped")[1] == pytest.approx(float(flipped))


def test_members_are_compared_together():
    one = deformations(NET, X, "translation", [2])
    twice = deformations(models.ensemble([NET, NET]), X, "translation", [2])
    for metric in ("change", "flipped", "bound"):
        alone, both = one.curve("network", metric), twice.curve("network", metric)
        assert both == pytest.approx(alone, rel=1e-5)


def test_a_network_without_a_bound_has_none():
    class Squares(nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :3] ** 2

    found = deformations(Squares(), X, "warping", [0.1])
    assert found.subjects("bound") == []


@pytest.mark.parametrize(
    ("kind", "sizes", "message"),
    [
        ("rotaton", None, "did you mean 'rotation'"),
        ("warping", [0.5, 1.0], "folds"),
        ("rotation", [], "finite numbers from 0 up"),
        ("rotation", [-1], "finite numbers from 0 up"),
        ("rotation", [math.nan], "finite numbers from 0 up"),
    ],
)
def test_wrong_sizes_are_refused(kind, sizes, message):
    with pytest.raises(NescioError, match=message):
        deformations(NET, X, kind, sizes)


def test_wrong_inputs_are_refused():
    with pytest.raises(NescioError, match="images"):
        deformations(nets.mlp(4, 2), torch.rand(5, 4), "rotation")
    with pytest.raises(NescioError, match="two or more"):
        deformations(NET, X[:1], "rotation")
    with pytest.raises(NescioError, match="by name"):
        deformations({}, X, "rotation")
