"""`import nescio` adds little to `import torch`: the rest is loaded where it is used."""

import subprocess
import sys

CODE = """
import sys, torch
before = set(sys.modules)
import {name}
print(*sorted({{module.split(".")[0] for module in set(sys.modules) - before}}))
"""
LATER = {"rich", "sympy", "matplotlib", "scipy", "sklearn", "PIL", "jinja2", "click", "optuna"}


def added(name: str) -> set[str]:
    """The packages that an import loads, torch and what it loads aside."""
    words = [sys.executable, "-c", CODE.format(name=name)]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


def test_importing_nescio_is_light() -> None:
    found = added("nescio")
    assert "nescio" in found
    assert not found & LATER


def test_the_check_sees_what_is_loaded() -> None:
    assert "click" in added("nescio.cli.main")
