"""`nescio audit` of networks that predict numbers: tables, several targets, runs, refusals."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result
from safetensors.torch import save_file

Run = Callable[..., Result]
MODULE = "regression_module_of_tests"
SOURCE = """
from torch import nn
def net():
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
def both():
    return nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 4))
def means():
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
"""
JUDGED = (0, 2, 3)  # pass, attention, fail
QUICK = ["--rays", "3", "--attack-steps", "1"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{MODULE}.py").write_text(SOURCE)
    rng = np.random.default_rng(0)
    size, rooms = rng.uniform(1, 5, 1000), rng.integers(1, 6, 1000)
    price = 2 * size + rooms + rng.normal(0, 0.1 * size)
    with open("test.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["size", "rooms", "price"])
        writer.writerows(zip(size.round(3), rooms, price.round(3), strict=True))
    torch.manual_seed(0)
    for name in ("net", "both", "means"):
        save_file(getattr(__import__(MODULE), name)().state_dict(), f"{name}.safetensors")
    return tmp_path


def own(name: str) -> list[str]:
    return [f"{MODULE}:{name}", "--weights", f"{name}.safetensors", *QUICK]


def test_a_column_of_numbers_is_audited_and_guarded(place: Path, nescio: Run) -> None:
    found = nescio("audit", *own("net"), "--data", "test.csv", "--target", "price", "--head",
        "gaussian", "--passes", "4", "--out", "out")  # fmt: skip
    assert found.exit_code in JUDGED, found.output
    assert "90 % intervals hold" in " ".join(found.output.split())
    saved = json.loads((place / "out/audit.json").read_text())
    assert saved["task"] == "regression"
    assert set(saved["predictors"]) == {"network", "MC dropout"}
    assert (place / "out/audit.html").exists()
    scored = nescio("score", "out/guard.safetensors", "test.csv:without=price", "--net",
        f"{MODULE}:net", "--out", "decisions.csv")  # fmt: skip
    assert scored.exit_code == 0, scored.output
    with open("decisions.csv") as file:
        first = next(csv.DictReader(file))
    assert float(first["low"]) <= float(first["mean"]) <= float(first["high"])


def test_several_columns_are_several_targets(place: Path, nescio: Run) -> None:
    found = nescio("audit", *own("both"), "--data", "test.csv", "--target", "price,rooms",
        "--head", "gaussian", "--out", "out")  # fmt: skip
    assert found.exit_code in JUDGED, found.output
    saved = json.loads((place / "out/audit.json").read_text())
    assert list(saved["predictors"]["network"]["targets"]) == ["0", "1"]


def test_a_file_of_arrays_needs_no_head_for_means(place: Path, nescio: Run) -> None:
    x = np.random.default_rng(1).normal(size=(300, 2)).astype(np.float32)
    np.savez("test.npz", x=x, y=x.sum(1) + 0.25)
    found = nescio("audit", *own("means"), "--data", "test.npz", "--out", "out", "--full")
    assert found.exit_code in JUDGED, found.output
    assert "it predicts means alone" in " ".join(found.output.split())


def test_a_model_that_was_trained_on_a_table_is_audited_on_its_test_part(
    place: Path, nescio: Run
) -> None:
    made = nescio("train", "single", "--data", "test.csv", "--target", "price", "--run", "run",
        "--epochs", "5")  # fmt: skip
    assert made.exit_code == 0, made.output
    found = nescio("audit", "run", "--data", "test.csv", *QUICK, "--out", "out", "--full")
    assert found.exit_code in JUDGED, found.output
    assert "only its 100 test samples count" in found.output
    assert "R²" in found.output


def test_bad_input_is_refused_with_advice(place: Path, nescio: Run) -> None:
    data = ["--data", "test.csv", "--target", "price"]
    no_head = nescio("audit", *own("net"), *data)
    assert no_head.exit_code != 0
    assert "--head gaussian" in no_head.output
    remedy = nescio("audit", *own("net"), *data, "--head", "gaussian", "--recipe", "acet",
        "--train", "mnist")  # fmt: skip
    assert remedy.exit_code != 0
    text = Path("test.csv").read_text().splitlines()
    Path("test.csv").write_text("\n".join([*text[:50], "1,2,", *text[50:]]))
    gap = nescio("audit", *own("net"), *data, "--head", "gaussian")
    assert gap.exit_code != 0
    assert "must be a number" in gap.output


def test_equal_inputs_are_separate_samples_where_that_is_said(place: Path, nescio: Run) -> None:
    words = ["audit", *own("net"), "--data", "test.csv", "--train", "test.csv", "--target", "price",
        "--head", "gaussian", "--out", "out"]  # fmt: skip
    refused = nescio(*words)
    assert "calibration inputs are among the training data" in " ".join(refused.output.split())
    assert not (place / "out/guard.safetensors").exists()
    taken = nescio(*words, "--repeats")
    assert taken.exit_code in JUDGED, taken.output
    assert (place / "out/guard.safetensors").exists()
