"""Mahalanobis distances against float64 by hand, scipy and a second way to shrink."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.covariance import empirical_covariance, shrunk_covariance

from nescio import load
from nescio.core import NescioError
from nescio.detectors import mahalanobis
from nescio.detectors.activations import Activations
from nescio.metrics import auroc


def some(samples=400, width=12, members=1, seed=0, dtype=torch.float32, spread=1.0):
    """Classes 0, 3, 6 and 9, one axis of variance 16, features far from the origin."""
    rng = torch.Generator().manual_seed(seed)
    labels = 3 * (torch.arange(samples) % 4)
    centers = 3 * torch.randn(10, width, generator=torch.Generator().manual_seed(9), dtype=dtype)
    noise = torch.randn(members, samples, width, generator=rng, dtype=dtype)
    noise[..., 0] *= 4
    features = centers[labels] + spread * noise + 20
    return Activations(
        logits=torch.zeros(members, samples, 10),
        features={"last": features, "early": features[..., :5].square()},
        labels=labels,
        last="last",
    )


def by_hand(train, test, layer="last", shrinkage=1e-3, member=0):
    x = train.features[layer][member].double().numpy()
    y = train.labels.numpy()
    means = np.stack([x[y == c].mean(0) for c in np.unique(y)])
    apart = np.concatenate([x[y == c] - x[y == c].mean(0) for c in np.unique(y)])
    covariance = shrunk_covariance(empirical_covariance(apart, assume_centered=True), shrinkage)
    inverse = np.linalg.inv(covariance)
    queries = test.features[layer][member].double().numpy()
    return cdist(queries, means, "mahalanobis", VI=inverse).min(1) ** 2


@pytest.mark.parametrize("shrinkage", [0.0, 1e-3, 0.3, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_it_is_the_formula(shrinkage, dtype):
    train, test = some(dtype=dtype), some(samples=50, seed=1, dtype=dtype, spread=3.0)
    found = mahalanobis(train, shrinkage=shrinkage)(test)
    tolerance = 1e-10 if dtype == torch.float64 else 2e-5
    np.testing.assert_allclose(found, by_hand(train, test, "last", shrinkage), rtol=tolerance)


def test_ledoit_wolf_is_another_shrinkage():
    train, test = some(samples=30), some(samples=50, seed=1)
    found = mahalanobis(train, shrinkage="ledoit_wolf")(test)
    assert not np.allclose(found, mahalanobis(train)(test), rtol=1e-2)


def test_several_layers_are_standardized_and_added():
    train, test = some(), some(samples=50, seed=1, spread=2.0)
    expected = np.zeros(50)
    for layer in ("early", "last"):
        in_dist = by_hand(train, train, layer)
        expected += (by_hand(train, test, layer) - in_dist.mean()) / in_dist.std()
    detector = mahalanobis(train, layers=["early", "last"])
    np.testing.assert_allclose(detector(test), expected, rtol=1e-3, atol=1e-3)
    assert detector.layers == ("early", "last")


def test_a_layer_by_name():
    train, test = some(), some(samples=50, seed=1)
    found = mahalanobis(train, layers="early")(test)
    np.testing.assert_allclose(found, by_hand(train, test, "early"), rtol=1e-3)


def test_each_network_has_its_own_gaussians():
    train, test = some(members=2), some(samples=50, members=2, seed=1)
    each = mahalanobis(train).each(test)
    for member in range(2):
        expected = by_hand(train, test, member=member)
        np.testing.assert_allclose(each[member], expected, rtol=2e-5)


def test_the_score_does_not_depend_on_the_number_of_samples():
    train, test = some(), some(samples=50, seed=1)
    twice = train[torch.arange(800) % 400]
    np.testing.assert_allclose(mahalanobis(train)(test), mahalanobis(twice)(test), rtol=1e-4)


def test_the_score_does_not_depend_on_the_batch():
    train, test = some(), some(samples=700, seed=1)
    detector = mahalanobis(train)
    alone = torch.cat([detector(test[i : i + 7]) for i in range(0, 700, 7)])
    torch.testing.assert_close(detector(test), alone, rtol=1e-5, atol=0)


def test_nothing_cancels_when_classes_are_far_apart():
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 4
    x = torch.randn(400, 3, generator=rng) + 1e4 * labels[:, None]
    train = Activations(logits=torch.zeros(400, 4), features=x, labels=labels)
    x, y = x.double().numpy(), labels.numpy()
    apart = np.concatenate([x[y == c] - x[y == c].mean(0) for c in range(4)])
    inverse = np.linalg.inv(apart.T @ apart / 400)
    expected = cdist(x, np.stack([x[y == c].mean(0) for c in range(4)]), "mahalanobis", VI=inverse)
    found = mahalanobis(train, shrinkage=0.0)(train)
    np.testing.assert_allclose(found, expected.min(1) ** 2, rtol=0.02, atol=0.02)


def test_constant_features_and_more_features_than_samples():
    train = some(samples=24, width=40)
    constant = torch.cat([train.features["last"], torch.ones(1, 24, 3)], 2)
    train = Activations(logits=train.logits, features=constant, labels=train.labels)
    with pytest.raises(NescioError, match="singular.*raise shrinkage"):
        mahalanobis(train, shrinkage=0.0)
    found = mahalanobis(train)(train)
    np.testing.assert_allclose(found, by_hand(train, train, "features"), rtol=1e-3)
    moved = constant.clone()
    moved[..., -1] += 1  # a feature that never moved
    moved = Activations(logits=train.logits, features=moved)
    assert (mahalanobis(train)(moved) > 10 * found).all()


def test_a_class_with_one_sample():
    train = some()
    labels = train.labels.clone()
    labels[0] = 77
    train = Activations(logits=train.logits, features=train.features["last"], labels=labels)
    scores = mahalanobis(train)(train)
    assert scores[0] == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(scores, by_hand(train, train, "features"), rtol=1e-4, atol=1e-5)


def test_every_class_with_one_sample():
    train = Activations(logits=torch.zeros(3, 3), features=torch.eye(3), labels=torch.arange(3))
    with pytest.raises(NescioError, match="do not vary within the classes"):
        mahalanobis(train)


def test_half_precision():
    train, test = some(), some(samples=50, seed=1, spread=3.0)
    features = test.features["last"].half()
    half = Activations(logits=test.logits.half(), features={"last": features})
    whole = Activations(logits=test.logits, features={"last": features.float()})
    detector = mahalanobis(train)
    torch.testing.assert_close(detector(half), detector(whole))


def test_larger_is_further_out():
    train, test, out = some(), some(seed=1), some(seed=2, spread=3.0)
    detector = mahalanobis(train)
    assert auroc(detector(test), detector(out)) > 0.99


def test_save_and_load(tmp_path):
    train, test = some(), some(samples=50, seed=1)
    detector = mahalanobis(train, layers=["early", "last"])
    again = load(detector.save(tmp_path / "d.safetensors"))
    assert torch.equal(again(test), detector(test))
    assert again.options == detector.options


def test_gradients_reach_the_features():
    train, test = some(), some(samples=5, seed=1, dtype=torch.float32)
    detector = mahalanobis(train)
    view = next(test.views(0))
    features = view.features["last"].clone().requires_grad_()
    view = type(view)(view.logits, {"last": features}, None, None, None, None)
    (slope,) = torch.autograd.grad(detector.score(view).sum(), features)
    step = 1e-3 * slope / slope.norm()
    moved = Activations(logits=test.logits, features={"last": features.detach() + step})
    here = Activations(logits=test.logits, features={"last": features.detach()})
    change = (detector(moved) - detector(here)).double().sum()
    assert float(change) == pytest.approx(1e-3 * float(slope.norm()), rel=0.05)


def test_another_width_is_refused():
    train = some()
    other = Activations(logits=train.logits, features={"last": train.features["early"]})
    with pytest.raises(NescioError, match="fitted on 12 .* are 5"):
        mahalanobis(train)(other)


def test_no_labels():
    train = some()
    with pytest.raises(NescioError, match="needs labels"):
        mahalanobis(Activations(logits=train.logits, features=train.features, last="last"))


def test_an_unknown_layer():
    with pytest.raises(NescioError, match="unknown layer 'lats'.*did you mean 'last'"):
        mahalanobis(some(), layers=["lats"])
