"""Numbers that may only fall: what the code still has too much of, and what to do about it."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import nescio

SOURCE = Path(nescio.__file__).parent
ROOT = SOURCE.parents[1]
FILES = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
TREES = {path: ast.parse(text) for path, text in FILES.items()}

LONGEST = 60  # code lines of a function
FIELDS = 3  # that a constructor may take by position
LONG_FUNCTIONS = 0
PAST_INIT = 190
POSITIONAL = 34
REPEATED_STEMS = 0
REPEATED_CLASSES = 6
MATCHED_MESSAGES = 1


def where(path: Path, node: ast.AST | None = None) -> str:
    line = f":{node.lineno}" if node is not None else ""
    return f"{path.relative_to(SOURCE)}{line}"


def ratchet(offenders: list[str], most: int, advice: str) -> None:
    """At most `most` offenders; where there are fewer, lower the number in this file."""
    listed = "\n  ".join(offenders)
    assert len(offenders) <= most, f"{len(offenders)} > {most}; {advice}:\n  {listed}"


def code_lines(node: ast.AST, text: str) -> int:
    """Lines of a function without docstrings, comments and blank ones."""
    prose = set()
    for inner in ast.walk(node):
        if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(inner):
            prose |= set(range(inner.body[0].lineno, inner.body[0].end_lineno + 1))
    lines = text.splitlines()
    numbers = set(range(node.lineno, node.end_lineno + 1)) - prose
    return sum(bool(line := lines[n - 1].strip()) and not line.startswith("#") for n in numbers)


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[Path, ast.AST]]:
    for path, tree in TREES.items():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, kinds))


def test_functions_are_short():
    long = [
        f"{where(path, node)} {node.name}: {count}"
        for path, node in nodes(ast.FunctionDef)
        if (count := code_lines(node, FILES[path])) > LONGEST
    ]
    ratchet(long, LONG_FUNCTIONS, "cut the function: a helper for each step")


def test_rooms_import_each_other_through_their_init():
    past = []
    for path, node in nodes(ast.ImportFrom):
        parts = (node.module or "").split(".")
        other = len(parts) > 2 and parts[0] == "nescio" and parts[1] != path_room(path)
        if other and not (parts[1] == "core" and parts[2:] == ["registry"]):
            past.append(f"{where(path, node)} {node.module}")
    ratchet(past, PAST_INIT, "export the name in the room's __init__ and import it from the room")


def path_room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


def test_constructors_of_many_fields_take_keywords():
    many = []
    for path, node in nodes(ast.ClassDef):
        options = [d for d in node.decorator_list if "dataclass" in ast.dump(d)]
        if options and "kw_only" not in ast.dump(options[0]):
            fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            named = [one for one in fields if "ClassVar" not in ast.dump(one.annotation)]
            named = [one for one in named if "kw_only" not in ast.dump(one)]
            many += [f"{where(path, node)} {node.name}"] if len(named) > FIELDS else []
    ratchet(many, POSITIONAL, "write @dataclass(frozen=True, kw_only=True) and name the fields")


def test_a_module_stem_occurs_once():
    counts = Counter(path.stem for path in FILES if path.stem != "__init__")
    verbs = {path.stem for path in (SOURCE / "cli").glob("*.py")}
    twice = sorted(stem for stem, count in counts.items() if count > 1 and stem not in verbs)
    ratchet(twice, REPEATED_STEMS, "give one of the modules the name of what it alone holds")


def test_a_public_class_name_occurs_once():
    names = Counter(node.name for _, node in nodes(ast.ClassDef) if node.name[0] != "_")
    twice = sorted(name for name, count in names.items() if count > 1)
    ratchet(twice, REPEATED_CLASSES, "rename one of the classes: a name means one thing")


def test_code_does_not_match_the_text_of_messages():
    pattern = re.compile(
        r"\bin str\((error|caught|exception|e|err)\b|str\(error\)\.(starts|ends)with"
    )
    matching = [where(path) for path, text in FILES.items() if pattern.search(text)]
    ratchet(matching, MATCHED_MESSAGES, "raise and catch a class of its own instead")


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
MODULES = {
    "psycopg": "sqlalchemy",  # which loads it by the address of a database
    "prometheus-client": "prometheus_client",
    "mlflow-skinny": "mlflow",
}  # where they differ


@pytest.mark.parametrize("extra", [name for name in EXTRAS if name not in ("dev", "docs")])
def test_every_extra_is_imported_somewhere(extra):
    folders = (ROOT / "src", ROOT / "benchmarks")
    text = "\n".join(p.read_text() for folder in folders for p in folder.rglob("*.py"))
    for requirement in EXTRAS[extra]:
        package = re.split(r"[\[<>=!~]", requirement)[0].strip()
        module = MODULES.get(package, package.replace("-", "_"))
        assert re.search(rf"^\s*(import|from) {module}\b", text, re.M), (
            f"nothing imports {module}; take {requirement!r} out of the extra {extra!r}"
        )
