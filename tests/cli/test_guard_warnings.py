"""What `nescio guard` warns of is a line for a reader, not for a programmer."""

import sys
from pathlib import Path

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
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
"""


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
