"""Folders with a user's network and data, and the command as a person calls it."""

import csv
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file
from torch import nn

from nescio.cli.main import main

SMALL = """
import torch
from torch import nn
def make_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
def needs(argument):
    torch.manual_seed(0)
    return nn.Linear(2, 2)
def wrong():
    return 3
def three():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
def smooth():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 2))
class Named(nn.Sequential):
    def forward(self, x):
        return {"extra": x, "logits": super().forward(x)}
def named():
    return Named(*make_net())
"""
GUARDED = """
from torch import nn
def make_net():
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = make_net()
    def forward(self, x):
        return {"features": x, "logits": self.net(x)}
def two():
    return Two()
def other():
    return nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
"""
NAME = "guarded_module_of_tests"
DEFAULT = f"{NAME}:make_net"


def run(*words: Any) -> Result:
    words = tuple(map(str, words))
    return CliRunner().invoke(main, words, catch_exceptions=False, prog_name="nescio")


@pytest.fixture
def nescio() -> Callable[..., Result]:
    return run


def again(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
    found = CliRunner().invoke(main, list(words[3:]))
    return subprocess.CompletedProcess(words, found.exit_code)


@pytest.fixture(scope="session")
def run_again() -> Callable[..., subprocess.CompletedProcess[str]]:
    """What `subprocess.run` does for `nescio verify`, in this process: one import of torch less."""
    return again


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a user's module, weights and data; the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"mymodule_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(SMALL)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    torch.save(net.state_dict(), tmp_path / "w.pt")
    torch.save(net, tmp_path / "whole.pt")
    draw = np.random.default_rng(0)
    x = draw.normal(size=(60, 2)).astype(np.float32)
    np.savez(tmp_path / "test.npz", x=x, y=(x[:, 0] > 0).astype(np.int64))
    np.savez(tmp_path / "other.npz", x=x + 20)
    np.savez(tmp_path / "unlabeled.npz", x=x)
    (tmp_path / "module_name").write_text(name)
    return tmp_path


@pytest.fixture
def own(folder: Path) -> Callable[..., str]:
    """The user's factory by its full name."""
    return lambda _, factory="make_net": f"{(folder / 'module_name').read_text()}:{factory}"


def drawn(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    x = rng.normal(size=(count, 2)) + np.stack([4 * y - 2, 0 * y], axis=1)
    return x.astype(np.float32), y


def written(path: Path, x: np.ndarray, y: np.ndarray) -> None:
    rows = [
        f"{i},{b:.9g},{label},{a:.9g}" for i, ((a, b), label) in enumerate(zip(x, y, strict=True))
    ]
    path.write_text("\n".join(["id,b,class,a", *rows]) + "\n")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network, its weights, data, and a guard made on the command line."""
    home = tmp_path_factory.mktemp("home")
    (home / f"{NAME}.py").write_text(GUARDED)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    with torch.no_grad():  # by the sign of the first number
        net[0].weight[:2] = torch.tensor([[1.0, 0], [-1, 0]])
        net[2].weight[:, :2] = torch.tensor([[-1.0, 1], [1, -1]])
        net[2].weight[:, 2:] *= 0.1
    x, y = drawn(800, 0)
    save_file(net.state_dict(), home / "w.safetensors")
    np.savez(home / "train.npz", x=x, y=y)
    for seed, name in ((1, "held"), (2, "new")):
        x, y = drawn(900, seed)
        np.savez(home / f"{name}.npz", x=x, y=y)
        written(home / f"{name}.csv", x, y)
    np.save(home / "new.npy", x)
    np.save(home / "far.npy", x * 0.3 + 6)
    return home


@pytest.fixture
def home(guarded: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That folder, as the current one."""
    monkeypatch.chdir(guarded)
    monkeypatch.setattr(sys, "path", [str(guarded), *sys.path])
    return guarded


@pytest.fixture(scope="module")
def guard(guarded: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(guarded)
        patch.setattr(sys, "path", [str(guarded), *sys.path])
        words = [
            "guard",
            DEFAULT,
            "--weights",
            "w.safetensors",
            "--calibration",
            "held.npz",
        ]
        words += ["--train", "train.npz", "--data", "new.npz", "--false-alarm", "0.02"]
        words += ["--risk", "0.08", "--class-names", "west,east", "--out", "g.safetensors"]
        result = run(*words)
    assert result.exit_code == 0, result.output
    assert "called OOD with probability at most 2 %" in result.output
    assert "tried on new.npz" in result.output
    assert f"nescio score g.safetensors INPUTS --net {NAME}:make_net" in result.output
    return guarded / "g.safetensors"


@pytest.fixture
def draw() -> Callable[..., Any]:
    return drawn


@pytest.fixture
def write_csv() -> Callable[..., None]:
    return written


@pytest.fixture
def rows_of() -> Callable[[Path], list[dict[str, str]]]:
    def rows(path: Path) -> list[dict[str, str]]:
        with path.open(newline="") as file:
            return list(csv.DictReader(file))

    return rows


@pytest.fixture
def net_of(home: Path) -> Callable[[], nn.Module]:
    def net() -> nn.Module:
        made = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
        made.load_state_dict(load_file(home / "w.safetensors"))
        return made

    return net


@pytest.fixture
def table_guard() -> Callable[..., Result]:
    def make(*words: str) -> Result:
        start = ["guard", DEFAULT, "--weights", "w.safetensors", "--calibration"]
        end = ["--target", "class", "--detector", "mahalanobis", "--risk", "0.08"]
        return run(*start, *words, *end)

    return make


@pytest.fixture
def write_words() -> Callable[..., None]:
    def write(path: Path, seed: int, header: str = "patient,a,b,way") -> None:
        x, y = drawn(900, seed)
        rows = [f"p{i},{a:.9g},{b:.9g},{['west', 'east'][y[i]]}" for i, (a, b) in enumerate(x)]
        path.write_text("\n".join([header, *rows]) + "\n")

    return write


@pytest.fixture
def words_guard() -> Callable[..., Result]:
    def make(data: str, *words: str) -> Result:
        start = ["guard", DEFAULT, "--weights", "w.safetensors", "--calibration", data]
        rest = ["--target", "way", "--detector", "mahalanobis", "--risk", "0.08"]
        return run(*start, *rest, *words)

    return make
