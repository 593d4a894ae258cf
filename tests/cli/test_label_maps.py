"""Label maps on the command line: a guard that answers pixels, and its decisions in a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from numpy.typing import NDArray

import nescio
from nescio import models, nets
from nescio.cli.main import main

Command = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    models.plain(nets.dilated_cnn((3, 5, 7), 3, width=4, depth=1, dropout=0.3)).save("run")
    rng = np.random.default_rng(0)
    for name, count in {"calibration": 30, "test": 12}.items():
        x = rng.random((count, 3, 5, 7), dtype=np.float32)
        y = x.argmax(1).astype(np.uint8)
        y[:, 0] = 255
        np.savez(f"{name}.npz", x=x, y=y)
    return lambda *words: CliRunner().invoke(main, words)


def guarded(command: Command, *more: str) -> Result:
    words = ["guard", "run", "--calibration", "calibration.npz", "--ignore-index", "255"]
    return command(*words, "--out", "g.safetensors", *more)


def arrays(path: str) -> dict[str, NDArray[Any]]:
    with np.load(path) as file:
        return dict(file)


def test_a_guard_of_label_maps_is_made_tried_and_used(command: Command) -> None:
    more = ["--risk", "0.4", "--passes", "3", "--failure", "mutual_information"]
    result = guarded(command, *more, "--data", "test.npz", "--class-names", "a,b,c")
    assert result.exit_code == 0, result.output
    assert "at most 40 % are answered and wrong" in result.output
    assert "--out maps.npz" in result.output
    made = nescio.load("g.safetensors")
    assert (made.passes, made.measure, made.names) == (3, "mutual_information", ("a", "b", "c"))
    test = arrays("test.npz")
    beside = json.loads(Path("g.safetensors.json").read_text())
    assert beside["test"] == pytest.approx(made(test["x"]).summary(test["y"]))
    assert beside["guarantees"] == list(made.guarantees)
    result = command("score", "g.safetensors", "test.npz", "--out", "maps.npz")
    assert result.exit_code == 0, result.output
    assert "12 images" in result.output
    written, found = arrays("maps.npz"), made(test["x"])
    assert np.array_equal(written["label"], found.labels)
    assert np.array_equal(written["answered"], found.answered)
    np.testing.assert_allclose(written["failure_score"], found.failure_score, atol=1e-7)


def test_what_does_not_fit_label_maps_is_said(command: Command) -> None:
    result = guarded(command, "--risk", "0.01")
    assert result.exit_code != 0
    assert "30 labeled images are too few for risk=0.01: it takes 99" in result.output
    assert guarded(command, "--risk", "0.4").exit_code == 0
    result = command("score", "g.safetensors", "test.npz", "--out", "maps.csv")
    assert "--out must end in .npz" in result.output
    result = command("monitor", "g.safetensors", "test.npz", "--state", "m.safetensors")
    assert result.exit_code != 0
    assert "guards label maps" in result.output
    result = guarded(command, "--failure", "entropy")
    assert "predictive_entropy" in result.output


def test_a_run_with_dropout_and_files_without_labels(command: Command) -> None:
    words = ["--ignore-index", "255", "--net", "unet,width=2,depth=2", "--epochs", "1"]
    trained = command("train", "dropout", "--data", "calibration.npz", *words, "--run", "passes")
    assert trained.exit_code == 0, trained.output
    guard = ["guard", "passes", "--ignore-index", "255", "--passes", "2", "--out", "g.safetensors"]
    result = command(*guard, "--calibration", "test.npz", "--risk", "0.5")
    assert result.exit_code == 0, result.output
    assert "without dropout passes" not in result.output
    x = arrays("test.npz")["x"]
    np.savez("ignored.npz", x=x, y=np.full((12, 5, 7), 255, np.uint8))
    result = command(*guard, "--calibration", "ignored.npz")
    assert result.exit_code == 1
    assert "labels are ignored: each is ignore_index=255" in result.output
