"""The loop itself with members: leading axes, warm starts, a smaller radius, few passes."""

import pytest
import torch

from nescio import NescioError
from nescio.attacks import Ascent
from nescio.core.schedules import drops


def hills(x):
    return (9 * x).sin().sum(-1) - x.square().sum(-1)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_members_move_as_they_would_alone(norm):
    center = torch.rand(3, 5, 4, dtype=torch.float64)
    ascent = Ascent(radius=0.2, steps=9, norm=norm)
    moved, values = ascent(hills, center, lead=2)
    assert values.shape == (3, 5)
    for member in range(3):
        alone, own = ascent(hills, center[member])
        torch.testing.assert_close(moved[member], alone, rtol=0, atol=1e-12)
        torch.testing.assert_close(values[member], own, rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_images_move_as_their_features_do(norm):
    center = torch.rand(6, 2, 3, 4)
    flat, _ = Ascent(radius=0.2, steps=5, norm=norm)(hills, center.flatten(1))
    folded, _ = Ascent(radius=0.2, steps=5, norm=norm)(lambda x: hills(x.flatten(1)), center)
    torch.testing.assert_close(folded.flatten(1), flat)
    last = center.to(memory_format=torch.channels_last)
    channels, _ = Ascent(radius=0.2, steps=5, norm=norm)(lambda x: hills(x.flatten(1)), last)
    torch.testing.assert_close(channels, folded)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_a_scale_is_a_smaller_radius_with_smaller_steps(norm):
    center = torch.rand(6, 4, dtype=torch.float64)
    half, _ = Ascent(radius=0.2, steps=5, step=0.1, norm=norm)(hills, center, scale=0.5)
    small, _ = Ascent(radius=0.1, steps=5, step=0.05, norm=norm)(hills, center)
    torch.testing.assert_close(half, small, rtol=0, atol=1e-15)


def test_it_starts_where_it_is_told():
    center, start = torch.full((1, 2), 0.5), torch.tensor([[0.6, 0.4]])
    moved, _ = Ascent(radius=0.3, steps=1, step=0.05)(lambda x: x.sum(1), center, start=start)
    torch.testing.assert_close(moved, torch.tensor([[0.65, 0.45]]))


@pytest.mark.parametrize(("best", "passes"), [(True, 8), (False, 7)])
def test_a_step_is_one_pass_and_the_best_point_one_more(best, passes):
    calls = []

    def counted(x):
        calls.append(torch.is_grad_enabled())
        return hills(x)

    _, values = Ascent(radius=0.2, steps=7, best=best)(counted, torch.rand(4, 3))
    assert len(calls) == passes
    assert calls[:7] == [True] * 7
    assert (values is None) == (not best)


def test_a_constant_objective_leaves_the_inputs():
    center = torch.rand(4, 3)
    moved, _ = Ascent(radius=0.2, steps=5)(lambda x: 0 * x.sum(1), center)
    assert torch.equal(moved, center)


def test_a_gradient_of_one_number_for_all_features_is_no_trouble():
    """The gradient of a sum shares its memory among all features."""
    moved, _ = Ascent(radius=0.2, steps=5)(lambda x: x.flatten(1).sum(1), torch.full((2, 3), 0.5))
    torch.testing.assert_close(moved, torch.full((2, 3), 0.7))


def test_a_value_that_is_no_number_never_wins():
    def cliff(x):
        return torch.where(x[:, 0] > 0.6, torch.nan, x[:, 0])

    moved, values = Ascent(radius=0.3, steps=4, step=0.05)(cliff, torch.full((2, 1), 0.5))
    torch.testing.assert_close(moved, torch.full((2, 1), 0.6), rtol=0, atol=1e-6)
    assert values.isfinite().all()


def test_two_schedules_that_differ_in_one_step_are_told_apart():
    texts = [
        Ascent(radius=0.3, steps=100, schedule=drops((at,))).description
        for at in (0.51, 0.52, 0.56)
    ]
    assert len(set(texts)) == 3
    assert "schedule" not in Ascent(radius=0.3, steps=100).description


def test_projections_are_in_ball_and_box():
    center = torch.rand(200, 5)
    for norm, size in (("linf", torch.inf), ("l2", 2), ("l1", 1)):
        project = Ascent(radius=0.3, norm=norm).projection(center, scale=0.5)
        near = project(3 * torch.randn(200, 5))
        assert near.min() >= 0
        assert near.max() <= 1
        assert (near - center).norm(size, 1).max() <= 0.15 + 1e-6


def test_inputs_of_members_are_checked_against_the_box():
    with pytest.raises(NescioError, match="outside the box"):
        Ascent(radius=0.1).check(torch.full((2, 3, 4), 1.5), lead=2)
    with pytest.raises(NescioError, match="within 2 in the l2 norm"):
        Ascent(radius=2.5, norm="l2").check(torch.rand(2, 3, 4), lead=2)
    Ascent(radius=2.0, norm="l2").check(torch.rand(2, 3, 4), lead=2)
    Ascent(radius=0.1).check(torch.randint(0, 256, (2, 1, 3, 3), dtype=torch.uint8))
