"""Every public name of the library and of its command: none goes, and none comes, unnoticed.

Public is what a namespace exports with `from a import b as b`, and the functions and classes that
are written in it. The names are in `surface.txt`; `python tests/test_surface.py` writes it anew
after a change on purpose, which then shows in the difference.
"""

import ast
import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import nescio
from nescio.cli.main import main
from nescio.core import registry

FILE = Path(__file__).parent / "surface.txt"
NAMESPACES = """
nescio nescio.applications.active_learning nescio.applications.exploration
nescio.applications.influence nescio.attacks nescio.calibration nescio.conformal
nescio.core.heads nescio.core.measures
nescio.data nescio.data.augmentation nescio.data.corruptions nescio.data.ood nescio.detectors
nescio.detectors.failure nescio.evaluation nescio.evaluation.under_shift nescio.geometry
nescio.guards nescio.integrations nescio.losses nescio.metrics nescio.models nescio.monitoring
nescio.monitoring.shift nescio.nets nescio.report nescio.serving nescio.training
nescio.training.recipes nescio_papers nescio_papers.data
""".split()  # noqa: SIM905
CLASSES = (
    nescio.Activations,
    nescio.Audit,
    nescio.Categorical,
    nescio.Dirichlet,
    nescio.Gaussian,
    nescio.Guard,
    nescio.Model,
    nescio.Monitor,
    nescio.detectors.Detector,
    nescio.guards.Decisions,
)


def public(namespace: str) -> list[str]:
    """The names that a namespace gives on purpose, sorted."""
    module = importlib.import_module(namespace)
    source = Path(inspect.getfile(module)).read_text()
    found = {name for node in ast.parse(source).body for name in _given(node)}
    return sorted(name for name in found if not name.startswith("_"))


def _given(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (one.name for one in node.names if one.asname == one.name)
    elif isinstance(node, ast.If):  # under TYPE_CHECKING: what is loaded when it is asked for
        for inner in node.body:
            yield from _given(inner)


def attributes(kind: type) -> list[str]:
    """Fields, properties and methods without an underscore, sorted."""
    names = {name for name in dir(kind) if not name.startswith("_")}
    if dataclasses.is_dataclass(kind):
        names |= {field.name for field in dataclasses.fields(kind)}
    return sorted(name for name in names if not name.startswith("_"))


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, list[str]]]:
    """By command, with those of a group as `group command`."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        yield f"command {before}{name}", _parameters(command)
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")


def _parameters(command: click.Command) -> list[str]:
    """Arguments in capitals, options with dashes; sorted."""
    found: list[str] = []
    for part in command.params:
        if isinstance(part, click.Argument):
            found.append(str(part.name).upper())
        else:
            found += [*part.opts, *part.secondary_opts]
    return sorted(found)


def surface() -> dict[str, list[str]]:
    """All names, by where they are."""
    import nescio_papers  # noqa: F401

    kinds = {n: v for n, v in vars(registry).items() if isinstance(v, registry.Registry)}
    return {
        **{namespace: public(namespace) for namespace in NAMESPACES},
        **{f"registry {name}": sorted(kinds[name]) for name in sorted(kinds)},
        **{f"class {kind.__name__}": attributes(kind) for kind in CLASSES},
        **dict(sorted(commands(main))),
    }


def as_text(names: dict[str, list[str]]) -> str:
    """A name a line, below where it is."""
    return "".join(f"{where}\n" + "".join(f"    {n}\n" for n in names[where]) for where in names)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_name_is_there(namespace: str) -> None:
    module = importlib.import_module(namespace)
    for name in public(namespace):
        assert hasattr(module, name), f"{namespace}.{name}"


def test_the_surface_is_as_it_is_written_down() -> None:
    assert as_text(surface()).splitlines() == FILE.read_text().splitlines()


if __name__ == "__main__":
    FILE.write_text(as_text(surface()))
