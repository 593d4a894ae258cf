"""Outlier exposure with one OOD set, tested on all: the lecture's warning as a matrix."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from nescio import losses
from nescio.evaluation import Comparison, compare
from nescio.evaluation.compare import Absent
from nescio.models.model import Model
from nescio.report.plots.look import add_title, label, with_look
from nescio_papers.kit import Claim, Findings, InData, Settings, folder_of, slug, table, verdict
from nescio_papers.kit.nested import rows_of
from nescio_papers.robust_deep_learning.networks import accuracy, compared, trained
from nescio_papers.robust_deep_learning.sets import (
    BLOCKS,
    NOISE,
    Block,
    budget,
    in_data,
    ood_data,
    shown_data,
)

PART = "exposure"  # the folder of its networks
PLAIN = "nothing"
NAMES = ("MNIST", "CIFAR-10")
WEIGHT = 0.5
SOURCE = "lecture, Relevance of using OOD training datasets?"
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
        claims=[
            claim
            for name, numbers in results.items()
            for claim in (_claim(name, numbers), modeled_claim(name, numbers))
        ],
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
    for shown in (PLAIN, *block.ood, NOISE):
        loss = losses.nll()
        if shown != PLAIN:
            ood = shown_data(block, shown, in_dist, sizes, seed)
            if isinstance(ood, Absent):
                absent[shown] = ood.why
                continue
            loss = losses.outlier_exposure(loss, ood, weight=WEIGHT)
        name = f"{slug(block.name)}--{slug(shown)}"
        epochs = sizes.exposed_epochs[block.name]
        model = trained(settings, PART, name, in_dist, epochs=epochs, loss=loss)
        folder = folder_of(settings, PART) / f"{name}--table"
        table = _compared(settings, block, in_dist, model, folder)
        part = rows_of(table, "msp")
        tested = [one.name for one in table.sets if one.kind == "ood" and not one.absent]
        rows[shown] = {row: part[row]["auroc"] for row in tested}
        right[shown] = accuracy(model, in_dist)
    return {"rows": rows, "accuracy": right, "absent": absent}


def _compared(
    settings: Settings, block: Block, in_dist: InData, model: Model, folder: Any
) -> Comparison:
    sizes = budget(settings)

    def make() -> Comparison:
        return compare(
            model,
            in_dist.test,
            ood_data(block, in_dist, sizes, settings.seed),
            detectors=["msp"],
            name=block.name,
            resamples=0,
            seed=settings.seed,
            progress=False,
        )

    return compared(folder, model, sizes, make)


def _text(result: Numbers, missing: Mapping[str, str]) -> str:
    lines = [
        "Outlier exposure trained with one OOD set and tested on all. AUROC of the maximum "
        "probability with its interval. Images that were shown are never tested on: of a set with "
        "training and test images each part serves one purpose, of the others every other image. "
        "Noise is uniform or of shuffled pixels, smoothed, from another seed in the test. "
        "Each row is one training.",
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


def gains(rows: Mapping[str, Mapping[str, Numbers]]) -> tuple[list[float], list[float]]:
    """AUROC less that of the plain network: on the set that was shown, and on the others."""
    plain = rows[PLAIN]
    own: list[float] = []
    other: list[float] = []
    for shown, cells in rows.items():
        if shown == PLAIN:
            continue
        for row, cell in cells.items():
            (own if row == shown else other).append(cell["value"] - plain[row]["value"])
    return own, other


def losses_of(rows: Mapping[str, Mapping[str, Numbers]]) -> int:
    """On how many sets that were not shown networks are worse than the plain one, by intervals."""
    plain = rows[PLAIN]
    return sum(
        cell["high"] < plain[row]["low"]
        for shown, cells in rows.items()
        for row, cell in cells.items()
        if shown not in (PLAIN, row)
    )


def _claim(name: str, part: Numbers) -> Claim:
    own, other = gains(part["rows"])
    sentence = "Performances strongly depend on the training vs testing OOD datasets."
    if not own or not other:
        return Claim(
            SOURCE,
            f"{sentence} ({name})",
            "fewer than two OOD sets are at hand",
            verdict="open",
        )
    worse = losses_of(part["rows"])
    return Claim(
        SOURCE,
        f"{sentence} ({name})",
        f"mean gain of AUROC over the plain network: {fmean(own):+.3f} on the set that was shown, "
        f"{fmean(other):+.3f} ({min(other):+.3f} to {max(other):+.3f}) on others; {worse} of "
        f"{len(other)} others got worse by more than their intervals",
        verdict=verdict(fmean(own) > fmean(other) and worse, worse),
    )


def modeled_claim(name: str, part: Numbers) -> Claim:
    """Does any set that was shown stand for all others?

    It does where the network is, on every other set, as good as one that was shown that set.
    """
    rows = part["rows"]
    cells = [(shown, row) for shown in rows for row in rows if PLAIN not in (shown, row)]
    pairs = [(shown, row) for shown, row in cells if shown != row and row in rows[shown]]
    short = [
        (shown, row) for shown, row in pairs if rows[shown][row]["high"] < rows[row][row]["low"]
    ]
    whole = [shown for shown in rows if shown != PLAIN and shown not in {one for one, _ in short}]
    gaps = [rows[row][row]["value"] - rows[shown][row]["value"] for shown, row in pairs]
    return Claim(
        SOURCE,
        f"By essence, OOD are impossible to model. ({name})",
        "no two OOD sets are at hand"
        if not pairs
        else f"on {len(short)} of {len(pairs)} pairs of sets a network that was shown the one set "
        "is worse on the other than a network that was shown the other, by intervals; by "
        f"{fmean(gaps):.3f} of AUROC in the mean, {max(gaps):.3f} at most; sets that stand for all "
        f"others: {', '.join(whole) or 'none'}",
        verdict="open" if not pairs else verdict(not whole, short),
    )


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
