"""The radius beyond which an rbf network is unsure: closed forms, random points, ascent."""

from math import exp, log, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from nescio import models, nets
from nescio.core import NescioError
from nescio.data import half_moons
from nescio.geometry.certificates import certificate
from nescio.training.train import train


def random_rbf(seed, features=2, classes=3, centers=8, size=3.0):
    source = torch.Generator().manual_seed(seed)
    gamma = float(torch.rand((), generator=source)) + 0.1
    net = nets.rbf(features, classes, centers=centers, gamma=gamma).double()
    with torch.no_grad():
        net.centers.copy_(torch.randn(net.centers.shape, generator=source))
        net.alpha.copy_(size * torch.randn(net.alpha.shape, generator=source))
    return net


@pytest.fixture(scope="module")
def moons():
    x, y = half_moons().train
    gamma = nets.median_gamma(x)
    return train(
        lambda: nets.centered(nets.standardized(nets.rbf(2, 2, centers=40, gamma=gamma), x), x),
        (x, y),
        members=2,
        epochs=15,
        learning_rate=0.1,
        progress=False,
    ).to(torch.float64)


def beyond(found, features, count=2000, seed=0):
    """Random points not far beyond the radius, near to one of the centers."""
    source = torch.Generator().manual_seed(seed)
    centers = found.centers[0]
    way = torch.randn(count, features, generator=source, dtype=torch.float64)
    way = way / way.norm(dim=1, keepdim=True)
    start = centers[torch.randint(len(centers), (count,), generator=source)]
    stretch = 1 + 0.5 * torch.rand(count, 1, generator=source, dtype=torch.float64)
    x = start + found.radius * stretch * way
    return x[found.covers(x)]


def off(net, x):
    """How far the probabilities are from uniform."""
    p = net(x).softmax(1)
    return (p - 1 / p.shape[1]).abs().amax(1).detach()


def test_one_center_in_closed_form():
    """f_1 - f_2 = 4 exp(-r^2 / 2): alpha is 4, and the difference at the radius log(1 + 2 eps)."""
    net = nets.rbf(1, 2, centers=1, gamma=0.5).double()
    with torch.no_grad():
        net.centers.fill_(3.0)
        net.alpha.copy_(torch.tensor([[3.0], [-1.0]]))
    found = certificate(net, epsilon=0.05)
    assert found.alpha == 4
    assert float(found.radius) == pytest.approx(sqrt(2 * log(4 / log(1.1))), rel=1e-11)
    assert found.distance([[5.0], [-1.0], [3.0]]).tolist() == [2.0, 4.0, 0.0]
    edge = 3 + found.radius.reshape(1, 1)
    p = net(edge).softmax(1)[0, 0].item()
    assert p == pytest.approx(1 / (1 + exp(-log(1.1))), rel=1e-9)
    assert 0.5 < p < 0.55


def test_alpha_is_the_largest_over_pairs_of_classes():
    net = random_rbf(0, classes=5)
    rows = net.alpha.tolist()
    pairs = [sum(abs(a - b) for a, b in zip(r, k, strict=True)) for r in rows for k in rows]
    found = certificate(net, 0.02)
    assert float(found.alpha) == pytest.approx(max(pairs), rel=1e-14)
    squared = log(max(pairs) / log(1 + 5 * 0.02)) / net.gamma
    assert float(found.radius) == pytest.approx(sqrt(squared), rel=1e-11)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([2, 3, 10]), st.sampled_from([1e-3, 0.01, 0.2]))
def test_beyond_the_radius_random_networks_are_unsure(seed, classes, epsilon):
    net = random_rbf(seed, classes=classes)
    found = certificate(net, epsilon)
    x = beyond(found, 2, 300, seed)
    assert len(x) > 10
    assert off(net, x).max() <= epsilon


def test_the_bound_is_not_empty():
    """The radius is finite, and well inside it there are points that are more than epsilon off."""
    for seed in range(20):
        net = random_rbf(seed)
        found = certificate(net)
        assert 0 < found.radius < 10
        source = torch.Generator().manual_seed(seed)
        x = 3 * torch.randn(4000, 2, generator=source, dtype=torch.float64)
        wrong = off(net, x) > found.epsilon
        assert wrong.any()
        assert not found.covers(x[wrong]).any()
        assert (found.distance(x[wrong]) / found.radius).max() > 0.5


def test_small_weights_are_unsure_everywhere():
    net = random_rbf(1, size=1e-4)
    found = certificate(net)
    assert found.alpha <= log(1.03)
    assert found.radius == 0
    x = torch.cat([net.centers, torch.randn(500, 2, dtype=torch.float64)])
    assert found.covers(x).all()
    assert off(net, x).max() <= 0.01


def test_distances_are_to_the_nearest_center():
    net = random_rbf(2, features=6).double()
    x = torch.randn(30, 6, dtype=torch.float64)
    truth = (x[:, None] - net.centers).norm(dim=2).amin(1)
    found = certificate(net).distance(x.reshape(30, 6))
    torch.testing.assert_close(found, truth, rtol=1e-13, atol=0)
    images = nets.rbf((1, 2, 3), 3, centers=4)
    assert certificate(images).distance(torch.randn(5, 1, 2, 3)).shape == (5,)


def test_a_smaller_epsilon_needs_a_larger_radius():
    net = random_rbf(3)
    radii = [float(certificate(net, e).radius) for e in (1e-6, 1e-4, 0.01, 0.1)]
    assert radii == sorted(radii, reverse=True)
    assert len(set(radii)) == 4


def test_trained_members_behind_a_scaling(moons):
    found = certificate(moons)
    assert found.radius.shape == (2,)
    source = torch.Generator().manual_seed(0)
    x = 20 * torch.randn(5000, 2, generator=source, dtype=torch.float64)
    assert found.distance(x).shape == (2, 5000)
    covered = found.covers(x)
    assert covered.shape == (5000,)
    assert covered.any()
    assert not covered.all()
    prediction = moons(x[covered])
    assert (prediction.member_probs - 0.5).abs().max() <= 0.01
    assert (prediction.probs - 0.5).abs().max() <= 0.01
    assert (moons(half_moons().train[0]).probs - 0.5).abs().amax(1).median() > 0.3
    for i in range(2):
        net = moons.member(i)
        alone = certificate(net)
        assert alone.radius == found.radius[i]
        assert torch.equal(alone.distance(x), found.distance(x)[i])
        scaled = (x - net[0].mean) / net[0].scale
        truth = torch.cdist(scaled, net[1].centers).amin(1)
        torch.testing.assert_close(alone.distance(x), truth, rtol=1e-6, atol=1e-6)


def ascend(net, found, x, steps=150, size=0.05):
    """Steps that raise the largest probability and are taken back where they leave the outside."""
    x = x.clone()
    for _ in range(steps):
        x.requires_grad_()
        p = net(x).log_softmax(1).amax(1)
        (slope,) = torch.autograd.grad(p.sum(), x)
        slope = slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-300)
        x = x.detach()
        for part in (1.0, 0.1, 0.01):
            moved = x + part * size * slope
            x = torch.where(found.covers(moved)[:, None], moved, x)
    return x


def test_ascent_outside_the_radius_finds_nothing(moons):
    for net in (random_rbf(4), random_rbf(5, classes=10), random_rbf(6, classes=2, size=30.0)):
        found = certificate(net)
        start = beyond(found, 2, 100, 1)
        end = ascend(net, found, start)
        assert found.covers(end).all()
        assert off(net, end).max() <= found.epsilon
        assert off(net, end).mean() > off(net, start).mean()
    net = moons.member(0)
    found = certificate(net)
    start = beyond(found, 2, 100, 2) * net[0].scale + net[0].mean
    start = start[found.covers(start)]
    end = ascend(net, found, start)
    assert off(net, end).max() <= found.epsilon
    assert off(net, end).mean() > off(net, start).mean()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: certificate(nets.mlp(2, 2)), "needs a network of nets.rbf.*far_field"),
        (lambda: certificate(models.plain(nets.mlp(2, 2))), "geometry.far_field"),
        (lambda: certificate(nn.Sequential(nn.Linear(2, 2), nets.rbf(2, 2))), "got Sequential"),
        (lambda: certificate(lambda x: x), "got function"),
        (lambda: certificate(nets.rbf(2, 1)), "at least two classes"),
        (lambda: certificate(nets.rbf(2, 2), 0.0), "epsilon must be between 0 and 1, got 0.0"),
        (lambda: certificate(nets.rbf(2, 2), 1.5), "epsilon must be between 0 and 1"),
        (
            lambda: certificate(nets.rbf(2, 2)).covers([[1.0, 2.0, 3.0]]),
            "the centers have 2 features",
        ),
        (lambda: certificate(nets.rbf(2, 2)).covers([[1.0, torch.nan]]), "NaN"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(NescioError, match=message):
        call()
