"""Part `surfaces`: uncertainty and its gradient over the plane, for all models and measures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from nescio.core import measures
from nescio.metrics import auroc
from nescio.report.plots.look import with_look
from nescio_papers.kit import Comparison, Findings, Settings, percent
from nescio_papers.know_your_limits.accuracy import SEARCHED
from nescio_papers.know_your_limits.models import (
    ANCHORED,
    BAYES,
    BUDGETS,
    DROPOUT,
    END,
    ENSEMBLE,
    MANY,
    PAPER,
    PLAIN,
    RATE,
    RATE_OF_BAYES,
    RATE_OF_DROPOUT,
    SINGLE,
    Network,
    Pair,
    seeds,
    trained,
    world,
)
from nescio_papers.know_your_limits.statistics import FLAT, RINGS, SLOPES, names_of, statistics
from nescio_papers.know_your_limits.surfaces import (
    ENTROPY,
    IN_FIGURE_6,
    INFORMATION,
    LEAST,
    OF_ONE,
    VARIANCE,
    Field,
    Grid,
    Panel,
    distance,
    fields,
    gradient_label,
    sheet,
    titled,
    top,
)

SCORES = (-3.5, 4.5, -3.0, 3.5)  # the paper's boxes
CHOSEN = ((PLAIN, LEAST), (DROPOUT, INFORMATION), (ENSEMBLE, VARIANCE), (ANCHORED, INFORMATION))
STEPS = {False: 0.05, True: 0.25}  # of the drawn grids, by quick; the paper's is 0.1
FAR = RINGS["far"][0]
HARD = "AUC-ROC of hard labels"
Maps = Mapping[str, Mapping[str, Field]]  # by model and measure


def surfaces(settings: Settings) -> Findings:
    """Figures 3, 5 and 6 with both budgets, and what the maps say in numbers."""
    grids = {
        gradient: Grid(box, STEPS[settings.quick])
        for gradient, box in ((False, SCORES), (True, SLOPES))
    }
    scores, gradients = (
        {budget: maps(settings, grids[kind], budget) for budget in BUDGETS}
        for kind in (False, True)
    )
    drawn = {b: panel_numbers(settings, b, grids[True], gradients[b]) for b in BUDGETS}
    numbers = {**statistics(settings), "drawn": drawn}
    drawing = _Drawing(settings, grids, scores, gradients, numbers)
    figures = {
        "figure-3.png": drawing.selection(),
        "figure-5.png": drawing.single(),
        "figure-6-values.png": drawing.many(False),
        "figure-6-gradients.png": drawing.many(True),
        "mutual-information.png": drawing.released(),
    }
    return Findings(
        numbers=numbers,
        figures=figures,
        captions=_captions(numbers, settings),
        comparisons=_comparisons(numbers),
        text=_text(settings),
    )


def _text(settings: Settings) -> str:
    return (
        f"Maps show the first of {seeds(settings)} trainings, with the paper's budget (at most 20 "
        "epochs at its learning rates) and to the end; numbers are over all trainings. Dots are "
        "training points. Colors run over the whole range a measure can have, which is the "
        "paper's but for mutual information, and are the same for all models. In each panel: the "
        "AUC-ROC that the paper prints, which is that of hard labels on the training points, so "
        "the balanced accuracy; below it, the AUROC of the measure as a detector of far points "
        f"against validation points. Entropies are in {settings.unit}. Rings by the distance from "
        "the nearest training point: on the data below 0.2, near to 1, away to 3, far beyond, up "
        "to the border of the plot."
    )


def maps(settings: Settings, grid: Grid, budget: str) -> Maps:
    """Values and gradient norms of all measures for the first training of each model."""
    models = trained(settings, budget)
    return {
        name: fields(models[name][0], grid.points, names_of(name), settings.base)
        for name in (*SINGLE, *MANY)
    }


def panel_numbers(
    settings: Settings, budget: str, grid: Grid, drawn: Maps
) -> dict[str, dict[str, float]]:
    """Of the networks that are drawn: what the paper prints in a panel, and how far points fare."""
    data, models = world(settings.seed), trained(settings, budget)
    outer = distance(grid.points, data.train[0]) >= FAR
    result = {}
    for name, measured in drawn.items():
        network = models[name][0]
        held = fields(network, data.validation[0], names_of(name), settings.base)
        result[name] = {
            HARD: _hard_labels(network, data.train),
            **{k: auroc(held[k].value, field.value[outer]) for k, field in measured.items()},
        }
    return result


def _hard_labels(network: Network, data: Pair) -> float:
    """The AUROC of predicted labels, as the paper computes it."""
    with torch.no_grad():
        labels = network(data[0]).labels.numpy().astype(float)
    positive = data[1].numpy() == 1
    return auroc(labels[~positive], labels[positive])


class _Drawing:
    """The figures of the part, from maps that are computed once."""

    def __init__(
        self,
        settings: Settings,
        grids: Mapping[bool, Grid],
        scores: Mapping[str, Maps],
        gradients: Mapping[str, Maps],
        numbers: dict[str, Any],
    ) -> None:
        self.settings, self.grids = settings, grids
        self.sources = {False: scores, True: gradients}
        self.numbers = numbers
        self.data = world(settings.seed).train

    def panel(
        self,
        budget: str,
        model: str,
        measure: str,
        gradient: bool,
        *,
        title: str = "",
        side: str = "",
    ) -> Panel:
        """One map, with the two areas under the curve in its corner."""
        field = self.sources[gradient][budget][model][measure]
        found = self.numbers["drawn"][budget][model]
        return Panel(
            title=title,
            measure=measure,
            values=field.slope if gradient else field.value,
            gradient=gradient,
            side=side,
            note=f"AUC-ROC {found[HARD]:.2f}\nfar points {found[measure]:.2f}",
        )

    def rows(self, pairs: Sequence[tuple[str, str]], title: str) -> Figure:
        """Values, then gradients, each with both budgets; bars for each measure and gradients."""
        kinds = [(gradient, budget) for gradient in (False, True) for budget in BUDGETS]
        rows = [
            [
                self.panel(
                    budget,
                    model,
                    measure,
                    gradient,
                    title=f"{'abcd'[j]}  {model}" if i == 0 else "",
                    side=f"{budget}{', gradient' if gradient else ''}\n$x_2$" if j == 0 else "",
                )
                for j, (model, measure) in enumerate(pairs)
            ]
            for i, (gradient, budget) in enumerate(kinds)
        ]
        made = sheet(rows, self.grids, self.data, self.settings.base, title, panel=(3.2, 2.7))
        for j, (_, measure) in enumerate(pairs):
            label = titled(measure, self.settings.unit)
            made.bar(made.images[1][j], made.axes[:2, j], label)
        made.bar(made.images[2][0], made.axes[2:], gradient_label(), wide=True)
        return made.figure

    @with_look
    def selection(self) -> Figure:
        """Figure 3: the paper's four."""
        far = self.numbers[END][ENSEMBLE][VARIANCE]["far, no more uncertain than data"]["mean"]
        return self.rows(
            CHOSEN,
            "Sure far away: trained to the end, the ensemble's class variance does not exceed "
            f"that on the data over {percent(far)} of the far plane",
        )

    @with_look
    def single(self) -> Figure:
        """Figure 5: single networks."""
        pairs = [(model, measure) for model in SINGLE for measure in OF_ONE]
        return self.rows(
            pairs,
            "A single network is unsure along its decision boundary: a broad band after the "
            "paper's 20 epochs, a thin line when trained to the end",
        )

    @with_look
    def many(self, gradient: bool) -> Figure:
        """Figure 6: models of several networks, values or gradients, both budgets side by side."""
        columns = [(measure, budget) for measure in IN_FIGURE_6 for budget in BUDGETS]
        rows = [
            [
                self.panel(
                    budget,
                    model,
                    measure,
                    gradient,
                    title=f"{measure}\n{budget}" if i == 0 else "",
                    side=f"{model}\n$x_2$" if j == 0 else "",
                )
                for j, (measure, budget) in enumerate(columns)
            ]
            for i, model in enumerate(MANY)
        ]
        title = (
            f"Of the far plane {_span(_flat_of(self.numbers, PAPER, MANY))} is flat after the "
            f"paper's 20 epochs, {_span(_flat_of(self.numbers, END, MANY))} when trained to the end"
            if gradient
            else "With dropout on and mutual information computed rightly, all measures vary once "
            "the networks are trained to the end"
        )
        base = self.settings.base
        made = sheet(rows, self.grids, self.data, base, title, panel=(2.3, 2.3))
        if gradient:
            made.bar(made.images[-1][0], made.axes, gradient_label(), wide=True)
            return made.figure
        for j, measure in enumerate(IN_FIGURE_6):
            label = titled(measure, self.settings.unit)
            made.bar(made.images[-1][2 * j], made.axes[:, 2 * j : 2 * j + 2], label)
        return made.figure

    @with_look
    def released(self) -> Figure:
        """Mutual information as the released code plots it, and as it is, with both budgets."""
        rows = [self._both_ways(budget) for budget in BUDGETS]
        result = self.numbers["released"]["correlation"]
        title = (
            "What the paper plots as mutual information of MC dropout is minus the data "
            f"uncertainty; its correlation with the right one is {result:.2f}"
        )
        made = sheet(rows, self.grids, self.data, 2.0, title)
        labels = "5 bits - expected entropy (bits)", "mutual information (bits)"
        bars = [made.bar(made.images[-1][j], made.axes[:, j], labels[j]) for j in range(2)]
        ticks = np.linspace(0, 1, 5)
        bars[0].set_ticks(ticks, labels=[f"{4 + tick:g}" for tick in ticks])
        return made.figure

    def _both_ways(self, budget: str) -> list[Panel]:
        network = trained(self.settings, budget)[DROPOUT][0]
        with torch.no_grad():
            prediction = network(self.grids[False].points)
        plotted = 5 - measures.expected_entropy(prediction, base=2).numpy()
        right = measures.mutual_information(prediction, base=2).numpy()
        first = budget == BUDGETS[0]
        return [
            Panel(
                title="as released" if first else "",
                measure=INFORMATION,
                values=plotted - 4,
                side=f"{budget}\n$x_2$",
            ),
            Panel(title="mutual information" if first else "", measure=INFORMATION, values=right),
        ]


def _captions(numbers: dict[str, Any], settings: Settings) -> dict[str, str]:
    end, drawn = numbers[END], numbers["drawn"]
    dropout, bayes, plain = end[DROPOUT], end[BAYES], end[PLAIN][ENTROPY]
    short = numbers[PAPER][PLAIN][ENTROPY]
    flat = [percent(numbers[one][PLAIN][LEAST]["far and flat"]["mean"]) for one in BUDGETS]
    detects = ", ".join(
        f"{model} {drawn[PAPER][model][measure]:.2f} and {drawn[END][model][measure]:.2f}"
        for model, measure in CHOSEN
    )
    return {
        "figure-3.png": "The paper's selection, with its budget (first and third row) and trained "
        "to the end. White is certain, purple uncertain; green: gradient norms. AUROC of the "
        f"measure for far points, with the paper's budget and to the end: {detects}. Far from the "
        f"data {' and '.join(flat)} of the plane has a gradient below {FLAT:g} for 1 - max "
        "probability of the plain network, over all trainings.",
        "figure-5.png": "Single networks: entropy and 1 - max probability are two scales of the "
        f"same order. The median entropy is {short['value']['on the data']['mean']:.2g} "
        f"{settings.unit} on the data and {short['value']['far']['mean']:.2g} far away with the "
        f"paper's budget, {plain['value']['on the data']['mean']:.2g} and "
        f"{plain['value']['far']['mean']:.2g} to the end.",
        "figure-6-values.png": "Models of several networks, for each measure with the paper's "
        "budget and to the end. With dropout switched on, class variance of MC dropout reaches "
        f"{dropout[VARIANCE]['maximum']['mean']:.2f} and mutual information "
        f"{dropout[INFORMATION]['maximum']['mean']:.2f} {settings.unit} to the end (possible: "
        f"{top(INFORMATION, settings.base):.2f}); for Bayes by backprop, which the paper leaves "
        f"out, {bayes[VARIANCE]['maximum']['mean']:.2f} and "
        f"{bayes[INFORMATION]['maximum']['mean']:.2f}.",
        "figure-6-gradients.png": "The same models: norms of the gradients, the greener the "
        f"steeper. Share of the far plane with a gradient below {FLAT:g}, over the three measures, "
        f"with the paper's budget and to the end: {_flat_shares(numbers)}. With the "
        f"paper's budget Bayes by backprop has a learning rate of {RATE_OF_BAYES:g}, the ensembles "
        f"{RATE:.1g} and MC dropout {RATE_OF_DROPOUT:.1g}.",
        "mutual-information.png": "The released code averages over classes instead of samples, so "
        "it plots 5 bits minus the expected entropy, between 4 and 5; mutual information of two "
        "classes is at most 1 bit. Dropout is on in all four maps; in the released code it is off.",
    }


def _flat_shares(numbers: dict[str, Any]) -> str:
    """By model of figure 6: the least and the most of the far plane that is flat, by budget."""
    return "; ".join(
        f"{model} " + " and ".join(_span(_flat_of(numbers, budget, [model])) for budget in BUDGETS)
        for model in MANY
    )


def _flat_of(numbers: dict[str, Any], budget: str, models: Sequence[str]) -> list[float]:
    """Flat shares of the far plane for the measures of figure 6."""
    return [
        numbers[budget][model][measure]["far and flat"]["mean"]
        for model in models
        for measure in IN_FIGURE_6
    ]


def _span(shares: Sequence[float]) -> str:
    return f"{percent(min(shares))} to {percent(max(shares))}"


def _comparisons(numbers: dict[str, Any]) -> list[Comparison]:
    right = numbers["released"]["right, highest"]
    variance = numbers[END][DROPOUT][VARIANCE]["maximum"]["mean"]
    off = "0 in a re-run of the released code, where dropout is off"
    drawn = numbers["drawn"]
    return [
        Comparison(
            "top of the mutual information plots (bits)", 5.0, right, note="1 bit is possible"
        ),
        Comparison("largest class variance of MC dropout", 0.0, variance, note=off),
        *(
            Comparison(
                f"figure 3{letter}: AUC-ROC in the panel, {model}",
                SEARCHED.get(model),
                drawn[PAPER][model][HARD],
                note=f"of hard labels, with the paper's budget; {drawn[END][model][HARD]:.3f} to "
                "the end; "
                + (
                    f"published: the {'best' if model == DROPOUT else 'same'} score in the "
                    "authors' search"
                    if model in SEARCHED
                    else "theirs is readable in the picture only"
                ),
            )
            for letter, (model, _) in zip("abcd", CHOSEN, strict=True)
        ),
    ]
