"""How the plots look: colors, marks, panels, and inline SVG."""

import functools
import hashlib
import io
import re
import textwrap
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from nescio.report.render import printable

P = ParamSpec("P")
# Okabe and Ito (2008), told apart with any kind of color vision; gray for the yellow, which
# is too pale for a line on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#888888")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 1)))
MARKERS = "osD^vPX*"
GRAY = "#555555"
BAND = "#dddddd"  # where something lies by chance
LOOK: Any = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "figure.titlesize": 13,
    "figure.titleweight": "bold",
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: small, selectable, any script
    "svg.hashsalt": "nescio",
}
ACROSS = 3  # panels beside each other
WIDTH = 10.8  # inches


def with_look(draw: Callable[P, Any]) -> Callable[P, Any]:
    """Run `draw` with our settings, whatever the user's are, and put those back."""

    @functools.wraps(draw)
    def in_dist(*args: P.args, **kwargs: P.kwargs) -> Any:
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(LOOK)
            return draw(*args, **kwargs)

    return in_dist


def line(index: int) -> dict[str, Any]:
    """Color, dashes and marker of the line of a predictor."""
    return {
        "color": COLORS[index % len(COLORS)],
        "linestyle": DASHES[index % len(DASHES)],
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 5,
        "linewidth": 1.8,
    }


def label(name: str, width: int = 30) -> str:
    """A user's name as matplotlib takes it: short, without formulas, never hidden."""
    name = printable(" ".join(name.split()))
    short = name if len(name) <= width else f"{name[: width - 1]}…"
    visible = f" {short}" if short.startswith("_") else short  # a leading _ leaves the legend
    return visible.replace("$", r"\$")


def across(count: int) -> int:
    """The number of panels side by side: three at most, and four as two by two."""
    return 2 if count == 4 else min(count, ACROSS)


def panels(
    count: int, *, height: float, title: str, columns: int | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels, at most three or `columns` beside each other, under a title."""
    columns = min(count, columns or across(count))
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH, height * rows + 0.9), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[count:]:
        spare.remove()
    add_title(figure, title)
    return figure, axes[:count]


def add_title(figure: Figure, text: str) -> None:
    """Put `text` at the top left, in as many lines as it needs."""
    letters = int(figure.get_figwidth() * 9.2)  # bold letters an inch
    figure.suptitle(textwrap.fill(text, letters), x=0.01, ha="left")


def per_cent(axis: Axis) -> None:
    """Show the shares on an axis in per cent, with as many decimals as each needs."""
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g} %"))


def svg(figure: Figure) -> str:
    """The figure as an SVG element; the same figure gives the same bytes."""
    file = io.StringIO()
    _save(figure, file)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    mark = f"p{hashlib.sha256(text.encode()).hexdigest()[:8]}-"
    return re.sub(r"<[^<>]+>", lambda tag: _marked(tag[0], mark), text).strip()


@with_look
def _save(figure: Figure, file: io.StringIO) -> None:
    with warnings.catch_warnings():  # letters our font lacks are drawn by the browser's
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(file, format="svg", metadata={"Date": None})


def _marked(tag: str, mark: str) -> str:
    """A tag whose ids, and links to them, are unique on a page with several figures."""
    return re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{mark}", tag)
