"""The blocks of the how-to pages run; apart from the others, so that two workers share them."""

import runpy
from pathlib import Path

import pytest

DOCS = runpy.run_path(str(Path(__file__).with_name("test_docs.py")))
folder = DOCS["folder"]


@pytest.mark.parametrize("page", DOCS["HOW_TO"], ids=DOCS["name_of"])
def test_the_blocks_of_a_page_run(page: Path, folder: Path) -> None:
    DOCS["run_blocks"](page, folder)
