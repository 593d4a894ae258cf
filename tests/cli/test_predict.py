"""`nescio predict`: the tables it writes."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from nescio import train
from nescio.cli.predict import predict
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
    monkeypatch.setattr("nescio.cli.predict.BLOCK", block)
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
