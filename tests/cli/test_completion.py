"""The Tab key: scripts for the shells, and what they are answered."""

import os
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from nescio.cli.main import main


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o"), ("zsh", "#compdef nescio"), ("fish", "complete")]
)
def test_the_script_of_a_shell(shell, mark):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0, result.output
    assert mark in result.output
    assert "_NESCIO_COMPLETE" in result.output


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("nescio au", ["audit"]),
        ("nescio scor --o", [""]),
        ("nescio la", ["label"]),
        ("nescio label st", ["start", "status"]),
        ("nescio audit --budg", ["--budget"]),
        ("nescio label next --aga", ["--again"]),
        ("nescio audit --budget th", ["thorough"]),
        ("nescio completion z", ["zsh"]),
        ("nescio train deep", ["deep_ensemble"]),
        ("nescio train single --net small", ["small_cnn"]),
        ("nescio compare --detector relative", ["relative_mahalanobis"]),
        ("nescio list dete", ["detectors"]),
        ("nescio reproduce know", ["know-your-limits", "know-your-limits-search"]),
        ("nescio data download fashion", ["fashion_mnist"]),
        ("nescio audit --data ku", ["kuzushiji_mnist"]),
        ("nescio audit --data half", ["half_moons", "half.npz", "half_way/"]),  # names, then paths
        ("nescio audit --schema --budg", ["--budget"]),  # the schema is not printed
        ("nescio audit --explain --budg", ["--budget"]),
        ("nescio score --device tpu --batch", ["--batch-mb"]),
    ],
)
def test_what_is_completed(typed, expected, tmp_path):
    (tmp_path / "half.npz").touch()
    (tmp_path / "half_way").mkdir()
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    code = "from nescio.cli.main import main; main(prog_name='nescio')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **words, "_NESCIO_COMPLETE": "bash_complete"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == expected


@pytest.mark.parametrize(
    ("typed", "replied"),
    [
        ("audit --budget q", "quick"),
        ("label ne", "next"),
        ("train single --data hal", "half_moons"),
    ],
)
def test_bash_takes_the_script(typed, replied, tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    (tmp_path / "nescio").write_text(
        f"#!{sys.executable}\nfrom nescio.cli.main import main\nmain()"
    )
    (tmp_path / "nescio").chmod(0o755)
    words = f"nescio {typed}"
    script = f"""
        eval "$(nescio completion bash)"
        COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        compopt() {{ :; }}  # there is no line to complete here
        _nescio_completion nescio
        echo "${{COMPREPLY[@]}}"
    """
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == replied, done.stderr


def test_an_unknown_shell_is_refused():
    result = CliRunner().invoke(main, ["completion", "tcsh"])
    assert result.exit_code != 0
    assert "bash" in result.output
