"""The Tab key: scripts for the shells, and what they are answered."""

import os
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
        ("nescio audit --budg", ["--budget"]),
        ("nescio audit --budget th", ["thorough"]),
        ("nescio completion z", ["zsh"]),
    ],
)
def test_what_is_completed(typed, expected):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    code = "from nescio.cli.main import main; main(prog_name='nescio')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **words, "_NESCIO_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == expected


def test_an_unknown_shell_is_refused():
    result = CliRunner().invoke(main, ["completion", "tcsh"])
    assert result.exit_code != 0
    assert "bash" in result.output
