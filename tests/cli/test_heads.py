"""Heads on the command line: one logit, several labels, a mean with a variance."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result
from safetensors.torch import save_file

MODULE = "heads_module_of_tests"
SOURCE = """
import torch
from torch import nn
def _net(outputs):
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, outputs))
def one():
    return nn.Sequential(_net(1), nn.Flatten(0))
def two():
    return _net(2)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{MODULE}.py").write_text(SOURCE)
    module = __import__(MODULE)
    for name in ("one", "two"):
        torch.manual_seed(0)
        net = getattr(module, name)()
        with torch.no_grad():
            for weight in net.parameters():
                weight *= 3
        save_file(net.state_dict(), tmp_path / f"{name}.safetensors")
        draws = torch.Generator().manual_seed(1)
        for part, rows in (("fit", 400), ("calibration", 600), ("new", 30)):
            x = torch.randn(rows, 3, generator=draws)
            z = net(x).detach().reshape(rows, -1)
            y = (torch.rand(z.shape, generator=draws) < (3 * z).sigmoid()).long()
            np.savez(f"{name}-{part}.npz", x=x.numpy(), y=(y[:, 0] if name == "one" else y).numpy())
    return tmp_path


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_one_logit(place: Path, nescio: Callable[..., Result]) -> None:
    net = [f"{MODULE}:one", "--weights", "one.safetensors"]
    words = ["guard", *net, "--calibration", "one-calibration.npz", "--train", "one-fit.npz"]
    done = nescio(*words, "--risk", "0.3", "--false-alarm", "0.05")
    assert done.exit_code == 0, done.output
    words = ["score", "guard.safetensors", "one-new.npz", "--net", f"{MODULE}:one"]
    done = nescio(*words, "--out", "decisions.csv")
    assert done.exit_code == 0, done.output
    done = nescio("predict", *net, "--head", "binary", "--data", "one-new.npz", "--out", "p.csv")
    assert done.exit_code == 0, done.output
    labels = [row["label"] for row in rows(place / "decisions.csv")]
    assert labels == [row["label"] for row in rows(place / "p.csv")]


def test_several_labels(place: Path, nescio: Callable[..., Result]) -> None:
    net = [f"{MODULE}:two", "--weights", "two.safetensors", "--head", "multilabel"]
    words = ["guard", *net, "--calibration", "two-calibration.npz", "--train", "two-fit.npz"]
    done = nescio(*words, "--risk", "0.3", "--false-alarm", "0.05", "--class-names", "a,b")
    assert done.exit_code == 0, done.output
    assert "for all 2 labels at once" in done.output
    words = ["score", "guard/b.safetensors", "two-new.npz", "--net", f"{MODULE}:two"]
    done = nescio(*words, "--out", "b.csv")
    assert done.exit_code == 0, done.output
    done = nescio("predict", *net, "--data", "two-new.npz", "--out", "p.csv")
    assert done.exit_code == 0, done.output
    found = rows(place / "p.csv")
    assert [row["label"] for row in rows(place / "b.csv")] == [row["label_1"] for row in found]
    assert {"probs_0", "probs_1", "predictive_entropy_1"} <= set(found[0])


def test_a_mean_and_a_variance_are_no_classes(place: Path, nescio: Callable[..., Result]) -> None:
    net = [f"{MODULE}:two", "--weights", "two.safetensors"]
    words = ["predict", *net, "--data", "two-new.npz", "--out", "p.csv"]
    asked = nescio(*words)
    assert asked.exit_code == 1
    assert "gaussian: Mean and variance" in asked.output
    assert nescio(*words, "--head", "gaussian").exit_code == 0
    assert {"mean_0", "variance_0"} <= set(rows(place / "p.csv")[0])


def test_training_with_a_head(place: Path, nescio: Callable[..., Result]) -> None:
    words = ["train", "single", "--data", "one-fit.npz", "--epochs", "2"]
    for run, more in (
        ("own", ["--net", f"{MODULE}:one"]),
        ("mlp", ["--head", "binary"]),
        ("dirichlet", ["--head", "dirichlet"]),
    ):
        done = nescio(*words, "--run", run, *more)
        assert done.exit_code == 0, done.output
        net = more if "--net" in more else []
        done = nescio("predict", run, *net, "--data", "one-new.npz", "--out", f"{run}.csv")
        assert done.exit_code == 0, done.output
        assert "probs_1" in rows(place / f"{run}.csv")[0]
    refused = nescio(*words, "--run", "g", "--head", "gaussian")
    assert refused.exit_code == 1
    assert "is for regression" in refused.output
