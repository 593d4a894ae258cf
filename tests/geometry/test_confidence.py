"""The first confident factor, against closed forms, fine grids and the network itself."""

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from nescio.core import NescioError
from nescio.geometry.rays.far_field import far_field
from nescio.geometry.rays.first_confident import first_confident
from nescio.geometry.rays.levels import Spans, first_reach
from nescio.geometry.tracing.domain import Part
from nescio.geometry.tracing.instances import instances
from nescio.models import ensemble


class Residual(nn.Module):
    def __init__(self, inputs: int, width: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, width), nn.Linear(width, width)
        self.third, self.last = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        return self.last(torch.relu(h + self.third(torch.relu(self.second(h)))))


def random_net(seed: int) -> tuple[nn.Module, tuple[int, ...], random.Random]:
    """Networks of many kinds, sizes and scales of weights and biases."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    classes, inputs, width = (draw.choice(c) for c in ([2, 3, 5, 10], [2, 5, 8], [8, 16, 32]))
    kind = draw.choice(["relu", "relu", "leaky", "conv", "residual", "other"])
    shape: tuple[int, ...] = (inputs,)
    if kind == "conv":
        shape = (1, 10, 10)
        net: nn.Module = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.MaxPool2d(2),
            nn.ReLU(), nn.Flatten(), nn.Linear(6, classes),
        )  # fmt: skip
    elif kind == "residual":
        net = Residual(inputs, width, classes)
    else:
        others = [nn.ReLU6(), nn.Hardtanh(), nn.PReLU(), nn.LeakyReLU(-0.3)]
        activation = {"relu": nn.ReLU(), "leaky": nn.LeakyReLU(0.2), "other": draw.choice(others)}
        layers: list[nn.Module] = []
        before = inputs
        for _ in range(draw.choice([1, 2, 3])):
            layers += [nn.Linear(before, width), activation[kind]]
            before = width
        net = nn.Sequential(*layers, nn.Linear(before, classes))
    gain, bias = draw.choice([1.0, 2.0, 4.0]), draw.choice([0.0, 1.0, 3.0])
    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, (nn.Linear, nn.Conv2d)) and layer.bias is not None:
                layer.weight *= gain
                layer.bias *= gain * bias
    return net.double(), shape, draw


def log_odds(logits: Tensor) -> Tensor:
    """Of the most probable class against all others; it does not saturate."""
    top = logits.max(-1, keepdim=True)
    others = (logits - top.values).scatter(-1, top.indices, -torch.inf)
    return -torch.logsumexp(others, -1)


def places(origin: Tensor, direction: Tensor, t: Tensor) -> Tensor:
    return origin + t.reshape(-1, *(1 for _ in origin.shape)) * direction


def grid_before(factor: float, start: float, count: int) -> Tensor:
    """Factors from start up to a little before one, dense at both ends."""
    span = (factor if factor < math.inf else 1e6) - start
    near = torch.logspace(-6, 0, count, dtype=torch.float64) * span
    even = torch.linspace(0, min(span, 50.0), count, dtype=torch.float64)
    close = (1 - torch.logspace(-9, -2, count // 4, dtype=torch.float64)) * span
    t = start + torch.cat([near, even, close])
    return t[t < factor * (1 - 1e-10)]


@pytest.mark.parametrize("seed", range(1000, 1040))
@torch.no_grad()
def test_random_networks_reach_the_level_there_and_nowhere_before(seed):
    net, shape, draw = random_net(seed)
    level = draw.choice([0.6, 0.9, 0.95, 0.999, 0.99999, 1 - 1e-12])
    start = draw.choice([0.0, 0.5, 1.0])
    origin = torch.randn(4, *shape, dtype=torch.float64) * draw.choice([0, 1, 3])
    direction = torch.randn(4, *shape, dtype=torch.float64)
    found = first_confident(net, origin, direction, confidence=level, start=start)
    goal = math.log(level) - math.log1p(-level)
    for i in range(4):
        factor = float(found.factor[i])
        before = grid_before(factor, start, 2000)
        if len(before):
            early = log_odds(net(places(origin[i], direction[i], before)))
            assert early.max() < goal + 1e-8 * (1 + abs(goal))
        if math.isinf(factor):
            assert found.limit[i] <= level
            assert found.label[i] == -1
            continue
        logits = net((origin[i] + factor * direction[i])[None])
        there = float(log_odds(logits))
        assert there > goal - 1e-7 * (1 + abs(goal))
        assert factor == start or there < goal + 1e-7 * (1 + abs(goal))
        assert found.label[i] == logits.argmax()


def fixed(weight: list[list[float]], bias: list[float]) -> nn.Linear:
    layer = nn.Linear(len(weight[0]), len(weight)).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight, dtype=torch.float64))
        layer.bias.copy_(torch.tensor(bias, dtype=torch.float64))
    return layer


ONE = torch.ones(1, 1, dtype=torch.float64)


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.999, 1 - 1e-9, 1 - 1e-12])
def test_affine_logits_have_a_closed_form(classes, level):
    """One class leads all others by 2 t - 5: its odds are exp(2 t - 5) / (C - 1)."""
    net = fixed([[2.0]] + [[0.0]] * (classes - 1), [-5.0] + [0.0] * (classes - 1))
    goal = math.log(level) - math.log1p(-level) + math.log(classes - 1)
    found = first_confident(net, 0 * ONE, ONE, confidence=level, start=2.5)
    if level == 0.5 and classes == 2:
        assert found.factor.item() == 2.5
    else:
        assert found.factor.item() == pytest.approx((goal + 5) / 2, rel=1e-15)
    assert found.label.tolist() == [0]
    assert found.limit.tolist() == [1]


def humps(heights: list[float], between: float) -> nn.Sequential:
    """Two logits; the first leads by 0 at even t and by the heights at 1, 3, 5, ..."""
    bends, slopes, slope = [], [], 0.0
    for i, height in enumerate(heights):
        for bend, new in ((2 * i, height - between * (i > 0)), (2 * i + 1, between - height)):
            bends.append(float(bend))
            slopes.append(new - slope)
            slope = new
    hidden = fixed([[1.0]] * len(bends), [-b for b in bends])
    return nn.Sequential(hidden, nn.ReLU(), fixed([slopes, [0.0] * len(bends)], [0.0, 0.0]))


def test_confidence_that_rises_falls_and_rises_again():
    level = 0.999
    goal = math.log(level / (1 - level))
    net = humps([goal - 0.1, goal + 1, 2 * goal], 0.0)
    found = first_confident(net, 0 * ONE, ONE, confidence=level, start=0.0)
    assert found.factor.item() == pytest.approx(2 + goal / (goal + 1), rel=1e-13)
    after = 3 + 1 / (goal + 1)  # where it falls below the level again
    again = first_confident(net, 0 * ONE, ONE, confidence=level, start=after + 1e-9)
    assert again.factor.item() == pytest.approx(4.5, rel=1e-13)
    inside = first_confident(net, 0 * ONE, ONE, confidence=level, start=3.0)
    assert inside.factor.item() == 3.0


def test_a_hump_that_just_touches_and_one_that_just_misses():
    level = 0.999
    goal = math.log(level) - math.log1p(-level)
    after = 4 + goal  # the other class, as the last hump falls on and on
    for more, expected, label in ((1e-9, 1.0, 0), (-1e-9, after, 1)):
        net = humps([goal + more, 1.0], 0.0)
        found = first_confident(net, 0 * ONE, ONE, confidence=level, start=0.0)
        assert found.factor.item() == pytest.approx(expected, rel=1e-8)
        assert found.label.item() == label


def test_two_classes_take_turns_and_a_third_spoils_it():
    """On one affine piece the leader changes; log odds are concave, with a top inside the piece."""
    net = fixed([[1.0], [-1.0], [0.0]], [0.0, 8.0, 3.0])
    slope, intercept = net.weight.detach().T, net.bias.detach()[None]
    t = torch.linspace(0, 40, 400001, dtype=torch.float64)
    for level in (0.9, 0.95, 0.99):
        goal = math.log(level / (1 - level))
        odds = log_odds(t[:, None] * slope + intercept)
        for start in (0.0, 2.0, 3.0, 4.5):
            later = t[(t >= start) & (odds >= goal)]
            found = first_confident(net, 0 * ONE, ONE, confidence=level, start=start)
            assert found.factor.item() == pytest.approx(float(later[0]), abs=2e-4)


def test_never_gives_the_limit():
    constant = nn.Sequential(fixed([[-1.0]], [0.0]), nn.ReLU(), fixed([[1.0], [0.0]], [1.0, 0.0]))
    found = first_confident(constant, 0 * ONE, ONE, confidence=0.9)
    assert found.factor.tolist() == [math.inf]
    assert found.label.tolist() == [-1]
    assert found.limit.item() == pytest.approx(1 / (1 + math.exp(-1)))
    tied = fixed([[1.0], [1.0], [0.0]], [0.0, 2.0, 0.0])
    found = first_confident(tied, 0 * ONE, ONE, confidence=0.9)
    assert found.factor.tolist() == [math.inf]
    assert found.limit.item() == pytest.approx(1 / (1 + math.exp(-2)))


def test_a_limit_above_the_level_is_reached():
    tied = fixed([[1.0], [1.0], [0.0]], [0.0, 2.0, 0.0])
    level = 0.85
    goal = math.exp(2) * (1 - level) / level - 1  # exp(-t) + ... of the others, times exp(2)
    found = first_confident(tied, 0 * ONE, ONE, confidence=level, start=0.0)
    assert found.factor.item() == pytest.approx(-math.log(goal), rel=1e-12)
    assert found.label.tolist() == [1]


def test_a_ray_without_direction_stays_where_it_is():
    net = fixed([[1.0], [0.0]], [0.0, 0.0])
    for value, expected in ((1.0, math.inf), (9.0, 1.0)):
        found = first_confident(net, value * ONE, 0 * ONE, confidence=0.99)
        assert found.factor.tolist() == [expected]


def test_start_beyond_the_last_breakpoint():
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    x = torch.randn(6, 3, dtype=torch.float64)
    far = far_field(net, 0 * x, x)
    start = float(far.radius.max()) + 1
    found = first_confident(net, 0 * x, x, confidence=0.9, start=start)
    assert (found.factor >= start).all()
    assert found.limit.tolist() == far.confidence.tolist()
    for i in found.factor.isfinite().nonzero()[:, 0].tolist():
        assert net(found.factor[i] * x[i]).softmax(0).amax() >= 0.9 - 1e-12


def test_members_by_themselves_and_the_network_is_left_alone():
    torch.manual_seed(5)
    nets = [nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(3)]
    before = [p.clone() for p in nets[0].parameters()]
    x = torch.randn(4, 3)
    found = first_confident(ensemble(nets), 0 * x, x, confidence=0.9)
    assert found.factor.shape == found.label.shape == found.limit.shape == (3, 4)
    for m, net in enumerate(nets):
        alone = first_confident(net, 0 * x, x, confidence=0.9)
        assert alone.factor.tolist() == found.factor[m].tolist()
        assert alone.label.tolist() == found.label[m].tolist()
    assert all((a == b).all() for a, b in zip(before, nets[0].parameters(), strict=True))
    assert nets[0].training
    assert nets[0][0].weight.dtype == torch.float32


@pytest.mark.parametrize("less", [0.0, 1e-13, -1e-13, 1e-9])
def test_every_unit_bends_at_the_start(less):
    """All units but two are 0 at the origin; the last bias alone sets the confidence there."""
    torch.manual_seed(6)
    goal = math.log(0.9 / 0.1)
    first = nn.Linear(4, 64)
    with torch.no_grad():
        first.bias.zero_()
        first.bias[:2] = -torch.tensor([1.0, 2.0])  # these bend later, or never
    net = nn.Sequential(
        first, nn.ReLU(), nn.Linear(64, 64, bias=False), nn.ReLU(),
        fixed([[0.1] * 64, [0.0] * 64], [goal - less, 0.0]),
    ).double()  # fmt: skip
    x = torch.randn(3, 4, dtype=torch.float64)
    found = first_confident(net, 0 * x, x, confidence=0.9, start=0.0)
    assert (far_field(net, 0 * x, x).radius > 0.1).any()
    steep = (net(1e-3 * x) - net(0 * x)).detach()[:, 0] * 1e3
    assert found.factor.tolist() == pytest.approx((max(less, 0) / steep).tolist(), abs=1e-13)


def test_a_breakpoint_very_far_away_counts():
    """The first class falls behind, and takes over for good beyond t = 1e9."""
    hidden = fixed([[1.0], [1e-9]], [0.0, -1.0])
    net = nn.Sequential(hidden, nn.ReLU(), fixed([[0.0, 1e12], [0.0, 0.0]], [-1.0, 0.0]))
    found = first_confident(net, 0 * ONE, ONE, confidence=0.999)
    goal = math.log(0.999 / 0.001)
    assert found.factor.item() == pytest.approx(1e9 + (goal + 1) / 1e3, rel=1e-14)
    assert found.label.tolist() == [0]


# -- mixtures


def mixture_rest(nets: list[nn.Module], x: Tensor) -> Tensor:
    """1 - confidence of the averaged probabilities, from log odds."""
    total = torch.zeros(())
    for net in nets:
        z = net(x)
        classes = range(z.shape[1])
        odds = [
            torch.logsumexp(z[:, [j for j in classes if j != k]] - z[:, [k]], 1) for k in classes
        ]
        total = total + torch.stack(odds, 1).sigmoid() / len(nets)
    return total.amin(1)


@pytest.mark.parametrize("seed", range(12))
@torch.no_grad()
def test_mixtures_reach_the_level_there_and_nowhere_before(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    shared = torch.randn(3, 4) * 4  # members that agree in part, so that a mixture can be sure
    nets: list[nn.Module] = []
    for _ in range(draw.choice([2, 3])):
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
        for weight in net.parameters():
            weight *= draw.choice([1.0, 2.0])
        nets.append(_Sum(net, shared).double())
    level, start = draw.choice([0.6, 0.95, 0.999, 1 - 1e-10]), draw.choice([0.0, 1.0])
    origin, direction = torch.randn(2, 3, 4, dtype=torch.float64)
    found = first_confident(
        ensemble(nets), origin, direction, confidence=level, start=start, pooled=True
    )
    assert found.factor.shape == (3,)
    rest = 1 - level
    for i in range(3):
        factor = float(found.factor[i])
        before = grid_before(factor, start, 2000)
        if len(before):
            early = mixture_rest(nets, places(origin[i], direction[i], before))
            assert early.min() > rest * (1 - 1e-7)
        if math.isinf(factor):
            assert found.limit[i] <= level
            continue
        at = (origin[i] + factor * direction[i])[None]
        there = float(mixture_rest(nets, at))
        assert there < rest * (1 + 1e-6)
        assert factor == start or there > rest * (1 - 1e-6)
        probs = torch.stack([net(at).softmax(1) for net in nets]).mean(0)
        assert found.label[i] == probs.argmax()


class _Sum(nn.Module):
    def __init__(self, net: nn.Module, weight: Tensor) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("weight", weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) + nn.functional.linear(x, self.weight)


def test_a_mixture_of_equals_is_each_of_them():
    net, shape, _ = random_net(1001)
    x = torch.randn(5, *shape, dtype=torch.float64)
    one = first_confident(net, 0 * x, x, confidence=0.95, start=0.0)
    same = first_confident(ensemble([net, net]), 0 * x, x, confidence=0.95, start=0.0, pooled=True)
    torch.testing.assert_close(same.factor, one.factor, rtol=1e-11, atol=0)
    assert same.label.tolist() == one.label.tolist()


def test_a_mixture_of_opposites_is_never_sure():
    nets = [fixed([[1.0], [0.0]], [0.0, 0.0]), fixed([[0.0], [1.0]], [0.0, 0.0])]
    found = first_confident(ensemble(nets), 0 * ONE, ONE, confidence=0.9, pooled=True)
    assert found.factor.tolist() == [math.inf]
    assert found.limit.tolist() == [0.5]


def test_a_pooled_single_network_is_that_network():
    net, shape, _ = random_net(1003)
    x = torch.randn(3, *shape, dtype=torch.float64)
    plain = first_confident(net, 0 * x, x, confidence=0.9)
    pooled = first_confident(net, 0 * x, x, confidence=0.9, pooled=True)
    assert plain.factor.tolist() == pooled.factor.tolist()


# -- the pieces it is made of


@pytest.mark.parametrize("seed", range(30))
@torch.no_grad()
def test_a_span_holds_the_network_everywhere(seed):
    net, shape, _ = random_net(seed)
    origin, direction = torch.randn(2, 6, *shape, dtype=torch.float64)
    lo = torch.rand(6, dtype=torch.float64) * 3
    hi = lo + 10 ** (torch.rand(6, dtype=torch.float64) * 6 - 5)
    spans = Spans(lo, hi)
    out = instances(net)[0].run(spans, spans.start(origin, direction))
    for s in torch.linspace(-1, 1, 101, dtype=torch.float64):
        t = (spans.middle + spans.half * s).reshape(-1, *(1 for _ in shape))
        off = (net(origin + t * direction) - (out.coefs[0] * s + out.coefs[1])).abs()
        assert (off <= out.error).all()
    calm = spans.unstable == 0  # a line, up to rounding
    assert (out.error[calm] < 1e-8).all()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_the_largest_of_lines_has_the_error_of_the_line_that_wins(order: tuple[int, ...]) -> None:
    """Of lines far apart the highest is the largest, as uncertain as it was."""
    spans = Spans(*torch.tensor([[0.0], [1.0]], dtype=torch.float64))
    made = [(9.0, 0.5), (1.0, 0.25), (-5.0, 0.125)]  # the middle and the error of each
    lines = [torch.tensor([[[0.1]], [[middle]]], dtype=torch.float64) for middle, _ in made]
    parts = [Part(lines[i], error=torch.full((1, 1), made[i][1]).double()) for i in order]
    best = spans.largest(parts)
    assert torch.equal(best.coefs, lines[0])
    assert best.error.item() == pytest.approx(0.5)
    assert spans.unstable.tolist() == [0]


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 10**6), st.integers(1, 3), st.integers(2, 4),
    st.sampled_from([0.3, 0.6, 0.9, 0.999]),
)  # fmt: skip
def test_affine_logits_reach_a_level_where_a_fine_grid_says(seed, members, classes, level):
    torch.manual_seed(seed)
    slope, intercept = torch.randn(2, 5, members, classes, dtype=torch.float64) * 5
    lo, hi = torch.full((5,), 0.5).double(), torch.full((5,), 3.0).double()
    found = first_reach(slope, intercept, lo, hi, level)
    t = torch.linspace(0.5, 3.0, 4001, dtype=torch.float64)
    probs = (slope[:, None] * t[None, :, None, None] + intercept[:, None]).softmax(3).mean(2)
    top = probs.amax(2)  # (5, T)
    for i in range(5):
        sure = t[top[i] >= level + 1e-12]
        if len(sure):
            assert found[i] <= sure[0]
        if found[i] < math.inf:
            z = slope[i] * found[i] + intercept[i]
            assert z.softmax(1).mean(0).amax() >= level - 1e-9
            assert (top[i][t < found[i]] < level + 1e-9).all()


def test_errors_say_what_to_do():
    net = fixed([[1.0], [0.0]], [0.0, 0.0])
    for level in (0.0, 1.0, 1.5, math.nan):
        with pytest.raises(NescioError, match="confidence must lie between 0 and 1"):
            first_confident(net, ONE, ONE, confidence=level)
    for start in (-1.0, math.inf, math.nan):
        with pytest.raises(NescioError, match="start must be a factor of at least 0"):
            first_confident(net, ONE, ONE, start=start)
    with pytest.raises(NescioError, match="one output"):
        first_confident(fixed([[1.0]], [0.0]), ONE, ONE)


def test_each_ray_may_have_its_own_start():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 3)).double()
    d = torch.randn(12, 3, dtype=torch.float64)
    o = torch.zeros_like(d)
    low = first_confident(net, o, d, confidence=0.9, start=0.0).factor
    reached = low.isfinite()
    high = first_confident(net, o, d, confidence=0.99, start=0.0).factor[reached]
    later = first_confident(net, o[reached], d[reached], confidence=0.99, start=low[reached]).factor
    assert torch.allclose(high, later, rtol=1e-12)
    with pytest.raises(NescioError, match="one for each of 12 rays"):
        first_confident(net, o, d, start=torch.ones(3))
