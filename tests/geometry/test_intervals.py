"""Cutting intervals: roots, envelopes, signs and blocks, against brute force."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nescio.geometry.rays.breakpoints import Intervals
from nescio.geometry.regions.cells import sweep
from nescio.geometry.tracing.instances import instances

INF = torch.inf


def intervals(lo: list[float], hi: list[float], limit: int = 1000) -> Intervals:
    rays = torch.arange(len(lo))
    point = torch.ones(len(lo), 1, dtype=torch.float64)
    ends = (torch.tensor(e, dtype=torch.float64) for e in (lo, hi))
    return Intervals(point, point, rays, *ends, limit=limit)


def lines(*values: list[list[float]]) -> Tensor:
    """Rows of lines, each (p, q), as `(2, R, U)`."""
    return torch.tensor(values, dtype=torch.float64).permute(2, 0, 1)


def test_roots_cut_their_own_row_in_order():
    cells = intervals([0, 1], [4, INF])
    parents = cells.cut(lines([[1, -3], [2, -2], [1, 1]], [[1, -1], [1, -5], [1, -2]]))
    assert parents.tolist() == [0, 0, 0, 1, 1, 1]
    assert cells.lo.tolist() == [0, 1, 3, 1, 2, 5]
    assert cells.hi.tolist() == [1, 3, 4, 2, 5, INF]
    assert cells.ray.tolist() == [0, 0, 0, 1, 1, 1]


def test_roots_at_the_ends_and_lines_without_a_root_cut_nothing():
    cells = intervals([1], [2])
    assert cells.cut(lines([[1, -1], [1, -2], [0, 3], [0, 0], [0, -1]])) is None
    assert cells.lo.tolist() == [1]


def test_equal_roots_are_one_breakpoint():
    cells = intervals([0], [INF])
    third = 1 / 3
    cells.cut(lines([[3, -1], [1, -third], [-6, 2], [1, -third * (1 + 2**-51)]]))
    assert len(cells) == 2
    assert cells.lo[1] == pytest.approx(third, rel=1e-15)


def test_merging_is_relative_to_the_factor():
    """A direction that is a million million times longer has factors as many times shorter."""
    cells = intervals([0], [INF])
    cells.cut(lines([[1e20, -1], [1e20, -2], [1e20, -3]]))
    assert cells.lo.tolist() == [0, 1e-20, 2e-20, 3e-20]


def test_signs_in_the_middle_and_at_infinity():
    cells = intervals([0, 2], [1, INF])
    signs = cells.above(
        lines(
            [[1, -0.4], [1, -0.6], [0, 0], [0, 1], [0, -1]],
            [[1, -9], [-1, 9], [0, 0], [0, 1], [0, -1]],
        )
    )
    assert signs.tolist() == [[True, False, False, True, False], [True, False, False, True, False]]


numbers = st.integers(-6, 6).map(float)
windows = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6)


@settings(deadline=None, max_examples=100)
@given(windows, st.sampled_from([(0.0, INF), (0.0, 3.0), (1.0, 2.0), (0.5, INF)]))
def test_the_envelope_is_cut_where_the_largest_line_changes_and_nowhere_else(window, ends):
    cells = intervals([ends[0]], [ends[1]])
    p, q = (torch.tensor(v, dtype=torch.float64) for v in zip(*window, strict=True))
    cells.cut_largest(torch.stack([p, q])[:, None, None])
    crossings = {ends[0], min(ends[1], 1e3)}
    for i in range(len(p)):
        for j in range(i):
            if p[i] != p[j]:
                crossings.add(float((q[j] - q[i]) / (p[i] - p[j])))
    inside = sorted(t for t in crossings if ends[0] <= t <= min(ends[1], 1e3))
    middles = [(a + b) / 2 for a, b in pairwise(inside)]
    slopes = [float(p[(p * t + q) >= (p * t + q).max() - 1e-9].max()) for t in middles]
    expected = [
        t for t, a, b in zip(inside[1:], slopes, slopes[1:], strict=False) if abs(a - b) > 1e-9
    ]
    assert cells.lo[1:].tolist() == pytest.approx(expected, abs=1e-12)


def test_several_windows_at_once_agree_with_each_by_itself():
    torch.manual_seed(0)
    many = torch.randn(2, 5, 7, 4, dtype=torch.float64)
    cells = intervals([0.0] * 5, [INF, 1, 2, INF, 0.5])
    cells.cut_largest(many)
    for row in range(5):
        starts = []
        for unit in range(7):
            alone = intervals([0.0], [[INF, 1, 2, INF, 0.5][row]])
            alone.cut_largest(many[:, row : row + 1, unit : unit + 1])
            starts += alone.lo[1:].tolist()
        assert cells.lo[cells.ray == row][1:].tolist() == pytest.approx(sorted(starts), rel=1e-14)


@pytest.mark.parametrize("limit", [3, 16])
def test_small_blocks_give_the_same_pieces(limit):
    torch.manual_seed(1)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3),
    )  # fmt: skip
    instance = instances(net)[0]
    origin, direction = torch.randn(2, 3, 1, 6, 6, dtype=torch.float64)
    ends = torch.zeros(3, dtype=torch.float64), torch.full((3,), INF, dtype=torch.float64)
    found = []
    for size in (10**6, limit):
        cells = Intervals(origin, direction, torch.arange(3), *ends, limit=size)
        rows = [
            torch.cat([b.ray[:, None], b.lo[:, None], b.hi[:, None], *out.coefs], 1)
            for b, out in sweep(instance, cells)
        ]
        assert all(len(r) <= size for r in rows)
        table = torch.cat(rows)
        order = sorted(range(len(table)), key=lambda i: (table[i, 0].item(), table[i, 1].item()))
        found.append(table[order])
    assert len(found[0]) > 40
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-11)
