"""`nescio guard`, `score` and `predict` for a regression, from tables."""

import csv

import pytest
import torch
from click.testing import CliRunner

from nescio.cli.main import main

NET = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
"""


def table(path, count, seed):
    draw = torch.Generator().manual_seed(seed)
    x = 6 * torch.rand(count, 2, generator=draw) - 3
    y = x[:, 0].sin() + 0.2 * torch.randn(count, generator=draw)
    rows = [f"{a:.5f},{b:.5f},{c:.5f},{2 * c + b:.5f}" for (a, b), c in zip(x, y, strict=True)]
    path.write_text("\n".join(["a,b,price,other", *rows]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("regression")
    for seed, (name, count) in enumerate({"train": 300, "old": 400, "new": 50}.items()):
        table(place / f"{name}.csv", count, seed)
    (place / "numbers_net.py").write_text(NET)
    return place


@pytest.fixture
def run(folder, monkeypatch):
    monkeypatch.chdir(folder)

    def invoke(*words, code=0):
        result = CliRunner().invoke(main, list(map(str, words)))
        assert result.exit_code == code, result.output
        return result.output

    return invoke


def test_a_trained_table_is_guarded_and_scored(run, folder):
    run("train", "deep_ensemble", "--data", "train.csv:without=other", "--target", "price",
        "--run", "run", "--epochs", 5, "-o", "members=2")  # fmt: skip
    said = run("guard", "run", "--calibration", "old.csv", "--train", "train.csv", "--data",
               "new.csv", "--false-alarm", 0.02, "--risk", 0.2)  # fmt: skip
    assert "Intervals: the intervals" in said
    assert "interval_coverage" in said
    run("score", "guard.safetensors", "new.csv:keep=other", "--out", "d.csv")
    with (folder / "d.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 50
    columns = "sample other decision mean low high width p_value score rule in_range"
    assert list(rows[0]) == columns.split()
    assert all(float(row["low"]) <= float(row["mean"]) <= float(row["high"]) for row in rows)
    run("predict", "run", "--data", "new.csv", "--out", "p.csv")
    with (folder / "p.csv").open() as file:
        means = [float(row["mean_0"]) for row in csv.DictReader(file)]
    assert means == pytest.approx([float(row["mean"]) for row in rows], rel=1e-5)


def test_several_targets_of_a_network_of_ones_own(run, folder):
    said = run("guard", "numbers_net:make", "--head", "fixed_variance", "--calibration", "old.csv",
               "--target", "price,other", "--train", "train.csv", "--max-width", "5,20",
               "--false-alarm", 0.02, "--risk", 0.3, "--repeats",
               "--out", "two.safetensors")  # fmt: skip
    assert "all 2 targets of an input at once" in said
    run("score", "two.safetensors", "new.csv:columns=a,b", "--net", "numbers_net:make",
        "--out", "two.csv")  # fmt: skip
    header = (folder / "two.csv").read_text().splitlines()[0]
    assert "mean_price,low_price,high_price,width_price,mean_other" in header


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--by-class"], "by= is for a guard of classes"),
        (["--max-width", "wide"], "--max-width takes a number"),
        (["--intervals", "narrow"], "narrow"),
        (["--target", "price,nothing"], "nothing"),
    ],
)
def test_bad_options_are_refused(run, words, message):
    target = [] if "--target" in words else ["--target", "price,other"]
    said = run("guard", "numbers_net:make", "--head", "fixed_variance", "--calibration", "old.csv",
               *target, "--false-alarm", 0.02, *words, code=1)  # fmt: skip
    assert message in said


def test_a_target_that_is_no_number_is_refused(run, folder):
    text = (folder / "old.csv").read_text().splitlines()
    text[7] = "1,2,many,3"
    (folder / "odd.csv").write_text("\n".join(text))
    said = run("guard", "numbers_net:make", "--head", "fixed_variance", "--calibration", "odd.csv",
               "--target", "price,other", code=1)  # fmt: skip
    assert "'price' of odd.csv holds 'many'" in said
