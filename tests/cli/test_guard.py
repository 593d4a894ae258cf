"""`nescio guard`: from a network and calibration data to a file."""

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file
from torch import nn

from nescio import load as nescio_load
from nescio.cli.main import main

NAME = "guarded_module_of_tests"
DEFAULT = f"{NAME}:make_net"

MODULE = """
from torch import nn
def make_net():
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
"""


def test_a_guard_from_the_command_line_is_that_of_python(
    home: Path, guard: Path, draw: Callable[..., Any]
) -> None:
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    net.load_state_dict(load_file(home / "w.safetensors"))
    made = nescio_load(guard, net=net)
    assert (made.false_alarm, made.risk, made.names) == (0.02, 0.08, ("west", "east"))
    beside = json.loads((home / "g.safetensors.json").read_text())
    assert beside["guarantees"] == list(made.guarantees)
    x, y = draw(900, 2)
    truth = made(x).summary(y)
    assert beside["test"] == pytest.approx(truth)
    assert beside["groups"][0]["samples"] == len(made.rules[0].scores)


def test_a_guard_from_a_table_takes_its_columns_by_name(
    home: Path,
    nescio: Callable[..., Result],
    draw: Callable[..., Any],
    rows_of: Callable[..., Any],
    net_of: Callable[[], nn.Module],
) -> None:
    net, out = DEFAULT, "t.safetensors"
    words = ["guard", net, "--weights", "w.safetensors", "--calibration", "held.csv:columns=a,b"]
    words += ["--target", "class", "--detector", "mahalanobis", "--out", out, "--risk", "0.08"]
    result = nescio(*words, "--no-weights")
    assert result.exit_code == 0, result.output
    words = ["score", out, "new.csv", "--net", net, "--weights", "w.safetensors", "--out", "t.csv"]
    result = nescio(*words)
    assert result.exit_code == 0, result.output
    made = nescio_load(home / out, net=net_of())
    assert made.notes["columns"] == ["a", "b"]
    truth = made(draw(900, 2)[0]).columns()["decision"].tolist()
    assert [row["decision"] for row in rows_of(home / "t.csv")] == truth
    Path("lacks.csv").write_text("a,c\n1,2\n")
    words = ["score", out, "lacks.csv", "--net", net, "--weights", "w.safetensors"]
    assert "unknown column 'b'" in nescio(*words, "--out", "u.csv").output


def test_train_and_test_take_the_columns_of_data_by_name(
    home: Path,
    draw: Callable[..., Any],
    table_guard: Callable[..., Result],
    write_csv: Callable[..., None],
) -> None:
    for seed, name in ((0, "train"), (2, "test")):
        x, y = draw(800, seed)
        write_csv(home / f"{name}.csv", x, y)  # id, b, class, a
        rows = np.column_stack([x, np.zeros(800), y])
        np.savetxt(home / f"{name}2.csv", rows, "%.9g", ",", header="a,b,more,class", comments="")
    found = []
    for train, test in (("train.csv", "test.csv"), ("train2.csv", "test2.csv:without=more")):
        words = ["held.csv:columns=a,b", "--train", train, "--data", test, "--out", "n.safetensors"]
        result = table_guard(*words)
        assert result.exit_code == 0, result.output
        found.append(json.loads((home / "n.safetensors.json").read_text()))
    assert found[0]["test"] == found[1]["test"]
    assert found[0]["groups"] == found[1]["groups"]
    assert found[0]["test"]["risk"] < 0.08
    (home / "less.csv").write_text("a,class\n1,0\n2,1\n")
    for option in ("--train", "--data"):
        result = table_guard("held.csv:columns=a,b", option, "less.csv", "--out", "y.safetensors")
        assert "less.csv: unknown column 'b'" in result.output
    assert not (home / "y.safetensors").exists()


def test_a_parquet_with_text_can_calibrate(
    home: Path,
    nescio: Callable[..., Result],
    draw: Callable[..., Any],
    table_guard: Callable[..., Result],
) -> None:
    parquet, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    x, y = draw(900, 1)
    columns = {"name": [f"p{i}" for i in range(900)], "a": x[:, 0], "b": x[:, 1], "class": y}
    parquet.write_table(pa.table(columns), home / "held.parquet")
    result = table_guard("held.parquet:without=name", "--out", "q.safetensors")
    assert result.exit_code == 0, result.output
    start = [
        "guard",
        DEFAULT,
        "--weights",
        "w.safetensors",
        "--calibration",
        "held.parquet",
    ]
    assert "its columns: name, a, b, class" in nescio(*start).output


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("dropout", ["-o", "passes=2", "--calibrate", "temperature"]),
        ("deep_ensemble", ["-o", "members=2", "--calibrate", "temperature"]),
        ("bayes_by_backprop", ["-o", "passes=2"]),
    ],
)
def test_a_run_of_any_recipe_knows_its_training_data(
    home: Path, recipe: str, options: list[str], nescio: Callable[..., Result]
) -> None:
    words = ["train", recipe, "--data", "half_moons", "--run", recipe, "--epochs", "1", *options]
    assert nescio(*words).exit_code == 0
    words = [
        "guard",
        recipe,
        "--calibration",
        "half_moons",
        "--detector",
        "energy",
        "--risk",
        "0.5",
    ]
    words += ["--false-alarm", "0.1", "--no-weights", "--out", f"{recipe}.safetensors"]
    refused = nescio(*words, "--part", "train")
    assert "are among the data the model was trained on" in refused.output
    made = nescio(*words, "--part", "test")
    assert made.exit_code == 0, made.output
    assert f"INPUTS --net {recipe} --out" in made.output
    words = ["score", f"{recipe}.safetensors", "half_moons", "--out", f"{recipe}.csv"]
    lone = nescio(*words)
    assert "holds no weights; say where they are: --net RUN_FOLDER" in lone.output
    done = nescio(*words, "--net", recipe)
    assert done.exit_code == 0, done.output


def test_classes_may_be_words(
    home: Path,
    table_guard: Callable[..., Result],
    write_words: Callable[..., None],
    words_guard: Callable[..., Result],
) -> None:
    write_words(home / "words.csv", 1)
    lone = words_guard("words.csv:without=patient")
    assert "column 'way' of words.csv holds" in lone.output
    assert "in row 0 (line 2 of the file); write classes as 0, 1, ..., or name them" in lone.output
    assert "--class-names east,west" in lone.output
    assert "leave it out" not in lone.output
    wrong = words_guard("words.csv:without=patient", "--class-names", "west,north")
    assert "holds 'east' in row" in wrong.output
    assert "expected one of --class-names west, north" in wrong.output
    made = words_guard(
        "words.csv:without=patient", "--class-names", "west,east", "--out", "v.safetensors"
    )
    assert made.exit_code == 0, made.output
    same = table_guard(
        "held.csv:columns=a,b", "--class-names", "west,east", "--out", "u.safetensors"
    )
    assert same.exit_code == 0, same.output
    one, two = (json.loads((home / f"{n}.safetensors.json").read_text())["groups"] for n in "uv")
    assert one == two


def test_a_guard_of_a_network_with_several_outputs(
    home: Path, nescio: Callable[..., Result], rows_of: Callable[..., Any]
) -> None:
    save_file(
        {f"net.{n}": t for n, t in load_file(home / "w.safetensors").items()},
        home / "w2.safetensors",
    )
    words = ["guard", f"{NAME}:two", "--weights", "w2.safetensors", "--calibration", "held.npz"]
    words += ["--train", "train.npz", "--risk", "0.08", "--detector", "mahalanobis"]
    made = nescio(*words, "--output", "logits", "--out", "two.safetensors")
    assert made.exit_code == 0, made.output
    words = ["score", "two.safetensors", "new.npy", "--net", f"{NAME}:two", "--out", "two.csv"]
    done = nescio(*words)
    assert done.exit_code == 0, done.output
    assert len(rows_of(home / "two.csv")) == 900


def test_what_is_printed_is_for_people(
    home: Path, nescio: Callable[..., Result], draw: Callable[..., Any]
) -> None:
    x, y = draw(900, 2)
    x[0] = 1e6
    np.savez(home / "wide.npz", x=x, y=y)
    words = ["guard", DEFAULT, "--weights", "w.safetensors", "--calibration", "held.npz", "--data"]
    words += ["wide.npz", "--detector", "mahalanobis", "--risk", "0.08", "--out", "p.safetensors"]
    with warnings.catch_warnings(record=True) as caught:  # none comes through as such
        warnings.simplefilter("always")
        result = nescio(*words)
    assert not [one for one in caught if issubclass(one.category, UserWarning)]
    assert result.exit_code == 0, result.output
    assert (
        "without --train it was not checked whether --calibration are training samples"
        in result.output
    )
    assert "WARNING: 1 of 900 inputs" in result.output
    assert ".py:" not in result.output
    shown = dict(line.split() for line in result.output.split("tried on")[1].splitlines()[1:10])
    summary = json.loads((home / "p.safetensors.json").read_text())["test"]
    for name in ("answer", "risk", "set_coverage"):
        assert shown[name] == f"{summary[name]:.2%}"
    assert shown["inputs"] == "900"
    with_train = nescio(*words, "--train", "train.npz")
    assert "it was not checked" not in with_train.output


def test_warnings_are_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "warned_module_of_tests.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(300, 2)), dtype=torch.float32)
    x[:5] = x[5:10]
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    odds = 10 * (net(x) - net(x).mean(0)).detach()
    y = torch.multinomial(odds.softmax(1), 1)[:, 0]
    save_file(net.state_dict(), "w.safetensors")
    np.savez("held.npz", x=x.numpy(), y=y.numpy())
    words = ["guard", "warned_module_of_tests:make_net", "--weights", "w.safetensors"]
    words += ["--calibration", "held.npz", "--risk", "0.001"]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("WARNING: ")]
    assert [line.split()[1:3] for line in lines] == [["5", "of"], ["the", "guard"]]
    assert "UserWarning" not in result.output
    allowed = CliRunner().invoke(main, [*words, "--repeats"], catch_exceptions=False)
    assert "5 of" not in allowed.stderr
    assert "the guard" in allowed.stderr
