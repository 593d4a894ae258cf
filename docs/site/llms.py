"""`llms.txt` for readers that are programs: the pages by section, each linked as Markdown.

The Markdown of a page is written beside it: `guide/guard.md` beside `guide/guard.html`. Where an
entry of the API would be written by mkdocstrings, the signature and the docstring are in its place.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure import StructureItem
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

import api
import prose

LEFT_OUT = ("Papers", "Reference", "Gallery")  # of llms-full.txt
INLINE = re.compile(r'<img [^>]*src="data:[^>]*>')
ENTRY = re.compile(r"^::: (\S+)$", re.MULTILINE)


def write(config: MkDocsConfig, nav: Navigation, texts: dict[str, str]) -> None:
    """Write the Markdown of every page, `llms.txt` and `llms-full.txt` into the site."""
    site = Path(config.site_dir)
    texts = {path: INLINE.sub("(picture)", text) for path, text in texts.items()}
    for path, text in texts.items():
        (site / _markdown(path)).write_text(ENTRY.sub(_entry, text), "utf-8")
    head = f"# {config.site_name}\n\n> {config.site_description}\n"
    index, whole = head, head
    for section, pages in sections(nav):
        rows = (
            f"- [{one.title}]({_markdown(one.file.dest_uri)}): "
            f"{prose.sentence(ENTRY.sub('', texts[one.file.dest_uri]))}".rstrip(": ")
            for one in pages
        )
        index += f"\n## {section}\n\n" + "\n".join(rows) + "\n"
        if section not in LEFT_OUT:
            whole += "".join(f"\n{texts[one.file.dest_uri].strip()}\n" for one in pages)
    (site / "llms.txt").write_text(index, "utf-8")
    (site / "llms-full.txt").write_text(whole, "utf-8")


def sections(nav: Navigation) -> Iterator[tuple[str, list[Page]]]:
    """The pages of each part of the navigation; single pages come first, under one heading."""
    alone = [one for one in nav.items if isinstance(one, Page)]
    if alone:
        yield "Overview", alone
    for one in nav.items:
        if isinstance(one, Section):
            yield str(one.title), list(_pages(one))


def _pages(item: StructureItem) -> Iterator[Page]:
    if isinstance(item, Page):
        yield item
    for below in item.children if isinstance(item, Section) else ():
        yield from _pages(below)


def _markdown(path: str) -> str:
    return str(PurePosixPath(path).with_suffix(".md")) if path.endswith(".html") else path


def _entry(found: re.Match[str]) -> str:
    """A public thing as text."""
    namespace, _, name = found[1].rpartition(".")
    thing = api.value(namespace, name)
    if not callable(thing):
        return f"### {found[1]}\n\n    {thing!r}"
    try:
        signature = str(inspect.signature(thing))
    except ValueError:
        signature = "(...)"
    return f"### {found[1]}\n\n```python\n{name}{signature}\n```\n\n{inspect.getdoc(thing) or ''}"
