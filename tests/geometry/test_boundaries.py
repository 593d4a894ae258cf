"""Class boundaries against closed forms, the network on them, and changes of class along lines."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

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


def centered(net):
    """The network with every logit as large as the others on average over the box."""
    with torch.no_grad():
        net[-1].bias -= net(torch.rand(1000, 2, dtype=torch.float64) * 10 - 5).mean(0)
    return net


def sign_changes(net, start, stop, count=20_001):
    """How often the largest logit changes hands on a line, by brute force."""
    t = torch.linspace(0, 1, count, dtype=torch.float64)[:, None]
    with torch.no_grad():
        best = net(start + t * (stop - start)).argmax(1)
    return int((best.diff() != 0).sum())


def crossings(segments, start, stop):
    """How many segments a line meets."""
    a, b = segments[:, 0], segments[:, 1]
    way = stop - start

    def side(p, q, r):
        return (q[..., 0] - p[..., 0]) * (r[..., 1] - p[..., 1]) - (q[..., 1] - p[..., 1]) * (
            r[..., 0] - p[..., 0]
        )

    one = side(start, start + way, a) * side(start, start + way, b) < 0
    two = side(a, b, start.expand_as(a)) * side(a, b, stop.expand_as(a)) < 0
    return int((one & two).sum())


def check_ties(net, segments, classes, tolerance=1e-9):
    for share in (0.0, 0.31, 0.77, 1.0):
        points = segments[:, 0] + share * (segments[:, 1] - segments[:, 0])
        with torch.no_grad():
            logits = net(points)
        scale = logits.abs().amax(1, keepdim=True) + 1
        top = logits.amax(1, keepdim=True)
        assert ((top - logits.gather(1, classes)) <= tolerance * scale).all()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("classes", [2, 4])
def test_segments_are_ties_and_none_is_missing(seed, classes):
    net = centered(network((2, 10, 8, classes), seed, bias=2.0))
    found = regions(net, BOX).boundaries
    check_ties(net, found.segments, found.classes)
    assert len(found) > 5
    assert not found.endless.any()
    assert found.segments.abs().max() <= 5.0
    rng = torch.Generator().manual_seed(seed)
    for _ in range(40):
        start, stop = torch.rand(2, 2, generator=rng, dtype=torch.float64) * 10 - 5
        assert crossings(found.segments, start, stop) == sign_changes(net, start, stop)


@pytest.mark.parametrize("seed", range(4))
def test_whole_plane_boundaries_run_to_infinity(seed):
    net = network((2, 8, 6, 3), seed, bias=2.0)
    whole = regions(net)
    found = whole.boundaries
    finite = ~found.endless
    check_ties(net, found.segments[finite], found.classes[finite])
    start = found.segments[found.endless, 0]
    way = found.segments[found.endless, 1] - start
    assert torch.allclose(way.norm(dim=1), torch.ones(len(way), dtype=torch.float64))
    check_ties(net, torch.stack([start, start + 1e4 * way], 1), found.classes[found.endless])
    far = 1e7
    angle = torch.linspace(0, 2 * np.pi, 40_001, dtype=torch.float64)[:-1]
    circle = far * torch.stack([angle.cos(), angle.sin()], 1)
    with torch.no_grad():
        best = net(circle).argmax(1)
    assert int((best != best.roll(1)).sum()) == len(found.directions) == len(way)
    reach = 2.0 * whole.vertices.abs().max().item()
    boxed = regions(net, [(-reach, reach), (-reach, reach)]).boundaries
    assert len(boxed.directions) == len(found.directions)
    gaps = (boxed.directions[:, None] - found.directions[None]).abs().amax(2).amin(1)
    assert (gaps < 1e-9).all()


def test_a_straight_line_in_closed_form():
    net = nn.Sequential(linear([[1, 1], [0, 0]], [-1, 0]))
    found = regions(net, BOX).boundaries
    assert found.classes.tolist() == [[0, 1]]
    ends = sorted(found.segments[0].tolist())
    assert ends == [pytest.approx([-4.0, 5.0]), pytest.approx([5.0, -4.0])]
    ways = sorted(found.directions.tolist())
    half = 0.5**0.5
    assert ways == [pytest.approx([-half, half]), pytest.approx([half, -half])]
    whole = regions(net).boundaries
    assert sorted(whole.directions.tolist()) == [
        pytest.approx([-half, half]),
        pytest.approx([half, -half]),
    ]
    assert int(whole.endless.sum()) == 2


def test_three_classes_meet_in_one_point():
    net = nn.Sequential(linear([[1, 0], [-1, 1], [-1, -1]], [0, 0, 0]))
    found = regions(net, BOX).boundaries
    assert sorted(found.classes.tolist()) == [[0, 1], [0, 2], [1, 2]]
    nearest = found.segments.norm(dim=2).amin(1)
    assert nearest.max() < 1e-12
    assert len(found.directions) == 3


def test_a_boundary_along_an_edge_is_given_once():
    """x as relu(x) - relu(-x): the boundary is the edge of the two pieces."""
    net = nn.Sequential(
        linear([[1, 0], [-1, 0]], [0, 0]), nn.ReLU(), linear([[1, -1], [0, 0]], [0, 0])
    )
    found = regions(net, BOX)
    assert len(found) == 2
    assert len(found.boundaries) == 1
    assert sorted(found.boundaries.segments[0].tolist()) == [[0.0, -5.0], [0.0, 5.0]]


def test_pieces_that_are_tied_everywhere_are_named():
    net = nn.Sequential(linear([[1, 0]], [0]), nn.ReLU(), linear([[1], [0], [-1]], [0, 0, -1]))
    found = regions(net, BOX)
    tied = found.boundaries.tied
    assert tied.tolist() == found.locate([[-1.0, 0.0]]).tolist()


def test_many_classes_and_no_boundary():
    net = network((2, 6, 12), 0)
    with torch.no_grad():
        net[-1].bias[3] += 1000
    found = regions(net, BOX).boundaries
    assert len(found) == 0
    assert found.segments.shape == (0, 2, 2)
