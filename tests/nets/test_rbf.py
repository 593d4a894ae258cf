"""Radial basis functions: the formula, their centers, and what they learn."""

import copy

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from torch import nn

import nescio
from nescio import nets
from nescio.core import NescioError
from nescio.data import digits, half_moons
from nescio.nets.rbf import find_rbf
from nescio.training.train import train


def test_it_is_the_formula():
    net = nets.rbf((2, 3), 4, centers=7, gamma=0.3).double()
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    squared = cdist(x.flatten(1).numpy(), net.centers.numpy(), "sqeuclidean")
    truth = np.exp(-0.3 * squared) @ net.alpha.detach().numpy().T
    np.testing.assert_allclose(net(x).detach().numpy(), truth, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(net.distances(x).numpy(), squared, rtol=1e-12, atol=1e-12)


def test_only_the_weights_are_trained_and_the_centers_are_saved():
    net = nets.rbf(2, 3, centers=5)
    assert set(net.state_dict()) == {"alpha", "centers"}
    assert [name for name, _ in net.named_parameters()] == ["alpha"]
    assert net.centers.shape == (5, 2)
    assert net.alpha.shape == (3, 5)


def test_distances_far_from_the_origin_keep_their_digits():
    """In float32 the squares near 1000 have steps of 0.06; distances of 0.01 must not drown."""
    net = nets.rbf(3, 2, centers=6)
    spots = 1000 + 0.1 * torch.randn(6, 3)
    net.centers.copy_(spots)
    x = 1000 + 0.1 * torch.randn(9, 3)
    truth = cdist(x.double().numpy(), spots.double().numpy(), "sqeuclidean")
    np.testing.assert_allclose(net.distances(x).numpy(), truth, rtol=1e-2, atol=1e-4)
    assert (net.distances(spots).diagonal() < 1e-5).all()
    assert (net.distances(spots) >= 0).all()


@pytest.mark.parametrize("size", [1e3, 1e18, 1e30, 3e38])
def test_far_away_every_class_is_as_likely(size):
    net = nets.rbf(3, 4, centers=6)
    x = torch.tensor([[1.0, -1.0, 0.5]]) * size
    assert net(x).softmax(1).tolist() == [[0.25] * 4]


def test_centers_are_points_of_the_data():
    x = torch.randn(20, 2)
    net = nets.rbf(2, 3, centers=8)
    before = net.centers.clone()
    placed = nets.centered(net, x, seed=1)
    assert torch.equal(net.centers, before)
    assert torch.equal(placed.alpha, net.alpha)
    rows = [int((x == c).all(1).nonzero()) for c in placed.centers]
    assert len(set(rows)) == 8
    assert torch.equal(nets.centered(net, x, seed=1).centers, placed.centers)
    assert not torch.equal(nets.centered(net, x, seed=2).centers, placed.centers)
    every = nets.centered(nets.rbf(2, 3, centers=20), x).centers
    assert sorted(every.tolist()) == sorted(x.tolist())


def test_k_means_finds_the_middles_of_clusters():
    spots = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    x = spots.repeat(30, 1) + 0.1 * torch.randn(90, 2)
    placed = nets.centered(nets.rbf(2, 3, centers=3), x, method="k-means")
    truth = torch.stack([x[i::3].mean(0) for i in range(3)])
    found = placed.centers[torch.cdist(truth, placed.centers).argmin(1)]
    torch.testing.assert_close(found, truth)


def test_behind_a_scaling_the_centers_are_scaled_data():
    x = torch.randn(40, 3) * torch.tensor([1.0, 100.0, 0.01]) + 7
    net = nets.centered(nets.standardized(nets.rbf(3, 2, centers=10), x), x)
    scaled = net[0](x)
    assert all(((scaled - c).abs().amax(1) < 1e-6).any() for c in net[1].centers)
    assert find_rbf(net) is net[1]


def test_the_median_of_all_pairs():
    x = torch.randn(50, 2, 3)
    pairs = cdist(x.flatten(1).numpy(), x.flatten(1).numpy(), "sqeuclidean")
    median = np.quantile(pairs[np.triu_indices(50, 1)], 0.5, method="lower")
    assert nets.median_gamma(x) == pytest.approx(1 / median, rel=1e-5)
    line = torch.tensor([[0.0], [1.0], [3.0]])
    assert nets.median_gamma(line) == 1 / 4


@pytest.mark.parametrize("method", ["points", "k-means"])
def test_it_learns_half_moons(method):
    data = half_moons()
    x, y = data.train
    gamma = 3 * nets.median_gamma(x)
    model = train(
        lambda: nets.centered(nets.rbf(2, 2, centers=50, gamma=gamma), x, method=method),
        (x, y),
        epochs=20,
        learning_rate=0.1,
        progress=False,
    )
    inputs, labels = data.test
    assert (model(inputs).labels == labels).float().mean() > 0.95


def test_it_learns_digits_and_comes_back_from_a_file(tmp_path):
    data = digits()
    x, y = data.train
    net = nets.centered(nets.rbf((1, 8, 8), 10, centers=100, gamma=3 * nets.median_gamma(x)), x)
    model = train(
        lambda: copy.deepcopy(net), (x, y), epochs=15, learning_rate=0.1, members=2, progress=False
    )
    inputs, labels = data.test
    assert (model(inputs).labels == labels).float().mean() > 0.9
    model.save(tmp_path)
    again = nescio.load(tmp_path)
    assert torch.equal(again.outputs(inputs), model.outputs(inputs))
    assert torch.equal(again.member(1).centers, net.centers)
    assert again.member(1).gamma == net.gamma


def test_a_scaled_network_comes_back_from_a_file(tmp_path):
    x, y = half_moons().train
    make = lambda: nets.centered(nets.standardized(nets.rbf(2, 2, centers=20), x), x)  # noqa: E731
    model = train(make, (x, y), epochs=2, progress=False)
    model.save(tmp_path)
    assert torch.equal(nescio.load(tmp_path).outputs(x), model.outputs(x))


X = torch.randn(5, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nets.rbf(2, 2, gamma=0.0), "gamma must be a positive number, got 0.0"),
        (lambda: nets.rbf(2, 2, gamma=float("inf")), "gamma must be a positive number"),
        (lambda: nets.rbf(2, 2, gamma=float("nan")), "gamma must be a positive number"),
        (lambda: nets.rbf(2, 2, centers=0), "0 centers"),
        (lambda: nets.rbf(2, 0), "0 outputs"),
        (
            lambda: nets.centered(nets.mlp(2, 2), X),
            "centered reads a network of nets.rbf, got",
        ),
        (lambda: nets.centered(nets.rbf(2, 2, centers=6), X), "6 centers .* got 5 of 2"),
        (lambda: nets.centered(nets.rbf(3, 2, centers=4), X), "of 3 features .* of 2"),
        (lambda: nets.centered(nets.rbf(2, 2, centers=2), X, method="grid"), "points, k-means"),
        (lambda: nets.median_gamma(torch.ones(9, 2)), "choose gamma by hand"),
        (lambda: nets.median_gamma(torch.ones(1, 2)), "choose gamma by hand"),
    ],
)
def test_options_are_checked(make, message):
    with pytest.raises(NescioError, match=message):
        make()


def test_it_is_found_alone_and_behind_a_scaling_only():
    net = nets.rbf(2, 2)
    assert find_rbf(net) is net
    assert find_rbf(nn.Sequential(nn.Linear(2, 2), net)) is None
    assert find_rbf(nets.mlp(2, 2)) is None
