"""Which answers are labeled: within the budget, above the floor, from the past alone."""

import numpy as np
import pytest

import nescio
from nescio.monitoring import label_budget, propensities


def test_the_budget_is_kept_on_average():
    rng = np.random.default_rng(0)
    for scale in (0.001, 0.01, 0.2):
        q = propensities(1 - scale * rng.random(30_000), 0.05)
        assert q[5000:].mean() == pytest.approx(0.05, rel=0.02)
        assert q.min() >= 0.05 * 0.75


def test_each_depends_on_the_past_alone():
    rng = np.random.default_rng(0)
    said = 0.1 * rng.random(500)
    whole, last = label_budget(0.1).after(said)
    changed = said.copy()
    changed[300:] = 0.9
    assert (label_budget(0.1).after(changed)[0][:300] == whole[:300]).all()
    first, now = label_budget(0.1).after(said[:123])
    second, now = now.after(said[123:])
    assert (np.concatenate([first, second]) == whole).all()
    assert now == last


def test_likely_errors_are_drawn_more_often():
    q = propensities(1 - np.tile([0.001, 0.01, 0.1, 0.5], 500), 0.05)
    assert (np.diff(q[-4:]) > 0).all()
    even = propensities(np.full(100, 0.9), 0.05, floor=1.0)
    assert (even == 0.05).all()


def test_edges():
    assert (propensities([0.5, 0.9, 1.0], 1.0) == 1).all()
    assert label_budget(1.0).after([0.5, np.nan, 0.0])[0].max() <= 1
    assert len(label_budget().after([])[0]) == 0
    assert propensities([1.0] * 50, 0.05)[-1] == pytest.approx(0.05 * 0.75)
    for wrong in ({"budget": 0.0}, {"risk": 2.0}, {"floor": 0.0}):
        with pytest.raises(nescio.NescioError):
            label_budget(**wrong)
