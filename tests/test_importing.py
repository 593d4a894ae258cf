"""`import nescio` adds little to `import torch`: the rest is loaded where it is used."""

import subprocess
import sys

import click
import pytest

from nescio.cli.main import COMMANDS, main

CODE = """
import sys, torch
before = set(sys.modules)
import {name}
print(*sorted({{module.split(".")[0] for module in set(sys.modules) - before}}))
"""
LATER = {"rich", "sympy", "matplotlib", "scipy", "sklearn", "PIL", "jinja2", "click", "optuna"}
LATER |= {"pytorch_lightning", "transformers", "mlflow", "pandas", "onnxruntime"}


def added(name: str) -> set[str]:
    """The packages that an import loads, torch and what it loads aside."""
    words = [sys.executable, "-c", CODE.format(name=name)]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


def test_importing_nescio_is_light() -> None:
    found = added(
        "nescio, nescio.integrations, nescio.guards, nescio.training.train, nescio.monitoring"
    )
    assert "nescio" in found
    assert not found & LATER


def test_the_check_sees_what_is_loaded() -> None:
    assert "click" in added("nescio.cli.main")


WORDS = """
import sys
from nescio.cli.main import main
sys.argv = ["nescio", *{words!r}]
try:
    main()
except SystemExit as end:
    print(end.code, "torch" in sys.modules, "numpy" in sys.modules)
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["--wrong"], 1),
        (["score", "--help"], 0),
        (["score", "--x"], 1),
        (["scor"], 1),
        (["data", "--help"], 0),
        (["list", "--help"], 0),
        (["reproduce", "--help"], 0),
        (["search", "--help"], 0),
    ],
)
def test_help_and_usage_errors_need_no_torch(words: list[str], code: int) -> None:
    command = [sys.executable, "-c", WORDS.format(words=words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"{code} False False"


def test_the_list_of_commands_says_what_their_help_says() -> None:
    context = click.Context(main)
    for name, line in COMMANDS.items():
        assert line.sentence == main.get_command(context, name).get_short_help_str(limit=200)
