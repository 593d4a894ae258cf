"""Breakpoints along rays, against the network itself, exact fractions and the far field."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from nescio.core import NescioError
from nescio.geometry.exact.exact import exact_ray
from nescio.geometry.rays import breakpoints as rays_file
from nescio.geometry.rays.breakpoints import Rays, ray
from nescio.geometry.rays.far_field import far_field
from nescio.models import ensemble


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(5, 12), nn.Linear(12, 12), nn.Linear(24, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        h = h + torch.relu(self.second(h))
        return self.last(torch.cat([h, h.abs()], 1))


def mlp(*sizes: int, activation: nn.Module | None = None) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), activation or nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def conv() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6),
        nn.MaxPool2d(2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(6, 3),
    )  # fmt: skip


NETS = {
    "mlp": (lambda: mlp(5, 16, 16, 4), (5,)),
    "leaky": (lambda: mlp(5, 16, 16, 4, activation=nn.LeakyReLU(0.2)), (5,)),
    "relu6": (lambda: mlp(5, 16, 16, 4, activation=nn.ReLU6()), (5,)),
    "hardtanh": (lambda: mlp(5, 16, 16, 4, activation=nn.Hardtanh()), (5,)),
    "residual": (Residual, (5,)),
    "conv": (conv, (1, 10, 10)),
}


def build(name: str, seed: int, count: int = 4) -> tuple[nn.Module, Tensor, Tensor]:
    make, shape = NETS[name]
    torch.manual_seed(seed)
    net = make().double().eval()
    return net, *torch.randn(2, count, *shape, dtype=torch.float64)


def points(origin: Tensor, direction: Tensor, t: Tensor) -> Tensor:
    return origin + t.reshape(-1, *(1 for _ in origin.shape)) * direction


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NETS)
@torch.no_grad()
def test_logits_are_those_of_the_network_on_every_piece(name, seed):
    net, origin, direction = build(name, seed)
    found = ray(net, origin, direction)
    assert len(found) == 4
    for i in range(4):
        breaks = found.breakpoints(i)
        assert (breaks.diff() > 0).all()
        assert (breaks > 0).all()
        ends = torch.cat([torch.zeros(1), breaks, breaks[-1:] * 3 + 1]).double()
        for share in (0.0, 0.01, 0.37, 0.99):  # one affine map fits at several places: none missed
            t = ends[:-1] + share * ends.diff()
            expected = net(points(origin[i], direction[i], t))
            scale = 1 + expected.abs().amax()
            torch.testing.assert_close(
                found.logits(i, t) / scale, expected / scale, rtol=0, atol=1e-13
            )


@pytest.mark.parametrize("name", NETS)
def test_breakpoints_are_those_of_exact_fractions(name):
    net, origin, direction = build(name, 7, 1)
    if name == "conv":
        net, origin = nn.Sequential(*list(net)[3:]), torch.randn(1, 4, 4, 4).double()
        direction = torch.randn(1, 4, 4, 4).double()
    found, exact = ray(net, origin, direction), exact_ray(net, origin, direction)
    expected = torch.tensor([float(b) for b in exact.breakpoints], dtype=torch.float64)
    torch.testing.assert_close(found.breakpoints(0), expected, rtol=1e-11, atol=0)
    slope = torch.tensor(exact.slope.astype(float).tolist(), dtype=torch.float64)
    torch.testing.assert_close(found.slope, slope, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["mlp", "leaky", "relu6", "residual", "conv"])
def test_the_last_breakpoint_is_the_radius_of_the_far_field(name, seed):
    net, origin, direction = build(name, seed)
    found, far = ray(net, origin, direction), far_field(net, origin, direction)
    last = found.starts[found.offsets[1:] - 1]
    torch.testing.assert_close(last, far.radius, rtol=1e-9, atol=0)
    torch.testing.assert_close(found.slope[found.offsets[1:] - 1], far.slope)


def test_at_finds_the_piece_of_every_ray():
    net, origin, direction = build("mlp", 3)
    found = ray(net, origin, direction)
    t = torch.rand(4, 9, dtype=torch.float64) * 5
    for i in range(4):
        torch.testing.assert_close(found.at(t)[i], found.logits(i, t[i]), rtol=0, atol=0)
        torch.testing.assert_close(found.at(t[:, 0])[i], found.logits(i, t[i, 0]), rtol=0, atol=0)
    torch.testing.assert_close(found.at(0.0), net(origin).detach())
    assert found.at(2.5).shape == (4, 4)


def test_stop_ends_the_rays_and_nothing_else():
    net, origin, direction = build("mlp", 3)
    whole, short = ray(net, origin, direction), ray(net, origin, direction, stop=1.5)
    for i in range(4):
        breaks = whole.breakpoints(i)
        torch.testing.assert_close(short.breakpoints(i), breaks[breaks < 1.5], rtol=1e-12, atol=0)
    with pytest.raises(NescioError, match="between 0 and 1.5"):
        short.at(2.0)
    with pytest.raises(NescioError, match="between 0 and 1.5"):
        short.logits(0, -0.1)


def test_members_each_have_their_rays():
    torch.manual_seed(0)
    nets = [mlp(3, 8, 2).double() for _ in range(3)]
    origin, direction = torch.randn(2, 2, 3, dtype=torch.float64)
    found = ray(ensemble(nets), origin, direction)
    assert isinstance(found, tuple)
    for net, one in zip(nets, found, strict=True):
        torch.testing.assert_close(one.at(1.7), net(origin + 1.7 * direction).detach())


def test_a_memory_of_few_intervals_changes_nothing(monkeypatch):
    net, origin, direction = build("conv", 2)
    whole = ray(net, origin, direction)
    monkeypatch.setattr(rays_file, "BYTES", 1)  # blocks of the least size
    small = ray(net, origin, direction)
    torch.testing.assert_close(small.starts, whole.starts, rtol=1e-11, atol=1e-13)
    assert small.offsets.tolist() == whole.offsets.tolist()


def one(net: nn.Module, origin: list[float], direction: list[float]) -> Rays:
    found = ray(net.double(), torch.tensor([origin]), torch.tensor([direction]))
    assert isinstance(found, Rays)
    return found


def fixed(weight: list[list[float]], bias: list[float]) -> nn.Linear:
    layer = nn.Linear(len(weight[0]), len(weight)).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
        layer.bias.copy_(torch.tensor(bias))
    return layer


def test_a_ray_that_does_not_move_has_one_piece():
    torch.manual_seed(0)
    net = mlp(3, 8, 2)
    found = one(net, [1.0, -2.0, 0.5], [0.0, 0.0, 0.0])
    assert found.starts.tolist() == [0]
    assert (found.slope == 0).all()
    torch.testing.assert_close(
        found.at(9.0), net(torch.tensor([[1.0, -2.0, 0.5]]).double()).detach()
    )


def test_dead_and_doubled_units_and_a_ray_inside_a_face():
    hidden = fixed([[1, 0], [1, 0], [2, 0], [0, 0], [0, 1]], [-3, -3, -6, 0, 0])
    net = nn.Sequential(hidden, nn.ReLU(), fixed([[1, 1, 1, 1, 1], [0, 0, 0, 1, 1]], [0, 0]))
    found = one(net, [0.0, 0.0], [1.0, 0.0])  # on the last unit's face; the fourth is always 0
    assert found.starts.tolist() == [0, 3]
    assert found.slope.tolist() == [[0, 0], [4, 0]]
    assert found.intercept.tolist() == [[0, 0], [-12, 0]]


def test_a_unit_that_is_zero_at_the_start_only():
    net = nn.Sequential(fixed([[1], [-1]], [0, 0]), nn.ReLU(), fixed([[1, 0], [0, 1]], [0, 0]))
    assert one(net, [0.0], [1.0]).slope.tolist() == [[1, 0]]
    assert one(net, [0.0], [-1.0]).slope.tolist() == [[0, 1]]


def test_ties_in_a_pool_are_no_breakpoints():
    net = nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.MaxPool2d(2), nn.Flatten(), fixed([[1], [-1]], [0, 0])
    )
    assert one(net, [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]).starts.tolist() == [0]
    bent = one(net, [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 3.0])
    assert bent.starts.tolist() == [0, 0.5]
    assert bent.slope.tolist() == [[1, -1], [3, -3]]


def test_a_long_direction_has_short_factors():
    net, origin, direction = build("mlp", 5, 1)
    plain, long = ray(net, origin, direction), ray(net, origin, direction * 2.0**60)
    torch.testing.assert_close(long.starts * 2.0**60, plain.starts, rtol=1e-12, atol=0)


def test_errors_say_what_to_do():
    net = mlp(2, 4, 2)
    zero = torch.zeros(1, 2)
    with pytest.raises(NescioError, match="stop must be above 0"):
        ray(net, zero, zero, stop=0)
    with pytest.raises(NescioError, match="stop must be above 0"):
        ray(net, zero, zero, stop=math.nan)
    with pytest.raises(NescioError, match="do not fit"):
        ray(net, zero, torch.zeros(1, 3))
    found = ray(net, zero, zero + 1)
    with pytest.raises(NescioError, match="ray 1 of 1"):
        found.breakpoints(1)
    with pytest.raises(NescioError, match="got \\(3,\\)"):
        found.at([1.0, 2.0, 3.0])
