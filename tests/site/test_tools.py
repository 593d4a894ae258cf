"""The parts of the build, one by one: notebooks, docstrings, names, help and prose as pages."""

import importlib
import json
from pathlib import Path

import pytest

pytest.importorskip("latex2mathml", reason='the site needs pip install "nescio[docs]"')

import api
import commands
import names
import notebook_pages
import prose
from formulas import FormulaError, with_mathml

ROOT = Path(__file__).parents[2]
SAMPLE = '''
from dataclasses import dataclass


def fit(x, y, *, low=0.1, high=1.0, seed=0):
    """Fit it.

    A second paragraph.

    >>> fit(1, 2)  # doctest: +SKIP
    3

    x, y: the data; y has
      the labels.
    low: the least value: a share.
    high: the largest.

    After them: prose.
    """


@dataclass
class Held:
    """Holds.

    second: said here.
    """

    first: int  # said beside
    second: str = 'a'

    def show(self, *, size: int = 3):
        """Show.

        size: in inches.
        """
'''
NAMED = """# T

A `nescio.guard` and `nescio.toml`, `nescio-audit`.

<!-- setup
nescio.nothing
-->

- a list

    ```python
    nescio.audit(1).nothing
    nescio.Guard.risk
    nescio.Guard.riks
    ```

`nescio COMMAND --help`, `nescio label start`,
`nescio label strat`

| `nescio completion fish \\| source` |

```bash
nescio audti  # exit code 1
nescio audit \\
  --logits a.npy \\
  --nothing # exit code 2
```
"""
WRITTEN = """<!-- setup
x = 1
-->
# The title

![A picture](a.png)

```python
# no title
```

Read [the `page`](a.md#b) first. Then go
on.

- a list
"""
HELP = """First *line*
of a | b.

\b
nescio audit --net a_b
    more

Use --out <x> or `--in`.
"""


def notebook(*cells, code=None):
    made = {"cells": list(cells), "metadata": {"nescio": {"code": code}}}
    return json.dumps(made)


def cell(source, *outputs):
    return {"cell_type": "code", "source": source, "outputs": list(outputs)}


def test_a_notebook_becomes_markdown():
    picture = {
        "output_type": "display_data",
        "data": {"image/png": "iVBO\nRw0K", "text/plain": "F"},
    }
    table = {"output_type": "execute_result", "data": {"text/html": ["<table>\n", "\n</table>"]}}
    printed = {"output_type": "stream", "text": ["\x1b[31mred\x1b[0m\n"]}
    text = notebook(
        {"cell_type": "markdown", "source": ["# Title\n", "\n", "Words."]},
        cell("print(1)", printed, picture, table),
    )
    page = notebook_pages.page(text, "it.ipynb")
    assert page.startswith('# Title\n\n<p class="notebook"><a href="it.ipynb" download>')
    assert "```python\nprint(1)\n```\n\n```text\nred\n```" in page
    assert 'src="data:image/png;base64,iVBORw0K"' in page
    assert '<div class="output">\n<table>\n</table>\n</div>' in page  # a blank line would end it


def test_code_with_fences_stays_one_block():
    page = notebook_pages.page(notebook(cell('"""\n```python\nx\n```\n"""')), "it.ipynb")
    assert page.count("````") == 2


def test_the_digest_of_a_notebook_is_of_its_code_alone():
    text = notebook(cell("a"), {"cell_type": "markdown", "source": "b"}, cell(["c\n", "d"]))
    digest = notebook_pages.digest(json.loads(text))
    assert notebook_pages.outdated(text)
    again = notebook(cell("a"), {"cell_type": "markdown", "source": "B"}, cell("c\nd"), code=digest)
    assert not notebook_pages.outdated(again)


def test_docstrings_become_tables(tmp_path):
    griffe = pytest.importorskip("griffe")
    import conventions

    (tmp_path / "sample.py").write_text(SAMPLE)
    extensions = griffe.load_extensions("dataclasses")
    loader = griffe.GriffeLoader(search_paths=[tmp_path], extensions=extensions)
    module = loader.load("sample")
    conventions.describe_function(module["fit"])
    prose_, table = module["fit"].docstring.parsed
    assert "```pycon\n>>> fit(1, 2)\n3\n```" in prose_.value
    assert prose_.value.endswith("After them: prose.")
    rows = {row.name: (row.description, row.value) for row in table.value}
    assert rows == {
        "x": ("the data; y has the labels.", None),
        "y": ("the data; y has the labels.", None),
        "low": ("the least value: a share.", "0.1"),
        "high": ("the largest.", "1.0"),
        "seed": ("", "0"),
    }
    conventions.describe_class(module["Held"])
    fields = module["Held"].docstring.parsed[1]
    assert [(one.name, one.description, one.value) for one in fields.value] == [
        ("first", "said beside", None),
        ("second", "said here.", "'a'"),
    ]
    assert "first" not in module["Held"].members
    assert module["Held"]["show"].docstring.parsed[1].value[0].description == "in inches."


def test_names_are_found_with_their_lines():
    found = dict(names.problems(NAMED))
    assert set(found) == {6, 14, 18, 24}
    assert "did you mean 'risk'?" in found[14]
    assert "--nothing" in found[24]


@pytest.mark.parametrize(
    "words",
    ["--version", "audit --help", "audit --explain", "data download mnist", "score a.x b.npz"],
)
def test_commands_that_exist_are_read(words):
    names.parse(words.split())


def test_help_becomes_markdown():
    assert commands.markdown(HELP) == (
        "First \\*line\\* of a \\| b.\n\n```sh\nnescio audit --net a_b\n    more\n```\n\n"
        "Use `--out` &lt;x> or `--in`."
    )


def test_the_first_paragraph_of_a_page():
    assert prose.title(WRITTEN) == "The title"
    assert prose.opening(WRITTEN) == "Read the `page` first. Then go on."
    assert prose.sentence(WRITTEN) == "Read the `page` first."
    assert list(prose.pictures(WRITTEN)) == [("A picture", "a.png")]


def test_formulas():
    html = '<p><span class="arithmatex">\\(x &lt; \\alpha\\)</span></p>'
    assert "<mo>&#x0003C;</mo>" in with_mathml(html)
    assert "\\(" not in with_mathml(html)
    with pytest.raises(FormulaError, match="unknowncommand"):
        with_mathml('<div class="arithmatex">\\[\\unknowncommand{x}\\]</div>')


@pytest.mark.parametrize(
    ("tool", "name", "meant"),
    [("pictures", "calibratio", "calibration"), ("notebooks", "image", "images")],
)
def test_a_picture_or_notebook_that_does_not_exist_is_a_hint(tool, name, meant, capsys):
    assert importlib.import_module(tool).main([name]) == 1
    assert f"did you mean {meant!r}?" in capsys.readouterr().out


def test_links_to_source_files_lead_to_their_pages():
    hooks = pytest.importorskip("hooks", reason='the site needs pip install "nescio[docs]"')
    found = {**api.sources(), **commands.sources()}
    assert all((ROOT / path).is_file() for path in found)
    assert set(found.values()) == {*api.pages(), *commands.pages()}
    for target, page in (
        ("../../src/nescio/conformal/__init__.py", "../reference/api/nescio.conformal.md"),
        ("../../src/nescio/core/heads.py", "../reference/api/nescio.core.heads.md"),
        ("../../src/nescio/cli/audit.py", "../reference/commands/audit.md"),
        ("../../tests/surface.txt", "../reference/api/index.md"),
        ("../../src/nescio/cli/main.py", "../reference/commands/index.md"),
        ("metrics.md", "metrics.md"),
    ):
        assert hooks._inside("methods/page.md", target) == page
