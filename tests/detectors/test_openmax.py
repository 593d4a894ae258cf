"""OpenMax: the algorithms of the paper in a loop, with scipy's Weibull."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.spatial import distance as distances

from nescio.core import NescioError
from nescio.detectors import openmax
from nescio.detectors.activations import Activations

CLASSES = 4
BY_NAME = {
    "euclidean": distances.euclidean,
    "cosine": distances.cosine,
    "eucos": lambda a, b: distances.euclidean(a, b) / 200 + distances.cosine(a, b),
}


def draw(seed, count=200):
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=rng)
    logits = 6 * torch.eye(CLASSES)[labels] + 2 * torch.randn(count, CLASSES, generator=rng)
    return Activations(logits=logits, labels=labels)


def by_definition(train, test, tail, alpha, name):
    """Probability of the unknown class, input by input."""
    away = BY_NAME[name]
    z, labels = train.logits[0].double().numpy(), train.labels.numpy()
    fits = {}
    for c in range(CLASSES):
        own = z[(labels == c) & (z.argmax(1) == c)]
        mean = own.mean(0)
        far = np.sort([away(row, mean) for row in own])[-tail:]
        origin = far[0] - 1
        shape, _, scale = stats.weibull_min.fit(far - origin, floc=0)
        fits[c] = mean, origin, shape, scale
    found = []
    for v in test.logits[0].double().numpy():
        lowered, unknown = v.copy(), 0.0
        for rank, c in enumerate(np.argsort(-v)[:alpha]):
            mean, origin, shape, scale = fits[c]
            share = stats.weibull_min.cdf(away(v, mean) - origin, shape, scale=scale)
            weight = 1 - share * (alpha - rank) / alpha
            lowered[c] = v[c] * weight
            unknown += v[c] * (1 - weight)
        powers = np.exp(np.append(lowered, unknown))
        found.append(powers[-1] / powers.sum())
    return np.array(found)


@pytest.mark.parametrize("distance", BY_NAME)
@pytest.mark.parametrize(("tail", "alpha"), [(20, 4), (10, 2)])
def test_the_definition(distance, tail, alpha):
    train, test = draw(0), draw(1, 40)
    found = openmax(train, tail=tail, alpha=alpha, distance=distance)(test)
    expected = by_definition(train, test, tail, alpha, distance)
    np.testing.assert_allclose(found.double().sigmoid(), expected, rtol=5e-3, atol=1e-6)


def test_the_log_odds_do_not_saturate():
    train = draw(0)
    far = Activations(logits=torch.tensor([[100.0, 0, 0, 0], [200.0, 0, 0, 0]]))
    near = Activations(logits=train.logits[0].double().mean(0)[None] + 0 * train.logits[0, :1])
    one, two = openmax(train)(far)
    assert float(one) > 90
    assert float(two) > 190
    assert openmax(train)(near).isfinite().all()


def test_a_class_never_seen_is_infinitely_far():
    """Its logit goes to the unknown class whole, if it comes first."""
    train = draw(0)
    fewer = train[train.labels != 3]
    found = openmax(fewer, alpha=1)(Activations(logits=torch.tensor([[0.0, 0.0, 0.0, 9.0]])))
    expected = 9 - np.log(4)  # against four logits of zero
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_few_samples_borrow_the_tail_of_all():
    train = draw(0)
    few = train[(train.labels != 2) | (torch.arange(200) == int((train.labels == 2).nonzero()[0]))]
    full, state = openmax(train).states[0], openmax(few).states[0]
    for name in ("shape", "scale", "origin"):
        assert state[name][0] == full[name][0]
        assert state[name][2] != full[name][2]
    assert bool(state["known"].all())


def test_bad_input():
    train = draw(0)
    with pytest.raises(NescioError, match="tail must be 3 or more"):
        openmax(train, tail=2)
    with pytest.raises(NescioError, match="alpha 1 or more"):
        openmax(train, alpha=0)
    with pytest.raises(NescioError, match="unknown distance 'l1'"):
        openmax(train, distance="l1")
    with pytest.raises(NescioError, match="cannot fit a tail: 2 samples"):
        openmax(Activations(logits=torch.eye(2), labels=torch.tensor([0, 1])))
