"""Confident answers and entropies against a plain count."""

import math

import numpy as np
import pytest
import torch

from nescio.core import Categorical, NescioError
from nescio.evaluation.answers import see
from nescio.evaluation.under_shift import accuracy_above, entropies

IN_DIST = torch.randn(200, 5, generator=torch.Generator().manual_seed(0)) * 3
OOD = torch.randn(90, 5, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(200) % 5


def seen(logits):
    return see(lambda x: Categorical(x[None]), logits)


def test_outsiders_count_as_wrong():
    found = accuracy_above(seen(IN_DIST), LABELS, seen(OOD))
    in_dist, ood = (x.double().softmax(1).numpy() for x in (IN_DIST, OOD))
    assert found.thresholds.tolist() == [step / 10 for step in range(10)]
    for place, level in enumerate(found.thresholds):
        known = in_dist.max(1) >= level
        right = known & (in_dist.argmax(1) == LABELS.numpy())
        unknown = ood.max(1) >= level
        total = known.sum() + unknown.sum()
        assert found.accuracy[place] == right.sum() / total
        assert found.answered[place] == total / 290
        assert found.answered_ood[place] == unknown.mean()
    assert found.answered[0] == 1


def test_where_nothing_is_left_there_is_no_accuracy():
    flat = torch.zeros(10, 5)
    found = accuracy_above(seen(flat), LABELS[:10], seen(flat), thresholds=[0.2, 0.5])
    assert found.accuracy[0] == 0.1  # ties go to the first class, half are OOD inputs
    assert np.isnan(found.accuracy[1])
    assert found.answered.tolist() == [1, 0]


@pytest.mark.parametrize("thresholds", [[], [1.5], [-0.1], [[0.1]], [0.5, float("nan")]])
def test_bad_thresholds_are_refused(thresholds):
    with pytest.raises(NescioError, match="numbers from 0 to 1"):
        accuracy_above(seen(IN_DIST), LABELS, seen(OOD), thresholds=thresholds)


def test_entropies_are_shares_by_bin():
    found = entropies(seen(IN_DIST), seen(OOD), bins=7)
    probs = OOD.double().softmax(1).numpy()
    entropy = -(probs * np.log(probs)).sum(1)
    truth, edges = np.histogram(entropy, 7, range=(0, math.log(5)))
    np.testing.assert_allclose(found.ood, truth / 90)
    np.testing.assert_allclose(found.edges, edges)
    assert found.in_dist.sum() == pytest.approx(1)
    flat = entropies(seen(torch.zeros(3, 5)), seen(torch.zeros(3, 5) + 1))
    assert flat.in_dist[-1] == flat.ood[-1] == 1
    with pytest.raises(NescioError, match="`bins` must be a whole number from 1 up, got 0"):
        entropies(seen(IN_DIST), seen(OOD), bins=0)
