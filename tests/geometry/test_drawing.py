"""Pictures of pieces: what is drawn is what the pieces and the network say."""

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.figure import Figure
from torch import nn

from nescio.core import NescioError
from nescio.geometry.regions.drawing import draw_regions
from nescio.geometry.regions.regions import around, regions

mpl.use("Agg")
BOX = [(-3.0, 3.0), (-3.0, 3.0)]


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4)
    ).double()


def axes():
    return Figure().subplots()


def drawn(ax, kind):
    return [c for c in ax.collections if type(c) is kind]


def area(path):
    x, y = path.vertices[:-1].T
    return abs((x * np.roll(y, -1) - y * np.roll(x, -1)).sum()) / 2


def test_classes_fill_the_box_in_the_colors_of_the_network(net):
    found = regions(net, BOX)
    ax = draw_regions(found, axes())
    cells, outlines = drawn(ax, PolyCollection)
    assert len(outlines.get_paths()) == len(found)
    assert sum(area(p) for p in cells.get_paths()) == pytest.approx(36.0, rel=1e-9)
    middles = torch.tensor(np.array([p.vertices[:-1].mean(0) for p in cells.get_paths()]))
    best = net(middles).argmax(1)
    hues = cells.get_facecolors()[:, :3]
    for c in best.unique():
        mine = 1 - hues[(best == c).numpy()]
        assert np.allclose(mine / mine.max(1, keepdims=True), mine[:1] / mine[0].max(), atol=1e-6)
    black = drawn(ax, LineCollection)[-1]
    assert len(black.get_segments()) == len(found.boundaries)
    assert ax.get_xlim() == (-3.0, 3.0)


@pytest.mark.parametrize("color_by", ["class", "confidence", "random", None])
def test_the_whole_plane_is_covered(net, color_by):
    ax = draw_regions(regions(net), axes() if color_by else None, color_by=color_by, box=BOX)
    outlines = drawn(ax, PolyCollection)[-1]
    points = np.random.default_rng(0).uniform(-3, 3, (200, 2))
    inside = sum(path.contains_points(points).astype(int) for path in outlines.get_paths())
    assert (inside == 1).all()


def test_confidence_is_that_of_the_network(net):
    ax = draw_regions(regions(net, BOX), axes(), color_by="confidence", boundary=False)
    image = ax.images[0].get_array()
    want = net(torch.tensor([[-3.0, -3.0], [3.0, -3.0]], dtype=torch.float64)).softmax(1).amax(1)
    assert image[0, [0, -1]].tolist() == pytest.approx(want.tolist(), abs=1e-9)


def test_points_of_a_slice_are_marked_where_they_lie():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 12)).double()
    images = torch.rand(3, 1, 4, 4, dtype=torch.float64)
    found = regions(net, around(images), plane=images)
    names = [f"n{i}" for i in range(12)]
    ax = draw_regions(found, axes(), points=images, labels=[0, 1, 11], names=names)
    marks = drawn(ax, PathCollection)
    at = np.concatenate([m.get_offsets() for m in marks])
    assert np.allclose(at, found.coordinates(images).numpy())
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["n0", "n1", "n11"]
    assert len({tuple(m.get_facecolors()[0]) for m in marks}) == 3


def test_merged_pieces_and_one_piece(net):
    joined = regions(net, BOX, merge=True)
    assert len(drawn(draw_regions(joined, axes()), PolyCollection)[-1].get_paths()) == len(joined)
    one = nn.Linear(2, 3).double()
    ax = draw_regions(regions(one), axes())
    assert sum(area(p) for p in drawn(ax, PolyCollection)[0].get_paths()) == pytest.approx(4.0)


def test_errors(net):
    found = regions(net, BOX)
    with pytest.raises(NescioError, match="color_by"):
        draw_regions(found, axes(), color_by="rainbow")
    with pytest.raises(NescioError, match="as many labels"):
        draw_regions(found, axes(), points=[[0.0, 0.0]], labels=[0, 1])
