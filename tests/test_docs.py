"""Every code block and command of the documentation runs, page by page.

Blocks marked `python` and `bash` run in order, in one empty folder per page. A line of `bash` that
ends in `# exit code 2` must end with this code, every other with 0. Blocks marked `sh` are not run
(they need the network, Docker or hours), but every nescio command in them is parsed. A comment
`<!-- setup` holds Python that makes the files of a page and is not shown. Output is `text`. A block
with `title="own.py"` is the file of this name, which the reader writes.
"""

import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nescio.cli.main import main
from nescio.core import registry

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NEEDED = {
    "guide/integrations.md": "pytorch_lightning"
}  # an extra, without which a page does not run
WRITTEN = {path.parent for path in DOCS.glob("*/results.json")}  # by `nescio reproduce`
PAGES = [ROOT / "README.md"]
PAGES += [p for p in sorted(DOCS.rglob("*.md")) if p.parent not in WRITTEN]
BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<kind>\w+)(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=indent)```|"
    r"^<!-- setup\n(?P<setup>.*?)^-->",
    re.DOTALL | re.MULTILINE,
)
KINDS = {"python", "bash", "sh", "text", "toml", "yaml", "json", "csv", "dockerfile", "xml"}
SHELL = re.compile(r"[|&;<>$*`]")


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """The kind and the code of each block; what sets up a page is `python`."""
    for found in BLOCK.finditer(page.read_text()):
        kind, code = found["kind"] or "python", textwrap.dedent(found["code"] or found["setup"])
        if kind == "python" and (file := re.search(r'title="([\w.]+)"', found["info"] or "")):
            code = f"import pathlib; pathlib.Path({file[1]!r}).write_text({code!r})"
        yield kind, code


def commands(code: str) -> Iterator[tuple[str, int]]:
    """The commands of a block with the exit code that each is said to have."""
    for line in code.replace("\\\n", " ").splitlines():
        said = re.search(r"# exit code (\d+)$", line)
        if (command := line.split(" # ")[0].strip()) and not command.startswith("#"):
            yield command, int(said[1]) if said else 0


def run(command: str, folder: Path) -> tuple[int, str]:
    """Run one command; a plain one of nescio in this process, which saves its start."""
    if command.startswith("nescio ") and not SHELL.search(command):
        done = CliRunner().invoke(main, shlex.split(command)[1:])
        return done.exit_code, f"{done.output}\n{done.exception!r}"
    path = f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; "
    words = ["bash", "-o", "pipefail", "-c", path + command]
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS if DOCS in page.parents else ROOT))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a page; what was imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    for name in [n for n, file in files.items() if file and Path(file).is_relative_to(tmp_path)]:
        del sys.modules[name]


@pytest.mark.filterwarnings("ignore:.*(does not have many workers|LeafSpec|logging interval).*")
@pytest.mark.parametrize(
    "page", [p for p in PAGES if {"python", "bash"} & {k for k, _ in blocks(p)}], ids=name_of
)
def test_the_blocks_of_a_page_run(page: Path, folder: Path) -> None:
    if name_of(page) in NEEDED:
        pytest.importorskip(NEEDED[name_of(page)])
    names: dict[str, object] = {"__name__": "__main__"}
    for kind, code in blocks(page):
        if kind == "python":
            exec(compile(code, page.name, "exec"), names)
        if kind == "bash":
            for command, said in commands(code):
                code_, output = run(command, folder)
                assert code_ == said, f"{command}\n{output}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_say_what_they_are(page: Path) -> None:
    assert {kind for kind, _ in blocks(page)} <= KINDS
    fences = re.findall(r"^ *```(.*)$", page.read_text(), re.MULTILINE)
    assert all(fences[::2]), "a block says what it is: python, bash, sh or text"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_that_are_not_run_exist(page: Path) -> None:
    for kind, code in blocks(page):
        for command, _ in commands(code) if kind == "sh" else ():
            for words in re.findall(r"(?:^|[;&|(] ?)nescio ([^;&|)]*)", command):
                parse(shlex.split(words))


def parse(words: list[str]) -> None:
    """Read a command's words without running it: its name and its options exist."""
    context = click.Context(main)
    name, command, rest = main.resolve_command(context, words)
    assert command is not None, words
    command.make_context(name, list(rest), parent=context, resilient_parsing=True)
    known = {opt for one in command.params for opt in (*one.opts, *one.secondary_opts)}
    for word in rest if not isinstance(command, click.Group) else []:
        option = word.split("=")[0]
        assert not word.startswith("--") or option in {*known, "--help", "--explain"}, words


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_within_the_documentation_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        assert re.match(r"https?://|mailto:", target) or (page.parent / target).exists(), target


@pytest.mark.parametrize("name", registry.measures)
def test_every_measure_stands_in_the_table(name: str) -> None:
    assert f"`{name}`" in (DOCS / "methods" / "measures.md").read_text()


@pytest.mark.parametrize("kind", ["losses", "heads"])
def test_every_loss_and_head_stands_in_the_docs(kind: str) -> None:
    text = (DOCS / "guide" / "training.md").read_text()
    for name in getattr(registry, kind):
        assert f"{name}" in text


@pytest.mark.parametrize("name", registry.acquisitions)
def test_every_acquisition_stands_in_the_table(name: str) -> None:
    assert f"| `{name}` |" in (DOCS / "methods" / "active-learning.md").read_text()


@pytest.mark.parametrize("name", registry.agents)
def test_every_agent_stands_in_the_table(name: str) -> None:
    assert f"| `{name}` |" in (DOCS / "methods" / "exploration.md").read_text()


def test_the_numbers_of_the_choice_are_in_their_tables() -> None:
    page = DOCS / "choose.md"
    _, _, listed = page.read_text().partition("## The numbers")
    rows = re.findall(r"^\| (\d[^|]*) \|[^|]*\| \[[^]]*\]\(([^)]+)\) \|", listed, re.MULTILINE)
    assert len(rows) >= 13
    for numbers, table in rows:
        text = (page.parent / table).read_text()
        for number in numbers.split(", "):
            assert number in text, f"{number} is not in {table}"
