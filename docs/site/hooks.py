"""The hooks of MkDocs: pages that are generated, and what is checked while the site is built.

`build.py` runs the build. A warning here fails a strict build.
"""

import logging
import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

import api
import asks  # noqa: F401
import commands
import gallery
import llms
import names
import notebook_pages
import pictures
from formulas import FormulaError, with_mathml
from prose import without_setup

log = logging.getLogger("mkdocs.hooks.site")
ROOT = Path(__file__).parents[2]
PROJECT = {  # files of the project that are pages here
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "LICENSE": "project/license.md",
}
GENERATED = (api, commands)
UNCHECKED = ("project/", api.FOLDER, commands.FOLDER)  # of the past or the future, or generated
LINK = re.compile(
    r"(```+|`)(?!`).*?(?<!`)\1(?!`)|(\]\()([^)#\s]+)", re.DOTALL
)  # or code, to skip it
NAMED = re.compile(r"<(a|h[1-6]|pre)\b.*?</\1>|<code>([A-Za-z_.]+|nescio [a-z]+)</code>", re.DOTALL)
TABLE = re.compile(r'<table(?! class="(?:sheet|highlighttable))[^>]*>(.*?)</table>', re.DOTALL)
OPTION = re.compile(r"<code>(--[a-z-]+)</code>")  # which does not break after a hyphen
SEARCH = 'data-md-component="search" role="dialog" aria-label="Search"'


class Notebook(File):
    """A notebook, which is a page."""

    def is_documentation_page(self) -> bool:
        """Whether this is a page: yes."""
        return True


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the parts of the navigation that are generated."""
    config.nav = _filled(config.nav, {f"{one.FOLDER}/": one.nav() for one in GENERATED})
    return config


def _filled(nav: Any, parts: dict[str, Any]) -> Any:
    if isinstance(nav, list):
        return [_filled(one, parts) for one in nav]
    if isinstance(nav, dict):
        return {title: _filled(one, parts) for title, one in nav.items()}
    return parts.get(nav, nav)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are generated, and those from outside of `docs`."""
    named = set(_paths(config.nav))
    for path, text in _made(named):
        if path in named:
            files.append(File.generated(config, path, content=text))
    books = [one for one in files if one.src_uri.endswith(".ipynb")]
    for file in [one for one in books if ".ipynb_checkpoints/" not in one.src_uri]:
        files.remove(file)
        files.append(_notebook(file, config))
    if config.extra.get("partial"):
        config.nav = _present(config.nav, {one.src_uri for one in files})
    return files


def _paths(nav: Any) -> Iterator[str]:
    """Every path in a navigation."""
    if isinstance(nav, str):
        yield nav
    for one in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _paths(one)


def _made(named: set[str]) -> Iterator[tuple[str, str]]:
    """The path and the Markdown of pages that are not files of `docs`."""
    for kind in GENERATED:
        if f"{kind.FOLDER}/index.md" in named:
            yield from kind.pages().items()
    if gallery.PAGE in named:
        yield gallery.PAGE, gallery.page()
    for source, page in PROJECT.items():
        text = (ROOT / source).read_text("utf-8")
        yield page, text if source.endswith(".md") else f"# License\n\n```text\n{text}```\n"


def _notebook(file: File, config: MkDocsConfig) -> File:
    text = file.content_string
    if notebook_pages.outdated(text):
        log.warning(f"{file.src_uri}: the outputs are older than the code; run the notebook again")
    made = Notebook.generated(
        config, file.src_uri, content=notebook_pages.page(text, file.name + ".ipynb")
    )
    made.inclusion = InclusionLevel.INCLUDED
    return made


def _present(nav: Any, present: set[str]) -> Any:
    """The navigation without pages that do not exist."""
    if isinstance(nav, list):
        kept = [_present(one, present) for one in nav]
        return [one for one in kept if one] or None
    if isinstance(nav, dict):
        kept_ = {title: _present(one, present) for title, one in nav.items()}
        return {title: one for title, one in kept_.items() if one} or None
    return nav if nav in present else None


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:  # noqa: ARG001
    """Report pictures that are older than the code that draws them, or that nothing draws."""
    config.extra["nav"], config.extra["texts"] = nav, {}
    for name in pictures.outdated():
        log.warning(
            f"docs/images/{name}.png is older than docs/pictures/{name}.py: "
            f"run python docs/site/pictures.py {name}"
        )
    for path, picture in gallery.unknown_pictures(Path(config.docs_dir)):
        log.warning(f"{path.name}: no file docs/pictures/*.py draws docs/images/{picture}")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Check the names of a page, hide what sets it up, and lead links to pages."""
    path = page.file.src_uri
    if path.startswith(api.FOLDER):
        page.meta["search"] = {"boost": 0.4}  # below the pages that explain
    if path == gallery.PAGE:
        page.meta["hide"] = ["navigation", "toc"]
    if not path.startswith(UNCHECKED):
        for line, text in names.problems(markdown):
            log.warning(f"{path}:{line}: {text}")
    text = LINK.sub(
        lambda one: one[2] + _inside(path, one[3]) if one[2] else one[0], without_setup(markdown)
    )
    config.extra["texts"][page.file.dest_uri] = text
    return text


def _inside(page: str, target: str) -> str:
    """A link that leads to a file of the project, as a link to its page."""
    if re.match(r"[a-z]+:|/", target):
        return target
    folder = "" if page in PROJECT.values() else posixpath.join("docs", posixpath.dirname(page))
    full = posixpath.normpath(posixpath.join(folder, target))
    inside = _elsewhere().get(full, full.removeprefix("docs/"))
    return posixpath.relpath(inside, posixpath.dirname(page) or ".")


@cache
def _elsewhere() -> dict[str, str]:
    """Pages by the files of the project that they stand for."""
    return {**PROJECT, "README.md": "index.md", **api.sources(), **commands.sources()}


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Formulas become MathML, public names and commands links to the reference; tables scroll."""
    try:
        html = with_mathml(html)
    except FormulaError as error:
        raise PluginError(f"{page.file.src_uri}: {error}") from error
    here = posixpath.dirname(page.file.dest_uri) or "."

    def linked(found: re.Match[str]) -> str:
        name = found[2] or ""
        target = commands.url(name) if " " in name else api.url(name)
        link = target and posixpath.relpath(target, here)
        return f'<a class="name" href="{link}">{found[0]}</a>' if target else found[0]

    html = OPTION.sub(r'<code class="option">\1</code>', NAMED.sub(linked, html))
    return TABLE.sub(r'<div class="scroll"><table class="sheet">\1</table></div>', html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Give the search a name, which the theme leaves out."""
    return output.replace('data-md-component="search" role="dialog"', SEARCH)


def on_post_build(config: MkDocsConfig) -> None:
    """Write `llms.txt` and the Markdown of every page; copy the notebooks."""
    llms.write(config, config.extra["nav"], config.extra["texts"])
    found = Path(config.docs_dir).rglob("*.ipynb")
    for path in (one for one in found if one.parent.name != ".ipynb_checkpoints"):
        (Path(config.site_dir) / path.relative_to(config.docs_dir)).write_bytes(path.read_bytes())
