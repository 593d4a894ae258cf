"""Part `medical`: patients unlike those of the training, for all models, measures and detectors."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from nescio.core import NescioError, kept
from nescio.metrics import accuracy
from nescio.monitoring import shift
from nescio.report.plots.look import COLORS, GRAY, MARKERS, add_title, with_look
from nescio_papers.kit.experiment import Findings, Settings, absent
from nescio_papers.kit.shares import between, mean_range
from nescio_papers.kit.stores import folder_of, slug
from nescio_papers.kit.summary import table
from nescio_papers.know_your_limits.medical_claims import is_measure
from nescio_papers.know_your_limits.models import Network
from nescio_papers.know_your_limits.patient_models import (
    Floats,
    Scorer,
    detected,
    measured,
    networks,
)
from nescio_papers.know_your_limits.patients import (
    FACTORS,
    Budget,
    Parts,
    World,
    budget,
    drawn,
    worlds,
    wrong_units,
)
from nescio_papers.know_your_limits.ranks import Numbers, joined, ranked

PART, FIGURE, SCALED = "medical", "medical.png", "medical-scaled.png"
SEVERAL = 200  # rows of each side of a batch test


def medical(settings: Settings) -> Findings:
    """AUROC of every score in every world, with intervals; one wrong unit; tests of batches."""
    try:
        result = {world.name: _kept(world, settings) for world in worlds(settings)}
    except NescioError as error:
        if "NESCIO_DATA" not in str(error):
            raise
        return absent("A table of patients", str(error))
    return Findings(
        numbers=result,
        figures={FIGURE: _figure(result), SCALED: _scaled_figure(result)},
        captions={FIGURE: _caption(result), SCALED: _scaled_caption(result)},
        text=_text(result),
    )


def _kept(world: World, settings: Settings) -> Numbers:
    """The numbers of a world: read if they were found before, otherwise found and written."""
    sizes = budget(settings, world)
    key = {"world": world.name, "sizes": vars(sizes), "seed": settings.seed, "bits": settings.bits}
    path: Path = folder_of(settings, PART) / f"{slug(world.name)}.json"
    numbers: Numbers = kept(path, key, lambda: study(world, settings, sizes))
    return numbers


def study(world: World, settings: Settings, sizes: Budget) -> Numbers:
    """All trainings of a world, joined."""
    rows = []
    for training in range(sizes.trainings):
        seed = settings.seed + training
        parts = drawn(world, sizes, seed)
        models = networks(parts, settings, seed, sizes.epochs)
        rows.append(_one(world, parts, models, settings))
    return {
        "about": world.about,
        "trainings": sizes.trainings,
        "samples": rows[0]["samples"],
        "accuracy": {m: mean_range([r["accuracy"][m] for r in rows]) for m in rows[0]["accuracy"]},
        "auroc": joined([row["auroc"] for row in rows]),
        "scaled": {
            name: {column: joined([row["scaled"][name][column] for row in rows]) for column in own}
            for name, own in rows[0]["scaled"].items()
        },
        "batches": rows[0]["batches"],
    }


def _one(world: World, parts: Parts, models: Mapping[str, Network], settings: Settings) -> Numbers:
    """One training: scores of the test rows against those outside."""
    scorers = [measured(models, settings.base), detected(next(iter(models.values())), parts)]
    test = parts.encoded(parts.test)
    in_dist = _scores(scorers, test)
    ood = parts.encoded(parts.ood)
    labels = torch.from_numpy(parts.test[world.target].astype(np.int64))
    own = {name: accuracy(network(test).probs, labels) for name, network in models.items()}
    own["most frequent class"] = float(labels.bincount().max() / len(labels))
    scaled: Numbers = {}
    for column, factor, rows in wrong_units(parts) if world.scaled else ():
        cells = ranked(in_dist, _scores(scorers, parts.encoded(rows)))
        for name, value in cells.items():
            scaled.setdefault(name, {}).setdefault(column, {})[f"{factor:g}"] = value
    return {
        "samples": {"train": len(parts.train[0]), "test": len(test), "ood": len(ood)},
        "accuracy": own,
        "auroc": ranked(in_dist, _scores(scorers, ood)),
        "scaled": scaled,
        "batches": _batches(parts, settings.seed),
    }


def _scores(scorers: Sequence[Scorer], x: torch.Tensor) -> dict[str, Floats]:
    return {name: values for scorer in scorers for name, values in scorer(x).items()}


def _batches(parts: Parts, seed: int) -> Numbers:
    """Tests of shift: two halves of the test rows, and test rows against those outside."""
    half = min(SEVERAL, len(parts.test) // 2)
    sides = {
        "same patients": (parts.test.rows(slice(half)), parts.test.rows(slice(half, 2 * half))),
        "ood": (parts.test.rows(slice(SEVERAL)), parts.ood.rows(slice(SEVERAL))),
    }
    result: Numbers = {}
    for name, (one, two) in sides.items():
        x, y = parts.encoded(one), parts.encoded(two)
        columns = shift.by_column(one, two, columns=parts.columns, seed=seed)
        result[name] = {
            "samples": [len(x), len(y)],
            "mmd": shift.mmd(x, y, seed=seed).p_value,
            "classifier": shift.classifier_two_sample(x, y, seed=seed).p_value,
            "columns": columns.p_value,
            "shifted": columns.shifted(),
        }
    return result


def over_columns(own: Mapping[str, Numbers], factor: float) -> dict[str, float]:
    """AUROC at a factor: mean, lowest and highest of the columns."""
    return mean_range([cells[f"{factor:g}"]["mean"] for cells in own.values()])


def _text(result: Mapping[str, Numbers]) -> str:
    names = list(result)
    kinds = list(result[names[0]]["auroc"])
    rows = [[name, *(between(result[w]["auroc"][name]) for w in names)] for name in kinds]
    worlds_ = [[w, f["about"], str(f["trainings"]), _sizes(f), _accuracies(f)]
               for w, f in result.items()]  # fmt: skip
    parts = [
        "Models, measures and budgets are those of the half-moons, on encoded tables: missing "
        "values and unseen levels are flags. Columns that name a group are not read.",
        table(["world", "what", "trainings", "rows", "accuracy"], worlds_),
        "AUROC, test patients against those outside: mean of the trainings, each with its own "
        "draw of the rows, and from the lowest to the highest end of their 95 % intervals "
        "(DeLong, in log-odds). 1/2 is chance; below it, patients outside look more usual.",
        table(["score", *names], rows),
    ]
    for world, numbers in result.items():
        if numbers["scaled"]:
            own = numbers["scaled"]
            cells = [
                [name, *(between(over_columns(own[name], factor)) for factor in FACTORS)]
                for name in kinds
            ]
            columns = ", ".join(next(iter(own.values())))
            parts += [
                f"{world}: one column in a wrong unit, times the factor (a value of 0 stays). "
                f"AUROC against the rows as they were: mean, lowest and highest of {columns}.",
                table(["score", *(f"x {factor:g}" for factor in FACTORS)], cells),
            ]
    parts += [
        "p-values of whole batches: none should be small for two halves of the same patients.",
        table(
            ["world", "batches", "rows", "MMD", "classifier", "columns (Holm)", "columns found"],
            [row for w, f in result.items() for row in _batch_rows(w, f["batches"])],
        ),
    ]
    return "\n\n".join(parts)


def _sizes(result: Numbers) -> str:
    return ", ".join(f"{count} {name}" for name, count in result["samples"].items())


def _accuracies(result: Numbers) -> str:
    own = dict(result["accuracy"])
    usual = own.pop("most frequent class")["mean"]
    means = [one["mean"] for one in own.values()]
    return f"{min(means):.3f} to {max(means):.3f} (most frequent class {usual:.3f})"


def _batch_rows(world: str, batches: Numbers) -> list[list[str]]:
    return [
        [world, name, f"{one['samples'][0]} and {one['samples'][1]}", f"{one['mmd']:.3g}",
         f"{one['classifier']:.3g}", f"{one['columns']:.3g}", ", ".join(one["shifted"]) or "-"]
        for name, one in batches.items()
    ]  # fmt: skip


def _best(cells: Numbers, measure: bool) -> tuple[str, Numbers]:
    """The score with the largest mean AUROC, of the measures or of the detectors."""
    own = {name: result for name, result in cells.items() if is_measure(name) == measure}
    name = max(own, key=lambda one: own[one]["mean"])
    return name, own[name]


def _bests(
    result: Mapping[str, Numbers],
) -> list[tuple[str, tuple[str, Numbers], tuple[str, Numbers]]]:
    return [(w, _best(f["auroc"], True), _best(f["auroc"], False)) for w, f in result.items()]


def _caption(result: Mapping[str, Numbers]) -> str:
    words = [
        f"{world}: {one[0]} {one[1]['mean']:.2f}, {two[0]} {two[1]['mean']:.2f}"
        for world, one, two in _bests(result)
    ]
    return (
        "AUROC of test patients against those outside, for every score; bars are intervals. Best "
        "measure and best detector (chosen by this very number): " + "; ".join(words) + "."
    )


def _scaled_caption(result: Mapping[str, Numbers]) -> str:
    words = []
    for world, numbers in result.items():
        if numbers["scaled"]:
            ends = {
                n: over_columns(own, FACTORS[-1])["mean"] for n, own in numbers["scaled"].items()
            }
            low = min((n for n in ends if is_measure(n)), key=lambda n: ends[n])
            words.append(
                f"{world}, times {FACTORS[-1]:g}: lowest of the measures {low} {ends[low]:.2f}, "
                f"Gower neighbors {ends['Gower neighbors']:.2f}"
            )
    return "One column at a time in a wrong unit: mean AUROC over the columns. " + "; ".join(words)


@with_look
def _figure(result: Mapping[str, Numbers]) -> Figure:
    names = list(next(iter(result.values()))["auroc"])
    figure = Figure(figsize=(10.8, 0.24 * len(names) + 2.2), layout="constrained")
    axes = figure.subplots(1, len(result), sharey=True, squeeze=False)[0]
    for axis, (world, numbers) in zip(axes, result.items(), strict=True):
        for row, name in enumerate(reversed(names)):
            one = numbers["auroc"][name]
            color = COLORS[0] if is_measure(name) else COLORS[1]
            axis.plot([one["low"], one["high"]], [row] * 2, color=color, linewidth=2)
            marker = MARKERS[0] if is_measure(name) else MARKERS[1]
            axis.plot(one["mean"], row, color=color, marker=marker, markersize=4)
        axis.axvline(0.5, color=GRAY, linestyle=":")
        axis.set(xlim=(0, 1.02), xticks=[0, 0.5, 1])
        axis.set_title(world.replace(", ", ",\n").replace(": ", ":\n"), fontsize=8)
        axis.tick_params(labelsize=7)
    axes[0].set_yticks(range(len(names)), list(reversed(names)))
    figure.supxlabel("AUROC", fontsize=9)
    add_title(figure, "Patients unlike those of the training: measures (round), detectors (square)")
    return figure


@with_look
def _scaled_figure(result: Mapping[str, Numbers]) -> Figure:
    shown = {world: numbers["scaled"] for world, numbers in result.items() if numbers["scaled"]}
    figure = Figure(figsize=(10.8, 4.6), layout="constrained")
    axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axis, (world, own) in zip(axes, shown.items(), strict=True):
        for name, columns in own.items():
            values = [over_columns(columns, factor)["mean"] for factor in FACTORS]
            color = COLORS[0] if is_measure(name) else COLORS[1]
            marker = MARKERS[0] if is_measure(name) else MARKERS[1]
            axis.plot(FACTORS, values, color=color, marker=marker, markersize=4, alpha=0.7)
        axis.axhline(0.5, color=GRAY, linestyle=":")
        axis.set(xscale="log", xlabel="factor of one column", ylim=(0, 1.02))
        axis.set_title(world)
    axes[0].set_ylabel("mean AUROC over the columns")
    add_title(figure, "One column in a wrong unit: measures (round), detectors (square)")
    return figure
