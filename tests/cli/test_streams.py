"""Closed standard files and names in brackets are harmless."""

import subprocess
import sys

import pytest

from nescio.core.running import progress

COMMAND = [sys.executable, "-m", "nescio"]


@pytest.mark.parametrize("closed", ["2>&- >&- <&-", "| head -c 1 >/dev/null"])
def test_a_closed_standard_file_is_harmless(closed, tmp_path):
    words = f"{' '.join(COMMAND)} train single --data half_moons --epochs 1 --run {tmp_path}/r"
    done = subprocess.run(["bash", "-c", f"{words} {closed}"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert (tmp_path / "r" / "predictor.safetensors").exists()


@pytest.mark.parametrize("name", ["[/a]", "[bold]", "photos[1]", "[link=x]"])
def test_names_in_brackets_are_text(name, capsys):
    with progress(2, name, show=True) as advance:
        advance(2, lambda: name)
    assert capsys.readouterr().err.count(name) >= 2
