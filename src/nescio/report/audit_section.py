"""A section of an audit report: tables and remarks, for the terminal and for the page alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nescio.report.render import Grid


@dataclass(frozen=True, kw_only=True)
class PagePicture:
    """A small image, with lines below it."""

    png: str  # data:image/png;base64,...
    alt: str  # what it shows, for who cannot see it
    lines: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Images beside each other; only the page shows them."""

    title: str
    items: Sequence[PagePicture]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure of the page, with its caption and the tables of its data."""

    draw: Callable[[], Any]  # a matplotlib figure, whose title says what it shows
    caption: str
    tables: Sequence[Grid] = ()


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the report: what it says first, its tables, and remarks by predictor.

    name: as in the registry of sections, and of its place on the page.
    """

    title: str = ""
    name: str = ""
    note: str = ""
    tables: Sequence[Grid] = ()
    remarks: Sequence[tuple[str, str]] = ()
    points: Sequence[str] = ()  # a list below the tables
    pictures: Sequence[Pictures] = ()
    drawings: Sequence[Drawing] = ()
