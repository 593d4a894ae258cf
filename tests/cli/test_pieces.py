"""Pieces counted, drawn and written: every number against the network itself, or by hand."""

import json
import sys
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.collections import PathCollection, PolyCollection
from torch import nn

import nescio
from nescio import NescioError, geometry, models, nets
from nescio.calibration import scaled as scaled_by
from nescio.cli.pieces import picture_files, picture_moons
from nescio.geometry.regions.picture import around_data, class_shares, picture
from nescio.models.ensemble import Pooled
from nescio.models.model import Model
from nescio.nets.stack import stack

mpl.use("Agg")
BOX = ((-3.0, 3.0), (-2.0, 2.0))


def net_of(*widths, seed=0):
    torch.manual_seed(seed)
    net = nets.mlp(widths[0], widths[-1], widths=widths[1:-1]).double()
    for parameter in net.parameters():
        nn.init.normal_(parameter)
    return net


def layers(*weights_and_biases):
    """Linear layers with ReLU between."""
    parts = []
    for weight, bias in weights_and_biases:
        layer = nn.Linear(len(weight[0]), len(weight)).double()
        layer.weight.data = torch.tensor(weight, dtype=torch.float64)
        layer.bias.data = torch.tensor(bias, dtype=torch.float64)
        parts += [layer, nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def logits(net, x):
    with torch.no_grad():
        return net(x)


def middles(vertices, offsets):
    return torch.stack([vertices[a:b].mean(0) for a, b in pairwise(offsets)])


@pytest.fixture
def npz(tmp_path):
    path = tmp_path / "samples.npz"
    rng = np.random.default_rng(0)
    np.savez(path, x=rng.normal(size=(20, 2)).astype(np.float32), y=rng.integers(3, size=20))
    return str(path)


def test_shares_by_hand():
    split = layers(([[1.0, 0.0], [0.0, 0.0]], [0.0, 0.0]))  # class 0 where u > 0
    found = geometry.regions(split, [(-1, 3), (0, 5)])
    assert class_shares(found).tolist() == pytest.approx([0.75, 0.25], abs=1e-15)
    corner = layers(([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [0.0, 0.0, 0.0]))
    found = geometry.regions(corner, [(-1, 1), (-1, 1)])
    assert class_shares(found).tolist() == pytest.approx([3 / 8, 3 / 8, 1 / 4], abs=1e-15)


def test_shares_are_those_of_the_network_on_a_grid():
    net = net_of(2, 8, 8, 4)
    shares = class_shares(geometry.regions(net, BOX))
    assert shares.sum().item() == pytest.approx(1.0, abs=1e-12)
    torch.testing.assert_close(class_shares(geometry.regions(net, BOX, merge=True)), shares)
    u = (torch.arange(600, dtype=torch.float64) + 0.5) / 100 - 3
    v = (torch.arange(400, dtype=torch.float64) + 0.5) / 100 - 2
    kinds = logits(net, torch.cartesian_prod(u, v)).argmax(1).bincount(minlength=4)
    assert (shares - kinds / kinds.sum()).abs().max() < 2e-3
    assert (shares > 0.01).sum() > 1


def test_files_hold_what_the_network_says(tmp_path):
    net = net_of(2, 10, 8, 3)
    found = picture(net, BOX)
    assert found.save(tmp_path / "out", command=["x"]) == tmp_path / "out" / "pieces.png"
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "pieces.json",
        "pieces.npz",
        "pieces.png",
    ]
    assert (tmp_path / "out" / "pieces.png").read_bytes()[:4] == b"\x89PNG"
    with np.load(tmp_path / "out" / "pieces.npz", allow_pickle=False) as file:
        flat = {name: torch.from_numpy(file[name]) for name in file.files}
    at = middles(flat["vertices"], flat["offsets"])
    x = flat["origin"] + at @ flat["basis"]
    out = torch.einsum("ncd,nd->nc", flat["maps"], torch.cat([at, torch.ones(len(at), 1)], 1))
    torch.testing.assert_close(out, logits(net, x), rtol=1e-9, atol=1e-9)
    numbers = json.loads((tmp_path / "out" / "pieces.json").read_text())
    assert numbers["command"] == ["x"]
    assert numbers["box"] == [[-3.0, 3.0], [-2.0, 2.0]]
    (one,) = numbers["pictured"]
    assert one["pieces"] == len(at) == len(one["areas"]) == len(geometry.regions(net, BOX))
    assert one["merged"] is None
    assert sum(one["areas"]) == pytest.approx(24.0, rel=1e-12)
    assert one["bounds"]["Serra et al. 2018"] >= one["pieces"]
    ends = torch.tensor(one["boundary"]["segments"], dtype=torch.float64).reshape(-1, 2)
    top = logits(net, ends).topk(2, dim=1).values
    assert len(ends) > 0
    assert (top[:, 0] - top[:, 1]).abs().max() < 1e-9
    assert one["unbounded"]["pieces"] == flat["unbounded"].nonzero()[:, 0].tolist()


def test_the_table_says_how_many_and_where_to():
    split = layers(([[1.0, 0.0], [-1.0, 0.0]], [0.0, 0.0]), ([[1.0, -1.0], [0.0, 0.0]], [0.0, 0.0]))
    text = str(picture(split, [(-1, 1), (-1, 3)], merge=True))
    rows = [line.split() for line in text.splitlines()]
    assert ["pieces", "2"] in rows  # relu(u) - relu(-u) = u bends nowhere
    assert ["merged:", "different", "maps", "1"] in rows
    assert ["boundary", "segments", "1"] in rows
    assert ["area", "of", "class", "0", "50.0", "%"] in rows
    assert "box [-1, 1] x [-1, 3]" in text
    assert "runs to infinity at 90.0, 270.0 degrees" in text
    alone = str(picture(split, [(1, 2), (-1, 3)]))
    assert "runs to infinity" not in alone
    assert "class 1" not in alone


def test_very_large_bounds_are_short():
    torch.manual_seed(0)
    wide = nets.mlp(2, 2, widths=(500, 500, 500)).double()
    line = next(s for s in str(picture(wide, [(0, 1e-3)] * 2)).splitlines() if "Serra" in s)
    assert line.split()[-1] == "1.9e15"  # (1 + 500 + 500 * 499 / 2) ** 3 = 1.96...e15, cut off


def test_a_slice_goes_through_its_samples(tmp_path):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)).double()
    rng = np.random.default_rng(1)
    path = tmp_path / "images.npz"
    np.savez(path, x=rng.integers(0, 256, (9, 1, 4, 4), dtype=np.uint8), y=np.arange(9) % 3)
    found = picture_files(net, str(path), samples=[7, 2, 4])
    x = nescio.data.read_npz(path)[0][[7, 2, 4]].double() / 255
    (regions,) = found.regions
    at = regions.coordinates(x)
    torch.testing.assert_close(regions.evaluate(at), logits(net, x), rtol=1e-9, atol=1e-9)
    assert found.labels.tolist() == [1, 2, 1]
    assert "through samples 7, 2, 4" in str(found)
    found.save(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "pieces.json").read_text())["samples"] == [7, 2, 4]
    smaller = picture_files(net, str(path), samples=[7, 2, 4], box=(0, 1, 0, 1))
    assert smaller.box == ((0.0, 1.0), (0.0, 1.0))


def test_samples_of_two_inputs_are_marked_in_the_coordinates_of_their_plane(npz):
    net = net_of(2, 6, 3)
    found = picture_files(net, npz, samples=[3, 5, 8])
    x = nescio.data.read_npz(npz)[0].double()[[3, 5, 8]]
    far = {round(float((a - b).norm()), 9) for a in x for b in x}
    ax = found.draw().axes[0]
    placed = np.concatenate([c.get_offsets() for c in ax.collections if type(c) is PathCollection])
    assert {round(float(np.hypot(*(a - b))), 9) for a in placed for b in placed} == far
    assert [0.0, 0.0] in np.round(placed, 12).tolist()


def test_data_of_two_features_are_boxed_and_marked(npz):
    x = nescio.data.read_npz(npz)[0]
    found = picture_files(net_of(2, 6, 3), npz)
    low, high = x.amin(0).double(), x.amax(0).double()
    size = high - low
    assert torch.tensor(found.box)[:, 0].tolist() == pytest.approx((low - size / 2).tolist())
    assert torch.tensor(found.box)[:, 1].tolist() == pytest.approx((high + size / 2).tolist())
    assert picture_files(net_of(2, 6, 3), npz, box=(-1, 1, -2, 2)).box[1] == (-2.0, 2.0)
    assert picture_files(net_of(2, 6, 3)).box == ((-5.0, 5.0), (-5.0, 5.0))
    assert around_data(torch.zeros(4, 2)) == ((-1.0, 1.0), (-1.0, 1.0))


@pytest.mark.parametrize("kind", ["model", "dropout", "scaled", "pooled", "several dropouts"])
def test_the_first_members_are_the_predictors_own(kind, capsys):
    several = [net_of(2, 6, 5, 3, seed=i) for i in range(6)]
    dropping = [
        nn.Sequential(*list(net)[:2], nn.Dropout(0.5), *list(net)[2:]) for net in several[:2]
    ]
    model = models.ensemble(several)
    source, members = {
        "model": (model, 6),
        "dropout": (models.mc_dropout(dropping[0], passes=7, seed=3), 7),
        "scaled": (scaled_by(model, 0.5, (0.1, -0.2, 1.0)), 6),
        "pooled": (Pooled((models.plain(several[0]), model)), 7),
        "several dropouts": (
            models.mc_dropout(Model(dropping[0], stack(dropping), model.head), passes=3),
            6,
        ),
    }[kind]
    found = picture_files(source, box=(-3, 3, -3, 3))
    assert len(found.regions) == 4
    assert found.members == members
    assert f"{members} members: only the first 4 are shown" in capsys.readouterr().err
    x = 4 * torch.rand(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 2
    truth = source(x).logits.double()[:4]
    for one, mine in zip(found.regions, truth, strict=True):
        torch.testing.assert_close(one.evaluate(x), mine, rtol=1e-6, atol=1e-6)
    assert "member 3" in str(found)
    figure = found.draw()
    assert len(figure.axes) == 4
    assert figure.axes[1].get_title(loc="left") == f"member 1: {len(found.regions[1]):,} pieces"


def test_members_lie_one_after_the_other_in_the_file(tmp_path):
    several = [net_of(2, 6, 3, seed=i) for i in range(2)]
    found = picture(models.ensemble(several), BOX)
    found.save(tmp_path)
    with np.load(tmp_path / "pieces.npz", allow_pickle=False) as file:
        flat = {name: torch.from_numpy(file[name]) for name in file.files}
    at = middles(flat["vertices"], flat["offsets"])
    out = torch.einsum("ncd,nd->nc", flat["maps"], torch.cat([at, torch.ones(len(at), 1)], 1))
    for i, net in enumerate(several):
        mine = flat["member"] == i
        assert mine.sum() == len(geometry.regions(net, BOX))
        torch.testing.assert_close(out[mine], logits(net, at[mine]), rtol=1e-9, atol=1e-9)


def test_the_legend_names_the_colors_that_are_drawn():
    net = net_of(2, 20, 12, seed=4)
    found = picture(net, BOX)
    figure = found.draw()
    (legend,) = figure.legends
    named = {t.get_text(): p.get_facecolor() for t, p in zip(
        legend.get_texts(), legend.get_patches(), strict=True)}  # fmt: skip
    cells = next(c for c in figure.axes[0].collections if type(c) is PolyCollection)
    at = torch.tensor(np.array([p.vertices[:-1].mean(0) for p in cells.get_paths()]))
    best = logits(net, at).argmax(1)
    assert set(named) == {f"class {k}" for k in best.unique().tolist()}
    assert best.max() >= 8  # darker colors are there too
    for kind in best.unique().tolist():
        drawn = 1 - cells.get_facecolors()[int((best == kind).nonzero()[0, 0]), :3]
        shown = 1 - np.array(named[f"class {kind}"][:3])
        assert np.allclose(drawn / drawn.max(), shown / shown.max(), atol=1e-6)


@pytest.mark.parametrize("color", ["class", "confidence", "random"])
def test_every_color_is_drawn_and_saved(npz, tmp_path, color):
    found = picture_files(net_of(2, 6, 3), npz, merge=True)
    size = len(found.save(tmp_path / color, color=color).read_bytes())
    assert size > 10_000


def test_a_network_with_one_output_has_pieces_only(tmp_path, capsys):
    found = picture_files(net_of(2, 6, 1))
    assert "the network has one output: no classes, no boundary" in capsys.readouterr().err
    assert "class" not in str(found)
    found.save(tmp_path)
    (one,) = json.loads((tmp_path / "pieces.json").read_text())["pictured"]
    assert one["boundary"] is None
    assert one["shares"] is None


def test_the_moons_are_drawn_in_seconds():
    found = picture_moons(progress=False)
    x, y = nescio.data.half_moons().train
    (regions,) = found.regions
    assert (regions.evaluate(x).argmax(1) == y).double().mean() > 0.97
    assert found.box == around_data(x)
    assert len(regions) > 100
    again = picture_moons(progress=False)
    assert torch.equal(again.regions[0].maps, regions.maps)


def test_progress_shows_the_share_of_the_box(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    net = net_of(2, 20, 20, 2)
    monkeypatch.setattr(sys.modules["nescio.geometry.regions.regions"], "BYTES", 1 << 14)
    found = picture(net, BOX)
    err = capsys.readouterr().err
    assert "100/100" in err
    assert f"{len(found.regions[0]):,} pieces" in err


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda npz: picture_files(net_of(3, 4, 2)), "does not take 2 inputs.*--samples 0 1 2"),
        (lambda npz: picture_files(net_of(2, 4, 2), samples=[0, 1, 2]), "add --data"),
        (lambda npz: picture_files(net_of(2, 4, 2), "digits"), r"\(1, 8, 8\).*--samples"),
        (lambda npz: picture_files(net_of(2, 4, 2), "digits", box=(0, 1, 0, 1)), "--samples 0 1 2"),
        (lambda npz: picture_files(net_of(2, 4, 2), npz, samples=[0, 1, 20]), "from 0 to 19"),
        (lambda npz: picture_files(net_of(2, 4, 2), npz, samples=[0, -1, 2]), "from 0 to 19"),
        (lambda npz: picture_files(net_of(2, 4, 2), npz, samples=[0, 1, 1]), "on one line"),
        (lambda npz: picture_files(net_of(2, 4, 2), box=(1, -1, 0, 1)), "LOW below HIGH"),
        (lambda npz: picture_files(net_of(2, 4, 2), box=(0, 1, 1, 1)), "got 0 1 1 1"),
        (lambda npz: picture_files(net_of(2, 4, 2), box=(0, np.inf, 0, 1)), "LOW below HIGH"),
        (
            lambda npz: picture_files(nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 2))),
            "'1' .GELU.",
        ),
        (
            lambda npz: picture(models.plain(net_of(2, 4, 2), head=nescio.heads.gaussian())),
            "softmax classifiers",
        ),
        (lambda npz: picture(lambda x: x), "shows no networks"),
    ],
)
def test_what_cannot_be_drawn_is_refused(npz, call, said):
    with pytest.raises(NescioError, match=said):
        call(npz)


def test_a_crash_leaves_no_half_file(tmp_path, monkeypatch):
    found = picture(net_of(2, 6, 3), BOX)
    found.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(NescioError, match="cannot write"):
        found.save(tmp_path)
    assert {path.name: path.read_bytes() for path in Path(tmp_path).iterdir()} == before
