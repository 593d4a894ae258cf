"""The trust score against all distances, the high-density filter, and classes that are missing."""

import math

import pytest
import torch

from nescio.core import NescioError
from nescio.detectors import trust_score
from nescio.detectors import trust_score as build
from nescio.detectors.activations import Activations


def draw(count, seed, classes=4, width=6):
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    features = torch.randn(count, width, generator=rng, dtype=torch.float64)
    features += 2 * torch.eye(classes, width, dtype=torch.float64)[labels]
    logits = torch.randn(count, classes, generator=rng, dtype=torch.float64)
    return Activations(logits=logits, features=features, labels=labels)


def brute_force(train, test, keep):
    """Every distance written out."""
    bank, labels = train.features["features"][0][keep], train.labels[keep]
    far = (test.features["features"][0][:, None] - bank).square().sum(-1).sqrt()
    found = []
    for row, answer in zip(far, test.logits[0].argmax(-1), strict=True):
        found.append(math.log(row[labels == answer].min()) - math.log(row[labels != answer].min()))
    return torch.tensor(found, dtype=torch.float64)


def dense(train, alpha, k):
    """Which samples stay: all but those with the widest circle of k others of their class."""
    features, labels = train.features["features"][0], train.labels
    keep = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        own = (labels == label).nonzero()[:, 0]
        far = torch.cdist(features[own], features[own]).sort(1).values[:, k]
        keep[own[far.argsort()[: math.ceil((1 - alpha) * len(own))]]] = True
    return keep


@pytest.mark.parametrize(("alpha", "k"), [(0.0, 10), (0.1, 3), (0.5, 10)])
def test_scores_are_those_of_all_distances(alpha, k):
    train, test = draw(203, 0), draw(530, 1)
    found = trust_score(train, alpha=alpha, k=k)(test)
    torch.testing.assert_close(found, brute_force(train, test, dense(train, alpha, k)))


def test_each_network_has_its_own_bank():
    one, two = draw(80, 0), draw(80, 5)
    both = Activations(
        logits=torch.cat([one.logits, two.logits]),
        features=torch.cat([one.features["features"], two.features["features"]]),
        labels=one.labels,
    )
    rows = trust_score(both)
    found = rows.each(both[:10])
    torch.testing.assert_close(found[0], trust_score(one)(one[:10]))
    torch.testing.assert_close(found[1], trust_score(two)(two[:10]))


def test_a_training_input_is_as_sure_as_can_be_and_finite():
    train = draw(40, 0)
    right = Activations(
        logits=torch.eye(4)[train.labels], features=train.features["features"], labels=train.labels
    )
    found = trust_score(right, alpha=0.0)(right)
    assert found.isfinite().all()
    assert (found < -20).all()


def test_a_mislabeled_sample_is_left_out():
    features = torch.cat([torch.randn(60, 2) * 0.1, torch.randn(60, 2) * 0.1 + 5])
    labels = torch.arange(120) // 60
    labels[0] = 1  # one of the first heap
    train = Activations(logits=torch.eye(2)[labels], features=features, labels=labels)
    test = Activations(logits=torch.tensor([[0.0, 1.0]]), features=features[:1] + 0.001)
    assert trust_score(train, alpha=0.0)(test) < 0  # the mislabeled one vouches for it
    assert trust_score(train, alpha=0.05)(test) > 0


def test_a_class_without_training_features_is_not_trusted():
    train = draw(80, 0)
    train = train[train.labels != 2]
    test = draw(50, 1)
    answers = test.logits[0].argmax(-1)
    found = trust_score(train, alpha=0.0)(test)
    assert (found[answers == 2] >= 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.0}, "alpha"),
        ({"alpha": -0.1}, "alpha"),
        ({"k": 0}, "k must"),
        ({"k": 1.5}, "k"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(NescioError, match=message):
        build(draw(20, 0), **options)


def test_labels_that_cannot_be_compared_are_refused():
    train = draw(20, 0)
    with pytest.raises(NescioError, match="all training labels are 0"):
        build(train[train.labels == 0])
    with pytest.raises(NescioError, match="labels must be from 0 to 1"):
        build(
            Activations(logits=train.logits[..., :2], features=train.features, labels=train.labels)
        )
    with pytest.raises(NescioError, match="needs labels"):
        build(Activations(logits=train.logits, features=train.features))


def all_distances(train, test, *, normalize=False):
    """As `brute_force`, in float64 from what the features are in float32."""
    unit = torch.nn.functional.normalize if normalize else lambda rows, dim: rows
    double = [
        Activations(logits=a.logits, features=unit(a.features["features"], dim=-1).double(),
                    labels=a.labels)
        for a in (train, test)
    ]  # fmt: skip
    return brute_force(*double, torch.ones(train.samples, dtype=torch.bool))


def moved(count, seed, offset, spread=1.0):
    """Features in float32, far from nought; classes apart by 3, samples of a class by `spread`."""
    found = draw(count, seed, classes=3, width=32)
    own = 3 * torch.eye(3, 32, dtype=torch.float64)[found.labels]
    noise = found.features["features"][0] - 2 / 3 * own
    features = (spread * noise + own + offset).float()
    return Activations(logits=found.logits, features=features, labels=found.labels)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("offset", "spread"), [(1000.0, 1.0), (30.0, 0.01), (0.0, 0.001)])
def test_the_search_is_exact_far_from_nought_and_in_tight_classes(offset, spread, normalize):
    train, test = moved(600, 0, offset, spread), moved(300, 1, offset, spread)
    found = trust_score(train, normalize=normalize)(test)
    expected = all_distances(train, test, normalize=normalize)
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("alpha", "kept"), [(0.7, 3), (0.3, 7), (0.05, 10), (0.9, 1), (0.15, 9)])
def test_the_share_left_out_is_the_decimal_as_written(alpha, kept):
    train = draw(20, 0, classes=2)
    state = trust_score(train, alpha=alpha, k=2).states[0]
    assert state["sizes"].tolist() == [kept, kept]
