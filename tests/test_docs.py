"""Every code block and command of the documentation runs, page by page.

Blocks marked `python` and `bash` run in order, in one empty folder per page. A line of `bash` that
ends in `# exit code 2` must end with this code, every other with 0. Blocks marked `sh` are not run
(they need the network, Docker or hours). Public names and nescio commands exist. A comment
`<!-- setup` holds Python that makes the files of a page and is not shown. Output is `text`. A block
with `title="own.py"` is the file of this name, which the reader writes.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nescio.cli.main import main
from nescio.core import registry

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.append(str(DOCS / "site"))
import names  # noqa: E402

NEEDED = {
    "guide/decision-log.md": "sqlalchemy",
    "guide/integrations.md": "pytorch_lightning",
    "guide/request-bodies.md": "orjson",
    "guide/serve.md": "fastapi",
    "guide/tables.md": "pandas",
    "how-to/fastapi.md": "fastapi",
    "how-to/hugging-face.md": "transformers",
}  # an extra, without which a page does not run
PROGRAMS = {"guide/serve.md": "curl"}  # without which a page does not run
WRITTEN = {path.parent for path in DOCS.glob("*/results.json")}  # by `nescio reproduce`
PAGES = [ROOT / "README.md"]
PAGES += [p for p in sorted(DOCS.rglob("*.md")) if p.parent not in WRITTEN]
KINDS = {"python", "bash", "sh", "text", "toml", "yaml", "json", "csv", "dockerfile", "xml"}
SHELL = re.compile(r"[|&;<>$*`]")


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """The kind and the code of each block; what sets up a page is `python`."""
    for block in names.blocks(page.read_text()):
        written = f"import pathlib; pathlib.Path({block.file!r}).write_text({block.code!r})"
        yield block.kind, written if block.file and block.kind == "python" else block.code


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


RUN = [p for p in PAGES if {"python", "bash"} & {k for k, _ in blocks(p)}]
HOW_TO = [p for p in RUN if p.parent.name == "how-to"]  # run by test_docs_how_to.py


@pytest.mark.filterwarnings("ignore:.*(does not have many workers|LeafSpec|logging interval).*")
@pytest.mark.parametrize("page", [p for p in RUN if p not in HOW_TO], ids=name_of)
def test_the_blocks_of_a_page_run(page: Path, folder: Path) -> None:
    run_blocks(page, folder)


def run_blocks(page: Path, folder: Path) -> None:
    """Run the blocks of a page in order, in the folder."""
    if name_of(page) in NEEDED:
        pytest.importorskip(NEEDED[name_of(page)])
    if shutil.which(PROGRAMS.get(name_of(page), "bash")) is None:
        pytest.skip(f"{PROGRAMS[name_of(page)]} is not installed")
    space: dict[str, object] = {"__name__": "__main__"}
    for kind, code in blocks(page):
        if kind == "python":
            exec(compile(code, page.name, "exec"), space)
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
def test_what_a_page_names_exists(page: Path) -> None:
    assert names.problems(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_within_the_documentation_lead_somewhere(page: Path) -> None:
    generated = (DOCS / "gallery.md",)  # the build of the site checks it
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        path = (page.parent / target).resolve()
        made = any(path == one or one in path.parents for one in generated)
        assert made or re.match(r"https?://|mailto:", target) or path.exists(), target


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
    rows = re.findall(r"^\| ([\d.][^|]*) \|[^|]*\| \[[^]]*\]\(([^)]+)\) \|", listed, re.MULTILINE)
    assert len(rows) >= 13
    for numbers, table in rows:
        text = (page.parent / table).read_text()
        for number in numbers.split(", "):
            assert number in text, f"{number} is not in {table}"
