"""The papers' house: a folder per paper, a kit they share, and nobody who loads them unasked."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import nescio_papers
from nescio.core.registry import experiments
from nescio_papers.kit.deferred import Deferred

SOURCE = Path(nescio_papers.__file__).parent
SHARED = ("kit", "data")
PAPERS = sorted(path.parent.name for path in SOURCE.glob("*/paper.py"))


def imported(path):
    """Dotted names of all that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms(folder):
    """The folders of the package that the files of a folder import from."""
    names = (name for path in folder.rglob("*.py") for name in imported(path))
    return {name.split(".")[1] for name in names if name.startswith("nescio_papers.")}


@pytest.mark.parametrize("paper", PAPERS)
def test_no_paper_imports_another(paper):
    assert rooms(SOURCE / paper) <= {paper, *SHARED}


def test_the_kit_and_the_data_know_no_paper():
    assert rooms(SOURCE / "kit") <= {"kit"}
    assert rooms(SOURCE / "data") <= {"data"}


def test_a_folder_is_a_paper_or_shared():
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert folders == {*PAPERS, *SHARED}


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_is_a_folder_and_a_line(paper):
    assert experiments[paper]().name == paper.replace("_", "-")
    assert experiments[paper].__module__ == f"nescio_papers.{paper}.paper"
    assert f"nescio_papers.{paper}.paper.{paper}" in imported(SOURCE / "__init__.py")


@pytest.mark.parametrize("paper", PAPERS)
def test_every_part_names_a_function_that_is_there(paper):
    parts = experiments[paper]().parts
    for part in parts:
        run = inspect.unwrap(part.run)
        given = () if isinstance(run, Deferred) else run.args  # the name of a table or a block
        function = (run if isinstance(run, Deferred) else run.func).function
        assert function.__module__.startswith(f"nescio_papers.{paper}.")
        inspect.signature(function).bind(*given, "settings")
        if part.judge is not None:
            inspect.signature(part.judge.function).bind("numbers")


def test_tests_mirror_the_package():
    tests = Path(__file__).parent
    assert {path.name for path in tests.iterdir() if any(path.glob("test_*.py"))} >= {
        *PAPERS,
        *SHARED,
    }


def test_papers_are_loaded_lazily():
    code = (
        "import sys, nescio, nescio.data, nescio.cli.main; sys.exit('nescio_papers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
