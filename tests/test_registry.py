"""Registries: names, helpful errors, and no file that was forgotten."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import nescio
from nescio import registry as registries
from nescio.errors import NescioError
from nescio.registry import Registry

SOURCE = Path(nescio.__file__).parent
FOLDERS = ("measures", "losses", "predictors", "calibration", "nets", "data", "metrics",
           "experiments")  # fmt: skip
for folder in (*FOLDERS, "heads", "recipes"):
    importlib.import_module(f"nescio.{folder}")
ALL = {name: value for name, value in vars(registries).items() if isinstance(value, Registry)}
PARTS = [
    pytest.param(registry, name, id=f"{kind}-{name}")
    for kind, registry in ALL.items()
    for name in registry
]
DECORATORS = ("register", "measure", "network", "source")


def alpha(): ...
def beta(): ...


@pytest.fixture
def colours():
    registry = Registry("colour")
    registry.register(beta)
    registry.register(alpha)
    return registry


def test_a_registry_is_a_mapping_in_alphabetical_order(colours):
    assert list(colours) == ["alpha", "beta"]
    assert colours["beta"] is beta
    assert len(colours) == 2
    assert "alpha" in colours
    assert "gamma" not in colours
    assert dict(colours) == {"alpha": alpha, "beta": beta}
    assert colours.get("gamma") is None


def test_an_unknown_name_is_an_error_that_lists_and_suggests(colours):
    with pytest.raises(NescioError, match="unknown colour 'alhpa'; did you mean 'alpha'") as caught:
        colours["alhpa"]
    assert "Known: alpha, beta" in str(caught.value)
    with pytest.raises(NescioError, match=r"unknown colour 'xyz'\. Known: alpha, beta"):
        colours["xyz"]


@pytest.mark.parametrize("name", [3, None])
def test_a_name_that_is_no_text_is_unknown_too(colours, name):
    with pytest.raises(NescioError, match=f"unknown colour {name}"):
        colours[name]


def test_a_name_is_registered_once(colours):
    with pytest.raises(NescioError, match="'alpha' is registered twice"):
        colours.register(alpha)


@pytest.mark.parametrize(("registry", "name"), PARTS)
def test_a_part_has_the_name_of_its_function_and_a_sentence(registry, name):
    part = registry[name]
    assert part.__name__ == name
    summary = registry.summary(name)
    assert summary == inspect.getdoc(part).splitlines()[0]
    assert summary.endswith(".")
    assert ". " not in summary.replace("e.g. ", "")
    assert len(summary) <= 100


@pytest.mark.parametrize("kind", ALL)
def test_no_registry_is_empty(kind):
    assert len(ALL[kind]) >= 1


def registered_in(path):
    """Names of the functions of a file that a decorator registers."""
    names = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                last = called.attr if isinstance(called, ast.Attribute) else called.id
                names += [node.name] if last in DECORATORS else []
    return names


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_registered_function_is_a_public_name_of_its_folder(folder):
    package = importlib.import_module(f"nescio.{folder}")
    found = {
        name: path.stem for path in (SOURCE / folder).glob("*.py") for name in registered_in(path)
    }
    assert found
    for name, stem in found.items():
        assert callable(getattr(package, name, None)), f"{folder}/__init__.py must import {name}"
        module = importlib.import_module(f"nescio.{folder}.{stem}")
        assert getattr(package, name) is getattr(module, name)


def test_the_walk_over_the_files_finds_all_that_is_registered():
    found = {
        name
        for path in SOURCE.rglob("*.py")
        for name in registered_in(path)
        if path.parent != SOURCE
    }
    known = {
        name
        for kind, registry in ALL.items()
        if kind not in ("heads", "recipes")
        for name in registry
    }
    assert found == known


@pytest.mark.parametrize("folder", ["measures", "losses", "predictors", "calibration", "nets"])
def test_one_part_is_one_file(folder):
    for path in (SOURCE / folder).glob("*.py"):
        names = registered_in(path)
        assert names in ([], [path.stem])
