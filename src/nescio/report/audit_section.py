"""A section of an audit report: tables and remarks, for the terminal and for the page alike."""

from collections.abc import Sequence
from dataclasses import dataclass

from nescio.report.render import Grid


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the report: what it says first, its tables, and remarks by predictor."""

    title: str = ""
    name: str = ""  # of a section of the registry
    note: str = ""
    tables: Sequence[Grid] = ()
    remarks: Sequence[tuple[str, str]] = ()
    points: Sequence[str] = ()  # a list below the tables
    late: bool = False  # on the page, after the plots
