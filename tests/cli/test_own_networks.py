"""A user's own networks from a file to decisions: of tokens, and of the columns of a table."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result

import nescio
from nescio import calibration

MODULE = "own_networks_module_of_tests"
SOURCE = """
from torch import nn
class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.out = nn.Linear(8, 2)
    def forward(self, x):
        return {"logits": self.out(self.words(x).mean(1))}
def tokens():
    return Tokens()
def table(inputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, 2))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{MODULE}.py").write_text(SOURCE)
    return tmp_path


def test_whole_numbers_of_a_file_are_tokens(place: Path, nescio: Callable[..., Result]) -> None:
    torch.manual_seed(0)
    net = __import__(MODULE).tokens()
    torch.save(net.state_dict(), "w.pt")
    rng = np.random.default_rng(0)
    for name, count in (("train", 300), ("calibration", 400), ("new", 20)):
        x = rng.integers(0, 50, (count, 6), dtype=np.int32)
        with torch.no_grad():
            y = net(torch.from_numpy(x))["logits"].argmax(1).numpy()
        np.savez(f"{name}.npz", x=x, y=np.where(rng.random(count) < 0.1, 1 - y, y))
    own = [f"{MODULE}:tokens", "--weights", "w.pt"]
    made = nescio("guard", *own, "--calibration", "calibration.npz", "--train", "train.npz",
        "--detector", "energy", "--risk", "0.3", "--data", "new.npz")  # fmt: skip
    assert made.exit_code == 0, made.output
    score = ["score", "guard.safetensors", "new.npz", "--net", own[0], "--out", "d.csv"]
    found = nescio(*score)
    assert found.exit_code == 0, found.output
    predicted = nescio("predict", *own, "--head", "categorical", "--data", "new.npz",
        "--output", "logits", "--out", "p.npz")  # fmt: skip
    assert predicted.exit_code == 0, predicted.output
    x = torch.from_numpy(np.load("new.npz")["x"])
    assert (np.load("p.npz")["label"] == net(x)["logits"].argmax(1).numpy()).all()


def test_a_calibration_reads_tokens(place: Path) -> None:
    torch.manual_seed(0)
    net = __import__(MODULE).tokens()
    x = torch.randint(0, 50, (200, 6))
    y = net(x)["logits"].argmax(1)
    y[:40] = 1 - y[:40]
    with torch.no_grad():
        alone = calibration.fit("temperature", net(x)["logits"], y)
    assert calibration.temperature(net, (x, y)).temperature == pytest.approx(alone.temperature)


def test_a_factory_of_the_number_of_inputs_serves_every_command(
    place: Path, nescio: Callable[..., Result]
) -> None:
    rng = np.random.default_rng(0)
    for name, count in (("rows", 300), ("more", 400)):
        age, ward = rng.normal(60, 10, count), rng.choice(["A", "B", "?"], count)
        lines = [f"{a:.3f},{w},{'yes' if a > 60 else 'no'}" for a, w in zip(age, ward, strict=True)]
        Path(f"{name}.csv").write_text("\n".join(["age,ward,ill", *lines]) + "\n")
    own = ["--net", f"{MODULE}:table"]
    trained = nescio("train", "single", "--data", "rows.csv", "--target", "ill", *own,
        "--run", "run", "--epochs", "20")  # fmt: skip
    assert "--data new.csv" in trained.output
    for words in (
        ["predict", "run", *own, "--data", "more.csv", "--out", "p.csv"],
        ["guard", "run", *own, "--calibration", "more.csv", "--detector", "energy"],
        ["score", "guard.safetensors", "more.csv", *own, "--out", "d.csv"],
    ):
        found = nescio(*words)
        assert found.exit_code == 0, found.output


def test_load_takes_what_makes_the_network(place: Path) -> None:
    x = torch.randn(40, 3)
    make = __import__(MODULE).table
    model = nescio.train(lambda: make(3), (x, (x[:, 0] > 0).long()), epochs=1)
    model.save("m")
    same = nescio.load("m", net=lambda: make(3))
    assert torch.equal(same(x).probs, model(x).probs)
    with pytest.raises(nescio.NescioError, match="the factory takes inputs"):
        nescio.load("m", net=make)
    with pytest.raises(nescio.NescioError, match="nn.Module or a function that makes one, got int"):
        nescio.load("m", net=3)
