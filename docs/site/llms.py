"""`llms.txt` for readers that are programs: the pages by section, each as Markdown."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

KEPT: dict[str, str] = {}  # the Markdown by the path of the page


def keep(page: Page, markdown: str) -> None:
    """Remember the Markdown of a page."""
    KEPT[page.file.dest_uri] = markdown


def write(config: MkDocsConfig) -> None:
    """Write the files."""
    for path, text in KEPT.items():
        (Path(config.site_dir) / path).with_suffix(".md").write_text(text)
