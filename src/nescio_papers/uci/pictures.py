"""The picture of the table: every method on every set, ours and as published."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.report.plots.look import COLORS, GRAY, with_look
from nescio_papers.uci import published
from nescio_papers.uci.one_table import FREE, PUBLISHED, mean_and_error
from nescio_papers.uci.tables import TABLES

PANELS = {"RMSE": ("rmse", published.RMSE), "NLL": ("nll_moments", published.NLL)}
BUDGETS = {
    PUBLISHED: ("o", COLORS[0], "40 epochs (protein 20)"),
    FREE: ("s", COLORS[1], "epochs chosen on validation"),
}
ROW = 0.16  # between the marks of the two budgets


@with_look
def against_published(found: Mapping[str, Mapping[str, Any]]) -> Figure:
    """A panel for each table and metric, a line for each method."""
    figure = Figure(figsize=(2.2 * len(found) + 2.2, 7.2), layout="constrained")
    panels = figure.subplots(len(PANELS), len(found), squeeze=False)
    for row, (title, (metric, printed)) in zip(panels, PANELS.items(), strict=True):
        for axes, (name, numbers) in zip(row, found.items(), strict=True):
            _panel(axes, numbers, metric, printed[name], first=axes is row[0])
            axes.set_xlabel(title)
            axes.set_title(TABLES[name].title)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _panel(
    axes: Axes,
    numbers: Mapping[str, Any],
    metric: str,
    printed: Mapping[str, published.Printed],
    *,
    first: bool,
) -> None:
    methods = list(numbers["methods"])
    lines = [*(f"published: {name}" for name in printed), *methods]
    for place, own in enumerate(printed.values()):
        error = own.standard_error(numbers["splits"])
        label = "published" if place == 0 else None
        axes.errorbar(own.value, place, xerr=error, label=label, **_marks("D", GRAY))
    for budget, (marker, color, label) in BUDGETS.items():
        offset = -ROW if budget == PUBLISHED else ROW
        pairs = [mean_and_error(own[budget][metric]) for own in numbers["methods"].values()]
        means, errors = zip(*pairs, strict=True)
        places = [len(printed) + place + offset for place in range(len(methods))]
        axes.errorbar(means, places, xerr=errors, label=label, **_marks(marker, color))
    axes.set_yticks(range(len(lines)), lines if first else [""] * len(lines))
    axes.invert_yaxis()
    axes.locator_params(axis="x", nbins=3)


def _marks(marker: str, color: str) -> dict[str, Any]:
    return {"color": color, "marker": marker, "markersize": 5, "linestyle": "", "capsize": 2}
