"""Entropies and mutual information against scipy, published values and their laws."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from nescio.core import Categorical, expected_entropy, mutual_information, predictive_entropy
from nescio.core.measures import variation_ratio


def random_probs(members, samples, classes, seed=0, sharpness=3.0):
    rng = torch.Generator().manual_seed(seed)
    logits = sharpness * torch.randn(members, samples, classes, generator=rng, dtype=torch.float64)
    return logits.softmax(-1)


@pytest.mark.parametrize("base", [None, 2, 10])
def test_entropies_are_those_of_scipy(base):
    probs = random_probs(5, 20, 7)
    prediction = Categorical.from_probs(probs)
    options = {} if base is None else {"base": base}
    total = torch.tensor(entropy(probs.mean(0).numpy(), axis=-1, base=base))
    data = torch.tensor(entropy(probs.numpy(), axis=-1, base=base)).mean(0)
    torch.testing.assert_close(predictive_entropy(prediction, **options), total, rtol=0, atol=1e-13)
    torch.testing.assert_close(expected_entropy(prediction, **options), data, rtol=0, atol=1e-13)


@settings(max_examples=60, deadline=None)
@given(
    members=st.integers(1, 8),
    classes=st.integers(1, 8),
    seed=st.integers(0, 10**6),
    sharpness=st.sampled_from([0.0, 1e-6, 0.1, 3.0, 30.0, 1000.0]),
)
def test_mutual_information_is_the_difference_and_bounded(members, classes, seed, sharpness):
    prediction = Categorical.from_probs(random_probs(members, 6, classes, seed, sharpness))
    information = mutual_information(prediction)
    gap = predictive_entropy(prediction) - expected_entropy(prediction)
    torch.testing.assert_close(information, gap, rtol=0, atol=1e-12)
    assert (information >= 0).all()
    assert (information <= min(math.log(classes), math.log(members)) + 1e-12).all()


def test_small_mutual_information_survives_where_the_difference_cancels():
    base = torch.tensor([0.3, 0.7], dtype=torch.float64).log()
    shift = torch.tensor([[[1e-7, 0.0]], [[-1e-7, 0.0]]], dtype=torch.float64)
    truth = 0.5 * 0.3 * 0.7 * 1e-14  # half the variance of the log-odds, weighted by p (1 - p)
    prediction = Categorical(base + shift)
    assert mutual_information(prediction).item() == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize("classes", [2, 5])
def test_opposite_certain_members_give_the_logarithm_of_their_number(classes):
    probs = torch.eye(classes, dtype=torch.float64)[:, None]
    prediction = Categorical.from_probs(probs)
    assert mutual_information(prediction).item() == pytest.approx(math.log(classes), abs=1e-14)
    assert expected_entropy(prediction).item() == 0


@pytest.mark.parametrize(
    ("members", "ratio", "total", "information"),
    [
        ([[1.0, 0.0]] * 10, 0.0, 0.0, 0.0),  # all sure and agreed
        ([[1.0, 0.0]] * 5 + [[0.0, 1.0]] * 5, 0.5, math.log(2), math.log(2)),  # sure, opposed
        ([[0.51, 0.49]] * 10, 0.0, 0.69295, 0.0),  # all unsure and agreed
    ],
)
def test_the_three_examples_of_the_slides_with_right_values(members, ratio, total, information):
    prediction = Categorical.from_probs(torch.tensor(members, dtype=torch.float64)[:, None])
    assert variation_ratio(prediction).item() == ratio
    assert predictive_entropy(prediction).item() == pytest.approx(total, abs=5e-6)
    assert mutual_information(prediction).item() == pytest.approx(information, abs=1e-13)


def test_entropy_is_accurate_in_float32_far_from_the_boundary():
    margin = 80.0
    prediction = Categorical(torch.tensor([[[margin, 0.0]]]))
    truth = math.exp(-margin) * (1 + margin)
    assert predictive_entropy(prediction).item() == pytest.approx(truth, rel=1e-3)
