"""The ranks of a stream are those of a plain count, in bins and pieces of any size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.monitoring.martingale import BLOCK, p_values


def counted_one_by_one(counts, bins, uniform):
    past = list(np.repeat(np.arange(len(counts)), counts))
    found = []
    for own, u in zip(bins, uniform, strict=True):
        past.append(own)
        greater, equal = sum(b > own for b in past), sum(b == own for b in past)
        found.append((greater + u * equal) / len(past))
    return found


@given(seed=st.integers(0, 999), size=st.integers(1, 200), kinds=st.sampled_from([2, 9, 300]))
@settings(max_examples=25, deadline=None)
def test_ranks_are_those_of_a_plain_count(seed, size, kinds):
    rng = np.random.default_rng(seed)
    counts, bins, uniform = (
        rng.integers(0, 4, kinds),
        rng.integers(0, kinds, size),
        rng.random(size),
    )
    found, after = p_values(counts, bins, uniform)
    assert found.tolist() == counted_one_by_one(counts, bins, uniform)
    assert len(after) == size // BLOCK + 1
    full = bins[: size // BLOCK * BLOCK]
    assert np.array_equal(after[-1], counts + np.bincount(full, minlength=kinds))


def test_pieces_give_the_same_numbers():
    rng = np.random.default_rng(0)
    counts, bins, uniform = np.arange(30), rng.integers(0, 30, 1000), rng.random(1000)
    whole, _ = p_values(counts, bins, uniform)
    cut = 5 * BLOCK
    first, after = p_values(counts, bins[:cut], uniform[:cut])
    second, _ = p_values(after[-1], bins[cut:], uniform[cut:])
    assert np.array_equal(np.concatenate([first, second]), whole)


def test_many_bins_are_counted_too():
    bins = np.array([40_000, 3, 40_000])
    found, _ = p_values(np.ones(40_001, np.int64), bins, np.array([0.5, 0.0, 0.25]))
    assert found.tolist() == pytest.approx([1 / 40_002, 39_998 / 40_003, 0.75 / 40_004])


def test_ranks_of_exchangeable_scores_are_uniform_and_independent():
    from scipy.stats import kstest

    rng = np.random.default_rng(1)
    scores = rng.geometric(0.3, (1500, 12)).clip(max=7)  # many ties
    pairs = []
    for row in scores:
        counts = np.bincount(row[:9], minlength=8)
        pairs.append(p_values(counts, row[9:], rng.random(3))[0])
    found = np.array(pairs)
    assert min(kstest(column, "uniform").pvalue for column in found.T) > 1e-3
    assert abs(np.corrcoef(found.T)[0, 1:]).max() < 4 / np.sqrt(len(found))
