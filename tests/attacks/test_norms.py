"""Norms: projections and steepest steps against optimizers, random points inside the ball."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.stats import kstest

from nescio import NescioError, attacks
from nescio.attacks.balls import NORMS, norm_named

NAMES = list(NORMS)
ORDER = {"linf": np.inf, "l2": 2, "l1": 1}
RADII = st.floats(0.01, 5.0)


def vectors(features: int):
    return arrays(np.float64, features, elements=st.floats(-3, 3, allow_subnormal=False))


def rows(vector):
    return torch.from_numpy(np.asarray(vector, dtype=np.float64)).view(1, -1)


def nearest_by_optimizer(point, radius, name):
    """The nearest point of the ball; in l1 as p - q with p, q >= 0, so that all is smooth."""
    features = len(point)
    signs = np.eye(features) if name != "l1" else np.hstack([np.eye(features), -np.eye(features)])
    room = {
        "linf": lambda parts: radius,
        "l2": lambda parts: radius**2 - (parts**2).sum(),
        "l1": lambda parts: radius - parts.sum(),
    }[name]
    rise = {"linf": np.zeros_like, "l2": lambda parts: -2 * parts, "l1": lambda p: -np.ones_like(p)}
    bounds = {"linf": (-radius, radius), "l2": (None, None), "l1": (0, None)}[name]
    found = minimize(
        lambda parts: ((signs @ parts - point) ** 2).sum(),
        np.full(signs.shape[1], radius / (4 * features)),
        jac=lambda parts: 2 * (signs @ parts - point) @ signs,
        bounds=[bounds] * signs.shape[1],
        constraints=[{"type": "ineq", "fun": room, "jac": rise[name]}],
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 100},
    )
    return signs @ found.x


@pytest.mark.parametrize("name", NAMES)
@given(point=vectors(5), radius=RADII)
@settings(deadline=None, max_examples=25, derandomize=True)
def test_the_projection_is_the_nearest_point_of_the_ball(name, point, radius):
    found = NORMS[name].project(rows(point), radius)[0].numpy()
    assert np.linalg.norm(found, ORDER[name]) <= radius * (1 + 1e-12)
    best = nearest_by_optimizer(point, radius, name)
    assert np.linalg.norm(found - point) <= np.linalg.norm(best - point) + 1e-5
    np.testing.assert_allclose(found, best, atol=2e-3)


@pytest.mark.parametrize("name", NAMES)
@given(point=vectors(6), other=vectors(6), radius=RADII)
@settings(deadline=None, max_examples=50, derandomize=True)
def test_projections_leave_the_ball_alone_and_bring_no_two_points_apart(name, point, other, radius):
    norm = NORMS[name]
    one, two = norm.project(rows(point), radius), norm.project(rows(other), radius)
    torch.testing.assert_close(norm.project(one, radius), one, rtol=1e-12, atol=1e-12)
    assert (one - two).norm() <= (rows(point) - rows(other)).norm() + 1e-12
    if np.linalg.norm(point, ORDER[name]) <= radius:
        torch.testing.assert_close(one, rows(point), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["linf", "l2"])
@given(slope=vectors(5))
@settings(deadline=None, max_examples=50, derandomize=True)
def test_the_steepest_step_maximizes_the_linear_form_on_the_unit_ball(name, slope):
    """The maximum is the dual norm of the slope."""
    step = NORMS[name].steepest(rows(slope))[0].numpy()
    assert np.linalg.norm(step, ORDER[name]) <= 1 + 1e-12
    dual = np.linalg.norm(slope, {"linf": 1, "l2": 2}[name])
    assert step @ slope == pytest.approx(dual, rel=1e-10, abs=1e-12)


def test_the_l1_step_moves_a_twentieth_of_the_features_equally():
    slope = torch.arange(1.0, 101.0)[None] * torch.tensor([1.0, -1.0]).repeat(50)
    step = attacks.l1.steepest(slope)[0]
    assert step.nonzero()[:, 0].tolist() == [95, 96, 97, 98, 99]
    torch.testing.assert_close(step[95:], torch.tensor([-0.2, 0.2, -0.2, 0.2, -0.2]))


@given(slope=vectors(10))
@settings(deadline=None, max_examples=50, derandomize=True)
def test_the_l1_step_of_few_features_is_the_steepest(slope):
    """Of ten features it moves the one with the largest slope, or shares among equal ones."""
    step = attacks.l1.steepest(rows(slope))[0].numpy()
    assert step @ slope == pytest.approx(np.abs(slope).max(), rel=1e-10, abs=1e-12)
    assert np.abs(step).sum() <= 1 + 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_no_slope_gives_no_step_and_a_tiny_one_a_whole_step(name):
    slopes = torch.stack([torch.zeros(4), torch.full((4,), 1e-38), torch.full((4,), 1e30)])
    steps = NORMS[name].steepest(slopes)
    assert torch.equal(steps[0], torch.zeros(4))
    torch.testing.assert_close(NORMS[name].size(steps[1:]), torch.ones(2))


@pytest.mark.parametrize("name", NAMES)
def test_a_radius_of_zero_is_the_center(name):
    points = torch.randn(5, 3)
    assert torch.equal(NORMS[name].project(points, 0.0), torch.zeros(5, 3))
    assert torch.equal(NORMS[name].inside(torch.rand(5, 4), 0.0), torch.zeros(5, 3))


@pytest.mark.parametrize("features", [1, 2, 7, 784])
@pytest.mark.parametrize("name", NAMES)
def test_random_points_are_inside_even_for_the_extreme_numbers(name, features):
    norm = NORMS[name]
    edge = 1 - 2**-24  # the largest number below 1
    numbers = torch.cat(
        [
            torch.rand(200, 1 + features),
            torch.zeros(1, 1 + features),
            torch.full((1, 1 + features), edge),
            torch.full((1, 1 + features), 0.5),
        ]
    )
    points = norm.inside(numbers, 0.3)
    assert points.shape == (203, features)
    assert points.isfinite().all()
    assert (norm.size(points) <= 0.3 * (1 + 1e-5)).all()


@pytest.mark.parametrize("name", ["l2", "l1"])
def test_random_points_are_at_all_distances_alike(name):
    """The distance, and every sign, are uniform."""
    points = NORMS[name].inside(torch.rand(4000, 4, dtype=torch.float64), 2.0)
    share = NORMS[name].size(points) / 2.0
    assert kstest(share.numpy(), "uniform").pvalue > 1e-3
    assert ((points > 0).double().mean(0) - 0.5).abs().max() < 0.04
    assert points.mean(0).abs().max() < 0.05


def test_random_points_of_the_cube_have_a_random_width_first():
    """Half-width uniform in [0, radius], as in the papers' code: the mean square is r^2 / 9."""
    points = attacks.linf.inside(torch.rand(4000, 4, dtype=torch.float64), 0.3)
    assert points.square().mean().item() == pytest.approx(0.3**2 / 9, rel=0.05)


def test_a_norm_is_known_by_name_or_is_your_own():
    assert norm_named("l2") is attacks.l2
    own = attacks.Norm(name="mine", **{part: getattr(attacks.l2, part) for part in PARTS})
    assert norm_named(own) is own
    assert repr(own) == "mine"
    with pytest.raises(NescioError, match="unknown norm 'l3'; known: linf, l2, l1"):
        norm_named("l3")


PARTS = ("size", "steepest", "project", "inside")
