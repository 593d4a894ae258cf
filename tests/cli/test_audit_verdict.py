"""How `nescio audit` ends: one screen, files, exit codes; limits that a user sets."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from click.testing import Result
from safetensors.torch import save_file

Run = Callable[..., Result]
SKIPPED = ("guard", "noise", "far-field", "attack", "scaled-inputs", "shift")
FEW = [word for name in SKIPPED for word in ("--skip", name)] + ["--budget", "quick", "--out", "a"]


@pytest.fixture
def good(folder: Path, own: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command that audits a network whose answers are right and as sure as they should be."""
    monkeypatch.setattr("nescio.report.audit_page", lambda found: "drawn elsewhere")
    draw = np.random.default_rng(0)
    x = draw.normal(size=(3000, 2)).astype("float32")
    y = draw.random(3000) < 1 / (1 + np.exp(-4 * x[:, 0]))
    np.savez(folder / "good.npz", x=x, y=y.astype(int))
    weight = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])  # its two units: x and -x of the first input
    state = {
        "0.weight": torch.cat([weight, torch.zeros(6, 2)]),
        "0.bias": torch.zeros(8),
        "3.weight": torch.cat([torch.tensor([[-2.0, 2.0], [2.0, -2.0]]), torch.zeros(2, 6)], 1),
        "3.bias": torch.zeros(2),
    }
    save_file(state, folder / "good.safetensors")
    return ["audit", own(folder), "--weights", "good.safetensors", "--data", "good.npz", *FEW]


def test_the_exit_code_is_the_status(folder: Path, good: list[str], nescio: Run) -> None:
    for more, code, word in (
        (["--require", "accuracy>0.8"], 0, "Pass"),
        (["--require", "accuracy>0.87"], 2, "Attention"),
        (["--require", "accuracy>99%"], 3, "Fail"),
    ):
        result = nescio(*good, *more)
        assert (result.exit_code, result.output.split(":")[0]) == (code, word), result.output
        found = json.loads((folder / "a/audit.json").read_text())
        assert found["status"] == word.lower()
        assert "accuracy" in {one["name"] for one in found["findings"] if "required" in one}
        suite = ElementTree.parse(folder / "a/audit.xml").getroot()[0]
        assert (int(suite.get("failures", "")) > 0) == (code > 0)
        assert (folder / "a/summary.md").read_text().startswith(f"## Audit: {word.lower()}")


def test_the_screen_is_short_and_full_has_the_tables(good: list[str], nescio: Run) -> None:
    short, full = nescio(*good).output, nescio(*good, "--full").output
    assert len(short.splitlines()) <= 24
    assert "page: a/audit.html" in short
    assert re.search(r"not run guard[^:]*: left out as asked", " ".join(short.split()))
    assert "Accuracy and confidence" not in short
    assert "Accuracy and confidence" in full
    assert full.splitlines()[0].split(":")[0] == short.splitlines()[0].split(":")[0]


def test_limits_in_a_file(folder: Path, good: list[str], nescio: Run) -> None:
    (folder / "limits.toml").write_text('accuracy = ">99%"\n')
    result = nescio(*good, "--require", "limits.toml")
    assert result.exit_code == 3
    assert "required above 99 %" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--require", "acuracy>0.9"], "did you mean 'accuracy'"),
        (["--require", "accuracy"], "expected a limit such as"),
        (["--require", "none.toml"], "cannot be read"),
        (["--budget", "huge"], "huge"),
        (["--no-such-option"], "has no option --no-such-option"),
    ],
)
def test_what_is_wrong_is_an_error_before_the_work(
    good: list[str], words: list[str], why: str, nescio: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nescio.cli.work.audit.audit_files", None)
    result = nescio(*good, *words)
    assert result.exit_code == 1
    assert why in result.output


def test_a_folder_that_is_not_writable_is_found_before_the_work(
    folder: Path, good: list[str], nescio: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nescio.cli.work.audit.audit_files", None)
    (folder / "a").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    result = nescio(*good)
    assert result.exit_code == 1
    assert "the folder a is not writable; choose another one" in result.output
    (folder / "file").write_text("")
    result = nescio(*good[:-1], "file/in")
    assert result.exit_code == 1
    assert "cannot make the folder" in result.output


def test_the_schema_is_printed(nescio: Run) -> None:
    result = nescio("audit", "--schema")
    assert result.exit_code == 0
    assert json.loads(result.output)["properties"]["format_version"] == {"const": 1}
