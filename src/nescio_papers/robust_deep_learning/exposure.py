"""Outlier exposure with one OOD set, tested on all: the lecture's warning as a matrix."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from nescio import losses
from nescio.evaluation import Comparison, compare
from nescio.evaluation.compare import Absent
from nescio.losses import Loss
from nescio.models.model import Model
from nescio.report.plots.look import add_title, label, with_look
from nescio_papers.kit import (
    Claim,
    Fact,
    Findings,
    InData,
    Settings,
    folder_of,
    slug,
    table,
)
from nescio_papers.kit import (
    Comparison as Published,
)
from nescio_papers.kit.nested import rows_of
from nescio_papers.robust_deep_learning.networks import accuracy, compared, residual, trained
from nescio_papers.robust_deep_learning.sets import (
    BLOCKS,
    FASHION,
    GRAY,
    NOISE,
    PHOTOGRAPHS,
    Block,
    budget,
    in_data,
    ood_data,
    shown_data,
)
from nescio_papers.robust_deep_learning.stored_facts import (
    ONCE,
    between,
    learned,
    less,
    open_fact,
    over_seeds,
    simultaneous,
)

PART = "exposure"  # the folder of its networks
PLAIN = "nothing"
NAMES = ("MNIST", "CIFAR-10")
WEIGHT = 0.5
SOURCE = "lecture, Relevance of using OOD training datasets?"
STRONG = 0.05  # of AUROC: a strong dependence, or too far from a model of other sets
# AUROC without and with exposure from the start, in the logs of outlier exposure for MNIST
PUBLISHED = {FASHION: (0.9931, 0.9992), GRAY: (0.9987, 1.0), NOISE: (0.9996, 1.0)}
Numbers = Mapping[str, Any]


def findings(settings: Settings) -> Findings:
    """A matrix for each block that is at hand."""
    results: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name in NAMES:
        in_dist = in_data(BLOCKS[name], budget(settings))
        if isinstance(in_dist, Absent):
            missing[name] = in_dist.why
        else:
            results[name] = _matrix(settings, BLOCKS[name], in_dist)
    figures = {"exposure.png": drawn(results)} if results else {}
    return Findings(
        numbers={"blocks": results, "missing": missing},
        figures=figures,
        captions={
            "exposure.png": "AUROC of the maximum probability after outlier exposure: a row is "
            "what the network was shown, a column what it was tested on; framed where both are "
            "of one source."
        },
        comparisons=_published(results),
        text=_text(results, missing),
        skipped={
            **missing,
            **{s: why for part in results.values() for s, why in part["absent"].items()},
        },
        empty=not results,
    )


def _matrix(settings: Settings, block: Block, in_dist: InData) -> dict[str, Any]:
    """Networks shown nothing, or one OOD set, and their AUROCs on all of them."""
    sizes, seed = budget(settings), settings.seed
    absent: dict[str, str] = {}
    rows: dict[str, dict[str, Any]] = {}
    right: dict[str, float] = {}
    plain: Model | None = None
    for shown in (PLAIN, *block.ood, NOISE):
        loss = losses.nll()
        if shown != PLAIN:
            ood = shown_data(block, shown, in_dist, sizes, seed)
            if isinstance(ood, Absent):
                absent[shown] = ood.why
                continue
            loss = losses.outlier_exposure(loss, ood, weight=WEIGHT)
        model = _network(settings, block, shown, in_dist, loss, plain)
        plain = plain or model
        folder = folder_of(settings, PART) / f"{_name(block, shown)}--table"
        table = _compared(settings, block, in_dist, model, folder)
        part = rows_of(table, "msp")
        tested = [one.name for one in table.sets if one.kind == "ood" and not one.absent]
        rows[shown] = {row: part[row]["auroc"] for row in tested}
        right[shown] = accuracy(model, in_dist)
    return {"rows": rows, "accuracy": right, "absent": absent}


def _name(block: Block, shown: str) -> str:
    return f"{slug(block.name)}--{slug(shown)}"


def _network(
    settings: Settings,
    block: Block,
    shown: str,
    in_dist: InData,
    loss: Loss,
    plain: Model | None,
) -> Model:
    """A small network from the start; for photographs a ResNet-20, tuned from the plain one."""
    name, epochs = _name(block, shown), budget(settings).exposed_epochs[block.name]
    if block.name not in PHOTOGRAPHS:
        return trained(settings, PART, name, in_dist, epochs=epochs, loss=loss)
    return residual(
        settings, PART, name, in_dist, loss=loss, start=plain, epochs=epochs if plain else None
    )


def _compared(
    settings: Settings, block: Block, in_dist: InData, model: Model, folder: Any
) -> Comparison:
    sizes = budget(settings)

    rows = ood_data(block, in_dist, sizes, settings.seed)

    def make() -> Comparison:
        return compare(
            model,
            in_dist.test,
            rows,
            detectors=["msp"],
            name=block.name,
            resamples=0,
            seed=settings.seed,
            progress=False,
        )

    return compared(folder, model, sizes, rows, make)


def _text(result: Numbers, missing: Mapping[str, str]) -> str:
    lines = [
        "Outlier exposure trained with one OOD set and tested on all. AUROC of the maximum "
        "probability with its interval. Images that were shown are never tested on: of a set with "
        "training and test images each part serves one purpose, of the others every other image. "
        "Noise is uniform or of shuffled pixels, smoothed, from another seed in the test. "
        "Each row is one training; for CIFAR-10 the network that was shown nothing is a "
        "ResNet-20, and the others start from it: they were trained longer, on crops without black "
        "edges.",
    ]
    for name, part in result.items():
        sets = list(part["rows"][PLAIN])
        rows = [
            [shown, *(_cell(cells[row], own=row == shown) for row in sets),
             f"{100 * part['accuracy'][shown]:.2f} %"]
            for shown, cells in part["rows"].items()
        ]  # fmt: skip
        lines.append(f"Trained on {name}; a row is what was shown beside it:")
        lines.append(table(["shown", *sets, "accuracy"], rows))
        lines += [f"{shown} is not at hand: {why}." for shown, why in part["absent"].items()]
    lines += [f"{name} is not at hand: {why}." for name, why in missing.items()]
    return "\n\n".join(lines)


def _cell(number: Numbers, *, own: bool) -> str:
    text = f"{number['value']:.3f} ({number['low']:.3f}-{number['high']:.3f})"
    return f"*{text}*" if own else text


def claims(numbers: Numbers) -> list[Claim]:
    """What the matrix of each block says, from its numbers."""
    return [
        claim
        for name, part in numbers["blocks"].items()
        for claim in (dependence_claim(name, part), modeled_claim(name, part))
    ]


def _published(results: Numbers) -> list[Published]:
    """Published AUROCs on MNIST, shown natural images; ours shown gray CIFAR-10."""
    rows = results.get("MNIST", {}).get("rows", {})
    note = "published: shown 80 million tiny images, 1 OOD image to 5; here gray CIFAR-10"
    return [
        Published(f"MNIST against {row}, AUROC: {what}", said, rows[shown][row]["value"], note=note)
        for row, pair in PUBLISHED.items()
        for what, shown, said in zip(
            ("no exposure", "outlier exposure"), (PLAIN, GRAY), pair, strict=True
        )
        if shown in rows and row in rows[shown]
    ]


def paired_gains(rows: Mapping[str, Mapping[str, Numbers]]) -> dict[str, tuple[float, float]]:
    """By tested set: the gain over the plain network where it was shown, and the mean of others."""
    found = {}
    for row, plain in rows[PLAIN].items():
        others = [cells[row]["value"] for shown, cells in rows.items() if shown not in (PLAIN, row)]
        if row in rows and others:
            found[row] = rows[row][row]["value"] - plain["value"], fmean(others) - plain["value"]
    return found


def dependence_claim(name: str, part: Numbers) -> Claim:
    """Is the gain on the set that was shown larger than that on others, set by set?"""
    gains = paired_gains(part["rows"])
    what = "gain of AUROC on the shown set less that on the others, paired by tested set"
    gaps = [own - other for own, other in gains.values()]
    worse, pairs = losses_of(part["rows"])
    facts = (
        [
            over_seeds(what, gaps, above=0, form="+.3f"),
            over_seeds(f"strongly: {what}", gaps, above=STRONG, form="+.3f"),
        ]
        if len(gaps) > 1
        else [open_fact(what, above=0)]
    )
    said = ", ".join(f"{row} {own:+.3f} / {other:+.3f}" for row, (own, other) in gains.items())
    return Claim(
        source=SOURCE,
        sentence=f"Performances strongly depend on the training vs testing OOD datasets. ({name})",
        facts=facts,
        needs=_needs(name, part),
        note=f"gain where shown / mean where others were: {said}; {worse} of {pairs} pairs got "
        "worse than without exposure by separate intervals; one training for each shown set",
    )


def losses_of(rows: Mapping[str, Mapping[str, Numbers]]) -> tuple[int, int]:
    """On how many sets that were not shown networks are worse than the plain one, and of how many.

    By separate intervals.
    """
    plain = rows[PLAIN]
    pairs = [
        cell["high"] < plain[row]["low"]
        for shown, cells in rows.items()
        for row, cell in cells.items()
        if shown not in (PLAIN, row) and row in plain
    ]
    return sum(pairs), len(pairs)


def modeled_claim(name: str, part: Numbers) -> Claim:
    """Does any set that was shown stand for all others?

    It does where the network is, on every other set, nearly as good as one that was shown that set.
    """
    rows = part["rows"]
    facts = []
    for shown in rows:
        short = {
            row: less(rows[row][row], cell)
            for row, cell in rows[shown].items()
            if row in rows and PLAIN != shown != row
        }
        if short:
            worst = max(short, key=lambda row: short[row]["value"])
            facts.append(
                between(
                    f"shown {shown}, tested on {worst}: AUROC short of a network that was shown it",
                    simultaneous(short[worst], len(short)),
                    above=STRONG,
                    form=".3f",
                )
            )
    return Claim(
        source=SOURCE,
        sentence=f"By essence, OOD are impossible to model! ({name})",
        facts=facts or [open_fact("AUROC short of a network that was shown the set", above=STRONG)],
        needs=_needs(name, part),
        note=f"judged where each set does worst; a set that models all others is nowhere short by "
        f"more than {STRONG:g}; separate intervals, widened for the choice; {ONCE}",
    )


def _needs(name: str, part: Numbers) -> list[Fact]:
    """The network without exposure has learned its data."""
    right = part.get("accuracy", {}).get(PLAIN, math.nan)
    return learned(name, "test error without exposure", 1 - right)


@with_look
def drawn(result: Numbers) -> Figure:
    """A matrix for each block, its numbers written in."""
    figure = Figure(figsize=(11.5, 4.6), layout="constrained")
    axes = figure.subplots(1, len(result), squeeze=False)[0]
    for axis, (name, part) in zip(axes, result.items(), strict=True):
        shown, sets = list(part["rows"]), list(part["rows"][PLAIN])
        values = [[part["rows"][one][row]["value"] for row in sets] for one in shown]
        image = axis.imshow(values, cmap="cividis", vmin=0.5, vmax=1, aspect="auto")
        axis.set_xticks(range(len(sets)), _labels(sets), rotation=30, ha="right", fontsize=9)
        axis.set_yticks(range(len(shown)), _labels(shown), fontsize=9)
        axis.grid(visible=False)
        for i, one in enumerate(shown):
            for j, row in enumerate(sets):
                dark = values[i][j] < 0.8
                axis.text(j, i, f"{values[i][j]:.3f}", ha="center", va="center", fontsize=9,
                          color="white" if dark else "black",
                          fontweight="bold" if one == row else "normal")  # fmt: skip
                if one == row:
                    axis.add_patch(frame(j, i))
        axis.set_title(f"trained on {name}", loc="left")
        axis.set_xlabel("tested on")
        axis.set_ylabel("shown in training")
        figure.colorbar(image, ax=axis, label="AUROC", shrink=0.9, extend="min")
    add_title(figure, "Outlier exposure: shown one OOD set, tested on all")
    return figure


def _labels(names: Sequence[str]) -> list[str]:
    return [label(name, 28) for name in names]


def frame(column: int, row: int) -> Any:
    """A frame round a cell of a matrix."""
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="#D55E00", linewidth=2)
