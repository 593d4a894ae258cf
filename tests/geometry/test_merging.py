"""Merged pieces against a flood fill over equal maps, areas, and networks with known counts."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from nescio.core import NescioError
from nescio.geometry.regions.regions import regions

BOX = [(-5.0, 5.0), (-5.0, 5.0)]


def network(widths, seed, *, bias=1.0):
    rng = torch.Generator().manual_seed(seed)
    layers = []
    for a, b in pairwise(widths):
        weight = torch.randn(b, a, generator=rng).double() * (2 / a) ** 0.5
        shift = torch.randn(b, generator=rng).double() * bias
        layers += [linear(weight.tolist(), shift.tolist()), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def linear(weight, bias):
    weight = torch.tensor(weight, dtype=torch.float64)
    layer = nn.Linear(weight.shape[1], weight.shape[0]).double()
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(torch.tensor(bias, dtype=torch.float64))
    return layer


def shoelace(polygon):
    after = polygon.roll(-1, 0)
    return ((polygon[:, 0] * after[:, 1] - polygon[:, 1] * after[:, 0]).sum() / 2).item()


def check(net, found):
    assert found.areas.sum().item() == pytest.approx(100.0, rel=1e-9)
    for polygon, area in zip(found.polygons, found.areas.tolist(), strict=True):
        assert shoelace(polygon) == pytest.approx(area, rel=1e-6, abs=1e-7)
    points = torch.rand(500, 2, dtype=torch.float64) * 10 - 5
    with torch.no_grad():
        want = net(points)
    assert torch.allclose(found.evaluate(points), want, rtol=1e-7, atol=1e-7)


def neighbors_by_steps(found):
    """Pieces of the parts that touch along an edge, found by small steps across their edges."""
    parts = found.parts
    pairs = set()
    for i, polygon in enumerate(parts.polygons):
        after = polygon.roll(-1, 0)
        along = after - polygon
        out = torch.stack([along[:, 1], -along[:, 0]], 1)
        length = out.norm(dim=1, keepdim=True)
        middle = (polygon + after) / 2 + 1e-6 * out / length.clamp(min=1e-300)
        wide = length[:, 0] > 1e-3
        for j in parts.locate(middle[wide]).tolist() if wide.any() else []:
            if j >= 0 and j != i:
                pairs.add((i, j))
    return pairs


def test_dead_units_hide_bends():
    """Behind x > 0 the second layer is off: its lines there bend nothing."""
    net = nn.Sequential(
        linear([[1, 0], [0, 1]], [0, 0]),
        nn.ReLU(),
        linear([[-1, -1], [-1, 1]], [-1, -9]),
        nn.ReLU(),
        linear([[1, 1], [0, 0]], [0, 0]),
    )
    found = regions(net, BOX)
    assert len(found) == 4
    joined = regions(net, BOX, merge=True)
    assert len(joined) == 1
    assert joined.areas.item() == pytest.approx(100.0)
    assert joined.group.tolist() == [0, 0, 0, 0]
    check(net, joined)


def test_a_hole_is_joined_to_the_outline():
    """A pyramid on a plain: the plain is one piece with a hole."""
    net = nn.Sequential(
        linear([[1, 1], [-1, -1], [1, -1], [-1, 1]], [0, 0, 0, 0]), nn.ReLU(),
        linear([[-1, -1, -1, -1]], [2.0]), nn.ReLU(), linear([[1], [0]], [0, 0]),
    )  # fmt: skip
    found = regions(net, BOX, merge=True)
    assert len(found) == 5
    plain = found.areas.argmax().item()
    ring = found.polygons[plain]
    assert shoelace(ring) == pytest.approx(found.areas[plain].item())
    assert found.locate([[0.0, 4.0], [0.0, -4.0], [4.5, 4.5]]).tolist() == [plain] * 3
    check(net, found)


@given(
    seed=st.integers(0, 10_000),
    widths=st.lists(st.integers(1, 5), min_size=2, max_size=3),
    bias=st.sampled_from([0.0, 0.5, 2.0]),
)
@settings(deadline=None, max_examples=40)
def test_neighbors_are_one_exactly_where_their_maps_are(seed, widths, bias):
    net = network((2, *widths, 2), seed, bias=bias)
    found = regions(net, BOX, merge=True)
    check(net, found)
    maps, group = found.parts.maps, found.group
    for i, j in neighbors_by_steps(found):
        gap = (maps[i] - maps[j]).abs().max().item()
        size = torch.maximum(maps[i].abs(), maps[j].abs()).max().item()
        if gap <= 1e-10 * size:
            assert group[i] == group[j]
        elif gap > 1e-6 * size:
            assert group[i] != group[j]


def test_boundaries_of_merged_pieces_are_the_same():
    net = network((2, 8, 6, 3), 3)
    plain, joined = regions(net, BOX), regions(net, BOX, merge=True)
    assert torch.equal(plain.boundaries.segments, joined.boundaries.segments)
    assert torch.equal(joined.group[plain.boundaries.region], joined.boundaries.region)


def test_marks_of_merged_pieces():
    net = nn.Sequential(
        linear([[1, 0], [0, 1]], [0, 0]), nn.ReLU(), linear([[1, 0], [0, 0]], [0, 0])
    )
    found = regions(net, BOX, merge=True)
    left, right = found.locate([[-1.0, 1.0], [1.0, 1.0]]).tolist()
    assert len(found) == 2
    assert left != right
    assert found.unbounded.all()
    assert found.spread.tolist() == pytest.approx([torch.pi, torch.pi])
    assert found.towards[left].tolist() == [True, False, True, True]
    assert found.directions.isnan().all()


def test_the_whole_plane_is_refused():
    with pytest.raises(NescioError, match="needs a box"):
        regions(network((2, 3, 2), 0), merge=True)
