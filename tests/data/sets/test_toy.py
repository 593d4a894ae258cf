"""The toy data sets have the published shapes, sizes and statistics."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm
from sklearn.datasets import make_moons

from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data import blobs, cubic, half_moons, spiral
from nescio.data.sets.toy import BLOB_MEANS

TOYS = (half_moons, blobs, spiral, cubic)


def parts(dataset):
    return dataset.train, dataset.validation, dataset.test


@pytest.mark.parametrize("make", TOYS)
def test_a_seed_is_a_data_set_and_parts_differ(make):
    first, again, other = make(seed=3), make(seed=3), make(seed=4)
    assert datasets[make.__name__] is make
    assert first.name == make.__name__
    for part, same, different in zip(parts(first), parts(again), parts(other), strict=True):
        assert torch.equal(part[0], same[0])
        assert torch.equal(part[1], same[1])
        assert not torch.equal(part[0], different[0])
    size = min(len(part[0]) for part in parts(first))
    assert not torch.equal(first.train[0][:size], first.test[0][:size])
    assert not torch.equal(first.validation[0][:size], first.test[0][:size])


@pytest.mark.parametrize(
    ("dataset", "features", "classes", "sizes"),
    [
        (half_moons(), (2,), 2, (500, 250, 250)),
        (half_moons(train=10, validation=0, test=0), (2,), 2, (10, None, None)),
        (blobs(), (2,), 9, (450, 450, 450)),
        (spiral(), (2,), 3, (3000, 3000, 3000)),
        (cubic(), (1,), None, (40, 40, 40)),
    ],
)
def test_sizes_and_shapes(dataset, features, classes, sizes):
    assert dataset.features == features
    assert dataset.classes == classes
    assert tuple(part and len(part[0]) for part in parts(dataset)) == sizes


def test_half_moons_are_those_of_scikit_learn():
    x, y = make_moons(750, noise=0.125, random_state=123)
    made = half_moons(seed=123, train=500, validation=0, test=250)
    joined = torch.cat([made.train[0], made.test[0]])
    assert torch.equal(joined, torch.tensor(x, dtype=torch.float32))
    assert torch.equal(torch.cat([made.train[1], made.test[1]]), torch.tensor(y))


def test_blobs_have_their_means_and_variances():
    made = blobs(points=4000)
    for x, y in parts(made):
        assert y.bincount().tolist() == [4000] * 9
        for label, mean in enumerate(BLOB_MEANS):
            points = x[y == label].double()
            assert points.mean(0).tolist() == pytest.approx(mean.tolist(), abs=0.02)
            assert torch.all((points.var(0) > 0.018) & (points.var(0) < 0.11))
    variances = [[x[y == label].var(0) for label in range(9)] for x, y in parts(made)]
    spread = [torch.stack(part).flatten() for part in variances]
    assert torch.corrcoef(torch.stack(spread)).min() > 0.97  # the same Gaussians in every part


def test_the_number_of_points_does_not_move_the_blobs():
    few, many = blobs(points=500), blobs(points=5000)
    for label in range(9):
        narrow, wide = (part[0][part[1] == label].var(0) for part in (few.test, many.test))
        assert torch.all((narrow / wide).log().abs() < 0.25)


def unwound(arm, *, noise=0.3, seed=5):
    """Angle noise of an arm, in order of radius: theta minus its linspace, to one turn."""
    x, y = spiral(noise=noise, seed=seed).train
    points = x[y == arm].double().numpy()
    radius = np.hypot(*points.T)
    order = radius.argsort()[1:]  # the first point is the origin, without an angle
    theta = np.arctan2(points[order, 0], points[order, 1])
    ideal = np.linspace(8 * arm, 8 * (arm + 1), 1000)[1:]
    return radius[order], np.angle(np.exp(1j * (theta - ideal)))


@pytest.mark.parametrize("arm", range(3))
def test_the_spiral_has_its_radii_and_angles(arm):
    radius, noise = unwound(arm)
    np.testing.assert_allclose(radius, np.linspace(0, 1, 1000)[1:], atol=1e-6)
    scaled = noise / (0.3 * (radius + 1))
    assert scaled.mean() == pytest.approx(0, abs=0.15)
    assert scaled.std() == pytest.approx(1, abs=0.08)


@pytest.mark.parametrize(
    ("arm", "low", "high"), [(0, -0.62, 9.16), (1, 7.51, 16.88), (2, 15.19, 25.21)]
)
def test_the_smallest_and_largest_angle_follow_the_law_of_the_printed_ones(arm, low, high):
    ideal = np.linspace(8 * arm, 8 * (arm + 1), 1000)[1:]
    deviation = 0.3 * (np.linspace(0, 1, 1000)[1:] + 1)

    def chances(least, most):
        """Exact distribution functions of the smallest and the largest angle of an arm."""
        below = -np.expm1(norm.logsf((least[:, None] - ideal) / deviation).sum(1))
        return below, np.exp(norm.logcdf((most[:, None] - ideal) / deviation).sum(1))

    draws = np.array([ideal + unwound(arm, seed=seed)[1] for seed in range(30)])
    for ours in chances(draws.min(1), draws.max(1)):
        assert kstest(ours, "uniform").pvalue > 0.001
    for printed in chances(np.array([low]), np.array([high])):
        assert 0.005 < printed.item() < 0.995


def test_a_spiral_without_noise_lies_on_its_arms():
    for arm in range(3):
        assert np.abs(unwound(arm, noise=0)[1]).max() < 1e-4


def test_cubic_residuals_have_the_noise():
    made = cubic(points=20_000, noise=3.0)
    for x, y in parts(made):
        residual = (y - x**3).double()
        assert residual.mean().item() == pytest.approx(0, abs=0.1)
        assert residual.std().item() == pytest.approx(3, rel=0.03)
        assert x.min() >= -4
        assert x.max() <= 4
        assert x.double().var().item() == pytest.approx(64 / 12, rel=0.03)


def test_cubic_range():
    x, y = cubic(low=1, high=2, noise=0).test
    assert torch.all((x >= 1) & (x <= 2))
    torch.testing.assert_close(y, x**3)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (half_moons, {"train": 1}, "`train` must be finite and at least 2, got 1"),
        (half_moons, {"test": -1}, "`test` must be finite and at least 0, got -1"),
        (half_moons, {"noise": -1.0}, "`noise` must be finite"),
        (half_moons, {"seed": -1}, r"`seed` must be in 0..2\*\*32 - 1, got -1"),
        (blobs, {"points": 0}, "`points` must be finite and at least 1, got 0"),
        (blobs, {"seed": -1}, "`seed` must be finite and at least 0"),
        (spiral, {"noise": float("nan")}, "`noise` must be finite and at least 0, got nan"),
        (cubic, {"noise": float("inf")}, "`noise` must be finite and at least 0, got inf"),
        (cubic, {"low": 2.0, "high": 2.0}, "`low` must be below `high`"),
    ],
)
def test_bad_options_are_refused(make, options, message):
    with pytest.raises(NescioError, match=message):
        make(**options)
