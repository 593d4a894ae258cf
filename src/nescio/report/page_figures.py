"""Figures for the page: SVG in the colors of the page, light, dark and on paper; small."""

import re
from dataclasses import dataclass
from typing import Any

from nescio.report.audit_section import Drawing
from nescio.report.render import Grid

COLORS = {  # of the plots: what the style sheet of the page calls them
    "#0072b2": "--c1", "#d55e00": "--c2", "#009e73": "--c3", "#cc79a7": "--c4", "#000000": "--ink",
    "#e69f00": "--c6", "#56b4e9": "--c7", "#888888": "--c8", "#555555": "--axis",
    "#dddddd": "--grid", "#bbbbbb": "--faint", "#ffffff": "--paper",
}  # fmt: skip
TITLE = 0.5  # inches that the title of a figure takes, which the page writes itself


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A figure as the page shows it, or why it could not be drawn."""

    title: str
    caption: str
    svg: str = ""
    why: str = ""
    tables: tuple[Grid, ...] = ()


def shown_figure(drawing: Drawing) -> Shown:
    """The figure drawn; one that fails loses nothing else."""
    about: dict[str, Any] = {"caption": drawing.caption, "tables": tuple(drawing.tables)}
    try:
        figure = drawing.draw()
        title = " ".join(figure.get_suptitle().split()).replace(r"\$", "$")
        return Shown(title=title, svg=_page_svg(figure), **about)
    except Exception as error:  # whatever it is: the rest of the page is worth having
        said = str(error) or type(error).__name__
        return Shown(title="This figure could not be drawn", why=said, **about)


def _page_svg(figure: Any) -> str:
    from nescio.report.plots.look import svg

    if figure.get_suptitle():
        figure.suptitle("")
        figure.set_figheight(figure.get_figheight() - TITLE)
    return compact(svg(figure))


def compact(svg: str) -> str:
    """The same picture without what the page says once, with two decimals, in variable colors."""
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    return re.sub(r"<[^<>]+>", lambda tag: _smaller(tag[0], used), _joined(svg))


def _joined(svg: str) -> str:
    svg = re.sub(r">\s+<", "><", svg)
    return re.sub(r"<defs>\s*</defs>", "", svg)


def _smaller(tag: str, used: set[str]) -> str:
    """A tag without unused ids, fonts and spaces."""
    if tag.startswith("<image"):  # its data are long, and have no numbers
        return re.sub(r'\sid="[^"]*"', "", tag)
    tag = re.sub(r'\sid="([^"]*)"', lambda m: m[0] if m[1] in used else "", tag)
    tag = re.sub(r"(\d+\.\d\d)\d+", r"\1", tag)
    tag = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", tag)
    tag = re.sub(r"font(-family)?: '[^;\"]*?(; |(?=\"))", "", tag)
    tag = re.sub(r"\s*\n\s*", " ", tag)
    if tag.startswith("<svg"):
        tag = re.sub(r'\s(?:width|height|version|xmlns(?::xlink)?)="[^"]*"', "", tag)
    tag = tag.replace("fill: #ffffff", "fill: none").replace("xlink:href", "href")
    return re.sub(r"#[0-9a-f]{6}\b", lambda m: _color(m[0]), tag)


def _color(code: str) -> str:
    return f"var({COLORS[code]})" if code in COLORS else code
