"""Registries: names, helpful errors, and no file that was forgotten."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import nescio
from nescio.core import NescioError, Registry
from nescio.core import registry as registries

SOURCE = Path(nescio.__file__).parent
FOLDERS = ("losses", "models", "calibration", "nets", "data", "metrics")
for module in (*(f"nescio.{folder}" for folder in FOLDERS), "nescio_papers"):
    importlib.import_module(module)
ALL = {name: value for name, value in vars(registries).items() if isinstance(value, Registry)}
PARTS = [
    pytest.param(registry, name, id=f"{kind}-{name}")
    for kind, registry in ALL.items()
    for name in registry
]
DECORATORS = ("register", "measure", "network", "source", "calibration")


def alpha(): ...
def beta(): ...


@pytest.fixture
def colors():
    registry = Registry("color")
    registry.register(beta)
    registry.register(alpha)
    return registry


def test_a_registry_is_a_mapping_in_alphabetical_order(colors):
    assert list(colors) == ["alpha", "beta"]
    assert colors["beta"] is beta
    assert len(colors) == 2
    assert "alpha" in colors
    assert "gamma" not in colors
    assert dict(colors) == {"alpha": alpha, "beta": beta}
    assert colors.get("gamma") is None


def test_an_unknown_name_is_an_error_that_lists_and_suggests(colors):
    with pytest.raises(NescioError, match="unknown color 'alhpa'; did you mean 'alpha'") as caught:
        colors["alhpa"]
    assert "Known: alpha, beta" in str(caught.value)
    with pytest.raises(NescioError, match=r"unknown color 'xyz'\. Known: alpha, beta"):
        colors["xyz"]


@pytest.mark.parametrize("name", [3, None])
def test_a_name_that_is_no_text_is_unknown_too(colors, name):
    with pytest.raises(NescioError, match=f"unknown color {name}"):
        colors[name]


def test_a_name_is_registered_once(colors):
    with pytest.raises(NescioError, match="'alpha' is registered twice"):
        colors.register(alpha)


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
        name: ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in (SOURCE / folder).rglob("*.py")
        if path.parent.name not in ("ood",) and path.stem != "corruptions"
        for name in registered_in(path)
    }
    assert found
    for name, home in found.items():
        assert callable(getattr(package, name, None)), f"{folder}/__init__.py must import {name}"
        module = importlib.import_module(f"nescio.{home}")
        assert getattr(package, name) is getattr(module, name)


def test_the_walk_over_the_files_finds_all_that_is_registered():
    found = {
        name
        for folder in (SOURCE, SOURCE.parent / "nescio_papers")
        for path in folder.rglob("*.py")
        for name in registered_in(path)
        if path.stem not in ("heads", "number_heads", "recipes")
    }
    known = {
        name
        for kind, registry in ALL.items()
        if kind not in ("heads", "recipes", "audit_sections")
        for name in registry
    }
    assert found == known


@pytest.mark.parametrize("folder", ["losses", "detectors", "models", "calibration", "nets"])
def test_a_part_with_substance_has_its_file_and_small_parts_share_one(folder):
    for path in (SOURCE / folder).glob("*.py"):
        names = registered_in(path)
        if len(names) == 1:
            assert names == [path.stem] or path.stem == "predictor"
        if len(names) > 1:
            assert len(path.read_text().splitlines()) <= 350, f"split {path.name}: {names}"
