"""`nescio init`: the script runs as it is, and with a network that is filled in."""

import ast
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from torch import nn

from nescio.cli.main import main

MODULE = """
from torch import nn

def make_net():
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*words):
    return CliRunner().invoke(main, ["init", *words])


def run(path):
    return subprocess.run(
        [sys.executable, path.name], cwd=path.parent, capture_output=True, text=True, check=False
    )


def test_the_script_reads_as_python_and_is_not_replaced(place):
    result = invoke()
    assert result.exit_code == 0, result.output
    text = (place / "audit_network.py").read_text()
    names = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert names == {"load_net", "load_data", "main"}
    assert "digits" in text
    again = invoke()
    assert again.exit_code == 1
    assert "--force" in again.output
    assert invoke("--force", "--budget", "quick").exit_code == 0
    assert 'budget="quick"' in (place / "audit_network.py").read_text()


@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_a_network_of_your_own_is_filled_in_and_runs(place, ending):
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, generator=rng)
    for name in ("test", "train"):
        np.savez(place / f"{name}.npz", x=x.numpy(), y=(x[:, 0] > 0).long().numpy())
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    save_file(net.state_dict(), place / "w.safetensors")
    torch.save(net.state_dict(), place / "w.pt")
    (place / "own.py").write_text(MODULE)
    words = ["own:make_net", "--weights", f"w.{ending}", "--data", "test.npz", "--budget", "quick"]
    result = invoke(*words, "--out", "go.py")
    assert result.exit_code == 0, result.output
    if ending == "pt":
        compile((place / "go.py").read_text(), "go.py", "exec")
        return
    done = run(place / "go.py")
    status = json.loads((place / "nescio-audit" / "audit.json").read_text())["status"]
    assert done.returncode == {"pass": 0, "attention": 2, "fail": 3}[status], done.stderr
    assert "page:" in done.stdout


def test_what_cannot_be_filled_in_is_refused(place):
    assert "package.module:factory" in invoke("own").output
    assert "package.module:factory" in invoke("own:make net").output
    assert ".npz" in invoke("own:make_net", "--data", "test.csv").output
    assert not (place / "audit_network.py").exists()
