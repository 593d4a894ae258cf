"""Pictures of linear regions: every number against the network itself, or by hand."""

import json
import sys
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.collections import PolyCollection
from torch import nn

from nescio import NescioError, geometry, models, nets
from nescio.geometry.regions.picture import class_shares, picture

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


def test_progress_shows_the_share_of_the_box(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    net = net_of(2, 20, 20, 2)
    monkeypatch.setattr(sys.modules["nescio.geometry.regions.regions"], "BYTES", 1 << 14)
    found = picture(net, BOX)
    err = capsys.readouterr().err
    assert "100/100" in err
    assert f"{len(found.regions[0]):,} pieces" in err


def test_a_crash_leaves_no_half_file(tmp_path, monkeypatch):
    found = picture(net_of(2, 6, 3), BOX)
    found.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(NescioError, match="cannot write"):
        found.save(tmp_path)
    assert {path.name: path.read_bytes() for path in Path(tmp_path).iterdir()} == before
