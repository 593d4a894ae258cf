"""What is read from the Markdown of a page: its title, its first paragraph, its pictures."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SETUP = re.compile(r"^<!-- setup\n.*?^-->\n?", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^( *)(```+).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
TEXT = re.compile(r"[^\W_]|[*_`\"'\[(\\]")  # how a paragraph begins; not a list, table or picture
PICTURE = re.compile(r"!\[(?P<said>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<path>[^)\s]+)\)")


class Picture(NamedTuple):
    """A picture in a page."""

    said: str
    path: str


def without_setup(text: str) -> str:
    """A page without what sets it up, which is run and not shown."""
    return SETUP.sub("", text)


def title(text: str, otherwise: str = "") -> str:
    """The first heading."""
    found = re.search(r"^# +(.+?) *(?:\{.*\})?$", FENCE.sub("", text), re.MULTILINE)
    return found[1] if found else otherwise


def opening(text: str) -> str:
    """The first paragraph on one line, links as their words."""
    parts = FENCE.sub("", without_setup(text)).split("\n\n")
    plain = (part for part in parts if TEXT.match(part.lstrip("\n")))  # code may be indented
    return without_links(" ".join(next(plain, "").split()))


def sentence(text: str) -> str:
    """The first sentence of the first paragraph."""
    return re.split(r"(?<=[.?!])\s+(?=[A-Z`*\"])", opening(text), maxsplit=1)[0]


def without_links(text: str) -> str:
    """Markdown with the words of each link in place of it."""
    return re.sub(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)", r"\1", text)


def pictures(text: str) -> Iterator[Picture]:
    """The pictures of a page."""
    for found in PICTURE.finditer(FENCE.sub("", text)):
        yield Picture(" ".join(found["said"].split()), found["path"])


def pages(docs: Path) -> list[Path]:
    """All pages that are written, without what is only for the build."""
    return sorted(path for path in docs.rglob("*.md") if docs / "site" not in path.parents)
