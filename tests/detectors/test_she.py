"""SHE: the pattern of the predicted class; by hand in float64."""

import importlib

import numpy as np
import pytest
import torch
from scipy.spatial import distance

from nescio.core import NescioError
from nescio.detectors import she
from nescio.detectors.activations import Activations

last_layer = importlib.import_module("nescio.detectors.last_layer")
UNLIKE = {
    "inner": lambda f, s: -float(f @ s),
    "cosine": lambda f, s: distance.cosine(f, s) - 1,
    "euclidean": distance.euclidean,
}


def draw(seed, count=60, classes=4):
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, classes, generator=rng)
    labels = torch.where(torch.rand(count, generator=rng) < 0.6, logits.argmax(-1), 2)
    features = torch.randn(count, 5, generator=rng) + labels[:, None]
    return Activations(logits=logits, features=features, labels=labels)


@pytest.mark.parametrize("similarity", UNLIKE)
def test_the_definition(similarity, monkeypatch):
    monkeypatch.setattr(last_layer, "NUMBERS", 100)  # several blocks
    train, test = draw(0), draw(1, 30)
    features = train.features["features"][0].double().numpy()
    right = (train.logits[0].argmax(-1) == train.labels).numpy()
    assert 0 < right.sum() < len(right)
    labels = train.labels.numpy()
    patterns = [features[right & (labels == c)].mean(0) for c in range(4)]
    expected = [
        UNLIKE[similarity](row, patterns[label])
        for row, label in zip(
            test.features["features"][0].double().numpy(),
            test.logits[0].argmax(-1).tolist(),
            strict=True,
        )
    ]
    found = she(train, similarity=similarity)(test)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_class_without_a_pattern_takes_the_most_alike_of_the_others():
    train, test = draw(0), draw(1, 200)
    fewer = train[train.labels != 3]
    found = she(fewer)(test)
    patterns = she(fewer).states[0]["patterns"]
    assert not patterns[3].any()
    nearest = -(test.features["features"][0] @ patterns[:3].T).amax(-1)
    lost = test.logits[0].argmax(-1) == 3
    assert lost.any()
    torch.testing.assert_close(found[lost], nearest[lost])
    torch.testing.assert_close(found[~lost], she(train)(test)[~lost])


def test_a_network_that_is_never_right_is_refused():
    wrong = Activations(
        logits=torch.eye(2).repeat(3, 1),
        features=torch.randn(6, 3),
        labels=torch.tensor([1, 0] * 3),
    )
    with pytest.raises(NescioError, match="needs training samples that the network gets right"):
        she(wrong)


def test_bad_input():
    train = draw(0)
    with pytest.raises(NescioError, match="unknown similarity 'dot'"):
        she(train, similarity="dot")
    with pytest.raises(NescioError, match="needs labels"):
        she(Activations(logits=train.logits, features=train.features))
    high = Activations(logits=train.logits, features=train.features, labels=train.labels + 2)
    with pytest.raises(NescioError, match="labels must be from 0 to 3, .* got 2 to 5"):
        she(high)
