"""ViM against its steps in float64, as published."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from nescio import load
from nescio.core import NescioError
from nescio.detectors import vim
from nescio.detectors.activations import Activations
from nescio.metrics import auroc

WIDTH, CLASSES, RANK = 20, 4, 6


def some(samples=500, members=1, seed=0, off=0.0, dtype=torch.float32):
    """Features near a space of six dimensions, and the logits of a linear layer."""
    fixed = torch.Generator().manual_seed(99)
    basis = torch.randn(RANK, WIDTH, generator=fixed, dtype=dtype)
    weight = torch.randn(members, CLASSES, WIDTH, generator=fixed, dtype=dtype)
    bias = torch.randn(members, CLASSES, generator=fixed, dtype=dtype)
    rng = torch.Generator().manual_seed(seed)
    in_dist = torch.randn(members, samples, RANK, generator=rng, dtype=dtype) @ basis
    features = in_dist + (0.3 + off) * torch.randn(
        members, samples, WIDTH, generator=rng, dtype=dtype
    )
    logits = features @ weight.transpose(1, 2) + bias[:, None]
    return Activations(logits=logits, features=features, weight=weight, bias=bias)


def by_hand(train, test, dim, member=0):
    x = train.features["features"][member].double().numpy()
    z = train.logits[member].double().numpy()
    w, b = train.weight[member].double().numpy(), train.bias[member].double().numpy()
    origin = -np.linalg.pinv(w) @ b
    values, vectors = np.linalg.eig((x - origin).T @ (x - origin) / len(x))
    residual = vectors[:, np.argsort(-values)[dim:]]
    length = np.linalg.norm((x - origin) @ residual, axis=1)
    alpha = z.max(1).mean() / length.mean()
    queries = test.features["features"][member].double().numpy()
    virtual = alpha * np.linalg.norm((queries - origin) @ residual, axis=1)
    logits = test.logits[member].double().numpy()
    return virtual, logits


@pytest.mark.parametrize("dim", [1, 6, 19])
def test_it_is_the_formula(dim):
    train = some(dtype=torch.float64)
    test = some(samples=60, seed=1, off=0.5, dtype=torch.float64)
    virtual, logits = by_hand(train, test, dim)
    found = vim(train, dim=dim)(test)
    np.testing.assert_allclose(found, virtual - logsumexp(logits, axis=1), atol=1e-9)


def test_single_precision():
    train, test = some(), some(samples=60, seed=1, off=0.5)
    virtual, logits = by_hand(train, test, RANK)
    found = vim(train, dim=RANK)(test)
    np.testing.assert_allclose(found, virtual - logsumexp(logits, axis=1), atol=1e-3)


def test_it_has_the_order_of_the_published_probability():
    train, test = some(dtype=torch.float64), some(samples=60, seed=1, dtype=torch.float64)
    virtual, logits = by_hand(train, test, 6)
    everything = np.concatenate([virtual[:, None], logits], axis=1)
    probability = np.exp(virtual - logsumexp(everything, axis=1))
    found = vim(train, dim=6)(test).numpy()
    np.testing.assert_allclose(probability, 1 / (1 + np.exp(-found)), rtol=1e-9)


def test_each_network_has_its_own_space():
    train, test = some(members=2), some(samples=60, members=2, seed=1)
    each = vim(train, dim=6).each(test)
    for member in range(2):
        virtual, logits = by_hand(train, test, 6, member)
        np.testing.assert_allclose(each[member], virtual - logsumexp(logits, axis=1), atol=2e-3)


@pytest.mark.parametrize(("width", "dim"), [(6, 3), (767, 383), (768, 512), (2048, 1000)])
def test_the_dimension_by_itself(width, dim):
    from nescio.detectors.last_layer import _size

    assert _size(width) == dim


def test_the_dimension_is_kept_with_the_detector():
    assert vim(some()).options == {"dim": 10}
    assert not torch.allclose(vim(some())(some(seed=1)), vim(some(), dim=6)(some(seed=1)))


def test_larger_is_further_out():
    train, test, out = some(), some(seed=1), some(seed=2, off=0.7)
    detector = vim(train, dim=6)
    assert auroc(detector(test), detector(out)) > 0.9


def test_save_and_load(tmp_path):
    detector, test = vim(some()), some(samples=60, seed=1)
    again = load(detector.save(tmp_path / "d.safetensors"))
    assert torch.equal(again(test), detector(test))


@pytest.mark.parametrize("dim", [0, 20, 21])
def test_a_dimension_that_leaves_nothing(dim):
    with pytest.raises(NescioError, match=f"dim must be from 1 to 19.*got {dim}"):
        vim(some(), dim=dim)


def test_features_within_the_principal_space():
    basis = torch.eye(WIDTH)[:2]
    features = torch.randn(50, 2) @ basis
    train = Activations(
        logits=torch.randn(50, 2), features=features, weight=basis, bias=torch.zeros(2)
    )
    with pytest.raises(NescioError, match="lie in a space of 5 dimensions; give a smaller dim"):
        vim(train, dim=5)


def test_no_last_layer():
    train = some()
    with pytest.raises(NescioError, match="vim needs the last linear layer"):
        vim(Activations(logits=train.logits, features=train.features))


def test_a_last_layer_of_another_width():
    train = some()
    with pytest.raises(NescioError, match="reads 20 features, layer 'features' has 7"):
        vim(
            Activations(
                logits=train.logits,
                features=train.features["features"][..., :7],
                weight=train.weight,
                bias=train.bias,
            )
        )


def test_logits_that_would_turn_the_score_round():
    train = some()
    with pytest.raises(NescioError, match="-9.* on average; vim scales by them"):
        vim(
            Activations(
                logits=train.logits - train.logits.amax(-1, keepdim=True) - 9,
                features=train.features,
                weight=train.weight,
                bias=train.bias,
            )
        )
