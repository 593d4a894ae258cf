"""Core-set selection against a version with all distances."""

import math

import numpy as np
import pytest
import torch

from nescio import models, nets
from nescio.applications.active_learning import choose, pick
from nescio.core import Categorical, NescioError, generator


def draws(*shape, name="x"):
    return torch.randn(*shape, generator=generator(0, name))


def by_all_distances(features, labeled, size):
    x, centers = features.double().numpy(), list(labeled.double().numpy())
    index, score = [], []
    for _ in range(size):
        apart = np.linalg.norm(x[:, None] - np.stack(centers)[None], axis=2).min(1)
        index.append(int(apart.argmax()))
        score.append(apart.max())
        centers.append(x[index[-1]])
    return index, score


@pytest.mark.parametrize("shape", [(50, 3), (400, 40)])
def test_each_sample_is_the_furthest_from_all_before(shape):
    features, labeled = draws(*shape), draws(7, shape[1], name="labeled")
    prediction = Categorical(torch.zeros(1, shape[0], 2))
    chosen = pick(prediction, 9, "core_set", features=features, labeled_features=labeled)
    index, score = by_all_distances(features, labeled, 9)
    assert chosen.index.tolist() == index
    np.testing.assert_allclose(chosen.score.numpy(), score, rtol=1e-5)
    assert chosen.why[0].startswith("It is far from every labeled sample, at distance ")


def test_it_covers_the_pool_within_twice_the_best_radius():
    """The greedy radius is at most twice the optimal one (Gonzalez, 1985); here that is 0.1."""
    centers = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    around = 0.1 * torch.nn.functional.normalize(draws(4, 50, 2), dim=-1)
    features = (centers[:, None] + around).flatten(0, 1)
    prediction = Categorical(torch.zeros(1, 200, 2))
    chosen = pick(prediction, 4, "core_set", features=features)
    assert {int(n) // 50 for n in chosen.index} == {0, 1, 2, 3}
    apart = (features[:, None] - features[chosen.index]).norm(dim=2)
    assert apart.amin(1).max() <= 0.2 + 1e-5


def test_without_labels_the_first_is_drawn_at_random():
    prediction, features = Categorical(torch.zeros(1, 30, 2)), draws(30, 4)
    first = {
        int(pick(prediction, 1, "core_set", features=features, seed=s).index) for s in range(9)
    }
    assert len(first) > 3
    chosen = pick(prediction, 2, "core_set", features=features)
    assert chosen.score[0] == math.inf
    assert chosen.score[1] < math.inf


def test_features_are_those_that_enter_the_last_layer_of_each_network():
    pool, labeled = draws(60, 2), draws(5, 2, name="labeled")
    two = [nets.mlp(2, 3, widths=(16,), dropout=0.2).eval() for _ in range(2)]
    with torch.no_grad():
        rows = [torch.cat([net[:-1](x) for net in two], 1) for x in (pool, labeled)]
    ensemble = models.ensemble(two)
    expected, _ = by_all_distances(rows[0], rows[1], 6)
    for predictor in (ensemble, models.mc_dropout(ensemble, passes=3)):
        chosen = choose(predictor, pool, 6, "core_set", labeled=labeled)
        assert chosen.index.tolist() == expected


def test_other_features_are_refused():
    prediction = Categorical(torch.zeros(1, 30, 2))
    with pytest.raises(NescioError, match="labeled samples have 3 features, those of the pool 4"):
        pick(prediction, 1, "core_set", features=draws(30, 4), labeled_features=draws(2, 3))
    with pytest.raises(NescioError, match="this acquisition reads features"):
        pick(prediction, 1, "core_set")
