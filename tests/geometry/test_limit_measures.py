"""Limits of measures, scores and gradients against networks, closed forms and many digits."""

import math
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nescio.calibration import scaled as scaled_by
from nescio.core import Categorical, NescioError, applicable, categorical
from nescio.core.registry import measures
from nescio.geometry import far_field
from nescio.geometry.rays.limits import limits
from nescio.geometry.tracing.instances import Source, instances
from nescio.models import ensemble, mc_dropout, plain, weight_samples
from nescio.models.model import Model
from nescio.nets import bayesian_mlp
from nescio.nets.stack import stack

MODULE = sys.modules["nescio.geometry.rays.limits"]


def linear(weights: Any, bias: Any) -> nn.Linear:
    weights = torch.as_tensor(weights, dtype=torch.float64)
    layer = nn.Linear(*weights.T.shape).double()
    with torch.no_grad():
        layer.weight.copy_(weights)
        layer.bias.copy_(torch.as_tensor(bias, dtype=torch.float64))
    return layer


def mlp(*sizes: int, seed: int = 0, dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes[:-1]):
        layers += [nn.Linear(before, after), nn.ReLU()]
        layers += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*layers, nn.Linear(*sizes[-2:])).double()


def tied() -> nn.Module:
    """Two of three classes grow equally fast wherever they are the fastest."""
    net = mlp(3, 8, 3, seed=2)
    with torch.no_grad():
        net[-1].weight[1] = net[-1].weight[0]
    return net


def split() -> nn.Module:
    """Along the first axis two classes tie, across it they do not."""
    return linear([[2.0, 1.0, 0.0], [2.0, -1.0, 1.0], [0.0, 3.0, 3.0]], [0.1, 0.2, 0.3])


def bayesian() -> Model:
    torch.manual_seed(5)
    net = bayesian_mlp(3, 3, widths=(8,), spread=0.3)
    return weight_samples(Model(net, stack([net]), categorical()), passes=4).to(torch.float64)


SOURCES: dict[str, Callable[[], Source]] = {
    "plain": lambda: mlp(3, 10, 8, 3, seed=1),
    "two classes": lambda: mlp(3, 6, 2, seed=9),
    "often dead": lambda: mlp(3, 2, 2, 3, seed=4),
    "tied": tied,
    "ensemble": lambda: ensemble([mlp(3, 6, 3, seed=s) for s in range(4)]),
    "often dead ensemble": lambda: ensemble([mlp(3, 2, 2, 3, seed=s) for s in range(3)]),
    "different members": lambda: ensemble([mlp(3, 6, 3, seed=7), mlp(3, 4, 4, 3, seed=8), tied()]),
    "mc dropout": lambda: mc_dropout(mlp(3, 12, 3, seed=3, dropout=0.5), passes=5),
    "weight samples": bayesian,
    "Platt": lambda: scaled_by(plain(mlp(3, 6, 3, seed=6)), 0.5, (0.3, -0.2, 0.0)),
}


def rays(count: int = 24, size: int = 3) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    origin, direction = torch.randn(2, count, size, generator=g, dtype=torch.float64)
    return origin, direction


def logits_at(source: Source, x: Tensor) -> Tensor:
    """Logits `(M, N, C)` of the networks themselves, with gradients."""
    found = []
    for instance in instances(source):
        with instance._fixed():
            z = instance.net(x) * instance.slope
        found.append(z if instance.intercept is None else z + instance.intercept)
    return torch.stack(found)


def far_points(source: Source, origin: Tensor, direction: Tensor, factor: float) -> Any:
    """Points that far beyond the radius, and the rays whose slowest race is over there."""
    field = far_field(source, origin, direction)
    slope = field.slope if field.slope.ndim == 3 else field.slope[None]
    radius = field.radius if field.radius.ndim == 2 else field.radius[None]
    t = factor * radius.amax(0).clamp_min(1.0)
    gaps = (slope.amax(-1, keepdim=True) - slope).movedim(0, 1).flatten(1).sort(dim=1).values
    steps = torch.where(gaps.diff(dim=1) > 0, gaps.diff(dim=1), math.inf).amin(1)
    return (origin + t[:, None] * direction).requires_grad_(), steps * t > 60


def slope_norm(value: Tensor, x: Tensor) -> Tensor:
    if not value.requires_grad:
        return torch.zeros(len(x), dtype=torch.float64)
    return torch.autograd.grad(value.sum(), x, retain_graph=True)[0].norm(dim=1)


@pytest.mark.parametrize("name", SOURCES)
def test_limits_are_those_of_the_network_far_out(name: str) -> None:
    source = SOURCES[name]()
    origin, direction = rays()
    found = limits(source, origin, direction)
    assert found.gradients is not None
    assert found.class_gradients is not None
    compared = 0
    for factor in (1e3, 1e4, 1e6):
        x, over = far_points(source, origin, direction, factor)
        prediction = Categorical(logits_at(source, x))
        assert set(found.measures) == set(found.gradients) == set(applicable(prediction))
        near = {"rtol": 1e-8, "atol": 1e-8}
        for measure in applicable(prediction):
            value = measures[measure](prediction)
            slopes = slope_norm(value, x)
            ends = found.measures[measure]
            finite = ends.isfinite()
            torch.testing.assert_close(value[over & finite].detach(), ends[over & finite], **near)
            assert (value.detach() * ends.sign())[over & ~finite].gt(10).all()
            torch.testing.assert_close(slopes[over], found.gradients[measure][over], **near)
        for c in range(prediction.classes):
            slopes = slope_norm(prediction.probs[:, c], x)
            torch.testing.assert_close(slopes[over], found.class_gradients[over, c], **near)
        compared += int(over.sum())
    assert compared >= 24


def test_some_of_these_gradients_stay() -> None:
    """What is compared above is not all 0."""
    origin, direction = rays()
    dead = limits(SOURCES["often dead ensemble"](), origin, direction)
    assert dead.gradients is not None
    assert (dead.gradients["expected_pairwise_kl"] > 0.01).any()
    ahead = torch.tensor([[1.0, 0.0, 0.0]]).double()
    members = ensemble([split(), linear([[1.0, 0, 0], [0, 2.0, 1.0], [0, 0, 1.0]], [0, 0, 0])])
    for source in (split(), members):
        found = limits(source, torch.tensor([[0.0, 0.2, -0.1]]), ahead)
        x, _ = far_points(source, torch.tensor([[0.0, 0.2, -0.1]]).double(), ahead, 1e6)
        prediction = Categorical(logits_at(source, x))
        assert found.gradients is not None
        for name in ("predictive_entropy", "expected_entropy", "least_confidence", "log_odds"):
            truth = slope_norm(measures[name](prediction), x)
            assert truth.item() > 0.05
            torch.testing.assert_close(found.gradients[name], truth, rtol=1e-6, atol=0)
    for name in ("mutual_information", "class_variance"):  # of the two members
        truth = slope_norm(measures[name](prediction), x)
        assert truth.item() > 0.01
        torch.testing.assert_close(found.gradients[name], truth, rtol=1e-6, atol=0)


def test_the_counter_example_to_vanishing_gradients() -> None:
    """No entry of V is 0, yet p stays (0.6457, 0.3543) and the norm of its gradient 0.4576."""
    net = linear([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.0])
    origin, direction = torch.tensor([[0.0, 0.3], [1.0, 0.0]], dtype=torch.float64).split(1)
    found = limits(net, origin, direction)
    p = 1 / (1 + math.exp(-0.6))
    assert found.probs[0, 0].tolist() == pytest.approx([p, 1 - p], abs=1e-15)
    assert [round(v, 4) for v in found.probs[0, 0].tolist()] == [0.6457, 0.3543]
    assert found.class_gradients is not None
    assert found.class_gradients[0].tolist() == pytest.approx([2 * p * (1 - p)] * 2, abs=1e-15)
    assert round(float(found.class_gradients[0, 0]), 4) == 0.4576
    assert found.kind.tolist() == [["tie"]]
    for alpha in 10.0 ** torch.arange(7).double():
        x = (origin + alpha * direction).requires_grad_()
        probs = net(x).softmax(-1)
        assert probs[0].tolist() == pytest.approx([p, 1 - p], abs=1e-9)
        assert slope_norm(probs[:, 0], x).item() == pytest.approx(0.457568, abs=1e-6)


def test_equal_columns_have_a_limit_below_one_and_no_gradient() -> None:
    net = linear([[1.0, 2.0], [1.0, 2.0]], [1.0, 0.0])
    found = limits(net, torch.zeros(2), torch.tensor([3.0, 1.0]))
    assert found.measures["least_confidence"].item() == pytest.approx(1 / (1 + math.e))
    assert found.gradients is not None
    assert max(v.item() for v in found.gradients.values()) == 0
    assert found.class_gradients is not None
    assert found.class_gradients.tolist() == [[0.0, 0.0]]


def test_what_has_no_finite_limit_still_has_a_gradient() -> None:
    net = linear([[3.0, 0.0], [1.0, 1.0], [0.0, 5.0]], [0.0, 1.0, 2.0])
    found = limits(net, torch.zeros(2), torch.tensor([1.0, 0.0]))
    assert found.measures["log_odds"].item() == -math.inf
    assert found.gradients is not None  # the second fastest is class 1
    assert found.gradients["log_odds"].item() == pytest.approx(math.hypot(2.0, 1.0), rel=1e-12)
    members = ensemble([net, linear([[0.0, 0.0], [2.0, 0.0], [0.0, 0.0]], [0, 0, 0])])
    found = limits(members, torch.zeros(2), torch.tensor([1.0, 0.0]))
    assert found.measures["expected_pairwise_kl"].item() == math.inf
    assert found.measures["mutual_information"].item() == pytest.approx(math.log(2))
    assert found.measures["variation_ratio"].item() == 0.5


def test_what_rounding_leaves_open_stays_marked() -> None:
    net = linear([[0.1, 0.2, -0.3], [0.0, 0.0, 0.0]], [0.0, 3.0])
    for options in ({}, {"temperature": 3.0}, {"reject_logit": 1.0}):
        found = limits(net, torch.zeros(3), torch.ones(3), **options)
        assert found.kind.tolist() == [["undecided"]]


# -- compositions


def test_temperature_divides_the_logits() -> None:
    origin, direction = rays(40)
    nets = [mlp(3, 2, 2, 3, seed=s) for s in range(3)]
    by_option = limits(ensemble(nets), origin, direction, temperature=4.0)
    by_predictor = limits(scaled_by(ensemble(nets), 0.25, (0.0, 0.0, 0.0)), origin, direction)
    assert (by_option.kind == by_predictor.kind).all()
    assert by_option.gradients is not None
    assert by_predictor.gradients is not None
    for name in by_option.measures:
        torch.testing.assert_close(by_option.measures[name], by_predictor.measures[name])
        torch.testing.assert_close(by_option.gradients[name], by_predictor.gradients[name])
    plain_limits = limits(ensemble(nets), origin, direction)
    constant = torch.as_tensor(plain_limits.kind == "constant")
    assert constant.any()
    cooled = plain_limits.probs.log().div(4).softmax(-1)
    torch.testing.assert_close(by_option.probs[constant], cooled[constant])
    assert torch.equal(by_option.probs[~constant], plain_limits.probs[~constant])


def test_max_logit_and_energy() -> None:
    up, down, flat = ([[s, 0.0], [s, 0.0], [-3.0, 0.0]] for s in (2.0, -2.0, 0.0))
    bias = [1.0, 3.0, 9.0]
    origin, direction = torch.zeros(2), torch.tensor([1.0, 0.0])
    for weights, truth in ((up, -math.inf), (down, math.inf)):
        scores = limits(linear(weights, bias), origin, direction).scores
        assert scores["max_logit"].item() == scores["energy"].item() == truth
    found = limits(linear(flat, bias), origin, direction, temperature=2.0).scores
    assert found["max_logit"].item() == -3.0
    assert found["energy"].item() == pytest.approx(-2 * math.log(math.exp(0.5) + math.exp(1.5)))
    x = 1e6 * direction.double()[None]
    z = linear(flat, bias)(x).detach()
    assert found["energy"].item() == pytest.approx(-2 * (z / 2).logsumexp(-1).item(), abs=1e-12)
    both = ensemble([linear(up, bias), linear(down, bias)])  # their growth cancels
    found = limits(both, origin, direction).scores
    assert found["max_logit"].item() == -3.0
    assert found["energy"].item() == pytest.approx(-math.log(math.e + math.e**3))


def test_a_class_that_means_reject() -> None:
    net = linear([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], [0.0, 0.0, 0.0])
    direction = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    found = limits(net, torch.zeros(2), direction, reject=2).scores
    assert found["reject"].tolist() == pytest.approx([0.0, 1.0, 1 / 3])
    assert found["least_confidence_of_classes"].tolist() == pytest.approx([0.0, 1.0, 2 / 3])


def test_a_constant_reject_logit_wins_where_all_others_fall() -> None:
    net = linear([[1.0, 0.0], [2.0, 1.0]], [0.5, 0.25])
    direction = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, -2.0]])
    found = limits(net, torch.zeros(2), direction, reject_logit=1.5, temperature=2.0)
    assert found.probs.shape == (1, 3, 3)
    tie = torch.tensor([0.25, 1.5]).double().div(2).softmax(0)  # in the last, class 1 stays at 0
    assert found.scores["reject"].tolist() == pytest.approx([0.0, 1.0, 0.0])
    at = limits(net, torch.zeros(2), torch.tensor([[-1.0, 2.0]]), reject_logit=1.5, temperature=2.0)
    assert at.scores["reject"].tolist() == pytest.approx([tie[1].item()])
    assert at.class_gradients is not None
    x = torch.tensor([[-1e7, 2e7]], dtype=torch.float64, requires_grad=True)
    z = torch.cat([net(x), torch.full((1, 1), 1.5)], 1) / 2
    truth = [slope_norm(z.softmax(-1)[:, c], x).item() for c in range(3)]
    assert truth[1] > 0.1
    assert at.class_gradients[0].tolist() == pytest.approx(truth, abs=1e-8)


# -- ODIN


def by_many_digits(members: list[nn.Linear], x0: Tensor, way: Tensor, heat: float) -> list[int]:
    """Signs of the gradient of log max p at t = 40, with exponentials that do not vanish."""
    with mpmath.workdps(1000):
        x = [o + 40 * d for o, d in zip(x0.tolist(), way.tolist(), strict=True)]  # whole numbers
        probs, slopes = [], []
        for net in members:
            V, a = net.weight.tolist(), net.bias.tolist()
            e = [mpmath.exp((mpmath.fdot(row, x) + b) / heat) for row, b in zip(V, a, strict=True)]
            p = [v / mpmath.fsum(e) for v in e]
            mean = [mpmath.fdot(p, column) for column in zip(*V, strict=True)]
            probs.append(p)
            slopes.append([[v - m for v, m in zip(row, mean, strict=True)] for row in V])
        total = [mpmath.fsum(column) for column in zip(*probs, strict=True)]
        k = max(range(len(total)), key=lambda c: total[c])
        sums = [
            mpmath.fsum(p[k] * s[k][d] for p, s in zip(probs, slopes, strict=True))
            for d in range(len(x))
        ]
        small = mpmath.mpf(10) ** -880
        return [0 if abs(s) < small else int(mpmath.sign(s)) for s in sums]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("heat", [1.0, 3.0])
def test_odin_steps_by_the_signs_of_the_gradient(count: int, heat: float) -> None:
    """Small whole weights: ties, and coordinates in which the fastest classes do not differ."""
    rng = np.random.default_rng(count)
    zeros = 0
    for _ in range(8):
        members = [
            linear(rng.integers(-2, 3, (4, 3)), rng.normal(size=4).round(3)) for _ in range(count)
        ]
        origin, direction = torch.tensor(rng.integers(-2, 3, (2, 5, 3))).double()
        source = ensemble(members) if count > 1 else members[0]
        field = MODULE._with_members(source, origin, direction, last_region=True)
        steps = MODULE._odin_step(MODULE._read(field, heat, None))
        for i in range(len(origin)):
            truth = by_many_digits(members, origin[i], direction[i], heat)
            assert steps[i].tolist() == truth
            zeros += truth.count(0)
    assert zeros < 200


def test_odin_is_the_shifted_ray() -> None:
    net = linear([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.0])
    found = limits(net, [0.0, 0.3], [1.0, 0.0], epsilon=0.05, temperature=2.0, gradients=False)
    assert found.scores["odin"].item() == pytest.approx(1 / (1 + math.exp(2 * 0.35 / 2)), abs=1e-15)
    assert found.gradients is None
    x = torch.tensor([[1e5, 0.3]], dtype=torch.float64, requires_grad=True)
    (net(x) / 2).log_softmax(-1).amax(-1).sum().backward()
    moved = x.detach() + 0.05 * x.grad.sign()  # type: ignore[union-attr]
    truth = 1 - (net(moved) / 2).softmax(-1).amax().item()
    assert found.scores["odin"].item() == pytest.approx(truth, abs=1e-9)


def test_odin_of_a_network_of_one_class_limits_stays_certain() -> None:
    origin, direction = rays()
    found = limits(SOURCES["plain"](), origin, direction, epsilon=0.1, temperature=1000.0)
    one = torch.as_tensor(found.kind[0] == "one")
    assert one.any()
    assert (found.scores["odin"][one] == 0).all()


# -- the table, blocks, errors


def test_the_table_shows_which_scores_are_certain() -> None:
    origin, direction = rays(200)
    nets = [mlp(3, 6, 3, seed=s) for s in range(3)]
    single = {r["score"]: r for r in limits(nets[0], origin, direction, epsilon=0.1).table()}
    assert set(single) >= {*applicable(Categorical(torch.zeros(1, 1, 2))), "energy", "odin"}
    field = far_field(nets[0], origin, direction)
    assert (field.kind == "one").all()
    rising = (field.slope.amax(-1) > 0).double().mean().item()
    for name in (
        "least_confidence",
        "predictive_entropy",
        "mutual_information",
        "log_odds",
        "odin",
    ):
        assert single[name]["certain"] == 1.0
    assert single["log_odds"]["max"] == -math.inf
    assert single["max_logit"]["certain"] == single["energy"]["certain"] == pytest.approx(rising)
    model = ensemble(nets)
    several = {r["score"]: r for r in limits(model, origin, direction).table()}
    labels = far_field(model, origin, direction).slope.argmax(-1)
    agree = (labels == labels[:1]).all(0).double().mean().item()
    assert 0 < agree < 1
    for name in ("least_confidence", "mutual_information", "variation_ratio", "log_odds"):
        assert several[name]["certain"] == pytest.approx(agree)
    sure = (far_field(model, origin, direction).kind == "one").all(0).mean()
    assert several["expected_entropy"]["certain"] == sure > 0.9  # by itself, each member is certain
    assert several["predictive_entropy"]["max"] == pytest.approx(math.log(3)) or agree > 0.5


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    origin, direction = rays()
    source = SOURCES["often dead ensemble"]()
    whole = limits(source, origin, direction, epsilon=0.1)
    monkeypatch.setattr(MODULE, "BYTES", 8 * 3 * 3 * 3 * 5)  # five rays at a time
    parts = limits(source, origin, direction, epsilon=0.1)
    assert whole.gradients is not None
    assert parts.gradients is not None
    for name, value in whole.gradients.items():
        torch.testing.assert_close(parts.gradients[name], value, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(parts.scores["odin"], whole.scores["odin"])


def test_images_are_rays_too() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)
    )
    origin, direction = torch.zeros(1, 1, 6, 6), torch.rand(4, 1, 6, 6)
    found = limits(net, origin, direction, epsilon=0.1)
    assert found.class_gradients is not None
    assert found.class_gradients.shape == (4, 3)
    x = (1e6 * direction.double()).requires_grad_()
    prediction = Categorical(logits_at(net, x))
    torch.testing.assert_close(found.probs, prediction.member_probs.detach(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature must be positive and finite, got 0"),
        ({"temperature": math.inf}, "temperature must be positive"),
        ({"epsilon": -1.0}, "epsilon must be 0 or more"),
        ({"reject": 3}, "a class in 0..2, got 3"),
        ({"reject": 0, "reject_logit": 1.0}, "not both"),
        ({"reject_logit": math.nan}, "reject_logit must be finite"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(NescioError, match=message):
        limits(mlp(2, 3, 3), torch.zeros(2), torch.ones(2), **options)  # type: ignore[arg-type]
