"""`nescio predict`: the tables it writes."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from nescio import train
from nescio.cli.main import main
from nescio.cli.predict import predict
from nescio.cli.work import predict as module
from nescio.data import digits
from nescio.nets import mlp

NAME = "guarded_module_of_tests"
DEFAULT = f"{NAME}:make_net"


def test_predict_of_a_users_network(
    folder: Path, nescio: Callable[..., Result], own: Callable[..., str]
) -> None:
    words = ["predict", own(folder), "--weights", "w.safetensors", "--data", "unlabeled.npz"]
    asked = nescio(*words, "--out", "p.csv")
    assert asked.exit_code == 1
    assert "gaussian: Mean and variance" in asked.output
    words += ["--head", "categorical"]
    assert nescio(*words, "--out", "p.csv").exit_code == 0
    lines = (folder / "p.csv").read_text().splitlines()
    header = lines[0].split(",")
    assert header[:4] == ["sample", "label", "probs_0", "probs_1"]
    assert {"predictive_entropy", "mutual_information"} <= set(header)
    assert len(lines) == 61
    assert nescio(*words, "--out", "p.npz").exit_code == 0
    with np.load(folder / "p.npz") as file:
        table = dict(file)
    row = dict(zip(header, map(float, lines[1].split(",")), strict=True))
    assert row["probs_1"] == table["probs"][0, 1]
    assert row["predictive_entropy"] == table["predictive_entropy"][0]


@pytest.mark.parametrize("block", [1, 1 << 25])
def test_bad_images_have_rows_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("nescio.cli.work.predict.BLOCK", block)
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("a.png", "c.png"):
        Image.new("L", (8, 8), 9).save(folder / name)
    (folder / "b.png").write_bytes(b"no image")
    train(lambda: mlp((1, 8, 8), 10), digits().train, epochs=1,
                 run=tmp_path / "run")  # fmt: skip
    out = tmp_path / "p.csv"
    words = [str(tmp_path / "run"), "--data", str(folder), "--out", str(out)]
    found = CliRunner().invoke(predict, words, catch_exceptions=False)
    assert "cannot read the image" in found.output
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] == "-1" for row in rows] == [False, True, False]
    assert "b.png" in rows[1]["unreadable"]
    assert rows[0]["probs_3"] == rows[2]["probs_3"]


def test_blocks_do_not_change_what_is_written(tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    train = ["train", "single", "--data", "half_moons", "--run", str(tmp_path / "r")]
    assert CliRunner().invoke(main, [*train, "--epochs", "1"]).exit_code == 0
    words = ["predict", str(tmp_path / "r"), "--data", str(tmp_path / "x.npz"), "--out"]
    for name in ("a.csv", "a.npz", "b.csv", "b.npz"):
        if name == "b.csv":
            monkeypatch.setattr(module, "BLOCK", 7 * (module.ROW + 8))
        done = CliRunner().invoke(main, [*words, str(tmp_path / name)])
        assert "50 samples, 1 member(s)" in done.output
    one, two = (np.genfromtxt(tmp_path / f"{n}.csv", delimiter=",", names=True) for n in "ab")
    assert one.dtype.names == two.dtype.names
    assert len(one) == len(two) == 50
    for name in one.dtype.names:
        np.testing.assert_allclose(one[name], two[name], rtol=1e-5, atol=1e-6)
    assert np.load(tmp_path / "b.npz")["probs"].shape == (50, 2)
