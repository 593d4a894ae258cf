"""The limit in all directions against far_field, the exact mode and closed forms."""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from nescio.core import Categorical, NescioError, measure_all
from nescio.geometry import far_field
from nescio.geometry.exact.exact import exact_far_field
from nescio.geometry.rays.limit_map import LimitMap, limit_map
from nescio.geometry.tracing.instances import Source
from nescio.models import ensemble, mc_dropout


def linear(weights: Any, bias: Any) -> nn.Linear:
    weights = torch.as_tensor(weights, dtype=torch.float64)
    layer = nn.Linear(*weights.T.shape).double()
    with torch.no_grad():
        layer.weight.copy_(weights)
        layer.bias.copy_(torch.as_tensor(bias, dtype=torch.float64))
    return layer


def chain(*layers: nn.Module, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    for layer in layers:
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    return nn.Sequential(*layers).double()


def narrow(seed: int) -> nn.Module:
    return chain(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3), seed=seed)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.inner, self.last = nn.Linear(2, 8), nn.Linear(8, 8), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu()
        h = h + self.inner(h).relu()
        return self.last(torch.cat([h, h.clamp(max=1.0)], 1))


def pooled() -> nn.Module:
    return chain(
        nn.Linear(2, 24),
        nn.Unflatten(1, (2, 12)),
        nn.MaxPool1d(3, stride=2, padding=1),
        nn.Flatten(),
        nn.Linear(12, 6),
        nn.LeakyReLU(0.2),
        nn.Linear(6, 3),
        seed=3,
    )


SOURCES: dict[str, Callable[[], Source]] = {
    "two layers": lambda: chain(
        nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 5), seed=2
    ),
    "narrow": lambda: narrow(0),
    "residual": Residual,
    "pooled": pooled,
    "hardtanh": lambda: chain(nn.Linear(2, 9), nn.Hardtanh(), nn.Linear(9, 3), seed=4),
    "no bias": lambda: chain(
        nn.Linear(2, 7, bias=False), nn.ReLU(), nn.Linear(7, 3, bias=False), seed=5
    ),
    "ensemble": lambda: ensemble([narrow(seed) for seed in range(6)]),
    "mc dropout": lambda: mc_dropout(
        chain(nn.Linear(2, 12), nn.ReLU(), nn.Dropout(0.5), nn.Linear(12, 3), seed=6), passes=10
    ),
}


def unit(angle: Tensor) -> Tensor:
    return torch.stack([angle.cos(), angle.sin()], -1)


def with_members(value: Any, ndim: int) -> Any:
    return value if value.ndim == ndim else value[None]


@pytest.mark.parametrize("name", SOURCES)
def test_the_map_is_far_field_in_every_direction(name: str) -> None:
    source = SOURCES[name]()
    found = limit_map(source)
    angle = 2 * math.pi * torch.rand(3000, generator=torch.Generator().manual_seed(1)).double()
    for origin in (torch.zeros(1, 2), torch.tensor([[3.0, -1.0]])):
        field = far_field(source, origin, unit(angle))
        limit, kind = with_members(field.limit, 3), with_members(field.kind, 2)
        torch.testing.assert_close(found.at(angle), limit, rtol=1e-9, atol=1e-9)
        assert (found.kind[:, found.sector(angle).numpy()] == kind).all()


@pytest.mark.parametrize("name", ["two layers", "narrow", "residual", "pooled", "ensemble"])
def test_the_borders_are_right_to_a_billionth(name: str) -> None:
    """Close to each border, on both sides, and in the middles, against exact fractions."""
    source = SOURCES[name]()
    found = limit_map(source)
    middles = (found.angles[1:] + found.angles[:-1]) / 2
    wide = found.widths > 4e-9
    angle = torch.cat([middles, (found.angles[:-1] + 1e-9)[wide], (found.angles[1:] - 1e-9)[wide]])
    exact = exact_far_field(source, torch.zeros(1, 2), unit(angle))
    torch.testing.assert_close(
        found.at(angle), with_members(exact.limit, 3), rtol=1e-12, atol=1e-12
    )
    kind = with_members(exact.kind, 2)
    assert (found.kind[:, found.sector(angle).numpy()] == kind).all()


def check_cover(found: LimitMap) -> None:
    assert found.angles[0] == 0
    assert found.angles[-1] == 2 * math.pi
    assert (found.widths > 0).all()
    assert found.limit.shape[1] == len(found.angles) - 1 == found.kind.shape[1]
    same = (found.limit[:, 1:] == found.limit[:, :-1]).all(-1).all(0).numpy()
    same &= (found.kind[:, 1:] == found.kind[:, :-1]).all(0)
    assert not same.any()
    share = found.share()
    assert share["one"] + share["tie"] + share["constant"] == pytest.approx(1, abs=1e-12)
    assert share["unanimous"] + share["disagreeing"] == pytest.approx(1, abs=1e-12)
    assert share["certain"] <= min(share["one"], share["unanimous"]) + 1e-12


@pytest.mark.parametrize("name", SOURCES)
def test_all_directions_are_covered_once(name: str) -> None:
    check_cover(limit_map(SOURCES[name]()))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 100_000), st.integers(1, 6), st.integers(2, 4))
def test_any_small_network(seed: int, width: int, classes: int) -> None:
    """Small whole weights: roots at corners, equal units, equal classes, dead sectors."""
    rng = np.random.default_rng(seed)
    net = nn.Sequential(
        linear(rng.integers(-2, 3, (width, 2)), rng.integers(-2, 3, width)),
        nn.ReLU(),
        linear(rng.integers(-2, 3, (3, width)), rng.integers(-2, 3, 3)),
        nn.ReLU(),
        linear(rng.integers(-2, 3, (classes, 3)), rng.integers(-2, 3, classes)),
    )
    found = limit_map(net)
    check_cover(found)
    middles = (found.angles[1:] + found.angles[:-1]) / 2
    angle = torch.cat([middles, torch.tensor(rng.uniform(0, 2 * math.pi, 12))])
    exact = exact_far_field(net, torch.zeros(1, 2), unit(angle))
    clear = ~torch.isclose(angle[:, None], found.angles, rtol=0, atol=1e-12).any(1)
    torch.testing.assert_close(found.at(angle)[0][clear], exact.limit[clear])
    assert (found.kind[0][found.sector(angle).numpy()] == exact.kind)[clear.numpy()].all()


# -- closed forms


def test_four_classes_share_the_circle() -> None:
    found = limit_map(linear([[1, 0], [0, 1], [-1, 0], [0, -1]], [5.0, 0.0, 0.0, 1.0]))
    quarter = math.pi / 4
    borders = torch.tensor([0, 1, 3, 5, 7, 8], dtype=torch.float64) * quarter
    torch.testing.assert_close(found.angles, borders, rtol=0, atol=1e-15)
    assert found.limit.argmax(-1).tolist() == [[0, 1, 2, 3, 0]]
    assert found.share()["one"] == pytest.approx(1)
    assert found.measures["predictive_entropy"].abs().max() == 0
    assert (found.measures["log_odds"] == -math.inf).all()


def test_a_unit_that_dies_leaves_a_constant_half() -> None:
    """One class grows for x > 0; for x < 0 only the constants of the last layer are left."""
    net = nn.Sequential(linear([[1.0, 0.0]], [7.0]), nn.ReLU(), linear([[1], [-1]], [0.0, 1.0]))
    found = limit_map(net)
    half = math.pi / 2
    assert found.angles.tolist() == pytest.approx([0, half, 3 * half, 4 * half], abs=1e-15)
    assert found.kind.tolist() == [["one", "constant", "one"]]
    truth = torch.tensor([0.0, 1.0]).double().softmax(0)
    torch.testing.assert_close(found.at(math.pi)[0], truth)
    share = found.share()
    assert share["constant"] == pytest.approx(0.5)
    assert share["one"] == share["certain"] == pytest.approx(0.5)


def test_classes_with_equal_rows_tie_everywhere() -> None:
    found = limit_map(linear([[1, 2], [1, 2], [-3, 0]], [1.0, 3.0, 0.0]))
    truth = torch.tensor([1.0, 3.0]).double().softmax(0)
    torch.testing.assert_close(found.at(0.5)[0, :2], truth)
    assert set(found.kind.ravel()) == {"one", "tie"}
    first = math.atan2(4, -2)  # there (1, 2) . d = (-3, 0) . d
    assert found.angles.tolist() == pytest.approx([0, first, first + math.pi, 2 * math.pi])
    assert found.share()["tie"] == pytest.approx(0.5)


def test_two_members_that_disagree_on_a_quarter() -> None:
    left, low = linear([[1, 0], [-1, 0]], [0, 0]), linear([[0, 1], [0, -1]], [0, 0])
    found = limit_map(ensemble([left, low]))
    share = found.share()
    assert share["unanimous"] == share["certain"] == pytest.approx(0.5)
    assert share["disagreeing"] == pytest.approx(0.5)
    information = found.measures["mutual_information"][found.sector([0.3, 2.0, 4.0, 5.0])]
    assert information.tolist() == pytest.approx([0, math.log(2), 0, math.log(2)])


def test_a_network_without_pieces_or_slopes() -> None:
    found = limit_map(linear(np.zeros((3, 2)), [0.0, 1.0, 2.0]))
    assert found.angles.tolist() == [0.0, 2 * math.pi]
    assert found.kind.tolist() == [["constant"]]
    torch.testing.assert_close(found.limit[0, 0], torch.arange(3).double().softmax(0))


# -- the value


def test_measures_are_those_of_the_limits() -> None:
    source = SOURCES["ensemble"]()
    found = limit_map(source)
    angle = (found.angles[1:] + found.angles[:-1]) / 2
    limit = far_field(source, torch.zeros(1, 2), unit(angle)).limit
    for name, value in measure_all(Categorical.from_probs(limit)).items():
        torch.testing.assert_close(found.measures[name], value)


def test_angles_go_round() -> None:
    found = limit_map(SOURCES["two layers"]())
    assert found.at(0.3).shape == (1, 5)
    assert found.at([[0.3, 1.0], [2.0, 3.0]]).shape == (1, 2, 2, 5)
    assert torch.equal(found.at(-0.7), found.at(2 * math.pi - 0.7))
    assert torch.equal(found.at(2 * math.pi), found.at(0.0))
    assert torch.equal(found.at(9.0 + 40 * math.pi), found.at(9.0))


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    net = chain(nn.Linear(2, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 6), seed=8)
    whole = limit_map(net)
    monkeypatch.setattr(
        sys.modules["nescio.geometry.rays.limit_map"], "limit_for", lambda widest, columns: 7
    )
    parts = limit_map(net)
    torch.testing.assert_close(parts.angles, whole.angles, rtol=0, atol=1e-14)
    assert torch.equal(parts.limit, whole.limit)


def test_other_inputs_are_refused() -> None:
    with pytest.raises(NescioError, match=r"inputs of shape \(2,\) do not pass"):
        limit_map(nn.Linear(3, 2))
