"""Do the tests notice? Small changes of sampled lines, and the tests that should fail with each.

`make mutants`, or `python -m benchmarks.mutants --count 60 --seed 1 --out mutants.json`. A mutant
is killed by a failing test, or by tests that do not end. All run in copies of the project, so that
nothing in use is changed and edits of it do not count. The tests of a mutant run in three stages:
those that are named after the file or mention its functions, the golden numbers, and the rest of
the room. A stage starts from a process that has loaded torch, which saves most of its start.

Mutants that change nothing a user could see are listed in `mutants_equivalent.json` by file and
changed line, with the reason; the rate leaves them out.
"""

import argparse
import ast
import contextlib
import copy
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE, TESTS = ROOT / "src" / "nescio", ROOT / "tests"
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.json")
LOADED = ("torch", "pytest", "scipy.stats", "sklearn.linear_model",
          "matplotlib.figure", "rich.table", "jinja2", "PIL.Image")  # fmt: skip
FLIPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or,
    ast.Or: ast.And,
}  # fmt: skip
NEAREST = 3  # files of tests in the first stage, beside those named after the changed file
BROKEN = 97  # the exit code of tests that could not be started


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
    by: str = ""  # the test that failed

    @property
    def changed(self) -> str:
        """The line as it is now, without the space around it."""
        return self.text.splitlines()[self.line - 1].strip()

    def shown(self) -> dict[str, object]:
        """Without the whole text."""
        about = {name: value for name, value in asdict(self).items() if name != "text"}
        return {**about, "changed": self.changed}


def places(path: Path) -> list[tuple[Path, ast.AST, str, ast.AST]]:
    """All small changes of a file: the path, a node, the kind of change, and the changed node."""
    tree = ast.parse(path.read_text())
    left = {id(inner) for part in _left_out(tree) for inner in ast.walk(part)}
    nodes = [node for node in ast.walk(tree) if hasattr(node, "lineno") and id(node) not in left]
    return [(path, node, kind, changed) for node in nodes for kind, changed in _changes(node)]


def mutant(path: Path, node: ast.AST, kind: str, changed: ast.AST) -> Mutant:
    """The whole file with one change."""
    source, after = path.read_text(), ast.unparse(changed)
    return Mutant(
        file=str(path.relative_to(SOURCE)),
        line=getattr(node, "lineno"),  # noqa: B009
        kind=kind,
        before=ast.get_source_segment(source, node) or "",
        after=after,
        text=_spliced(source, node, after),
    )


def _left_out(tree: ast.AST) -> Iterator[ast.AST]:
    """Texts with values, whose places Python 3.11 does not know, annotations, messages."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.JoinedStr, ast.Raise)):
            yield node
        elif isinstance(node, ast.keyword) and node.arg in ("frozen", "strict"):
            yield node.value  # what no correct call meets
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
    """Mutants drawn from all places of all files, or of those of a folder."""
    files = [p for p in sorted((SOURCE / under).rglob("*.py")) if p.name != "__init__.py"]
    every = [place for path in files for place in places(path)]
    return [mutant(*place) for place in random.Random(seed).sample(every, min(count, len(every)))]


def stages(one: Mutant) -> list[list[str]]:
    """The tests of a mutant: those about its file, the golden ones, the rest of its room."""
    path = Path(one.file)
    defined = re.findall(r"^(?:def|class) ([A-Za-z]\w+)", one.text, re.MULTILINE)
    named = re.compile(rf"\b({'|'.join([*defined, path.stem])})\b")
    every = sorted(TESTS.rglob("test_*.py"))
    room = [p for p in every if p.relative_to(TESTS).parts[0] == path.parts[0]]
    own = [p for p in room if path.stem in p.stem]
    about = [p for p in room if p not in own and named.search(p.read_text())]
    about.sort(key=lambda p: -len(named.findall(p.read_text())))
    first = [*own, *about[:NEAREST]]
    told = [first, [TESTS / "golden"], [p for p in room if p not in first]]
    return [[str(p.relative_to(ROOT)) for p in some] for some in told]


def tried(one: Mutant, tests: Sequence[str], folder: Path, seconds: int) -> Mutant:
    """The mutant with its fate: killed, survived, or slow, which counts as killed."""
    target, log = folder / "src" / "nescio" / one.file, folder / "log"
    kept = target.read_text()
    target.write_text(one.text)
    fate = _fate(tests, folder, log, seconds)
    target.write_text(kept)
    return replace(one, fate=fate, by=_failed(log) if fate == "killed" else "")


def _failed(log: Path) -> str:
    """The first test that failed, as pytest names it."""
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", log.read_text(errors="replace"), re.MULTILINE)
    return found[1] if found else ""


def _fate(tests: Sequence[str], folder: Path, log: Path, seconds: int) -> str:
    """Run tests in a fork of this process, with a limit on its time of computing and of waiting."""
    if not tests:
        return "survived"
    child = os.fork()
    if child == 0:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        try:
            os._exit(_run(tests, folder, seconds))
        finally:  # never back to the caller, who would clean up
            traceback.print_exc()
            os._exit(BROKEN)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what its tests have started
        return "slow"
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == BROKEN:
        raise RuntimeError(log.read_text(errors="replace")[-2000:])
    return "survived" if status == 0 else "killed"


def _run(tests: Sequence[str], folder: Path, seconds: int) -> int:
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    signal.alarm(10 * seconds)
    os.chdir(folder)
    os.environ.update(PYTHONPATH=str(folder / "src"), PYTHONDONTWRITEBYTECODE="1")
    sys.dont_write_bytecode = True
    sys.path[0] = str(folder / "src")
    return int(pytest.main(["-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]))


def all_tried(some: Sequence[Mutant], jobs: int, seconds: int, out: Path) -> list[Mutant]:
    """Every mutant with its fate, `jobs` at a time, each in a copy of the project."""
    for name in LOADED:
        import_module(name)
    with tempfile.TemporaryDirectory() as name:
        for job in range(jobs):
            hidden = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "mutants*.json")
            shutil.copytree(ROOT, Path(name) / f"{job}", ignore=hidden)
            if os.fork() == 0:
                try:
                    _work(some[job::jobs], Path(name) / f"{job}", seconds)
                    os._exit(0)
                finally:
                    traceback.print_exc()
                    os._exit(BROKEN)
        codes = [os.wait()[1] for _ in range(jobs)]
        if any(codes):
            raise SystemExit("some mutants could not be tried")
        parts = [Path(name) / f"{job}.jsonl" for job in range(jobs)]
        found = [Mutant(**json.loads(line)) for p in parts for line in p.read_text().splitlines()]
    out.write_text(json.dumps(summed(found), indent=1))
    return found


def _work(some: Sequence[Mutant], folder: Path, seconds: int) -> None:
    """All mutants through the first stage, those that survive through the next."""
    done: list[Mutant] = []
    for stage in range(3):
        for untried in some:
            one = tried(untried, stages(untried)[stage], folder, seconds)
            print(f"{stage} {_told(one)}", flush=True)
            done.append(one)
        some = [one for one in done if one.fate == "survived"]
        done = [one for one in done if one.fate != "survived"]
    text = "".join(json.dumps(asdict(one)) + "\n" for one in [*done, *some])
    folder.with_suffix(".jsonl").write_text(text)


def _told(one: Mutant) -> str:
    return (
        f"{one.fate:9} {one.file}:{one.line} {one.kind}: {one.before!r} -> {one.after!r} {one.by}"
    )


def summed(found: Sequence[Mutant]) -> dict[str, object]:
    """The rate of killed mutants among those that are not equivalent, and the survivors."""
    equivalent = {(e["file"], e["changed"]) for e in json.loads(EQUIVALENT.read_text())}
    survivors = [one for one in found if one.fate == "survived"]
    same = [one for one in survivors if (one.file, one.changed) in equivalent]
    killed, counted = len(found) - len(survivors), len(found) - len(same)
    return {
        "killed": killed,
        "mutants": len(found),
        "equivalent": len(same),
        "rate": killed / max(counted, 1),
        "survivors": [one.shown() for one in survivors if one not in same],
        "all": [one.shown() for one in found],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="the number of mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--under", default="", help="only files of this folder of src/nescio")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--seconds", type=int, default=300, help="of computing, for one stage")
    parser.add_argument("--out", default="mutants.json", help="where the table is written")
    given = parser.parse_args()
    some = drawn(given.count, given.seed, given.under)
    table = summed(all_tried(some, given.jobs, given.seconds, Path(given.out)))
    print(f"{table['killed']} of {table['mutants']} mutants are killed, {table['equivalent']} are "
          f"equivalent: {100 * float(str(table['rate'])):.1f} %")  # fmt: skip


if __name__ == "__main__":
    main()
