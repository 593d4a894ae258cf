"""Confident answers and entropies against a plain count."""

import math

import numpy as np
import pytest
import torch

from nescio.errors import NescioError
from nescio.evaluate import see
from nescio.prediction import Categorical
from nescio.shifting import accuracy_above, entropies

INSIDE = torch.randn(200, 5, generator=torch.Generator().manual_seed(0)) * 3
OUTSIDE = torch.randn(90, 5, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(200) % 5


def seen(logits):
    return see(lambda x: Categorical(x[None]), logits)


def test_outsiders_count_as_wrong():
    found = accuracy_above(seen(INSIDE), LABELS, seen(OUTSIDE))
    inside, outside = (x.double().softmax(1).numpy() for x in (INSIDE, OUTSIDE))
    assert found.thresholds.tolist() == [step / 10 for step in range(10)]
    for place, level in enumerate(found.thresholds):
        known = inside.max(1) >= level
        right = known & (inside.argmax(1) == LABELS.numpy())
        unknown = outside.max(1) >= level
        total = known.sum() + unknown.sum()
        assert found.accuracy[place] == right.sum() / total
        assert found.answered[place] == total / 290
        assert found.answered_outside[place] == unknown.mean()
    assert found.answered[0] == 1


def test_where_nothing_is_left_there_is_no_accuracy():
    flat = torch.zeros(10, 5)
    found = accuracy_above(seen(flat), LABELS[:10], seen(flat), thresholds=[0.2, 0.5])
    assert found.accuracy[0] == 0.1  # ties go to the first class, half are outsiders
    assert np.isnan(found.accuracy[1])
    assert found.answered.tolist() == [1, 0]


@pytest.mark.parametrize("thresholds", [[], [1.5], [-0.1], [[0.1]], [0.5, float("nan")]])
def test_bad_thresholds_are_refused(thresholds):
    with pytest.raises(NescioError, match="numbers from 0 to 1"):
        accuracy_above(seen(INSIDE), LABELS, seen(OUTSIDE), thresholds=thresholds)


def test_entropies_are_shares_by_bin():
    found = entropies(seen(INSIDE), seen(OUTSIDE), bins=7)
    probs = OUTSIDE.double().softmax(1).numpy()
    entropy = -(probs * np.log(probs)).sum(1)
    truth, edges = np.histogram(entropy, 7, range=(0, math.log(5)))
    np.testing.assert_allclose(found.outside, truth / 90)
    np.testing.assert_allclose(found.edges, edges)
    assert found.inside.sum() == pytest.approx(1)
    flat = entropies(seen(torch.zeros(3, 5)), seen(torch.zeros(3, 5) + 1))
    assert flat.inside[-1] == flat.outside[-1] == 1
    with pytest.raises(NescioError, match="`bins` must be a whole number from 1 up, got 0"):
        entropies(seen(INSIDE), seen(OUTSIDE), bins=0)
