"""Part `surfaces`: uncertainty and its gradient over the plane, for all models and measures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from nescio.core import measures
from nescio.report.plots.look import with_look
from nescio_papers.kit import Comparison, Findings, Settings, percent
from nescio_papers.know_your_limits.models import (
    ANCHORED,
    BAYES,
    DROPOUT,
    END,
    ENSEMBLE,
    MANY,
    PLAIN,
    SINGLE,
    seeds,
    trained,
    world,
)
from nescio_papers.know_your_limits.statistics import FLAT, SLOPES, names_of, statistics
from nescio_papers.know_your_limits.surfaces import (
    ENTROPY,
    INFORMATION,
    LEAST,
    OF_MANY,
    OF_ONE,
    VARIANCE,
    Field,
    Grid,
    Panel,
    fields,
    gradient_label,
    sheet,
    titled,
    top,
)

SCORES = (-3.5, 4.5, -3.0, 3.5)  # the paper's boxes
CHOSEN = ((PLAIN, LEAST), (DROPOUT, INFORMATION), (ENSEMBLE, VARIANCE), (ANCHORED, INFORMATION))
Maps = Mapping[str, Mapping[str, Field]]  # by model and measure


def surfaces(settings: Settings) -> Findings:
    """Figures 3, 5 and 6, and what the maps say in numbers, over all trainings."""
    numbers = statistics(settings)
    step = 0.25 if settings.quick else 0.1
    grids = {False: Grid(SCORES, step), True: Grid(SLOPES, step)}
    scores, gradients = (maps(settings, grids[kind]) for kind in (False, True))
    drawn = _Drawing(settings, grids, scores, gradients, numbers)
    figures = {
        "figure-3.png": drawn.selection(),
        "figure-5.png": drawn.single(),
        "figure-6-values.png": drawn.many(False),
        "figure-6-gradients.png": drawn.many(True),
        "mutual-information.png": drawn.released(),
    }
    return Findings(
        numbers=numbers,
        figures=figures,
        captions=_captions(numbers, settings),
        comparisons=_comparisons(numbers),
        text=(
            f"Maps show the first of {seeds(settings)} trainings to the end; numbers are over all "
            "of them. Dots are training points. Colors run over the whole range a measure can "
            f"have, and are the same for all models. Entropies are in {settings.unit}. Rings by "
            "the distance from the nearest training point: on the data below 0.2, near to 1, away "
            "to 3, far beyond, up to the border of the plot."
        ),
    )


def maps(settings: Settings, grid: Grid) -> Maps:
    """Values and gradient norms of all measures for the first training of each model."""
    models = trained(settings, END)
    return {
        name: fields(models[name][0], grid.points, names_of(name), settings.base)
        for name in (*SINGLE, *MANY)
    }


class _Drawing:
    """The figures of the part, from maps that are computed once."""

    def __init__(
        self,
        settings: Settings,
        grids: Mapping[bool, Grid],
        scores: Maps,
        gradients: Maps,
        numbers: dict[str, Any],
    ) -> None:
        self.settings, self.grids = settings, grids
        self.scores, self.gradients, self.numbers = scores, gradients, numbers
        self.data = world(settings.seed).train

    def panel(self, model: str, measure: str, gradient: bool, title: str, side: str = "") -> Panel:
        """One map."""
        source = self.gradients if gradient else self.scores
        field = source[model][measure]
        return Panel(
            title=title,
            measure=measure,
            values=field.slope if gradient else field.value,
            gradient=gradient,
            side=side,
        )

    def two_rows(self, pairs: Sequence[tuple[str, str]], title: str) -> Figure:
        """Values above, gradients below; a bar for each measure and one for all gradients."""
        letters = "abcdefgh"
        above = [
            self.panel(model, measure, False, f"{letters[i]}  {model}")
            for i, (model, measure) in enumerate(pairs)
        ]
        below = [self.panel(model, measure, True, "its gradient") for model, measure in pairs]
        made = sheet([above, below], self.grids, self.data, self.settings.base, title)
        for j, (_, measure) in enumerate(pairs):
            label = titled(measure, self.settings.unit)
            made.bar(made.images[0][j], made.axes[0, j], label)
        made.bar(made.images[1][0], made.axes[1], gradient_label(), wide=True)
        return made.figure

    @with_look
    def selection(self) -> Figure:
        """Figure 3: the paper's four."""
        far = self.numbers[END][ENSEMBLE][VARIANCE]["far, no more uncertain than data"]["mean"]
        return self.two_rows(
            CHOSEN,
            "Sure far away: the ensemble's class variance is no higher than on the data over "
            f"{percent(far)} of the far plane",
        )

    @with_look
    def single(self) -> Figure:
        """Figure 5: single networks."""
        pairs = [(model, measure) for model in SINGLE for measure in OF_ONE]
        return self.two_rows(
            pairs, "A single network is unsure only in a tube along its decision boundary"
        )

    @with_look
    def many(self, gradient: bool) -> Figure:
        """Figure 6: models of several networks, values or gradients."""
        rows = [
            [
                self.panel(
                    model,
                    measure,
                    gradient,
                    measure if i == 0 else "",
                    f"{model}\n$x_2$" if j == 0 else "",
                )
                for j, measure in enumerate(OF_MANY)
            ]
            for i, model in enumerate(MANY)
        ]
        title = (
            "Gradients die out away from the data, but for bands along members' boundaries"
            if gradient
            else "With dropout on and mutual information computed rightly, all measures vary"
        )
        made = sheet(rows, self.grids, self.data, self.settings.base, title)
        if gradient:
            made.bar(made.images[-1][0], made.axes, gradient_label(), wide=True)
            return made.figure
        for j, measure in enumerate(OF_MANY):
            label = titled(measure, self.settings.unit)
            made.bar(made.images[-1][j], made.axes[:, j], label)
        return made.figure

    @with_look
    def released(self) -> Figure:
        """Mutual information as the released code plots it, and as it is."""
        network = trained(self.settings, END)[DROPOUT][0]
        grid = self.grids[False]
        with torch.no_grad():
            prediction = network(grid.points)
        plotted = 5 - measures.expected_entropy(prediction, base=2).numpy()
        right = measures.mutual_information(prediction, base=2).numpy()
        rows = [
            [
                Panel(title="as released", measure=INFORMATION, values=plotted - 4),
                Panel(title="mutual information", measure=INFORMATION, values=right),
            ]
        ]
        result = self.numbers["released"]["correlation"]
        title = (
            "What the paper plots as mutual information of MC dropout is minus the data "
            f"uncertainty; its correlation with the right one is {result:.2f}"
        )
        made = sheet(rows, self.grids, self.data, 2.0, title)
        labels = "5 bits - expected entropy (bits)", "mutual information (bits)"
        bars = [made.bar(made.images[0][j], made.axes[0, j], labels[j]) for j in range(2)]
        ticks = np.linspace(0, 1, 5)
        bars[0].set_ticks(ticks, labels=[f"{4 + tick:g}" for tick in ticks])
        return made.figure


def _captions(numbers: dict[str, Any], settings: Settings) -> dict[str, str]:
    end = numbers[END]
    dropout, bayes, plain = end[DROPOUT], end[BAYES], end[PLAIN][ENTROPY]
    return {
        "figure-3.png": "The paper's selection. Above: white is certain, purple uncertain. Below: "
        f"gradient norms. Far from the data {percent(plain['far and flat']['mean'])} of the plane "
        f"has a gradient below {FLAT:g} for the entropy of the plain network.",
        "figure-5.png": "Single networks: entropy and 1 - max probability are two scales of the "
        f"same order. The median entropy is {plain['value']['on the data']['mean']:.2g} "
        f"{settings.unit} on the data and {plain['value']['far']['mean']:.2g} far away.",
        "figure-6-values.png": "Models of several networks. With dropout switched on, class "
        f"variance of MC dropout reaches {dropout[VARIANCE]['maximum']['mean']:.2f} and mutual "
        f"information {dropout[INFORMATION]['maximum']['mean']:.2f} {settings.unit} (possible: "
        f"{top(INFORMATION, settings.base):.2f}); for Bayes by backprop "
        f"{bayes[VARIANCE]['maximum']['mean']:.2f} and "
        f"{bayes[INFORMATION]['maximum']['mean']:.2f}.",
        "figure-6-gradients.png": "The same models: norms of the gradients. Flat regions reach "
        "the border of the plot; what is steep far away follows decision boundaries of members.",
        "mutual-information.png": "The released code averages over classes instead of samples, so "
        "it plots 5 bits minus the expected entropy, between 4 and 5; mutual information of two "
        "classes is at most 1 bit.",
    }


def _comparisons(numbers: dict[str, Any]) -> list[Comparison]:
    right = numbers["released"]["right, highest"]
    variance = numbers[END][DROPOUT][VARIANCE]["maximum"]["mean"]
    off = "0 in a re-run of the released code, where dropout is off"
    return [
        Comparison(
            "top of the mutual information plots (bits)", 5.0, right, note="1 bit is possible"
        ),
        Comparison("largest class variance of MC dropout", 0.0, variance, note=off),
    ]
