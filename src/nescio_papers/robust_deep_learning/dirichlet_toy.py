"""A Dirichlet network in three situations: what tells an OOD input from classes that overlap?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from nescio import metrics, nets
from nescio.core import Dirichlet, measures
from nescio.core.registry import recipes
from nescio.data.ood import another
from nescio.models.model import Model
from nescio.report.plots.look import COLORS, GRAY, MARKERS, panels, with_look
from nescio.report.plots.simplex_plot import simplex
from nescio.training.train import train
from nescio_papers.kit import (
    A_SHARE,
    UNSEEN,
    Claim,
    Fact,
    Findings,
    Sample,
    Settings,
    exactly,
    folder_of,
    full_and_quick,
    sample,
    size,
    table,
)
from nescio_papers.robust_deep_learning.stored_facts import of_count, over_seeds
from nescio_papers.robust_deep_learning.three_situations import (
    CLASSES,
    FAR,
    RING,
    class_means,
    ring,
    situations,
)

SOURCE = "lecture, Out of Distribution with Dirichlet Prior Networks"
MAPS, INPUTS = "dirichlet-maps.png", "dirichlet-network.png"
SEEDS = 5
SHOWN = 5000  # OOD inputs that are shown
EDGE = 13.0  # of the maps
WITH, WITHOUT = "with a ring of OOD inputs", "without OOD inputs"
SCORES = {
    "mutual information": measures.mutual_information,
    "precision": measures.negative_log_precision,
    "predictive entropy": measures.predictive_entropy,
}


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sizes of a run."""

    samples: int = size(2000, quick=200)  # of each training
    epochs: int = size(40, quick=2)


FULL, QUICK = full_and_quick(Budget)
WANTED, REFUSED = 0.95, 0.7  # AUROCs: what separates the two, and what does not
LEAST_PAIRS = 900  # of each network, where the number was not stored
Areas = Mapping[str, Mapping[str, Sample]]


def findings(settings: Settings) -> Findings:
    """Five trainings in one stack, with and without OOD inputs; AUROCs and maps."""
    models = {WITH: _trained(settings, "dirichlet_ood"), WITHOUT: _trained(settings, "dirichlet")}
    rings = {_named(radii): radii for radii in (RING, FAR)}
    areas: dict[str, Areas] = {
        name: {where: _areas(model, settings, radii) for where, radii in rings.items()}
        for name, model in models.items()
    }
    first = models[WITH]
    return Findings(
        numbers={
            name: {where: {score: one.numbers() for score, one in row.items()}
                   for where, row in rows.items()}
            for name, rows in areas.items()
        }
        | {"accuracy": {name: _accuracy(m, settings).numbers() for name, m in models.items()},
           "pairs": _pairs(settings)},
        figures={MAPS: _maps(first, settings), INPUTS: _at_inputs(first)},
        captions={
            MAPS: "A Dirichlet network that was shown the ring of OOD inputs (dots): entropy is "
            "high where classes overlap and where it was shown OOD inputs, mutual information only "
            "there; further out, where it was shown nothing, both may fall again.",
            INPUTS: "What this network answers in the three situations.",
        },
        text=_text(areas),
    )  # fmt: skip


def _trained(settings: Settings, name: str) -> Model:
    """One network per seed, each with its own data."""
    sizes = QUICK if settings.quick else FULL
    count = sizes.samples
    seeds = range(settings.seed, settings.seed + SEEDS)
    parts = [situations(count, seed) for seed in seeds]
    data = torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts])
    options = {"ood": another(ring(SHOWN, settings.seed), "ring")} if "ood" in name else {}
    recipe = recipes[name](**options)
    return train(
        partial(nets.mlp, 2, CLASSES, widths=(50, 50)),
        data,
        rows=torch.arange(SEEDS * count).view(SEEDS, count),
        loss=recipe.loss_for(data[0]),
        members=SEEDS,
        epochs=sizes.epochs,
        learning_rate=5e-3,
        schedule="cosine",
        seed=settings.seed,
        run=folder_of(settings, "dirichlet") / f"situations-{name}",
        progress=False,
    )


def _areas(model: Model, settings: Settings, radii: tuple[float, float]) -> dict[str, Sample]:
    """AUROCs of a ring against the samples where classes overlap, for each network."""
    values: dict[str, list[float]] = {name: [] for name in SCORES}
    for member in range(SEEDS):
        seed = settings.seed + UNSEEN + member
        test, ood = situations(4000, seed), ring(1000, seed, radii)
        overlap, far = (_member(model, x, member) for x in (test.x[test.overlap], ood))
        for name, score in SCORES.items():
            values[name].append(metrics.auroc(score(overlap), score(far)))
    return {name: sample(row) for name, row in values.items()}


def _named(radii: tuple[float, float]) -> str:
    return f"radius {radii[0]:g} to {radii[1]:g}"


def _pairs(settings: Settings) -> int:
    """How many pairs of an overlap and an OOD input there are, over all networks, that share none.

    An AUROC is the chance that such a pair is in order, and these pairs are independent.
    """
    first = settings.seed + UNSEEN
    overlaps = (int(situations(4000, seed).overlap.sum()) for seed in range(first, first + SEEDS))
    return sum(min(count, 1000) for count in overlaps)


def _member(model: Model, x: Tensor, member: int) -> Dirichlet:
    prediction: Any = model(x)
    own: Dirichlet = prediction.choose([member])
    return own


def _accuracy(model: Model, settings: Settings) -> Sample:
    """Of test samples outside the overlap, where every label can be known."""
    shares = []
    for member in range(SEEDS):
        test = situations(4000, settings.seed + UNSEEN + member)
        labels = _member(model, test.x, member).labels
        shares.append(float((labels == test.y)[~test.overlap].double().mean()))
    return sample(shares)


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Does the spread tell OOD inputs from classes that overlap, and entropy not?"""
    found = numbers[WITH][_named(RING)]
    shared, entropy = (
        found[name]["values"] for name in ("mutual information", "predictive entropy")
    )
    return [
        Claim(
            source=SOURCE,
            sentence="In-distribution samples: KL to a sharp Dirichlet; out-of-distribution "
            "samples: KL to the flat one. So an input with high data uncertainty and an OOD input "
            "differ in their spread (three pictures).",
            facts=[
                _separated(shared, numbers.get("pairs", LEAST_PAIRS * len(shared))),
                over_seeds(
                    "AUROC of the entropy (if it separated them, too, the spread would not be "
                    "needed)",
                    entropy,
                    below=REFUSED,
                    within=A_SHARE,
                ),
            ],
            needs=[
                exactly(
                    "smallest accuracy of the networks where classes do not overlap",
                    min(numbers["accuracy"][WITH]["values"]),
                    why="every network of this run counts",
                    above=0.95,
                )
            ],
            note=f"{len(shared)} trainings; the OOD inputs lie on the ring that was shown",
        )
    ]


def _separated(areas: Sequence[float], pairs: int) -> Fact:
    """The AUROC over trainings; where all are 1, from pairs of inputs that share none."""
    what = "AUROC of the mutual information, OOD ring against the overlap of the classes,"
    if all(area == 1 for area in areas):
        return of_count(what, pairs, pairs, above=WANTED, form=".4f")
    return over_seeds(what, areas, above=WANTED, within=A_SHARE)


def _text(areas: Mapping[str, Areas]) -> str:
    rows = [
        [name, where, *(f"{one.mean:.3f} ({min(one.values):.3f} to {max(one.values):.3f})"
                        for one in row.values())]
        for name, part in areas.items() for where, row in part.items()
    ]  # fmt: skip
    return "\n\n".join(
        [
            f"Three situations in the plane: three classes, a cluster in the middle with labels of "
            f"all three, and OOD inputs on a ring. {SEEDS} Dirichlet networks, each with its own "
            "data, are trained in one stack with the reverse KL, with and without OOD inputs at "
            f"radius {RING[0]:g} to {RING[1]:g}. AUROC of OOD inputs against samples of the "
            "overlap: mean, lowest and highest. Inputs further out than those shown are another "
            "matter: nothing bounds the precision there.",
            table(["trained", "OOD inputs at", *SCORES], rows),
        ]
    )


@with_look
def _maps(model: Model, settings: Settings) -> Figure:
    """Entropy, mutual information and log precision of the first network, with its data."""
    side = torch.linspace(-EDGE, EDGE, 120)
    y, x = torch.meshgrid(side, side, indexing="ij")
    prediction = _member(model, torch.stack([x.flatten(), y.flatten()], 1), 0)
    maps = {
        "entropy, nats": measures.predictive_entropy(prediction),
        "mutual information, nats": measures.mutual_information(prediction),
        "log10 of the precision": prediction.log_precision / torch.tensor(10.0).log(),
    }
    title = "A Dirichlet network: entropy does not tell OOD inputs from overlapping classes"
    figure, axes = panels(len(maps), height=2.9, title=title)
    data, beyond = situations(300, settings.seed + UNSEEN), ring(120, settings.seed + UNSEEN)
    for axis, (name, values) in zip(axes, maps.items(), strict=True):
        colors = "cividis_r" if "precision" in name else "cividis"  # yellow: less certain
        image = axis.imshow(values.view(120, 120), origin="lower", cmap=colors,
                            extent=(-EDGE, EDGE, -EDGE, EDGE))  # fmt: skip
        for label in range(CLASSES):
            own = data.x[data.y == label]
            axis.scatter(own[:, 0], own[:, 1], s=7, color=COLORS[(1, 2, 3)[label]],
                         marker=MARKERS[label], linewidths=0)  # fmt: skip
        axis.scatter(beyond[:, 0], beyond[:, 1], s=6, color="black", alpha=0.5, linewidths=0)
        axis.set_title(name, loc="left")
        axis.grid(visible=False)
        axis.tick_params(labelsize=9, color=GRAY)
        figure.colorbar(image, ax=axis, shrink=0.75)
    return figure


def _at_inputs(model: Model) -> Figure:
    inputs = {
        "in distribution:\nthe middle of class 0": class_means()[:1],
        "in distribution:\nthe classes overlap": torch.zeros(1, 2),
        f"OOD: radius {RING[1]:g}": torch.tensor([[0.0, -RING[1]]]),
    }
    found = {name: _member(model, x, 0) for name, x in inputs.items()}
    figure: Figure = simplex(found, title="One Dirichlet network in three situations")
    return figure
