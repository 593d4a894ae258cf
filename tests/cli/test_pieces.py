"""`nescio pieces`: what is drawn, of which samples, and what is refused."""

import json

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.collections import PathCollection
from torch import nn

import nescio
from nescio import NescioError, models, nets
from nescio.calibration import scaled as scaled_by
from nescio.cli.work.pieces import picture_files, picture_moons
from nescio.geometry.regions.picture import around_data, picture
from nescio.models.model import Model
from nescio.models.predictor import Pooled
from nescio.nets.stack import stack

mpl.use("Agg")
BOX = ((-3.0, 3.0), (-2.0, 2.0))


def net_of(*widths, seed=0):
    torch.manual_seed(seed)
    net = nets.mlp(widths[0], widths[-1], widths=widths[1:-1]).double()
    for parameter in net.parameters():
        nn.init.normal_(parameter)
    return net


def logits(net, x):
    with torch.no_grad():
        return net(x)


@pytest.fixture
def npz(tmp_path):
    path = tmp_path / "samples.npz"
    rng = np.random.default_rng(0)
    np.savez(path, x=rng.normal(size=(20, 2)).astype(np.float32), y=rng.integers(3, size=20))
    return str(path)


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
            "reads class logits",
        ),
        (lambda npz: picture(lambda x: x), "shows no networks"),
    ],
)
def test_what_cannot_be_drawn_is_refused(npz, call, said):
    with pytest.raises(NescioError, match=said):
        call(npz)


def test_pieces_of_a_users_network(folder, nescio, own):
    words = ["pieces", own(folder), "--weights", "w.safetensors", "--merge", "--out", "p"]
    result = nescio(*words, "--box", "-3", "3", "-1", "2", "--color", "confidence")
    assert result.exit_code == 0, result.output
    assert "box [-3, 3] x [-1, 2]" in result.output
    found = json.loads((folder / "p" / "pieces.json").read_text())
    with np.load(folder / "p" / "pieces.npz") as file:
        assert len(file["maps"]) == found["pictured"][0]["merged"] > 1
        assert file["areas"].sum() == pytest.approx(18.0)
    assert (folder / "p" / "pieces.png").stat().st_size > 10_000
    result = nescio(*words, "--data", "test.npz", "--samples", "0", "1", "2")
    assert "through samples 0, 1, 2" in result.output


def test_pieces_without_a_network(folder, nescio):
    result = nescio("pieces", "--box", "-1", "1", "-1", "1", "--seed", "1")
    assert result.exit_code == 0, result.output
    assert "area of class 1" in result.output
    assert (folder / "nescio-pieces" / "pieces.png").exists()
