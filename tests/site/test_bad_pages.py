"""What is wrong with a page fails the build, with a message that says where and what."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_a_good_page_builds(small):
    found = small("# Good\n\nCall `nescio.guards.guard`, run `nescio audit --budget quick`.\n")
    assert (found.code, found.said) == (0, [])
    html = (found.folder / "index.html").read_text()
    assert 'href="reference/api/nescio.html#nescio.guard"' in html


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# A\n\nCall `nescio.guards.gaurd`.\n", "index.md:3: there is no nescio.guards.gaurd"),
        ("# A\n\n```python\nnescio.gaurd(net)\n```\n", "index.md:4: there is no nescio.gaurd"),
        ("# A\n\n```sh\nls\nnescio audti\n```\n", "index.md:5: nescio audti: there is no command"),
        ("# A\n\nRun `nescio audit --bugdet quick`.\n", "did you mean '--budget'?"),
        ("# A\n\n![It](images/none.png)\n", "index.md: no file docs/pictures/*.py draws"),
    ],
)
def test_names_that_do_not_exist_fail_the_build(small, text, message):
    found = small(text)
    assert found.code == 1
    assert message in "\n".join(found.said)


def test_the_name_that_was_meant_is_said(small):
    found = small("# A\n\n`nescio.guards.gaurd`\n")
    assert "nescio.guards has no 'gaurd'; did you mean 'guard'?" in found.said[0]


def test_a_picture_older_than_its_code_is_reported(small):
    (small.docs / "pictures" / "rays.py").write_text('"""Rays."""\n')
    (small.docs / "images" / "rays.png").write_bytes(b"drawn by other code")
    found = small("# A\n\n![Rays](images/rays.png)\n")
    assert found.code == 1
    assert "docs/images/rays.png is older than docs/pictures/rays.py" in found.said[0]


def test_a_formula_becomes_mathml(small):
    found = small("# A\n\nThe share $1 - \\alpha$.\n\n$$\\sum_{i=1}^n x_i$$\n")
    html = (found.folder / "index.html").read_text()
    assert html.count("<math") == 2
    assert "alpha" not in html


def test_a_formula_that_cannot_be_converted_fails_the_build(small):
    found = small("# A\n\n$$\\begin{matrix} a & $$\n")
    assert found.code == 1
    assert "index.md: the formula" in "\n".join(found.said)


def test_a_notebook_older_than_its_code_is_reported(small):
    cell = {"cell_type": "code", "source": ["1 + 1"], "outputs": [], "execution_count": 1}
    notebook = {"cells": [cell], "metadata": {"nescio": {"code": "of other code"}}}
    found = small("# A\n", **{"lesson.ipynb": json.dumps(notebook)})
    assert found.code == 1
    assert "lesson.ipynb: the outputs are older than the code" in "\n".join(found.said)


STARTS = {
    "build.py": "sys.path[:0] = ['docs/site']; runpy.run_path('docs/site/build.py', run_name=NAME)",
    "mkdocs": "sys.argv.insert(1, 'build'); runpy.run_module('mkdocs', run_name=NAME)",
}


@pytest.mark.parametrize("start", STARTS)
def test_without_the_extra_the_build_says_what_to_install(start):
    for module in ("material", "mkdocstrings_handlers", "latex2mathml"):
        pytest.importorskip(module, reason='the site needs pip install "nescio[docs]"')
    code = (
        "import runpy, sys; NAME = '__main__'; sys.modules['latex2mathml'] = None; "
        f"sys.argv = ['it']; {STARTS[start]}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert 'the site needs latex2mathml: pip install "nescio[docs]"' in done.stderr
