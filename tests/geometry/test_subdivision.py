"""Pieces of small networks against exact fractions, activation patterns and the network itself."""

from fractions import Fraction
from itertools import pairwise
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from nescio.core import NescioError
from nescio.geometry.regions.regions import (
    around,
    montufar,
    regions,
    serra,
    stream_regions,
    zaslavsky,
)
from nescio.models import ensemble, mc_dropout

BOX = [(-5.0, 5.0), (-5.0, 5.0)]


def network(widths, seed, *, bias=1.0, activation=nn.ReLU):
    rng = torch.Generator().manual_seed(seed)
    layers = []
    for i, (a, b) in enumerate(pairwise(widths)):
        layer = nn.Linear(a, b).double()
        with torch.no_grad():
            layer.weight.copy_(torch.randn(b, a, generator=rng).double() * (2 / a) ** 0.5)
            layer.bias.copy_(torch.randn(b, generator=rng).double() * bias)
        layers += [layer] if i == len(widths) - 2 else [layer, activation()]
    return nn.Sequential(*layers).eval()


def linear(weight, bias):
    weight = torch.tensor(weight, dtype=torch.float64)
    layer = nn.Linear(weight.shape[1], weight.shape[0]).double()
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(torch.tensor(bias, dtype=torch.float64))
    return layer


# -- oracles


def exact_pieces(net, box):
    """Areas and maps of all pieces with exact fractions, cut by one unit after the other."""
    (left, right), (bottom, top) = [[Fraction(v) for v in side] for side in box]
    start = [(left, bottom), (right, bottom), (right, top), (left, top)]
    cells = [(start, [[Fraction(1), 0, 0], [0, Fraction(1), 0]])]
    for layer in net:
        if isinstance(layer, nn.Linear):
            w = [[Fraction(v) for v in row] for row in layer.weight.tolist()]
            b = [Fraction(v) for v in layer.bias.tolist()]
            cells = [(polygon, _affine(rows, w, b)) for polygon, rows in cells]
        else:
            for unit in range(len(cells[0][1])):
                for point, below, above in _bends(layer):
                    cells = [new for cell in cells for new in _cut(cell, unit, point, below, above)]
    return cells


def _affine(rows, w, b):
    out = []
    for weights, shift in zip(w, b, strict=True):
        row = [sum(w * r[k] for w, r in zip(weights, rows, strict=True)) for k in range(3)]
        out.append([row[0], row[1], row[2] + shift])
    return out


def _bends(layer):
    """(bend point, map of z below, map of z above), each map a slope and an offset."""
    if isinstance(layer, nn.LeakyReLU):
        return [(Fraction(0), (Fraction(layer.negative_slope), Fraction(0)), None)]
    if isinstance(layer, nn.Hardtanh):
        return [
            (Fraction(layer.min_val), (Fraction(0), Fraction(layer.min_val)), None),
            (Fraction(layer.max_val), None, (Fraction(0), Fraction(layer.max_val))),
        ]
    return [(Fraction(0), (Fraction(0), Fraction(0)), None)]


def _cut(cell, unit, point, below, above):
    polygon, rows = cell
    h = [rows[unit][0], rows[unit][1], rows[unit][2] - point]
    values = [h[0] * x + h[1] * y + h[2] for x, y in polygon]

    def made(corners, change):
        if change is None:
            return corners, rows
        slope, shift = change
        new = [slope * rows[unit][0], slope * rows[unit][1], slope * rows[unit][2] + shift]
        return corners, [*rows[:unit], new, *rows[unit + 1 :]]

    if all(v >= 0 for v in values) and any(v > 0 for v in values):
        return [made(polygon, above)]
    if all(v <= 0 for v in values):
        return [made(polygon, below)]
    parts = []
    for sign, change in ((1, above), (-1, below)):
        corners = []
        for i, (p, v) in enumerate(zip(polygon, values, strict=True)):
            q, w = polygon[i - 1], values[i - 1]
            if v * w < 0:
                corners.append(tuple((v * b - w * a) / (v - w) for a, b in zip(p, q, strict=True)))
            if v * sign >= 0:
                corners.append(p)
        parts.append(made(corners, change))
    return parts


def exact_area(polygon):
    sums = (
        a[0] * b[1] - a[1] * b[0] for a, b in zip(polygon, polygon[1:] + polygon[:1], strict=True)
    )
    return abs(sum(sums)) / 2


def patterns(net, x):
    """On which side of every bend and by which member of every window each sample passes."""
    seen = []

    def watch(module, inputs):
        z = inputs[0]
        if isinstance(module, nn.MaxPool2d):
            found = F.max_pool2d(z, module.kernel_size, module.stride, return_indices=True)[1]
        elif isinstance(module, nn.Hardtanh):
            found = (z > module.min_val).long() + (z > module.max_val).long()
        else:
            found = (z > 0).long()
        seen.append(found.flatten(1))

    kinds = (nn.ReLU, nn.LeakyReLU, nn.Hardtanh, nn.MaxPool2d)
    hooks = [m.register_forward_pre_hook(watch) for m in net.modules() if isinstance(m, kinds)]
    with torch.no_grad():
        net(x)
    for hook in hooks:
        hook.remove()
    return torch.cat(seen, 1)


def inner_points(found, seed=0, each=3):
    """Random points well inside each polygon, and their pieces."""
    rng = np.random.default_rng(seed)
    points = [(rng.dirichlet(np.full(len(p), 3.0), each) @ p.numpy()) for p in found.polygons]
    return torch.from_numpy(np.concatenate(points)), torch.arange(len(found)).repeat_interleave(
        each
    )


def check(net, found, *, area=None, distinct=True):
    """A partition: areas add up, one pattern inside each piece, no pattern twice, exact maps."""
    if area is not None:
        assert found.areas.sum().item() == pytest.approx(area, rel=1e-12)
    assert (found.areas > 0).all()
    points, owner = inner_points(found)
    x = found.inputs(points)
    with torch.no_grad():
        logits = net(x)
    mapped = (
        torch.einsum("ncd,nd->nc", found.maps[owner][..., :2], points) + found.maps[owner][..., 2]
    )
    assert torch.allclose(mapped, logits, rtol=1e-9, atol=1e-9 * logits.abs().max().item())
    signs = patterns(net, x).reshape(len(found), 3, -1)
    assert (signs == signs[:, :1]).all()
    if distinct:
        assert len(signs[:, 0].unique(dim=0)) == len(found)


# -- counts


@pytest.mark.parametrize("activation", [nn.ReLU, lambda: nn.LeakyReLU(0.125), nn.Hardtanh])
@pytest.mark.parametrize("seed", range(4))
def test_equals_exact_fractions(activation, seed):
    net = network((2, 5, 4, 3), seed, activation=activation)
    exact = exact_pieces(net, BOX)
    found = regions(net, BOX)
    assert len(found) == len(exact)
    areas = sorted(float(exact_area(polygon)) for polygon, _ in exact)
    assert found.areas.sort().values.tolist() == pytest.approx(areas, rel=1e-9, abs=1e-12)
    for polygon, rows in exact:
        middle = [float(sum(p[k] for p in polygon) / len(polygon)) for k in (0, 1)]
        piece = found.locate([middle]).item()
        want = torch.tensor([[float(v) for v in row] for row in rows], dtype=torch.float64)
        assert torch.allclose(found.maps[piece], want, rtol=1e-9, atol=1e-10)


@given(
    seed=st.integers(0, 10_000),
    widths=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    bias=st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    activation=st.sampled_from([nn.ReLU, nn.LeakyReLU, nn.Hardtanh]),
)
@settings(deadline=None, max_examples=25)
def test_is_a_partition_into_activation_patterns(seed, widths, bias, activation):
    net = network((2, *widths, 3), seed, bias=bias, activation=activation)
    found = regions(net, BOX)
    check(net, found, area=100.0)
    points = torch.rand(500, 2, dtype=torch.float64) * 10 - 5
    with torch.no_grad():
        want = net(points)
    assert torch.allclose(found.evaluate(points), want, rtol=1e-9, atol=1e-9)
    assert len(found) <= min(found.bounds.values())


@given(seed=st.integers(0, 10_000), weights=st.data())
@settings(deadline=None, max_examples=25)
def test_small_whole_numbers_give_many_coincidences(seed, weights):
    """Lines through corners, equal, parallel and dead units: counted as fractions count them."""
    numbers = st.integers(-2, 2)
    rows = [
        linear(
            weights.draw(
                st.lists(st.lists(numbers, min_size=a, max_size=a), min_size=b, max_size=b)
            ),
            weights.draw(st.lists(numbers, min_size=b, max_size=b)),
        )
        for a, b in ((2, 4), (4, 4), (4, 2))
    ]
    net = nn.Sequential(rows[0], nn.ReLU(), rows[1], nn.ReLU(), rows[2])
    box = [(-2.0, 2.0), (-2.0, 2.0)]
    exact, found = exact_pieces(net, box), regions(net, box)
    assert len(found) == len(exact)
    areas = sorted(float(exact_area(polygon)) for polygon, _ in exact)
    assert found.areas.sort().values.tolist() == pytest.approx(areas, rel=1e-9)
    for polygon, mapping in exact:
        middle = [float(sum(p[k] for p in polygon) / len(polygon)) for k in (0, 1)]
        want = [
            float(row[0] * Fraction(middle[0]) + row[1] * Fraction(middle[1]) + row[2])
            for row in mapping
        ]
        assert found.evaluate([middle])[0].tolist() == pytest.approx(want, abs=1e-9)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = (
            network((2, 6, 2), 1),
            network((2, 5, 2), 2),
            nn.Linear(2, 3),
        )

    def forward(self, x):
        x = x + self.first(x)
        return self.last(x + self.second(x))


def test_residual_networks():
    torch.manual_seed(0)
    net = Residual().double().eval()
    found = regions(net, BOX)
    check(net, found, area=100.0)
    assert len(found) > 20
    assert list(found.bounds) == ["Zaslavsky 1975, layer by layer"]


@pytest.fixture(scope="module")
def images():
    torch.manual_seed(3)
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(3, 4, 3),
        nn.ReLU(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(16, 3),
    ).double()
    return net.eval(), torch.rand(3, 1, 10, 10, dtype=torch.float64)


def test_a_slice_through_three_images(images):
    net, x = images
    found = regions(net, [(0.0, 1.0), (-0.5, 1.0)], plane=x)
    check(net, found, area=1.5)
    assert len(found) > 500
    (left, right), (bottom, top) = around(x, 0.0)
    assert (left, bottom) == pytest.approx((0.0, 0.0))
    found = regions(net, [(left, right), (bottom, top)], plane=x)
    corners = found.coordinates(x)
    assert torch.allclose(found.inputs(corners), x, atol=1e-12)
    assert torch.allclose(found.evaluate(corners), net(x), atol=1e-10)


def test_pooling_makes_no_cut_between_members_that_lose():
    """The largest of x, y, -x, -y: four cells, not the eight of all differences."""

    class Largest(nn.Module):
        def forward(self, x):
            return torch.cat([torch.cat([x, -x], 1).amax(1, keepdim=True), x[:, :1]], 1)

    found = regions(Largest(), [(-1.0, 1.0), (-1.0, 1.0)])
    assert len(found) == 4
    assert found.areas.tolist() == pytest.approx([1.0] * 4)
    whole = regions(Largest())
    assert whole.seam
    points = torch.randn(200, 2, dtype=torch.float64)
    assert torch.allclose(whole.evaluate(points)[:, 0], points.abs().amax(1))


# -- degenerate networks


@pytest.mark.parametrize(
    ("weight", "bias", "pieces", "plane", "seam"),
    [
        ([[1, 0], [1, 0], [2, 0]], [0, 0, 0], 2, 4, True),  # three times the same line
        ([[1, 0], [0, 0], [0, 1]], [0, 1, 0], 4, 4, False),  # a unit without weights
        ([[1, 0], [1, 0], [1, 0]], [0, 1, 2], 3, 8, True),  # parallel lines, one on a side
        ([[1, 1], [1, -1], [1, 0]], [0, 0, 0], 6, 6, False),  # all through one point
        ([[1, 1], [1, 0], [0, 1]], [2, 1, 1], 6, 6, False),  # through one point elsewhere
        ([[0, 0], [0, 0], [0, 0]], [1, -1, 0], 1, 1, False),  # constant
        ([[1, 1], [1, -1], [1, 0]], [0, 0, -2], 4, 7, False),  # through the corners of the box
        ([[1, 1], [1, 0], [0, 1]], [-4, -2, 9], 1, 7, False),  # touches a corner
        ([[1, 0], [-1, 0], [0, 1]], [2, 2, -2], 1, 6, False),  # the sides of the box
    ],
)
def test_degenerate_layers(weight, bias, pieces, plane, seam):
    net = nn.Sequential(linear(weight, bias), nn.ReLU(), linear([[1, 2, 3], [3, 2, 1]], [0, 0]))
    found = regions(net, [(-2.0, 2.0), (-2.0, 2.0)])
    assert len(found) == pieces
    assert found.areas.sum().item() == pytest.approx(16.0, rel=1e-14)
    whole = regions(net)
    assert (len(whole), whole.seam) == (plane, seam)
    points = torch.randn(300, 2, dtype=torch.float64) * 3
    assert torch.allclose(whole.evaluate(points), net(points), atol=1e-12)


def test_a_network_without_biases_has_cones_only():
    net = network((2, 9, 8, 3), 5, bias=0.0)
    found = regions(net)
    assert found.unbounded.all()
    assert found.offsets.diff().tolist() == [1] * len(found)
    assert found.vertices.abs().max() < 1e-12
    assert len(regions(net, BOX)) == len(found)
    assert found.spread.sum().item() == pytest.approx(2 * np.pi, rel=1e-14)


def test_a_network_without_bends_is_one_piece():
    net = network((2, 3), 0)
    whole = regions(net)
    assert len(whole) == 1
    assert whole.spread.item() == pytest.approx(2 * np.pi)
    assert whole.towards.all()
    assert whole.areas.item() == np.inf
    points = torch.randn(5, 2, dtype=torch.float64)
    assert torch.allclose(whole.evaluate(points), net(points))
    assert len(whole.polygons[0]) == 0
    boxed = regions(net, BOX)
    assert boxed.unbounded.all()
    assert boxed.areas.item() == 100.0


# -- the whole plane


def test_its_text_says_where_the_regions_are():
    net = linear([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    assert repr(regions(net)) == "Regions(1 regions, 1 without end, the whole plane)"
    assert repr(regions(net, [(-1, 1), (0, 2)])).startswith("Regions(1 regions, 1 without end, box")


@pytest.mark.parametrize("seed", range(6))
def test_the_plane_equals_a_box_that_holds_every_corner(seed):
    net = network((2, 7, 6, 3), seed, activation=(nn.ReLU, nn.LeakyReLU)[seed % 2])
    whole = regions(net)
    reach = 2.0 * whole.vertices.abs().max().item()
    boxed = regions(net, [(-reach, reach), (-reach, reach)])
    assert len(whole) == len(boxed)
    assert not whole.seam
    assert whole.unbounded.sum() == boxed.unbounded.sum()
    assert whole.spread.nansum().item() == pytest.approx(2 * np.pi, rel=1e-12)
    assert boxed.spread.nansum().item() == pytest.approx(2 * np.pi, rel=1e-9)
    points, _ = inner_points(boxed, each=1)
    match = whole.locate(points)
    assert len(match.unique()) == len(whole)
    assert (whole.unbounded[match] == boxed.unbounded).all()
    assert (whole.towards[match] == boxed.towards).all()
    assert torch.allclose(whole.spread[match], boxed.spread, atol=1e-9, equal_nan=True)
    assert torch.allclose(whole.directions[match], boxed.directions, atol=1e-9, equal_nan=True)
    assert torch.allclose(whole.maps[match], boxed.maps, rtol=1e-9, atol=1e-9)
    inside = ~boxed.unbounded
    assert torch.allclose(whole.areas[match][inside], boxed.areas[inside], rtol=1e-6)
    far = torch.randn(500, 2, dtype=torch.float64) * 1e6
    assert torch.allclose(whole.evaluate(far), net(far), rtol=1e-9)


def test_pieces_without_end_go_on_along_their_directions():
    net = network((2, 8, 8, 3), 11)
    whole = regions(net)
    rows = whole.unbounded.nonzero()[:, 0]
    for end, corner in ((0, -1), (1, 0)):
        starts = torch.stack([whole.polygons[i][corner] for i in rows.tolist()])
        along = starts + 1e4 * whole.directions[rows, end]
        inner = along + 1e3 * whole.directions[rows, 1 - end]
        wide = whole.spread[rows] > 1e-3
        assert (whole.locate(inner[wide]) == rows[wide]).all()


def test_marks_in_a_box_are_those_of_the_whole_piece():
    """A strip, a half-strip and half-planes, cut off by the box."""
    net = nn.Sequential(
        linear([[1, 0], [1, 0], [0, 0]], [1, -1, 1]), nn.ReLU(), linear([[1, 1, 1]], [0])
    )
    found = regions(net, BOX)
    order = found.locate([[-3.0, 0.0], [0.0, 0.0], [3.0, 0.0]])
    assert found.unbounded.all()
    assert found.spread[order].tolist() == pytest.approx([np.pi, 0.0, np.pi])
    assert found.towards[order].tolist() == [
        [True, False, True, True],
        [False, False, True, True],
        [False, True, True, True],
    ]
    strip = found.directions[order[1]]
    assert strip.abs().round(decimals=12).tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert strip.sum(0).abs().max() < 1e-12


# -- the value


def test_locate_finds_the_piece_and_its_outside():
    net = network((2, 30, 20, 2), 3)
    found = regions(net, BOX)
    points, owner = inner_points(found)
    assert (found.locate(points) == owner).float().mean() > 0.999
    assert found.locate([[5.1, 0.0], [0.0, -9.0], [0.0, 0.0]])[:2].tolist() == [-1, -1]
    assert found.evaluate([[5.1, 0.0]]).isnan().all()
    corners = found.locate(found.vertices)
    assert (corners >= 0).all()


def test_polygons_are_a_lazy_sequence_and_counter_clockwise():
    found = regions(network((2, 10, 3), 0), BOX)
    assert len(found.polygons) == len(found)
    for i, polygon in enumerate(found.polygons):
        assert torch.equal(polygon, found.polygons[i])
        after = polygon.roll(-1, 0)
        area = (polygon[:, 0] * after[:, 1] - polygon[:, 1] * after[:, 0]).sum() / 2
        assert area.item() == pytest.approx(found.areas[i].item(), rel=1e-9, abs=1e-12)
    assert torch.equal(found.polygons[-1], found.polygons[len(found) - 1])
    with pytest.raises(IndexError, match="region 47 of 47"):
        found.polygons[len(found)]


@pytest.mark.parametrize("box", [BOX, None])
def test_blocks_hold_the_same_pieces(box):
    net = network((2, 12, 10, 8, 3), 2)
    whole = regions(net, box)
    blocks = list(stream_regions(net, box, block=23))
    assert all(len(block) <= 23 for block in blocks)
    assert sum(len(block) for block in blocks) == len(whole)
    assert len(blocks) > 5
    areas = torch.cat([block.areas for block in blocks]).sort().values
    assert torch.allclose(areas, whole.areas.sort().values, rtol=1e-9)
    assert sum(int(b.unbounded.sum()) for b in blocks) == int(whole.unbounded.sum())
    spread = sum(b.spread.nansum().item() for b in blocks)
    assert spread == pytest.approx(whole.spread.nansum().item(), abs=1e-9)
    towards = sum(b.towards.sum(0) for b in blocks)
    assert torch.equal(towards, whole.towards.sum(0))


def test_blocks_of_a_pooling_network(images):
    net, x = images
    box = [(0.0, 0.6), (-0.3, 0.3)]
    whole = regions(net, box, plane=x)
    assert len(whole) > 100
    blocks = list(stream_regions(net, box, plane=x, block=16))
    assert sum(len(block) for block in blocks) == len(whole)
    assert sum(int(b.unbounded.sum()) for b in blocks) == int(whole.unbounded.sum())


def test_the_plane_through_three_points_of_two_inputs_is_a_rotation():
    net = network((2, 8, 6, 3), 4)
    plane = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], dtype=torch.float64)
    turned, straight = regions(net, plane=plane), regions(net)
    assert len(turned) == len(straight)
    x = torch.randn(200, 2, dtype=torch.float64) * 4
    assert torch.allclose(turned.evaluate(turned.coordinates(x)), net(x), atol=1e-10)


def test_the_network_is_not_changed():
    net = network((2, 5, 3), 0).float().train()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    regions(net, BOX)
    assert net.training
    assert all(
        v.dtype == torch.float32 and torch.equal(v, before[k]) for k, v in net.state_dict().items()
    )


def test_one_value_for_each_member_of_a_predictor():
    nets = [network((2, 6, 5, 3), seed).float() for seed in range(3)]
    found = regions(ensemble(nets), BOX)
    assert len(found) == 3
    points = torch.rand(50, 2, dtype=torch.float64) * 10 - 5
    for net, one in zip(nets, found, strict=True):
        assert torch.allclose(one.evaluate(points), net.double()(points), atol=1e-9)
    dropped = nn.Sequential(*network((2, 8, 6, 3), 5)[:2], nn.Dropout(0.5), *network((8, 6, 3), 6))
    passes = regions(mc_dropout(dropped.float(), passes=4, seed=1), BOX)
    assert len(passes) == 4
    assert len({len(one) for one in passes}) > 1
    want = mc_dropout(dropped.double(), passes=4, seed=1)(points).member_probs
    for one, probs in zip(passes, want, strict=True):
        assert torch.allclose(one.evaluate(points).softmax(1), probs.double(), atol=1e-5)


# -- counts from the literature


def test_published_bounds():
    assert [zaslavsky(n) for n in range(5)] == [1, 2, 4, 7, 11]
    assert zaslavsky(4, 4) == 16
    assert montufar([5, 5]) == 16**2
    assert montufar([1, 5]) == 2 * 6
    assert serra([3]) == 7
    brute = sum(
        np.prod([comb(n, j) for n, j in zip((3, 2, 4), js, strict=True)])
        for js in np.ndindex(4, 3, 5)
        if js[0] <= 2 and js[1] <= min(2, 3 - js[0]) and js[2] <= min(2, 3 - js[0], 2 - js[1])
    )
    assert serra([3, 2, 4]) == brute


def test_one_layer_in_general_position_reaches_the_bound():
    net = network((2, 12, 2), 8)
    found = regions(net)
    assert len(found) == found.bounds["Serra et al. 2018"] == 1 + 12 + 66
    assert int(found.unbounded.sum()) == 24


# -- errors


def test_errors_say_what_to_do():
    net = network((2, 3, 2), 0)
    with pytest.raises(NescioError, match="low < high"):
        regions(net, [(0, 0), (0, 1)])
    with pytest.raises(NescioError, match="low, high"):
        regions(net, [0, 1])
    with pytest.raises(NescioError, match="2 features; pass three inputs"):
        regions(network((3, 3, 2), 0), BOX)
    with pytest.raises(NescioError, match="one line"):
        regions(net, plane=[[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    with pytest.raises(NescioError, match="three inputs"):
        regions(net, plane=[[0.0, 0.0], [1.0, 1.0]])
    with pytest.raises(NescioError, match="on the plane"):
        regions(net, BOX).locate([[1.0, 2.0, 3.0]])
    with pytest.raises(NescioError, match="at least one linear region"):
        stream_regions(net, BOX, block=0)
    with pytest.raises(NescioError, match="one network"):
        stream_regions(ensemble([net, net]), BOX)
    with pytest.raises(NescioError, match="a str shows no networks"):
        stream_regions("net", BOX)
