"""Feature densities against scipy's normal densities."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from nescio import load
from nescio.core import NescioError
from nescio.detectors import gaussian_mixture
from nescio.detectors.activations import Activations
from nescio.metrics import auroc


def some(samples=400, width=5, members=1, seed=0, off=0.0, dtype=torch.float32):
    """Three classes of other size and shape, labels 1, 4 and 8."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.tensor([1, 1, 4, 8, 8, 8])[torch.arange(samples) % 6]
    fixed = torch.Generator().manual_seed(99)
    centers = 3 * torch.randn(9, width, generator=fixed, dtype=dtype)
    shapes = torch.randn(9, width, width, generator=fixed, dtype=dtype)
    noise = torch.randn(members, samples, 1, width, generator=rng, dtype=dtype)
    features = centers[labels] + (1 + off) * (noise @ shapes[labels])[..., 0, :]
    layers = {"last": features, "early": features[..., :2] ** 2}
    logits = torch.zeros(members, samples, 9)
    return Activations(logits=logits, features=layers, labels=labels, last="last")


def by_hand(train, test, covariance="full", pooled=0.1, shrinkage=1e-3, layer="last", member=0):
    x = train.features[layer][member].double().numpy()
    y = train.labels.numpy()
    queries = test.features[layer][member].double().numpy()
    known = np.unique(y)
    apart = np.concatenate([x[y == c] - x[y == c].mean(0) for c in known])
    tied = apart.T @ apart / len(x)
    typical = len(x) / len(known)
    logs = []
    for c in known:
        rows = x[y == c]
        own = np.atleast_2d(np.cov(rows.T, bias=True)) if len(rows) > 1 else 0 * tied
        own = (len(rows) * own + pooled * typical * tied) / (len(rows) + pooled * typical)
        own = tied if covariance == "tied" else own
        own = (1 - shrinkage) * own + shrinkage * np.trace(tied) / len(tied) * np.eye(len(tied))
        own = np.diag(np.diag(own)) if covariance == "diagonal" else own
        density = multivariate_normal(rows.mean(0), own)
        logs.append(np.log(len(rows) / len(x)) + density.logpdf(queries))
    return -logsumexp(logs, axis=0)


@pytest.mark.parametrize("covariance", ["full", "tied", "diagonal"])
@pytest.mark.parametrize("pooled", [0.0, 0.1, 2.0])
@pytest.mark.parametrize("shrinkage", [0.0, 1e-3, 0.3])
def test_it_is_the_formula(covariance, pooled, shrinkage):
    train, test = some(dtype=torch.float64), some(samples=50, seed=1, dtype=torch.float64)
    options = {"covariance": covariance, "pooled": pooled, "shrinkage": shrinkage}
    found = gaussian_mixture(train, **options)(test)
    np.testing.assert_allclose(found, by_hand(train, test, **options), rtol=1e-9)


def test_single_precision():
    train, test = some(), some(samples=50, seed=1, off=2.0)
    np.testing.assert_allclose(gaussian_mixture(train)(test), by_hand(train, test), rtol=1e-4)


@pytest.mark.parametrize(
    "changed",
    [
        {"covariance": "tied"},
        {"covariance": "diagonal"},
        {"pooled": 1.0},
        {"shrinkage": 0.2},
        {"layer": "early"},
    ],
    ids=lambda changed: str(next(iter(changed.items()))),
)
def test_every_option_changes_something(changed):
    train, test = some(), some(samples=50, seed=1)
    plain, other = gaussian_mixture(train), gaussian_mixture(train, **changed)
    assert not torch.allclose(plain(test), other(test), rtol=1e-3)


def test_each_network_has_its_own_densities():
    train, test = some(members=2), some(samples=50, members=2, seed=1)
    each = gaussian_mixture(train).each(test)
    for member in range(2):
        expected = by_hand(train, test, member=member)
        np.testing.assert_allclose(each[member], expected, rtol=1e-4)


def test_the_score_does_not_depend_on_the_number_of_samples():
    train, test = some(), some(samples=50, seed=1)
    twice = train[torch.arange(800) % 400]
    found = gaussian_mixture(twice)(test)
    torch.testing.assert_close(gaussian_mixture(train)(test), found, rtol=1e-4, atol=1e-4)


def test_a_class_with_one_sample_leans_on_the_others():
    train = some(dtype=torch.float64)
    labels = train.labels.clone()
    labels[0] = 77
    train = Activations(logits=train.logits, features=train.features, labels=labels, last="last")
    for pooled in (0.0, 0.1):
        found = gaussian_mixture(train, pooled=pooled)(train)
        np.testing.assert_allclose(found, by_hand(train, train, pooled=pooled), rtol=1e-8)


def test_fewer_samples_than_features():
    train = some(samples=30, width=40)
    assert gaussian_mixture(train)(train).isfinite().all()
    with pytest.raises(NescioError, match="singular.*raise shrinkage"):
        gaussian_mixture(train, shrinkage=0.0)


def test_larger_is_further_out():
    train, test, out = some(), some(seed=1), some(seed=2, off=2.0)
    detector = gaussian_mixture(train)
    assert auroc(detector(test), detector(out)) > 0.85


@pytest.mark.parametrize("covariance", ["full", "tied", "diagonal"])
def test_save_and_load(tmp_path, covariance):
    train, test = some(), some(samples=50, seed=1)
    detector = gaussian_mixture(train, covariance=covariance)
    again = load(detector.save(tmp_path / "d.safetensors"))
    assert torch.equal(again(test), detector(test))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariance": "diag"}, "must be one of full, tied, diagonal, got 'diag'"),
        ({"pooled": -1.0}, "pooled must be a number from 0 on, got -1"),
        ({"shrinkage": 2.0}, r"shrinkage must be in \[0, 1\], got 2"),
    ],
    ids=["kind", "pooled", "shrinkage"],
)
def test_what_cannot_be(options, message):
    with pytest.raises(NescioError, match=message):
        gaussian_mixture(some(), **options)
