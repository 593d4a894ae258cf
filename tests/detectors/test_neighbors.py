"""The k-th nearest row against all distances in float64, whatever way the search takes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.detectors import neighbors


def decaying(samples, width=64, seed=0, *, power=1.5, dtype=torch.float32):
    """Ten classes whose features vary less and less in later directions, turned at random."""
    turn = torch.linalg.qr(torch.randn(width, width, generator=torch.Generator().manual_seed(9))).Q
    rng = torch.Generator().manual_seed(seed)
    scale = torch.arange(1, width + 1) ** -power
    centers = torch.randn(10, width, generator=torch.Generator().manual_seed(8)) * scale
    rows = (
        centers[torch.arange(samples) % 10] + torch.randn(samples, width, generator=rng) * scale / 2
    )
    return (rows @ turn).to(dtype)


def distances(queries, rows, k):
    far = torch.cdist(queries.double(), rows.double(), compute_mode="donot_use_mm_for_euclid_dist")
    return far.sort(1).values[:, k - 1]


def found(queries, state, k):
    place = neighbors.kth_nearest(queries, neighbors.as_bank(state), k)
    return (queries.double() - state["bank"][place].double()).norm(dim=1)


@pytest.fixture
def small(monkeypatch):
    """Bounds from 256 rows on, in blocks of odd sizes."""
    monkeypatch.setattr(neighbors, "SMALL", 256)
    monkeypatch.setattr(neighbors, "GROUP", 4)
    monkeypatch.setattr(neighbors, "FEW", 30)
    monkeypatch.setattr(neighbors, "PRICE", 1)
    monkeypatch.setattr(neighbors, "SCAN", 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("wide", [1 << 16, 300])
def test_bounds_find_the_same_as_all_distances(small, monkeypatch, normalize, dtype, wide):
    monkeypatch.setattr(neighbors, "WIDE", wide)
    rows, queries = decaying(2001, dtype=dtype), decaying(100, seed=1, dtype=dtype)
    if normalize:
        rows, queries = (torch.nn.functional.normalize(x, dim=1) for x in (rows, queries))
    state = neighbors.prepared(rows, 10)
    assert 15 <= state["head"].shape[1] < 64
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    np.testing.assert_allclose(
        found(queries, state, 10), distances(queries, rows, 10), rtol=tolerance, atol=tolerance
    )


@given(st.integers(0, 10_000), st.integers(1, 9), st.floats(-3, 3), st.floats(-3, 3))
@settings(deadline=None, max_examples=60)
def test_any_directions_give_true_bounds(seed, count, larger, shift):
    """Directions and scales of no use, far queries, many ties: slower, and right all the same."""
    rng = torch.Generator().manual_seed(seed)
    rows = torch.randint(-2, 3, (400, 12), generator=rng).float() * 10**larger
    queries = torch.randint(-2, 3, (20, 12), generator=rng).float() * 10**larger + shift
    turn = torch.linalg.qr(torch.randn(12, count, generator=rng, dtype=torch.float64)).Q
    half = rows.square().sum(1) / -2
    state = {"bank": rows, "half": half, "turn": turn}
    state["head"] = neighbors._lead(rows, turn, half)
    np.testing.assert_allclose(found(queries, state, 5), distances(queries, rows, 5), rtol=1e-4)


def test_a_bound_is_never_below_the_value():
    rows, queries = decaying(500), decaying(50, seed=1)
    half = rows.square().sum(1) / -2
    bank = neighbors.Bank(rows=rows, half=half)
    turn = torch.linalg.eigh((rows.T @ rows).double()).eigenvectors.flip(1)
    exact = queries.double() @ rows.double().T + half.double()
    for count in (1, 7, 63):
        lead = neighbors._lead_of(queries, turn[:, :count])
        upper = lead @ neighbors._lead(rows, turn[:, :count], half).T
        loose = neighbors._roundings(queries, bank)[:, None]
        assert (upper + loose >= exact).all()
        assert (loose < 1e-3 * exact.abs().amax()).all()


def test_queries_unlike_the_bank_are_searched_by_all_products(small, monkeypatch):
    calls = []
    whole = neighbors._by_products
    monkeypatch.setattr(neighbors, "_by_products", lambda *a: calls.append(1) or whole(*a))
    rows = decaying(2000)
    state = neighbors.prepared(rows, 10)
    calls.clear()
    found(decaying(60, seed=1), state, 10)
    assert not calls
    queries = torch.randn(60, 64) * 5
    np.testing.assert_allclose(found(queries, state, 10), distances(queries, rows, 10), rtol=1e-5)
    assert calls


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_find_the_same(small, threads):
    rows, queries = decaying(1500), decaying(95, seed=1)
    state = neighbors.prepared(rows, 5)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        far = found(queries, state, 5)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(far, distances(queries, rows, 5), rtol=1e-5, atol=1e-5)


def test_a_bank_without_structure_or_of_few_rows_has_no_bounds(small):
    assert set(neighbors.prepared(torch.randn(2000, 64), 10)) == {"bank", "half"}
    assert set(neighbors.prepared(decaying(200), 10)) == {"bank", "half"}
    assert set(neighbors.prepared(decaying(2000), 500)) == {"bank", "half"}
    assert set(neighbors.prepared(decaying(2000), 10)) == {"bank", "half", "turn", "head"}


def test_rows_of_length_zero_among_those_of_length_one():
    """Their products are small, and yet they may be the nearest."""
    rows = torch.nn.functional.normalize(torch.randn(40, 8), dim=1)
    rows[:3] = 0
    queries = torch.nn.functional.normalize(torch.randn(30, 8), dim=1)
    state = neighbors.prepared(rows, 1)
    for k in (1, 20, 40):
        np.testing.assert_allclose(found(queries, state, k), distances(queries, rows, k), rtol=1e-6)


@given(st.integers(1, 60), st.integers(1, 25), st.integers(3, 40), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_pieces_and_groups_find_the_same(size, k, piece, seed):
    """A bank of any size, in pieces of any size, with ties: the levels of the search are exact."""
    k = min(k, size)
    rng = torch.Generator().manual_seed(seed)
    rows = torch.randint(-2, 3, (size, 3), generator=rng).double()
    queries = torch.randint(-2, 3, (11, 3), generator=rng).double()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbors, "PIECE", piece)
        patch.setattr(neighbors, "GROUP", 2)
        far = found(queries, neighbors.prepared(rows, k), k)
    torch.testing.assert_close(far, distances(queries, rows, k))


@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_the_largest_in_levels(k, groups, seed):
    rng = torch.Generator().manual_seed(seed)
    numbers = torch.randint(40, (5, groups * neighbors.GROUP), generator=rng).float()  # many ties
    value, place = neighbors._largest(numbers, k)
    expected = numbers.sort(1, descending=True).values[:, :k]
    assert torch.equal(value.sort(1, descending=True).values, expected)
    assert torch.equal(numbers.gather(1, place), value)
    assert all(len(row.unique()) == k for row in place)


@pytest.mark.parametrize("samples", [40, 9000])  # by products, and by bounds
def test_the_nearest_rows_are_those_of_all_distances(samples):
    rows = decaying(samples) + 100  # an offset that costs figures in float32
    queries = torch.cat([rows[:5], decaying(20, seed=1) + 100])
    far, index = neighbors.nearest_rows(queries, rows, 6)
    exact = {"compute_mode": "donot_use_mm_for_euclid_dist"}
    whole = torch.cdist(queries.double(), rows.double(), **exact)
    expected, order = whole.topk(6, largest=False)
    assert torch.allclose(far, expected, atol=1e-5)
    assert (whole.gather(1, index) - expected).abs().max() < 1e-5
    assert (index[:5, 0] == torch.arange(5)).all()
    assert (index == order).double().mean() > 0.95  # but for ties of float32


def test_nearest_rows_of_nothing_and_of_too_few():
    rows = torch.randn(3, 2)
    assert neighbors.nearest_rows(rows[:0], rows, 2)[0].shape == (0, 2)
    with pytest.raises(ValueError, match="k from 1"):
        neighbors.nearest_rows(rows, rows, 4)
