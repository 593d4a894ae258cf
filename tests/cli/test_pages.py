"""`nescio COMMAND --explain` prints the first paragraph of the page about the command."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import Result

from nescio.cli.main import COMMANDS, reference

ROOT = Path(__file__).parents[2]
Run = Callable[..., Result]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    tools = str(ROOT / "docs" / "site")
    if tools not in sys.path:
        sys.path.append(tools)
    return importlib.import_module("command_pages")


def test_the_paragraphs_are_those_of_the_pages(script: ModuleType) -> None:
    written = json.loads(script.FILE.read_text("utf-8"))
    assert written == script.pages(), "python docs/site/command_pages.py"
    assert script.main(["--check"]) == 0


@pytest.mark.parametrize("name", ["", *(one.name for one in reference())])
def test_a_command_is_explained_by_its_page(name: str, nescio: Run, script: ModuleType) -> None:
    result = nescio(*name.split(), "--explain")
    assert result.exit_code == 0, result.output
    said, _, end = result.output.rpartition("\n\n")
    page = end.split("documentation: ")[1].split()[0]
    assert (ROOT / "docs" / page).is_file()
    assert " ".join(said.split()) == json.loads(script.FILE.read_text("utf-8"))[page]
    assert len(said) > 40
    assert max(map(len, result.output.splitlines())) <= 80


def test_pages_say_what_their_command_is_about() -> None:
    pages = {one.name: one.command.page for one in reference() if one.name in COMMANDS}
    assert pages["audit"] == "guide/audit.md"
    assert pages["score"] == pages["guard"] == "guide/guard.md"
    assert pages["monitor"] == "methods/monitoring.md"


@pytest.mark.parametrize(
    ("markdown", "said"),
    [
        ("# Title\n\nOne.\nTwo.\n\nThree.", "One. Two."),
        ("# T\n\n    nescio list  code\n\nAfter code.", "After code."),
        ("# T\n\n<!-- setup\nx = 1\n\ny = 2\n-->\n\nText.", "Text."),
        ("# T\n\n![A picture](a.png)\n\n<p>x</p>\n\nA [link](b.md#c).", "A link."),
        ("# T\n\n```bash\nnescio audit\n\nmore\n```\n\nAfter `a_b` and *c* and **d e**.",
         "After `a_b` and c and d e."),
        ("# T\n\n!!! note\n    Inside.\n\n| a | b |\n|---|---|\n\n- one\n- two\n\nAt last:",
         "At last."),
        ("# T\n\n`nescio.guard` is [`guard`](x.md), 2 * 3 * 4, snake_case_name.",
         "`nescio.guard` is `guard`, 2 * 3 * 4, snake_case_name."),
    ],
)  # fmt: skip
def test_the_first_paragraph(markdown: str, said: str, script: ModuleType) -> None:
    assert script.first_paragraph(markdown) == said


def test_a_page_without_prose_is_an_error(script: ModuleType) -> None:
    with pytest.raises(ValueError, match="no paragraph"):
        script.first_paragraph("# Title\n\n| a |\n|---|\n")
