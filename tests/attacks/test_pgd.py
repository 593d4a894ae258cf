"""Projected gradient ascent: closed forms, what its options do, and what it refuses."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from nescio import NescioError, attacks
from nescio.attacks import Ascent, pgd
from nescio.core.schedules import drops


def linear(weight):
    return lambda x: x.flatten(1) @ weight


def wave(x):
    """Many hills: a start decides where the ascent ends."""
    return (7 * x).sin().sum(1) + (3 * x[:, :1] * x).cos().sum(1)


@given(seed=st.integers(0, 10_000), radius=st.floats(0.01, 1.0))
@settings(deadline=None, max_examples=25, derandomize=True)
def test_the_optimum_of_a_linear_objective_in_the_cube(seed, radius):
    """x + radius * sign(w), cut to the box."""
    draw = torch.Generator().manual_seed(seed)
    weight = torch.randn(9, generator=draw, dtype=torch.float64)
    x = torch.rand(6, 9, generator=draw, dtype=torch.float64)
    found = pgd(linear(weight), x, radius=radius, steps=10)
    best = (x + radius * weight.sign()).clamp(0, 1)
    torch.testing.assert_close(found.x, best, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.value, best @ weight, rtol=0, atol=1e-12)


def test_the_optimum_of_a_linear_objective_in_the_sphere():
    weight, x = torch.randn(20, dtype=torch.float64), 0.5 + 0.01 * torch.rand(6, 20).double()
    found = pgd(linear(weight), x, radius=0.3, norm="l2", steps=60, step=0.1)
    best = x + 0.3 * weight / weight.norm()
    torch.testing.assert_close(found.value, best @ weight, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.x, best, rtol=0, atol=1e-5)


def test_the_optimum_of_a_linear_objective_in_the_diamond():
    """Everything on the feature with the largest slope."""
    weight, x = torch.randn(20, dtype=torch.float64), torch.full((3, 20), 0.5).double()
    found = pgd(linear(weight), x, radius=0.3, norm="l1", steps=60)
    best = x.clone()
    place = int(weight.abs().argmax())
    best[:, place] += 0.3 * weight[place].sign()
    torch.testing.assert_close(found.x, best, rtol=0, atol=1e-9)


def test_the_box_turns_a_sparse_attack_to_the_next_features():
    """Once a feature is at the edge, the rest of the l1 radius goes to the next largest slope."""
    weight = torch.arange(1.0, 11.0).double()
    x = torch.full((2, 10), 0.9).double()
    options = {"norm": "l1", "steps": 300, "step": 0.02, "schedule": "cosine"}
    found = pgd(linear(weight), x, radius=0.25, **options)
    best = torch.full((10,), 0.9).double()
    best[7:] = torch.tensor([0.95, 1.0, 1.0])
    torch.testing.assert_close(found.value, (best @ weight).expand(2), rtol=0, atol=2e-2)


def test_the_optimum_of_a_linear_network():
    """Two classes: the odds are linear, so the cube's corner is the optimum."""
    net = nn.Linear(8, 2).double()
    x, y = torch.rand(10, 8).double(), torch.randint(2, (10,))
    found = pgd(attacks.label_loss(net), x, y, radius=0.1, steps=20)
    gap = net.weight[1] - net.weight[0]
    toward = torch.where(y == 0, 1.0, -1.0)[:, None]
    best = (x + 0.1 * (toward * gap).sign()).clamp(0, 1)
    torch.testing.assert_close(found.x, best, rtol=0, atol=1e-12)
    odds = toward[:, 0] * (best @ gap + net.bias[1] - net.bias[0])
    torch.testing.assert_close(found.value, odds, rtol=0, atol=1e-12)


def test_the_whole_box_is_searched_without_a_radius():
    weight, x = torch.randn(9), torch.rand(4, 9)
    found = pgd(linear(weight), x, radius=None, steps=10)
    assert torch.equal(found.x, (weight > 0).float().expand(4, 9))
    wide = pgd(linear(weight), 6 * x - 3, radius=None, steps=10, low=-3.0, high=3.0)
    assert torch.equal(wide.x, 3 * weight.sign().expand(4, 9))


def test_the_best_point_is_no_worse_than_the_input_the_last_point_or_fewer_steps():
    x = torch.rand(50, 3)
    options = {"radius": 0.4, "step": 0.3}  # far too long, so the ascent jumps about
    best = pgd(wave, x, steps=15, **options)
    last = pgd(wave, x, steps=15, best=False, **options)
    assert (best.value >= wave(x)).all()
    assert (best.value >= last.value).all()
    assert (best.value > last.value).any()
    torch.testing.assert_close(last.value, wave(last.x), rtol=0, atol=1e-6)
    for steps in range(15):
        assert (best.value >= pgd(wave, x, steps=steps, **options).value).all()


def test_no_steps_take_the_better_of_start_and_input():
    x = torch.rand(50, 3)
    random = pgd(wave, x, radius=0.4, steps=0, best=False)
    both = pgd(wave, x, radius=0.4, steps=0)
    assert not torch.equal(random.x, x)
    torch.testing.assert_close(both.value, torch.maximum(wave(x), wave(random.x)))
    assert torch.equal(pgd(wave, x, radius=0.4, steps=0, start="input").x, x)
    assert torch.equal(pgd(wave, x, radius=0.0, steps=3).x, x)


@pytest.mark.parametrize("start", ["random", "input"])
def test_restarts_are_never_worse_and_sometimes_better(start):
    x = torch.rand(40, 3)
    values = [
        pgd(wave, x, radius=0.5, steps=10, restarts=n, start=start).value for n in (1, 2, 4, 8)
    ]
    for fewer, more in pairwise(values):
        assert (more >= fewer).all()
    assert (values[-1] > values[0] + 1e-3).any()


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_every_restart_is_another_random_start(norm):
    """Without steps a restart is its start: each of the first four is the best one somewhere."""
    x, options = torch.rand(60, 3), {"radius": 0.4, "steps": 0, "norm": norm, "start": "input"}
    values = [pgd(wave, x, restarts=n, **options).value for n in (1, 2, 3, 4)]
    assert torch.equal(values[0], wave(x))
    for fewer, more in pairwise(values):
        assert (more >= fewer).all()
        assert (more > fewer).any()


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("start", [None, "random", "input"])
def test_an_attack_is_not_weaker_than_its_starts(norm, start):
    x, options = torch.rand(40, 3), {"radius": 0.4, "norm": norm, "start": start}
    for restarts in (1, 3):
        before = pgd(wave, x, steps=0, restarts=restarts, **options).value
        after = pgd(wave, x, steps=10, restarts=restarts, **options).value
        assert (after >= before).all()
        assert (after >= wave(x)).all()
        assert (after > before + 1e-3).any()


def test_the_second_restart_leaves_a_plateau():
    """The input has no gradient; a random start beside it has."""
    x = torch.full((30, 4), 0.5)

    def bowl(x):
        return (x - 0.5).abs().amax(1).sub(0.1).clamp(min=0.0)

    options = {"radius": 0.4, "steps": 10, "start": "input"}
    once, twice = (pgd(bowl, x, restarts=n, **options) for n in (1, 2))
    assert not once.value.any()
    assert once.blind.all()
    assert (twice.value > 0.25).float().mean() > 0.5
    assert not twice.blind.all()


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_the_default_start_in_a_round_ball_is_the_input(norm):
    """Random starts lie far out in a wrong direction, and few steps do not bring them back."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(200, 30), nn.ReLU(), nn.Linear(30, 1), nn.Flatten(0))
    x, options = 0.4 + 0.2 * torch.rand(50, 200), {"radius": 1.0, "norm": norm, "steps": 3}
    own = pgd(net, x, **options)
    assert torch.equal(own.x, pgd(net, x, start="input", **options).x)
    if norm == "l2":
        assert own.value.mean() > pgd(net, x, start="random", **options).value.mean()
    linf = {"radius": 0.1, "steps": 1}
    assert torch.equal(pgd(net, x, **linf).x, pgd(net, x, start="random", **linf).x)


def test_a_schedule_shrinks_the_steps():
    """A ridge that constant steps jump across is met by steps that shrink to nothing."""
    target = torch.full((5, 4), 0.51234)

    def ridge(x):
        return -(x - target).abs().sum(1)

    x = torch.full((5, 4), 0.3)
    options = {"radius": 0.3, "steps": 40, "step": 0.05, "start": "input"}
    constant, cosine, dropped = (
        pgd(ridge, x, schedule=rule, **options).value
        for rule in ("constant", "cosine", drops((0.5, 0.75)))
    )
    assert (cosine > constant + 0.02).all()
    assert (dropped > constant + 0.02).all()


def test_enough_is_enough():
    """Inputs stop at the first point whose value reaches the level; the others go on."""
    weight = torch.ones(4, dtype=torch.float64)
    x = torch.tensor([[0.1] * 4, [0.4] * 4, [0.5] * 4], dtype=torch.float64)
    options = {"radius": 0.3, "steps": 10, "step": 0.05, "start": "input"}
    found = pgd(linear(weight), x, enough=2.0, **options)
    torch.testing.assert_close(found.value, torch.tensor([1.6, 2.0, 2.0]).double())
    calls = []

    def counted(z):
        calls.append(len(z))
        return linear(weight)(z)

    pgd(counted, x[1:], enough=2.0, **options)
    assert len(calls) < 10


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("start", ["random", "input"])
def test_a_mask_leaves_the_other_pixels_exactly(norm, start):
    weight, x = torch.randn(2 * 6 * 6), torch.rand(7, 2, 6, 6)
    mask = torch.zeros(2, 6, 6)
    mask[:, 2:4, 1:4] = 1
    found = pgd(linear(weight), x, radius=0.5, norm=norm, mask=mask, start=start)
    fixed = mask.expand_as(x) == 0
    assert torch.equal(found.x[fixed], x[fixed])
    assert (found.x[~fixed] != x[~fixed]).any()
    assert (found.value > linear(weight)(x)).all()
    size = attacks.balls.NORMS[norm].size((found.x - x).flatten(1))
    assert (size > 0.4).any()  # the patch alone uses the radius
    assert (size <= 0.5 + 1e-5).all()


def test_a_mask_may_be_of_any_type_and_may_have_fewer_axes():
    weight, x = torch.randn(2 * 3 * 3), torch.rand(4, 2, 3, 3)
    rows = torch.tensor([True, False, True])[:, None]
    found = pgd(linear(weight), x, radius=0.5, mask=rows)
    whole = pgd(linear(weight), x, radius=0.5, mask=rows.float().expand(2, 3, 3).numpy())
    assert torch.equal(found.x, whole.x)
    assert torch.equal(found.x[:, :, 1], x[:, :, 1])


def shifted(x, source):
    """Each image rolled by up to two pixels."""
    return torch.stack(
        [image.roll(int(torch.randint(-2, 3, (), generator=source)), -1) for image in x]
    )


def test_random_transforms_under_the_attack():
    """A pattern that must work wherever it lands: the optimum of the mean over shifts."""
    weight = torch.zeros(1, 1, 9)
    weight[..., 4] = 1.0

    def objective(x):
        return (x * weight).flatten(1).sum(1)

    x = torch.full((6, 1, 1, 9), 0.5)
    options = {"radius": 0.2, "steps": 60, "start": "input"}
    fixed = pgd(objective, x, **options)
    moving = pgd(objective, x, transform=shifted, draws=4, best=False, **options)
    assert (fixed.x != 0.5).flatten(1).sum(1).tolist() == [1] * 6
    torch.testing.assert_close(moving.x[:, 0, 0, 2:7], torch.full((6, 5), 0.7))
    assert torch.equal(moving.x[:, 0, 0, :2], x[:, 0, 0, :2])
    again = pgd(objective, x, transform=shifted, draws=4, best=False, **options)
    assert torch.equal(again.x, moving.x)
    other = pgd(objective, x, transform=shifted, seed=1, **{**options, "steps": 3})
    assert not torch.equal(
        other.x, pgd(objective, x, transform=shifted, **{**options, "steps": 3}).x
    )


def test_the_average_over_draws_is_what_is_raised():
    seen = []

    def jitter(x, source):
        seen.append(torch.rand((), generator=source).item())
        return x + seen[-1]

    x = torch.zeros(2, 3)
    found = pgd(lambda z: z.sum(1), x, radius=0.1, steps=0, best=False, transform=jitter, draws=5)
    torch.testing.assert_close(found.value, found.x.sum(1) + 3 * sum(seen) / 5)


def test_the_step_is_two_and_a_half_radii_over_the_steps():
    assert Ascent(radius=0.3, steps=40).size == pytest.approx(0.01875)
    assert Ascent(radius=None, steps=10, low=-1.0).size == pytest.approx(0.5)
    x = torch.full((1, 2), 0.5)
    moved = pgd(lambda z: z[:, 0], x, radius=0.3, steps=1, start="input", step=0.125)
    assert torch.equal(moved.x, torch.tensor([[0.625, 0.5]]))


def test_scores_of_your_own_such_as_a_distance_detector():
    """The distance to the nearest training case, lowered: the attack walks towards the data."""
    train = torch.rand(30, 4) * 0.2

    def score(x):
        return (x[:, None] - train).square().sum(-1).amin(1)

    x = 0.6 + 0.3 * torch.rand(8, 4)
    found = pgd(lambda z: -score(z), x, radius=0.2, steps=20)
    assert (score(found.x) < score(x)).all()
    torch.testing.assert_close(found.x, x - 0.2, rtol=0, atol=1e-6)  # all data lie below


def test_two_attacks_are_told_apart_by_their_descriptions():
    kinds = [
        Ascent(radius=0.3),
        Ascent(radius=0.3, steps=20),
        Ascent(radius=0.3, step=0.1),
        Ascent(radius=0.3, norm="l2"),
        Ascent(radius=0.3, schedule="cosine"),
        Ascent(radius=0.3, schedule=drops((0.95,))),
        Ascent(radius=0.3, best=False),
        Ascent(radius=0.3, enough=2.0),
        Ascent(radius=0.3, high=2.0),
        Ascent(radius=0.30000001),
        Ascent(radius=None),
    ]
    assert len({kind.description for kind in kinds}) == len(kinds)
    assert Ascent(radius=0.3, norm="linf").description == Ascent(radius=0.3).description


X = torch.rand(4, 3)


def total(x):
    return x.sum(1)


def with_labels(x, y):
    return x.sum(1) * y


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ((total, X), {"radius": 1.5}, "radius 1.5 leaves the box .* say radius=None"),
        ((total, X), {"radius": 2.0, "norm": "l2"}, "leaves the box .* within 1.73205 in the l2"),
        ((total, X), {"radius": 3.5, "norm": "l1"}, "leaves the box .* within 3 in the l1"),
        ((total, X), {"radius": -0.1}, "radius must be a number from 0 up, or None, got -0.1"),
        ((total, X), {"radius": math.nan}, "radius must be a number"),
        ((total, 2 * X + 0.5), {"radius": 0.1}, "range from .* outside the box .* low= and high="),
        ((total, X - 2), {"radius": 0.1}, "outside the box"),
        ((total, X), {"radius": 0.1, "low": 1.0}, "low < high, got 1.0 and 1.0"),
        ((total, X), {"radius": 0.1, "high": math.inf}, "box needs numbers"),
        ((total, X), {"radius": 0.1, "norm": "l3"}, "unknown norm 'l3'; known: linf, l2, l1"),
        ((total, X), {"radius": None, "norm": "l2"}, "without a radius the l2 norm needs"),
        ((total, X), {"radius": 0.1, "enough": math.nan}, "enough must be a number"),
        ((total, X), {"radius": 0.1, "low": "0"}, "box needs numbers"),
        ((total, X), {"radius": 0.1, "step": "long"}, "step must be a positive number"),
        ((total, X), {"radius": 0.1, "steps": -1}, "steps must be a whole number"),
        ((total, X), {"radius": 0.1, "steps": 2.5}, "steps must be a whole number"),
        ((total, X), {"radius": 0.1, "step": 0.0}, "step must be a positive number"),
        ((total, X), {"radius": 0.1, "schedule": "often"}, "unknown schedule 'often'"),
        ((total, X), {"radius": 0.1, "start": "zero"}, "start must be 'random', 'input' or inputs"),
        ((total, X), {"radius": 0.1, "restarts": 0}, "at least 1"),
        ((total, X), {"radius": 0.1, "restarts": 1.5}, "restarts must be a whole .* got 1.5"),
        ((total, X), {"radius": 0.1, "batch_size": 0}, "batch_size must be .* at least 1, got 0"),
        ((total, X), {"radius": 0.1, "draws": True}, "draws must be a whole number"),
        ((total, X), {"radius": 0.1, "mask": torch.ones(4)}, r"mask .* shape \(3,\) .* got \(4,\)"),
        ((total, X), {"radius": 0.1, "mask": torch.full((3,), 0.5)}, "0 .fixed. and 1"),
        ((total, X), {"radius": 0.1, "mask": torch.zeros(3)}, "with a 1 somewhere"),
        ((with_labels, X, torch.ones(3)), {"radius": 0.1}, r"4 inputs but targets of shape \(3,\)"),
        ((with_labels, X), {"radius": 0.1}, r"objective\(x\) does not fit .* give y"),
        ((total, X, torch.ones(4)), {"radius": 0.1}, r"objective\(x, y\) does not fit"),
        ((lambda x: x, X), {"radius": 0.1}, r"one value a sample, \(4,\), got \(4, 3\)"),
        ((lambda x: x.sum(), X), {"radius": 0.1}, r"one value a sample, \(4,\), got \(\)"),
        ((lambda x: 1.0, X), {"radius": 0.1}, "one value a sample, .* got float"),
        ((lambda x: x.detach().sum(1), X), {"radius": 0.1}, "no gradient with respect to its"),
        ((lambda x: x.sum(1) * torch.nan, X), {"radius": 0.1}, "NaN or infinite near sample 0"),
        ((lambda x: (x.sum(1) - 9).log(), X), {"radius": 0.1}, "NaN or infinite near sample 0"),
        ((total, X[:0]), {"radius": 0.1}, "empty"),
        ((total, X * torch.nan), {"radius": 0.1}, "NaN or infinite values"),
        ((total, (255 * X).byte()), {"radius": 0.1}, "uint8"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(given, options, said):
    with pytest.raises(NescioError, match=said):
        pgd(*given, **options)


def test_the_sample_of_a_lost_objective_is_counted_over_all_batches():
    def lost(x):
        return torch.where(x[:, 0] > 0.9, torch.nan, 1.0) * x.sum(1)

    x = torch.full((9, 2), 0.5)
    x[7] = 0.95
    with pytest.raises(NescioError, match="near sample 7"):
        pgd(lost, x, radius=0.01, batch_size=3)


def test_a_radius_of_the_whole_width_is_still_in_the_box():
    found = pgd(total, X, radius=1.0, steps=5)
    assert torch.equal(found.x, torch.ones_like(X))


def test_bounds_are_read_in_the_numbers_of_the_inputs():
    """0.1 is not a float32, and inputs of 0.1 are still not above 0.1."""
    x = torch.full((2, 3), 0.1)
    assert pgd(total, x, radius=0.05, low=-0.1, high=0.1).x.max() == x.max()


def test_progress_can_be_shown(capsys):
    """Two restarts of two batches, four in all; nothing unless asked for."""
    options = {"radius": 0.1, "steps": 1, "restarts": 2, "batch_size": 2}
    pgd(total, X, **options)
    assert capsys.readouterr() == ("", "")
    pgd(total, X, progress=True, **options)
    out, shown = capsys.readouterr()
    assert not out
    assert "attacking" in shown
    assert "4/4" in shown
