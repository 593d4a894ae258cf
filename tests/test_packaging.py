"""What `pyproject.toml` claims: every import is declared, and the lower bounds are those tested."""

import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from nescio.version import VERSION

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = {
    "scikit-learn": "sklearn",
    "pillow": "PIL",
    "mlflow-skinny": "mlflow",
}  # distribution: module
EXTRAS = ("scale", "search", "exploration")
PARTNERS = ("serve", "onnx", "lightning", "transformers", "mlflow")  # tested as pinned
TOOLS = {"pytest", "pytest-xdist", "hypothesis", "mypy", "ruff", "accelerate"}  # run, not imported
TOOLS |= {"jsonschema", "playwright", "axe-playwright-python"}
TOOLS |= {"psycopg", "schemathesis", "opentelemetry-sdk", "tritonclient", "kubernetes-validate"}
TOOLS |= {"mlflow-skinny", "pandas", "mkdocs-material", "mkdocstrings"}
# read where a user has them; nothing needs them
OFFERED = {"pytest", "pandas", "polars", "jax", "lightning", "cryptography", "opentelemetry"}
OFFERED |= {"starlette", "pydantic"}  # FastAPI brings them


def bounds(requirements: list[str]) -> dict[str, str]:
    plain = [re.sub(r"\[.*\]", "", one) for one in requirements if not one.startswith("nescio[")]
    pairs = [re.split(">=|==", one) for one in plain]
    return {name.lower(): version for name, version in pairs}


@cache
def imported(folder: Path) -> set[str]:
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names)


def test_what_is_imported_is_declared() -> None:
    extras = PROJECT["optional-dependencies"]
    optional = [one for extra in (*EXTRAS, *PARTNERS) for one in extras[extra]]
    declared = {*bounds(PROJECT["dependencies"]), *bounds(optional)}
    modules = {NAMES.get(name, name).replace("-", "_") for name in declared}
    own = {"nescio", "nescio_papers"}
    assert imported(ROOT / "src") - own - OFFERED <= modules


@pytest.mark.parametrize("extra", [*EXTRAS, *PARTNERS, "docs", "dev"])
def test_an_extra_pulls_only_what_is_imported(extra: str) -> None:
    asked = bounds(PROJECT["optional-dependencies"][extra])
    used = imported(ROOT / "src") | imported(ROOT / "tests") | imported(ROOT / "docs" / "site")
    assert {NAMES.get(name, name).replace("-", "_") for name in asked if name not in TOOLS} <= used


def test_the_oldest_versions_that_are_tested_are_those_claimed() -> None:
    oldest = bounds((ROOT / "constraints-oldest.txt").read_text().split())
    claimed = bounds(PROJECT["dependencies"])
    for extra in EXTRAS:
        claimed |= bounds(PROJECT["optional-dependencies"][extra])
    assert {name: oldest.get(name) for name in claimed} == claimed


def test_the_source_distribution_holds_the_tests() -> None:
    said = (ROOT / "MANIFEST.in").read_text()
    for folder in ("tests", "benchmarks", "docs"):
        assert f"graft {folder}" in said
    assert "mkdocs.yml" in said


def test_the_wheel_holds_every_file_that_is_not_python() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    for package, globs in patterns["package-data"].items():
        folder = ROOT / "src" / package
        shipped = {path for pattern in globs for path in folder.glob(pattern)}
        there = {p for p in folder.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")}
        assert there <= shipped


def test_the_citation_and_the_templates_can_be_read() -> None:
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == VERSION
    assert citation["license"] == PROJECT["license"]
    templates = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    asked = {path.stem: yaml.safe_load(path.read_text()).get("body") for path in templates}
    assert {"bug", "idea", "question"} <= set(asked)
    for name in ("bug", "idea", "question"):
        assert all({"type", "id", "attributes"} <= set(field) for field in asked[name])
        assert any(field.get("validations", {}).get("required") for field in asked[name])
