"""Imports go down only: a module imports from what stands before it in the list."""

import ast
from pathlib import Path

import pytest

import nescio

SOURCE = Path(nescio.__file__).parent
ORDER = """
core data nets metrics models attacks losses training calibration conformal detectors guards
monitoring geometry applications evaluation report serving integrations cli __main__
""".split()  # noqa: SIM905
FREE = (
    "nescio",
    "nescio.__version__",
    "nescio.version",
    "nescio.spelling",
)  # wherever they are needed
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)


def layer(path):
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported(tree):
    """Modules of nescio that are imported when the module is, as their dotted names."""
    nodes = [node for node in tree.body if not _only_for_types(node)]
    for node in (inner for outer in nodes for inner in _run_at_import(outer)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            if node.module == "nescio":
                yield from (f"nescio.{alias.name}" for alias in node.names)
            else:
                yield node.module


def _only_for_types(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _run_at_import(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _run_at_import(child)


def test_every_module_has_a_place():
    assert {layer(path) for path in MODULES} <= set(ORDER)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down_only(path):
    own = ORDER.index(layer(path))
    for name in imported(ast.parse(path.read_text())):
        if name.split(".")[0] != "nescio" or name in FREE:
            continue
        assert ORDER.index(name.split(".")[1]) <= own, f"{layer(path)} imports {name}"


def test_the_check_sees_imports_where_they_are():
    text = "from nescio import cli\nif 1:\n import nescio.models\ndef f():\n import nescio.report\n"
    assert list(imported(ast.parse(text))) == ["nescio.cli", "nescio.models"]


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "base"])
def test_there_is_no_drawer_for_everything(name):
    assert name not in {path.stem for path in SOURCE.rglob("*")}
