"""Relative Mahalanobis distances against float64 by hand."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from nescio import load
from nescio.detectors import mahalanobis, relative_mahalanobis
from nescio.detectors.activations import Activations
from nescio.metrics import auroc


def some(samples=400, width=8, members=1, seed=0, off=0.0):
    """Classes differ in the first axes; the last axes are wide and say nothing of the class."""
    rng = torch.Generator().manual_seed(seed)
    labels = 2 * (torch.arange(samples) % 3)
    centers = torch.zeros(5, width)
    centers[[0, 2, 4], [0, 1, 2]] = 6.0
    noise = torch.randn(members, samples, width, generator=rng)
    noise[..., 4:] *= 3
    features = centers[labels] * (1 - off) + noise + 5
    layers = {"last": features, "early": features[..., :3] ** 2}
    return Activations(
        logits=torch.zeros(members, samples, 5), features=layers, labels=labels, last="last"
    )


def by_hand(train, test, layer="last", shrinkage=1e-3, member=0):
    x = train.features[layer][member].double().numpy()
    y = train.labels.numpy()
    queries = test.features[layer][member].double().numpy()
    means = np.stack([x[y == c].mean(0) for c in np.unique(y)])
    apart = np.concatenate([x[y == c] - x[y == c].mean(0) for c in np.unique(y)])

    def inverse(covariance):
        level = np.trace(covariance) / len(covariance) * np.eye(len(covariance))
        return np.linalg.inv((1 - shrinkage) * covariance + shrinkage * level)

    own = cdist(queries, means, "mahalanobis", VI=inverse(apart.T @ apart / len(x))) ** 2
    background = inverse(np.cov(x.T, bias=True))
    return own.min(1) - cdist(queries, x.mean(0)[None], "mahalanobis", VI=background)[:, 0] ** 2


@pytest.mark.parametrize("shrinkage", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("layer", ["last", "early"])
def test_it_is_the_formula(shrinkage, layer):
    train, test = some(), some(samples=50, seed=1, off=0.5)
    found = relative_mahalanobis(train, layer=layer, shrinkage=shrinkage)(test)
    expected = by_hand(train, test, layer, shrinkage)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_shrinkage_and_layer_change_the_score():
    train, test = some(), some(samples=50, seed=1)
    plain = relative_mahalanobis(train)(test)
    for other in ({"shrinkage": 0.3}, {"shrinkage": "ledoit_wolf"}, {"layer": "early"}):
        assert not torch.allclose(plain, relative_mahalanobis(train, **other)(test))


def test_each_network_has_its_own_gaussians():
    train, test = some(members=2), some(samples=50, members=2, seed=1)
    each = relative_mahalanobis(train).each(test)
    for member in range(2):
        expected = by_hand(train, test, member=member)
        np.testing.assert_allclose(each[member], expected, rtol=1e-4, atol=1e-4)


def test_what_says_nothing_of_the_class_cancels():
    train, test, near = some(samples=2000), some(seed=1), some(seed=2, off=0.5)
    wide = Activations(logits=test.logits, features={"last": test.features["last"].clone()})
    wide.features["last"][..., 4:] *= 1.5  # the same classes, further along the other axes

    def drift(make):
        detector = make(train)
        return float((detector(wide) - detector(test)).mean() / detector(test).std())

    assert drift(relative_mahalanobis) < 0.1 * drift(mahalanobis)
    relative, plain = relative_mahalanobis(train), mahalanobis(train)
    assert auroc(relative(test), relative(near)) > auroc(plain(test), plain(near)) + 0.02


def test_a_class_with_one_sample():
    train = some()
    labels = train.labels.clone()
    labels[0] = 77
    train = Activations(logits=train.logits, features=train.features, labels=labels, last="last")
    found = relative_mahalanobis(train)(train)
    np.testing.assert_allclose(found, by_hand(train, train), rtol=1e-4, atol=1e-4)


def test_save_and_load(tmp_path):
    train, test = some(), some(samples=50, seed=1)
    detector = relative_mahalanobis(train)
    again = load(detector.save(tmp_path / "d.safetensors"))
    assert torch.equal(again(test), detector(test))
