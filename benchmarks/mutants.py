"""Do the tests notice? Small changes of sampled lines, and the tests that mirror each file.

`make mutants`, or `python -m benchmarks.mutants --count 60 --seed 1 --out mutants.json`. A mutant
is killed by a failing test, or by tests that do not end. Each runs in a copy of the source, so that
nothing of the project is changed.
"""

import argparse
import ast
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE, TESTS = ROOT / "src" / "nescio", ROOT / "tests"
FLIPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or,
    ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: the line as it was and as it is."""

    file: str
    line: int
    kind: str
    before: str
    after: str
    text: str  # the whole changed file
    fate: str = "survived"

    def shown(self) -> dict[str, object]:
        """Without the text."""
        return {name: value for name, value in asdict(self).items() if name != "text"}


def mutants(path: Path) -> Iterator[Mutant]:
    """All small changes of a file, one at a time."""
    source = path.read_text()
    tree = ast.parse(source)
    left = {id(inner) for part in _left_out(tree) for inner in ast.walk(part)}
    for node in ast.walk(tree):
        if not hasattr(node, "lineno") or id(node) in left:
            continue
        for kind, changed in _changes(node):
            segment = ast.get_source_segment(source, node) or ""
            yield Mutant(
                file=str(path.relative_to(SOURCE)),
                line=node.lineno,
                kind=kind,
                before=segment,
                after=ast.unparse(changed),
                text=_spliced(source, node, ast.unparse(changed)),
            )


def _left_out(tree: ast.AST) -> Iterator[ast.AST]:
    """Texts with values, whose places Python 3.11 does not know, annotations and messages."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.JoinedStr, ast.Raise)):
            yield node
        elif isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            yield node.returns


def _spliced(source: str, node: ast.AST, text: str) -> str:
    """The file with the lines of one node replaced; comments elsewhere stay."""
    lines = source.encode().splitlines(keepends=True)
    first, last = getattr(node, "lineno") - 1, getattr(node, "end_lineno") - 1  # noqa: B009
    head = lines[first][: getattr(node, "col_offset")]  # noqa: B009
    rest = lines[last][getattr(node, "end_col_offset") :]  # noqa: B009
    body = f"({text})" if isinstance(node, ast.expr) else text
    return b"".join([*lines[:first], head, body.encode(), rest, *lines[last + 1 :]]).decode()


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The changed copies of one node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPPED:
        changed = copy.deepcopy(node)
        changed.ops[0] = FLIPPED[type(node.ops[0])]()  # type: ignore[call-overload]
        yield "comparison", changed
    elif isinstance(node, ast.BinOp) and type(node.op) in FLIPPED and not _of_types(node):
        operation = copy.deepcopy(node)
        operation.op = FLIPPED[type(node.op)]()  # type: ignore[assignment]
        yield "sign", operation
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield "sign", copy.deepcopy(node.operand)
    elif isinstance(node, ast.BoolOp):
        logical = copy.deepcopy(node)
        logical.op = FLIPPED[type(node.op)]()  # type: ignore[assignment]
        yield "logic", logical
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        truth = isinstance(node.value, bool)
        yield "constant", ast.Constant(not node.value if truth else node.value + 1)
    elif isinstance(node, (ast.AugAssign, ast.Expr)) and _does_something(node):
        yield "removed", ast.Pass()


def _of_types(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.Constant) and isinstance(side.value, str)
               for side in (node.left, node.right)) or isinstance(node.op, ast.BitOr)  # fmt: skip


def _does_something(node: ast.AST) -> bool:
    if isinstance(node, ast.AugAssign):
        return True
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def drawn(count: int, seed: int, under: str) -> list[Mutant]:
    """Mutants of files drawn by their length, each of another place."""
    chosen = random.Random(seed)
    files = [p for p in sorted(SOURCE.rglob(f"{under}*.py")) if p.name != "__init__.py"]
    if under and (SOURCE / under).is_dir():
        files = [p for p in sorted((SOURCE / under).rglob("*.py")) if p.name != "__init__.py"]
    every = {path: list(mutants(path)) for path in files}
    flat = [(path, i) for path, some in every.items() for i in range(len(some))]
    picked = chosen.sample(flat, min(count, len(flat)))
    return [every[path][i] for path, i in picked]


def tests_of(file: str) -> list[str]:
    """The tests that mirror a file: of its room, the golden ones, and those named after it."""
    path = Path(file)
    folder = TESTS / path.parent
    while not folder.exists():
        folder = folder.parent
    if folder == TESTS:
        return [str(p.relative_to(ROOT)) for p in sorted(TESTS.glob("test_*.py"))][:3]
    own = sorted(folder.glob(f"test_*{path.stem}*.py"))
    rest = [p for p in sorted(folder.rglob("test_*.py")) if p not in own]
    extra = [TESTS / "golden"]
    return [str(p.relative_to(ROOT)) for p in [*own, *rest, *extra]]


def tried(mutant: Mutant, folder: Path, seconds: float) -> Mutant:
    """The mutant with its fate: killed, survived, or slow, which counts as killed."""
    target = folder / "nescio" / mutant.file
    kept = target.read_text()
    target.write_text(mutant.text)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    variables = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        run = subprocess.run(
            [*command, *tests_of(mutant.file)], cwd=ROOT, env=variables, capture_output=True,
            timeout=seconds, check=False,
        )  # fmt: skip
        fate = "survived" if run.returncode == 0 else "killed"
    except subprocess.TimeoutExpired:
        fate = "slow"
    finally:
        target.write_text(kept)
    return Mutant(**{**asdict(mutant), "fate": fate})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="the number of mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--under", default="", help="only files of this folder of src/nescio")
    parser.add_argument("--seconds", type=float, default=900, help="for the tests of one mutant")
    parser.add_argument("--out", default="mutants.json", help="where the table is written")
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "src", folder, dirs_exist_ok=True)
        for mutant in drawn(given.count, given.seed, given.under):
            found.append(tried(mutant, folder, given.seconds))
            one = found[-1]
            print(f"{one.fate:9} {one.file}:{one.line} {one.kind}: {one.before!r} -> {one.after!r}",
                  flush=True)  # fmt: skip
            killed = sum(one.fate != "survived" for one in found)
            table = {"killed": killed, "mutants": len(found), "rate": killed / len(found)}
            shown = [one.shown() for one in found]
            Path(given.out).write_text(json.dumps({**table, "all": shown}, indent=1))
    print(f"{killed} of {len(found)} mutants are killed, {100 * killed / len(found):.1f} %")


if __name__ == "__main__":
    main()
