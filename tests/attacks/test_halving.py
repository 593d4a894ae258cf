"""Steps that are halved: the checkpoints of the paper, the rule by hand, and what it finds."""

import math

import pytest
import torch

from nescio import NescioError
from nescio.attacks import Ascent, pgd
from nescio.attacks.halving import MOMENTUM, checkpoints


def test_checkpoints_come_closer_as_in_the_paper():
    assert checkpoints(100) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert checkpoints(0) == []
    assert checkpoints(1) == []
    for steps in range(2, 60):
        found = checkpoints(steps)
        assert found == sorted(set(found))
        assert 0 < found[0] <= found[-1] < steps


def reference(value, slope, x, radius, steps):
    """Algorithm 1 of Croce and Hein (2020) for one number, in plain floats."""

    def clip(u):
        return min(max(u, x - radius, 0.0), x + radius, 1.0)

    size, marks = 2 * radius, checkpoints(steps)
    points, before = [x], x
    best, last, known, halved, mark, rises = x, x, value(x), True, 0, 0
    for k in range(steps):
        if k and value(points[-1]) > value(last):
            rises += 1
        best = points[-1] if value(points[-1]) > value(best) else best
        if k in marks:
            halved = rises < 0.75 * (k - mark) or (not halved and value(best) <= known)
            if halved:
                size /= 2
                points.append(best)
                before = best
            known, mark, rises = value(best), k, 0
        u = points[-1]
        z = clip(u + size * math.copysign(1, slope(u)))
        v = clip(u + MOMENTUM * (z - u) + (1 - MOMENTUM) * (u - before)) if k else z
        before = last = u
        points.append(v)
    return max(points, key=value)


@pytest.mark.parametrize("steps", [3, 10, 25, 60])
def test_it_is_the_algorithm_of_the_paper(steps):
    """Against floats, for hills of one number, from several inputs at once."""
    x = torch.linspace(0.1, 0.9, 9, dtype=torch.float64)[:, None]
    found = pgd(
        lambda u: (17 * u[:, 0]).sin() + u[:, 0], x, radius=0.3, steps=steps, halving=True,
        start="input",
    )  # fmt: skip
    expected = [
        reference(
            lambda u: math.sin(17 * u) + u, lambda u: 17 * math.cos(17 * u) + 1, one, 0.3, steps
        )
        for one in x[:, 0].tolist()
    ]
    torch.testing.assert_close(found.x[:, 0], torch.tensor(expected, dtype=torch.float64))


def peak(x):
    """A peak of width 0.02 on a slope that leads to it: steps of 0.05 jump over it."""
    far = (x - 0.613).abs().amax(1)
    return -far + 5 * (1 - far / 0.01).relu()


def test_a_narrow_peak_needs_small_steps():
    x = torch.full((6, 3), 0.5)
    options = {"radius": 0.3, "steps": 40, "start": "input"}
    coarse = pgd(peak, x, step=0.05, **options)
    halved = pgd(peak, x, halving=True, **options)
    assert coarse.value.max() < 0
    assert halved.value.min() > 3


def test_each_input_has_its_own_steps():
    """Beside inputs that rise all the way, one at a peak is halved as it would be alone."""
    x = torch.cat([torch.rand(7, 4, dtype=torch.float64), torch.full((1, 4), 0.5).double()])

    def hills(u):
        return (9 * u).sin().sum(-1) - u.square().sum(-1)

    ascent = Ascent(radius=0.3, steps=30, halving=True)
    together, values = ascent(hills, x)
    for number in range(8):
        alone, value = ascent(hills, x[number : number + 1])
        torch.testing.assert_close(together[number], alone[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(values[number], value[0], rtol=0, atol=1e-12)
    members, _ = ascent(hills, x.view(2, 4, 4), lead=2)
    torch.testing.assert_close(members.view(8, 4), together, rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_a_hill_is_climbed_to_its_top_in_every_norm(norm):
    """The point of the ball that is nearest to the top; in l1 some of the way is enough."""
    x, top = torch.full((1, 3), 0.5).double(), torch.tensor([0.8, 0.55, 0.5]).double()
    found = pgd(
        lambda u: -(u - top).square().sum(1), x, radius=0.2, steps=200, norm=norm, halving=True,
        start="input",
    )  # fmt: skip
    edge = {"linf": [0.7, 0.55, 0.5], "l1": [0.7, 0.5, 0.5]}
    away = (top - x[0]) * 0.2 / (top - x[0]).norm()
    expected = torch.tensor(edge[norm]).double() if norm in edge else x[0] + away
    torch.testing.assert_close(found.x[0], expected, rtol=0, atol=2e-3)


def test_a_step_is_one_pass():
    calls = []

    def counted(x):
        calls.append(torch.is_grad_enabled())
        return -x.square().sum(1)

    Ascent(radius=0.2, steps=12, halving=True)(counted, torch.rand(4, 3))
    assert calls == [True] * 12 + [False]
    calls.clear()
    _, values = Ascent(radius=0.2, steps=0, halving=True)(counted, torch.zeros(4, 3))
    assert calls == [False]
    assert torch.equal(values, torch.zeros(4))


def test_an_input_that_has_enough_stays():
    x = torch.tensor([[0.5], [0.2]])
    found = pgd(
        lambda u: u[:, 0], x, radius=0.1, steps=10, step=0.02, halving=True, start="input",
        enough=0.53,
    )  # fmt: skip
    torch.testing.assert_close(found.x, torch.tensor([[0.54], [0.3]]))


def test_only_what_a_mask_allows_changes():
    x, mask = torch.rand(5, 4), torch.tensor([1, 0, 1, 0])
    found = pgd(lambda u: u.sum(1), x, radius=0.2, steps=9, halving=True, mask=mask)
    assert torch.equal(found.x[:, [1, 3]], x[:, [1, 3]])
    torch.testing.assert_close(found.x[:, [0, 2]], (x + 0.2).clamp(max=1)[:, [0, 2]])


@pytest.mark.parametrize("options", [{"schedule": "cosine"}, {"best": False}])
def test_it_sets_the_steps_itself(options):
    with pytest.raises(NescioError, match="halving sets the steps"):
        Ascent(radius=0.1, halving=True, **options)


def test_its_description_tells():
    plain, halved = (Ascent(radius=0.1, steps=5, step=0.2, halving=h) for h in (False, True))
    assert plain.description != halved.description


def test_given_starts_are_moved_into_ball_and_box():
    x = torch.tensor([[0.5, 0.1], [0.9, 0.5]])
    starts = torch.tensor([[0.0, -1.0], [2.0, 0.45]])
    found = pgd(lambda u: 0 * u.sum(1), x, radius=0.3, steps=0, start=starts, best=False)
    torch.testing.assert_close(found.x, torch.tensor([[0.2, 0.0], [1.0, 0.45]]))
    masked = pgd(
        lambda u: 0 * u.sum(1), x, radius=0.3, steps=0, start=starts, best=False, mask=[1, 0]
    )
    torch.testing.assert_close(masked.x, torch.tensor([[0.2, 0.1], [1.0, 0.5]]))


def test_given_starts_decide_which_hill_is_climbed():
    """Two hills; the attack is on the side it starts on, and images of bytes are starts too."""

    def hills(u):
        far = torch.minimum((u - 0.25).abs(), (u - 0.75).abs())
        return -far.flatten(1).sum(1)

    x = torch.full((2, 1, 1, 2), 0.5)
    starts = torch.tensor([51, 51, 204, 204], dtype=torch.uint8).view(2, 1, 1, 2)
    found = pgd(hills, x, radius=0.3, steps=100, start=starts, step=0.01, batch_size=1)
    expected = torch.tensor([0.25, 0.25, 0.75, 0.75]).view(2, 1, 1, 2)
    torch.testing.assert_close(found.x, expected, rtol=0, atol=0.011)


def test_one_start_for_each_input():
    with pytest.raises(NescioError, match="one start for each input"):
        pgd(lambda u: u.sum(1), torch.rand(3, 2), radius=0.1, start=torch.rand(2, 2))
