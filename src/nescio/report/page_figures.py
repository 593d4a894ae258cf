"""Figures for the page: SVG in the colors of the page, light, dark and on paper; small."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nescio.report.audit_section import Drawing
from nescio.report.render import Grid

COLORS = {  # of the plots: what the style sheet of the page calls them
    "#0072b2": "--c1", "#d55e00": "--c2", "#009e73": "--c3", "#cc79a7": "--c4", "#000000": "--ink",
    "#e69f00": "--c6", "#56b4e9": "--c7", "#888888": "--c8", "#555555": "--axis",
    "#dddddd": "--grid", "#bbbbbb": "--faint", "#ffffff": "--paper",
}  # fmt: skip
OFTEN = 4  # times that a style occurs until it gets a name
TITLE = 0.5  # inches that the title of a figure takes, which the page writes itself


@dataclass(frozen=True, kw_only=True)
class ShownFigure:
    """A figure as the page shows it, or why it could not be drawn."""

    title: str
    caption: str
    svg: str = ""
    why: str = ""
    tables: tuple[Grid, ...] = ()


def shown_figure(drawing: Drawing) -> ShownFigure:
    """The figure drawn; one that fails loses nothing else."""
    about: dict[str, Any] = {"caption": drawing.caption, "tables": tuple(drawing.tables)}
    try:
        figure = drawing.draw()
        title = " ".join(figure.get_suptitle().split()).replace(r"\$", "$")
        return ShownFigure(title=title, svg=_page_svg(figure), **about)
    except Exception as error:  # whatever it is: the rest of the page is worth having
        said = str(error) or type(error).__name__
        return ShownFigure(title="This figure could not be drawn", why=said, **about)


def _page_svg(figure: Any) -> str:
    from nescio.report.plots.look import svg

    if figure.get_suptitle():
        figure.suptitle("")
        figure.set_figheight(figure.get_figheight() - TITLE)
    return compact(svg(figure))


def compact(svg: str) -> str:
    """The same picture without what the page says once, with few decimals, in variable colors."""
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<[^<>]+>", lambda tag: _smaller(tag[0], used), re.sub(r">\s+<", "><", svg))
    svg = "".join(_without_bare_groups(re.split(r"(<[^<>]+>)", svg))).replace("<defs></defs>", "")
    return _named_styles(_short_ids(svg, sorted(used)))


def _short_ids(svg: str, used: Sequence[str]) -> str:
    """Ids of a few letters; the part before the hyphen tells figures apart."""
    short = {name: f"{name.partition('-')[0]}-{k}" for k, name in enumerate(used)}
    return re.sub(r'(\sid="|href="#|url\(#)([^")]+)', lambda m: m[1] + short.get(m[2], m[2]), svg)


def _named_styles(svg: str) -> str:
    """Styles that occur often as classes of this figure."""
    styles = Counter(re.findall(r'\sstyle="([^"]*)"', svg))
    often = [style for style, count in styles.items() if count >= OFTEN]
    mark = f"s{hashlib.sha256(svg.encode()).hexdigest()[:8]}-"
    names = {style: f"{mark}{k}" for k, style in enumerate(often)}
    rules = "".join(f".{name}{{{style}}}" for style, name in names.items())
    svg = re.sub(
        r'\sstyle="([^"]*)"',
        lambda m: f' class="{names[m[1]]}"' if m[1] in names else m[0],
        svg,
    )
    return svg.replace(">", f"><style>{rules}</style>", 1) if rules else svg


def _without_bare_groups(tokens: list[str]) -> Iterator[str]:
    """Groups that say nothing are left out, with their ends."""
    bare: list[bool] = []
    for token in tokens:
        if token.startswith("<g") and token.endswith("/>"):
            continue  # it holds nothing
        if token.startswith("<g"):
            bare.append(token == "<g>")
            yield "" if bare[-1] else token
        elif token == "</g>":
            yield "" if bare.pop() else token
        else:
            yield token


def _smaller(tag: str, used: set[str]) -> str:
    """A tag without unused ids, fonts and spaces."""
    if tag.startswith("<image"):  # its data are long, and have no numbers
        return re.sub(r'\sid="[^"]*"', "", tag)
    tag = re.sub(r'\sid="([^"]*)"', lambda m: m[0] if m[1] in used else "", tag)
    tag = re.sub(r"\b(\d\d+\.\d)\d+|\b(\d\.\d\d)\d+", r"\1\2", tag)
    tag = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", tag)
    tag = re.sub(r"font(-family)?: '[^;\"]*?(; |(?=\"))", "", tag)
    tag = re.sub(r"([MLQCz]) ", r"\1", re.sub(r"\s*\n\s*", "", tag))
    if tag.startswith("<svg"):
        tag = re.sub(r'\s(?:width|height|version|xmlns(?::xlink)?)="[^"]*"', "", tag)
    tag = tag.replace("fill: #ffffff", "fill: none").replace("xlink:href", "href")
    return re.sub(r"#[0-9a-f]{6}\b", lambda m: _color(m[0]), tag)


def _color(code: str) -> str:
    return f"var({COLORS[code]})" if code in COLORS else code
