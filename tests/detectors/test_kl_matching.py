"""KL matching: against scipy, class by class."""

import importlib

import numpy as np
import pytest
import torch
from scipy import stats

from nescio.core import NescioError
from nescio.detectors import kl_matching
from nescio.detectors.activations import Activations

last_layer = importlib.import_module("nescio.detectors.last_layer")


def draw(seed, count=80):
    rng = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(count, 5, generator=rng)
    return Activations(logits=logits, labels=torch.randint(0, 5, (count,), generator=rng))


@pytest.mark.parametrize("by", ["predicted", "true"])
def test_against_scipy(by, monkeypatch):
    monkeypatch.setattr(last_layer, "NUMBERS", 50)  # several blocks
    train, test = draw(0), draw(1)
    probs = train.logits[0].double().softmax(-1).numpy()
    classes = probs.argmax(1) if by == "predicted" else train.labels.numpy()
    means = [probs[classes == c].mean(0) for c in np.unique(classes)]
    rows = test.logits[0].double().softmax(-1).numpy()
    expected = [min(stats.entropy(row, mean) for mean in means) for row in rows]
    np.testing.assert_allclose(kl_matching(train, by=by)(test), expected, rtol=1e-5)


def test_the_two_ways_to_form_classes_differ():
    train, test = draw(0), draw(1)
    assert not torch.allclose(kl_matching(train)(test), kl_matching(train, by="true")(test))


def test_sure_answers_keep_a_small_divergence():
    """One training case a class: the divergence from itself is 0, from a near one tiny and > 0."""
    sure = torch.tensor([[30.0, 0.0, 0.0], [0.0, 30.0, 0.0]])
    detector = kl_matching(Activations(logits=sure))
    torch.testing.assert_close(
        detector(Activations(logits=sure)), torch.zeros(2), atol=1e-15, rtol=0
    )
    nearly = detector(Activations(logits=torch.tensor([[20.0, 0.0, 0.0]])))
    rows = np.exp([[20.0, 0, 0], [30.0, 0, 0]])
    p, q = rows / rows.sum(1, keepdims=True)
    assert float(nearly) == pytest.approx(stats.entropy(p, q), rel=1e-4)


def test_huge_margins_do_not_divide_by_zero():
    far = Activations(logits=torch.tensor([[2000.0, 0.0], [0.0, 2000.0]]))
    other = Activations(logits=torch.tensor([[0.0, 0.0]]))
    found = kl_matching(far)(other)
    torch.testing.assert_close(found, torch.tensor([1000 - np.log(2)], dtype=torch.float32))


def test_bad_input():
    with pytest.raises(NescioError, match="unknown way to form classes 'label'"):
        kl_matching(draw(0), by="label")
    with pytest.raises(NescioError, match="needs labels"):
        kl_matching(Activations(logits=torch.randn(3, 2)), by="true")
    with pytest.raises(NescioError, match="fitted on 5 numbers an input, these are 2"):
        kl_matching(draw(0))(Activations(logits=torch.randn(3, 2)))
