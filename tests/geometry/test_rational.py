"""The exact mode against a forward pass in fractions, written out, and float64 against it."""

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from nescio.core import NescioError
from nescio.geometry import far_field
from nescio.geometry.exact.domains import as_floats, fractions_of
from nescio.geometry.exact.exact import WEIGHTS, exact_far_field, exact_ray, exact_regions
from nescio.geometry.tracing.instances import instances
from nescio.models import ensemble, mc_dropout


def mlp(*sizes: int, seed: int = 0, slope: float = 0.0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.LeakyReLU(slope) if slope else nn.ReLU()]
        nn.init.normal_(layers[-2].bias)
    return nn.Sequential(*layers[:-1]).double()


def in_fractions(net: nn.Sequential, x: list[Fraction]) -> tuple[list[Fraction], list[Fraction]]:
    """Outputs of a chain of layers, and all values that entered an activation."""
    inner: list[Fraction] = []
    for layer in net:
        if isinstance(layer, nn.Linear):
            rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
            x = [
                sum((Fraction(w) * v for w, v in zip(row, x, strict=True)), Fraction(b))
                for row, b in rows
            ]
        else:
            inner += x
            low = Fraction(getattr(layer, "negative_slope", 0.0))
            x = [v if v > 0 else low * v for v in x]
    return x, inner


def point(origin: Tensor, direction: Tensor, t: Fraction) -> list[Fraction]:
    pairs = zip(origin.tolist(), direction.tolist(), strict=True)
    return [Fraction(o) + t * Fraction(d) for o, d in pairs]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(3, 6), nn.Linear(6, 6), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu()
        h = h + 0.5 * self.inner(h).clamp(-1, 1)
        return self.last(torch.cat([h, -h.abs()], 1)) - 0.25


def conv() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, 3, 2),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1, padding=1),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.LazyLinear(3),
    ).eval()


def run_far(net: nn.Sequential, origin: Tensor, direction: Tensor) -> None:
    found = exact_far_field(net, origin, direction)
    for i in range(len(origin)):
        for t in (found.radius[i], found.radius[i] + 1, found.radius[i] + 10**12):
            x = point(origin[i], direction[i], t)
            truth = in_fractions(net, x)[0]
            assert list(found.slope[i] * t + found.intercept[i]) == truth
            assert list((found.V[i] * np.array(x, dtype=object)).sum(-1) + found.a[i]) == truth


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_far_field_is_the_network_beyond_the_radius(slope: float) -> None:
    net = mlp(3, 5, 4, 3, seed=1, slope=slope)
    g = torch.Generator().manual_seed(2)
    origin, direction = (torch.randn(4, 3, generator=g).double() for _ in range(2))
    run_far(net, origin, direction)


def test_the_radius_is_a_zero_of_a_unit_and_the_last_one() -> None:
    net = mlp(3, 6, 5, 3, seed=5)
    g = torch.Generator().manual_seed(3)
    origin, direction = (torch.randn(6, 3, generator=g).double() for _ in range(2))
    found = exact_far_field(net, origin, direction)
    for i, radius in enumerate(found.radius):
        here, after, far = (
            in_fractions(net, point(origin[i], direction[i], t))[1]
            for t in (radius, radius + Fraction(1, 10**9), radius * 10**9 + 1)
        )
        assert radius == 0 or 0 in here
        assert [v > 0 for v in after] == [v > 0 for v in far]


@pytest.mark.parametrize("seed", range(8))
def test_float64_equals_the_exact_far_field(seed: int) -> None:
    net = mlp(4, 12, 10, 3, seed=seed, slope=0.01 * (seed % 2))
    g = torch.Generator().manual_seed(seed)
    origin, direction = (torch.randn(6, 4, generator=g).double() for _ in range(2))
    near(net, origin, direction)


@pytest.mark.parametrize("make", [Residual, conv])
def test_float64_equals_the_exact_far_field_of_other_layers(make: type[nn.Module]) -> None:
    torch.manual_seed(7)
    net = make()
    shape = (5, 3) if make is Residual else (3, 1, 4, 4)
    net(torch.zeros(shape))
    near(net, torch.randn(shape), torch.randn(shape))


def near(net: nn.Module, origin: Tensor, direction: Tensor) -> None:
    found, exact = (
        far_field(net, origin, direction, last_region=True),
        exact_far_field(net, origin, direction),
    )
    rounded = exact.rounded()
    pairs = [(getattr(found, n), getattr(rounded, n)) for n in ("slope", "intercept", "limit")]
    pairs += [(getattr(found.last_region, n), getattr(rounded.last_region, n)) for n in ("V", "a")]
    for value, truth in pairs:
        scale = max(float(truth.abs().max()), 1.0)
        assert (value - truth).abs().max() <= 1e-12 * scale
    torch.testing.assert_close(found.radius, rounded.radius, rtol=1e-9, atol=1e-12)
    assert (found.kind == exact.kind).all()
    for name in ("zero_entries", "tied_top"):
        assert (getattr(found.last_region, name) == getattr(rounded.last_region, name)).all()


def test_members_have_an_axis_and_their_own_answers() -> None:
    nets = [mlp(2, 5, 3, seed=s) for s in range(3)]
    model = ensemble(nets)
    origin, direction = torch.tensor([[0.5, -1.0]]), torch.tensor([[1.0, 2.0], [-3.0, 0.25]])
    found = exact_far_field(model, origin, direction)
    assert found.slope.shape == (3, 2, 3)
    assert found.V.shape == (3, 2, 3, 2)
    for m, net in enumerate(nets):
        alone = exact_far_field(net, origin, direction)
        assert (found.slope[m] == alone.slope).all()
        assert (found.radius[m] == alone.radius).all()
        assert (found.kind[m] == alone.kind).all()
        assert torch.equal(found.limit[m], alone.limit)


def test_the_masks_of_mc_dropout_are_those_of_the_passes() -> None:
    net = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3)).double()
    predictor = mc_dropout(net, passes=3)
    origin, direction = torch.zeros(1, 2), torch.tensor([[1.0, -0.5]])
    found = exact_far_field(predictor, origin, direction).rounded()
    x = 1e3 * direction.double()
    for m, instance in enumerate(instances(predictor)):
        truth = instance(x)
        torch.testing.assert_close(found.logits(1e3)[m], truth, rtol=1e-12, atol=1e-9)


# -- what rounding leaves open


def linear(weights: list[list[float]], bias: list[float]) -> nn.Linear:
    layer = nn.Linear(len(weights[0]), len(weights)).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weights, dtype=torch.float64))
        layer.bias.copy_(torch.tensor(bias, dtype=torch.float64))
    return layer


ONES = torch.ones(1, 3, dtype=torch.float64)
TINY = [0.1, 0.2, -0.3]  # their sum is 2 ** -55 in fractions, 2 ** -54 in float64


def test_a_slope_at_rounding_level_is_undecided_in_float64_and_decided_here() -> None:
    assert sum(map(Fraction, TINY)) == Fraction(1, 2**55)
    for sign in (1.0, -1.0):
        net = linear([[sign * w for w in TINY], [0.0, 0.0, 0.0]], [0.0, 3.0])
        assert far_field(net, 0 * ONES, ONES).kind.tolist() == ["undecided"]
        exact = exact_far_field(net, 0 * ONES, ONES)
        assert exact.kind.tolist() == ["one"]
        assert exact.slope.tolist() == [[Fraction(int(sign), 2**55), 0]]
        assert exact.limit.tolist() == [[1.0, 0.0] if sign > 0 else [0.0, 1.0]]


def test_a_unit_at_rounding_level_is_undecided_in_float64_and_decided_here() -> None:
    for sign in (1.0, -1.0):
        hidden = linear([[sign * w for w in TINY], [1.0, 0.0, 0.0]], [0.0, 0.0])
        net = nn.Sequential(hidden, nn.ReLU(), linear([[2.0**60, 0.0], [0.0, 1.0]], [0.0, 0.0]))
        assert far_field(net, 0 * ONES, ONES).kind.tolist() == ["undecided"]
        exact = exact_far_field(net, 0 * ONES, ONES)
        assert exact.slope.tolist() == [[32 if sign > 0 else 0, 1]]
        assert exact.limit.argmax().item() == (0 if sign > 0 else 1)


def test_a_pooling_at_rounding_level_is_undecided_in_float64_and_decided_here() -> None:
    hidden = linear([[0.1, 0.2, 0.0], [0.0, 0.0, 0.3]], [1.0, 5.0])
    net = nn.Sequential(
        hidden,
        nn.Unflatten(1, (1, 2)),
        nn.MaxPool1d(2),
        nn.Flatten(),
        linear([[1.0], [0.0]], [0, 0]),
    )
    assert far_field(net, 0 * ONES, ONES).kind.tolist() == ["undecided"]
    exact = exact_far_field(net, 0 * ONES, ONES)
    assert exact.slope[0, 0] == Fraction(0.1) + Fraction(0.2) > Fraction(0.3)
    assert exact.radius[0] == 4 * 2**55  # where the faster of the two catches up


def test_ties_and_constants_are_exact() -> None:
    tie = linear([[0.1, 0.2, 0.0], [0.0, 0.2, 0.1], [0.0, 0.0, 0.0]], [1.0, 2.0, 9.0])
    exact = exact_far_field(tie, 0 * ONES, ONES)
    assert exact.kind.tolist() == ["tie"]
    torch.testing.assert_close(
        exact.limit, torch.tensor([[1.0, 2.0, -torch.inf]]).double().softmax(-1), rtol=0, atol=1e-16
    )
    dead = nn.Sequential(linear([TINY], [0.0]), nn.ReLU(), linear([[1.0], [2.0]], [0.5, 0.25]))
    exact = exact_far_field(dead, 0 * ONES, -ONES)
    assert exact.kind.tolist() == ["constant"]
    assert exact.intercept.tolist() == [[Fraction(1, 2), Fraction(1, 4)]]


# -- rays and regions


@pytest.mark.parametrize("slope", [0.0, 0.25])
def test_a_ray_is_the_network_between_its_breakpoints(slope: float) -> None:
    net = mlp(3, 7, 6, 3, seed=11, slope=slope)
    origin, direction = torch.tensor([[0.3, -0.2, 0.7]]).double(), torch.tensor([[-1.0, 2.0, 0.5]])

    found = exact_ray(net, origin, direction)
    assert len(found.breakpoints) > 4
    assert list(found.breakpoints) == sorted(set(found.breakpoints))
    assert found.breakpoints[-1] == exact_far_field(net, origin, direction).radius[0]
    ends = [Fraction(0), *found.breakpoints, found.breakpoints[-1] * 2 + 1]
    for piece, (low, high) in enumerate(pairwise(ends)):
        patterns = []
        for share in (Fraction(1, 97), Fraction(1, 2), Fraction(96, 97)):
            t = low + share * (high - low)
            out, inner = in_fractions(net, point(origin[0], direction[0], t))
            assert list(found.slope[piece] * t + found.intercept[piece]) == out == list(found.at(t))
            patterns.append([v > 0 for v in inner])
        assert patterns[0] == patterns[1] == patterns[2]  # no breakpoint is missing
    for b in found.breakpoints:
        assert 0 in in_fractions(net, point(origin[0], direction[0], b))[1]  # and none is too many


def test_a_ray_stops() -> None:
    net = mlp(2, 8, 3, seed=4)
    whole = exact_ray(net, [0.1, 0.2], [1.0, -1.0])
    assert len(whole.breakpoints) > 1
    stop = float(whole.breakpoints[1]) * 0.999
    part = exact_ray(net, [0.1, 0.2], [1.0, -1.0], stop=stop)
    assert part.breakpoints == tuple(b for b in whole.breakpoints if b < Fraction(stop))
    assert (part.slope == whole.slope[: len(part.slope)]).all()


def test_regions_of_one_layer_are_counted_by_lines_and_crossings() -> None:
    net = mlp(2, 7, 2, seed=9)
    side = Fraction(3)
    found = exact_regions(net, [(-3, 3), (-3, 3)])
    assert sum(found.areas) == 36
    W, b = fractions_of(net[0].weight), fractions_of(net[0].bias)
    corners = [(x, y) for x in (-side, side) for y in (-side, side)]
    heights = [[w[0] * x + w[1] * y + c for x, y in corners] for w, c in zip(W, b, strict=True)]
    lines = [i for i, h in enumerate(heights) if min(h) < 0 < max(h)]
    inside = 0
    for i, j in combinations(lines, 2):
        det = W[i, 0] * W[j, 1] - W[i, 1] * W[j, 0]
        x = (W[i, 1] * b[j] - W[j, 1] * b[i]) / det
        y = (W[j, 0] * b[i] - W[i, 0] * b[j]) / det
        inside += abs(x) < side and abs(y) < side
    assert len(lines) > 3
    assert len(found) == 1 + len(lines) + inside


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000))
def test_regions_cover_the_box_and_are_the_network(seed: int) -> None:
    net = mlp(2, 4, 3, 2, seed=seed, slope=0.5 * (seed % 2))
    found = exact_regions(net, [(-2, 2), (-1, 3)])
    assert sum(found.areas) == 16
    assert min(found.areas) > 0
    for polygon, (first, second) in zip(found.polygons, found.maps, strict=True):
        turns = [
            (v[0] - u[0]) * (w[1] - v[1]) - (v[1] - u[1]) * (w[0] - v[0])
            for u, v, w in zip(*(polygon[k:] + polygon[:k] for k in range(3)), strict=True)
        ]
        assert min(turns) >= 0
        patterns = set()
        middle = tuple(sum(c) / len(polygon) for c in zip(*polygon, strict=True))
        for corner in (*polygon, middle):
            x, y = (
                Fraction(1, 9) * c + Fraction(8, 9) * m for c, m in zip(corner, middle, strict=True)
            )
            out, inner = in_fractions(net, [x, y])
            assert [m[0] * x + m[1] * y + m[2] for m in (first, second)] == out
            patterns.add(tuple(v > 0 for v in inner))
        assert len(patterns) == 1


def test_pooling_cuts_only_where_the_winner_changes() -> None:
    torch.manual_seed(0)
    hidden = nn.Linear(2, 6)
    net = nn.Sequential(
        hidden,
        nn.Unflatten(1, (1, 6)),
        nn.MaxPool1d(6),
        nn.Flatten(),
        linear([[1.0], [-1.0]], [0, 0]),
    ).double()
    found = exact_regions(net, [(-20, 20), (-20, 20)])
    axis = torch.linspace(-20, 20, 401).double()
    winners = hidden(torch.cartesian_prod(axis, axis)).argmax(1).unique()
    assert len(found) == len(winners) > 2
    assert sum(found.areas) == 1600
    assert len({tuple(m.ravel()) for m in found.maps}) == len(found)


def test_what_is_refused() -> None:
    wide = nn.Linear(WEIGHTS, 2)
    with pytest.raises(
        NescioError, match=f"at most {WEIGHTS} weights; this one has {2 * WEIGHTS + 2}"
    ):
        exact_far_field(wide, torch.zeros(WEIGHTS), torch.ones(WEIGHTS))
    shape = (1, 48, 48)
    wide = nn.Sequential(nn.AvgPool2d(16), nn.Flatten(), nn.Linear(9, 2))
    with pytest.raises(NescioError, match="at most 1024 units in a layer; this one has 2304"):
        exact_far_field(wide, torch.zeros(1, *shape), torch.ones(1, *shape))
    net = mlp(2, 3, 2)
    with pytest.raises(NescioError, match="reads one ray, got 2"):
        exact_ray(net, torch.zeros(2, 2), torch.ones(2, 2))
    with pytest.raises(NescioError, match="stop must be positive"):
        exact_ray(net, torch.zeros(2), torch.ones(2), stop=-1.0)
    with pytest.raises(NescioError, match="2 members"):
        exact_regions(ensemble([net, mlp(2, 3, 2, seed=1)]), [(-1, 1), (-1, 1)])
    with pytest.raises(NescioError, match="low < high"):
        exact_regions(net, [(1, 1), (-1, 1)])
    with pytest.raises(NescioError, match="Sigmoid"):
        exact_far_field(nn.Sequential(nn.Linear(2, 2), nn.Sigmoid()), torch.zeros(2), torch.ones(2))


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_numbers_become_the_fractions_they_are(values: list[float]) -> None:
    exact = fractions_of(values)
    assert list(exact) == list(map(Fraction, values))
    assert as_floats(exact).tolist() == values
