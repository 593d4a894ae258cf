"""Acquisitions that score each sample, against plain NumPy versions."""

import math

import numpy as np
import pytest
import torch

from nescio.applications.active_learning import Candidates, by_uncertainty, pick
from nescio.core import Categorical, Dirichlet, generator
from nescio.core.registry import acquisitions


def members(samples=50, passes=7, classes=4, seed=0):
    draws = generator(seed, "members")
    return Categorical(2 * torch.randn(passes, samples, classes, generator=draws).double())


def scores(name, prediction):
    wanted = {"prediction": prediction, "size": 1, "seed": 0}
    nothing = {"read_features": lambda: None, "read_labeled": lambda: None}
    return acquisitions[name](Candidates(**wanted, **nothing))


def entropy(p):
    return -(p * np.log(p)).sum(-1)


def votes(p):
    best = p.argmax(-1)  # (M, N)
    return np.array([1 - np.bincount(column).max() / len(column) for column in best.T])


def margin(p):
    two = np.sort(p.mean(0), -1)[:, -2:]
    return two[:, 0] - two[:, 1]


BY_HAND = {
    "least_confidence": lambda p: 1 - p.mean(0).max(-1),
    "margin": margin,
    "entropy": lambda p: entropy(p.mean(0)),
    "variation_ratio": votes,
    "mean_std": lambda p: np.sqrt((p**2).mean(0) - p.mean(0) ** 2).mean(-1),
    "bald": lambda p: entropy(p.mean(0)) - entropy(p).mean(0),
    "random": lambda p: np.zeros(p.shape[1]),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_scores_are_those_of_the_formula(name):
    prediction = members()
    expected = BY_HAND[name](prediction.member_probs.numpy())
    np.testing.assert_allclose(scores(name, prediction).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("name", BY_HAND)
def test_parts_give_what_the_whole_gives(name, monkeypatch):
    prediction = members()
    whole = scores(name, prediction)
    monkeypatch.setattr(by_uncertainty, "NUMBERS", 3 * 7 * 4)
    torch.testing.assert_close(scores(name, prediction), whole)


def test_three_known_cases():
    """Sure and agreed; members that contradict each other; members that agree on not knowing."""
    sure, even = torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])
    probs = torch.stack([torch.stack([sure, sure, even]), torch.stack([sure, sure.flip(0), even])])
    prediction = Categorical.from_probs(probs)
    expected = {
        "bald": [0, math.log(2), 0],
        "entropy": [0, math.log(2), math.log(2)],
        "variation_ratio": [0, 0.5, 0],
        "mean_std": [0, 0.5, 0],
        "margin": [-1, 0, 0],
        "least_confidence": [0, 0.5, 0.5],
    }
    for name, values in expected.items():
        torch.testing.assert_close(scores(name, prediction), torch.tensor(values).float())


@pytest.mark.parametrize("name", ["bald", "mean_std", "variation_ratio"])
@pytest.mark.parametrize("copies", [1, 3])
def test_members_that_are_one_network_disagree_about_nothing(name, copies):
    one = members(samples=400, passes=1).to(torch.float32)
    value = scores(name, Categorical(one.logits.repeat(copies, 1, 1)))
    assert value.max() <= 1e-7
    if name != "mean_std" or copies == 1:
        assert torch.equal(value, torch.zeros(400))


def test_a_dirichlet_has_mutual_information_without_members():
    alpha = torch.tensor([[[1.0, 1.0], [100.0, 100.0], [100.0, 1.0]]])
    prediction = Dirichlet.from_alpha(alpha)
    value = scores("bald", prediction)
    assert value[0] > 10 * value[1] > 0
    draws = torch.distributions.Beta(1.0, 1.0).sample((1_000_000,)).double()
    drawn = torch.stack([draws, 1 - draws], -1)
    within = torch.special.entr(drawn).sum(-1)
    assert float(value[0]) == pytest.approx(
        math.log(2) - float(within.mean()), abs=4 * float(within.std()) / 1000
    )
    assert pick(prediction, 1, "bald").why[0].startswith("The members disagree")
    variances = alpha[0] * alpha[0].flip(-1) / (alpha[0].sum(-1, keepdim=True) ** 2)
    variances = variances / (alpha[0].sum(-1, keepdim=True) + 1)
    torch.testing.assert_close(scores("mean_std", prediction), variances.sqrt().mean(-1))


def test_a_label_map_has_the_mean_over_its_pixels():
    flat = members(samples=6 * 4)
    maps = Categorical(flat.logits.unflatten(1, (6, 2, 2)))
    for name in ("bald", "entropy", "margin", "mean_std", "variation_ratio", "least_confidence"):
        each = scores(name, flat).reshape(6, 4).mean(1)
        torch.testing.assert_close(scores(name, maps), each)
    chosen = pick(maps, 2, "bald")
    assert chosen.predicted.shape == (2, 2, 2)
    assert chosen.confidence.shape == (2,)
    assert "mean confidence" in chosen.why[0]
