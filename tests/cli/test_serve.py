"""`nescio serve`: words, names, keys and what --check says."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from torch import nn

import nescio
from nescio.cli.main import main

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from nescio.cli.work.serve import by_name, named_files
from nescio.serving.keys import Keys

MODULE = """
from torch import nn

def make_net():
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["serve", *map(str, words)])


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A guard of a network of the user's, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("nescio.guards.steady.SIZES", (1, 16, 255))
    (tmp_path / "mynetwork.py").write_text(MODULE)
    moons = nescio.data.half_moons(seed=0, train=200)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    made = nescio.guard(net, moons.test, train=moons.train, detector="mahalanobis", risk=0.9)
    return made.save(tmp_path / "guard.safetensors", weights=True)


def test_check_says_what_would_be_served(guard: Path) -> None:
    done = run(f"moons={guard}", "--net", "mynetwork:make_net", "--check", "--log", "log.db")
    assert done.exit_code == 0, done.output
    assert "moons, version" in done.output
    assert "- OOD:" in done.output
    assert "log.db" in done.output
    assert Path("log.db").exists()
    done = run(guard, "--net", "mynetwork:make_net", "--check", "--no-log")
    assert done.exit_code == 0, done.output
    assert "guard, version" in done.output
    assert not Path("decisions.db").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a guard"),
        (["none.safetensors"], "none.safetensors"),
        (["guard.safetensors"], "--net"),
        (["guard.safetensors", "guard.safetensors"], "two guards"),
        (["guard.safetensors", "--net", "other=mynetwork:make_net"], "no guard 'other'"),
        (["a=guard.safetensors", "b=guard.safetensors", "--net", "mynetwork:make_net"], "which"),
        (["guard.safetensors", "--net", "mynetwork:make_net", "--host", "0.0.0.0"], "--new-key"),
        (["guard.safetensors", "--tls-cert", "c.pem"], "both"),
        (["guard.safetensors", "--guards-folder", "none"], "no folder"),
        (["--new-key", "predict:anna"], "--keys"),
        (["--new-key", "root:anna", "--keys", "keys.txt"], "a role is"),
        (["guard.safetensors", "--keys", "none.txt"], "none.txt"),
    ],
)
def test_what_is_wrong_is_said(guard: Path, words: list[str], said: str) -> None:
    done = run(*words, "--no-log")
    assert done.exit_code == 1
    assert said in done.output


def test_a_new_key_is_printed_once(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    done = CliRunner().invoke(main, ["serve", "--new-key", "review:anna", "--keys", str(path)])
    assert done.exit_code == 0
    who = Keys.read(path).who(done.stdout.strip())
    assert who is not None
    assert (who.name, who.role) == ("anna", "review")


def test_names_of_guards_and_of_what_belongs_to_them(tmp_path: Path) -> None:
    odd = tmp_path / "a=b.safetensors"
    odd.write_bytes(b"")
    named = named_files(["x=1.safetensors", str(odd)], lambda path: Path(path).stem[0])
    assert named == {"x": "1.safetensors", "a": str(odd)}
    assert by_name(["x=m:f", "a=g:h"], ["x", "a"], "--net") == {"x": "m:f", "a": "g:h"}
    assert by_name(["m:f"], ["x"], "--net") == {"x": "m:f"}
    assert by_name(["model.onnx:output=probs"], ["x"], "--net") == {"x": "model.onnx:output=probs"}
