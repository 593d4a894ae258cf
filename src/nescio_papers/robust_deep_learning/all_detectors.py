"""All detectors on all OOD sets, for networks trained on MNIST, Fashion-MNIST and CIFAR-10."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from nescio import detectors
from nescio.detectors import Detector
from nescio.detectors.activations import Activations
from nescio.evaluation import Comparison, compare
from nescio.evaluation.compare import Absent
from nescio.evaluation.compare.comparison import MEAN
from nescio.models.model import Model
from nescio.report.render import FPR95
from nescio_papers.kit import Comparison as Published
from nescio_papers.kit import Findings, InData, Settings, absent, folder_of, joined, slug, table
from nescio_papers.kit.nested import rows_of
from nescio_papers.robust_deep_learning.networks import (
    accuracy,
    compared,
    one_of,
    trained,
    weights_digest,
)
from nescio_papers.robust_deep_learning.sets import (
    BLOCKS,
    PUBLISHED_AUROC,
    PUBLISHED_NOTES,
    Block,
    budget,
    in_data,
    near,
    ood_data,
)

PART = "detectors"
EARLY, LAST = "1", "6"  # the first ReLU, pooled over the image; that before the last layer
COMBINED = "combined: knn, and mahalanobis of the first layer"
WEIGHTS = (0.9, 0.1)  # the first layer speaks only where it is sure
HELD = 10  # every tenth training image calibrates the combination
KEYS = ("auroc", "aupr", "fpr_at_95_tpr")
COSTS = ("fit_seconds", "score_seconds_per_1000", "bytes")
WIDE = 0.8927  # mean AUROC of a wide residual network for CIFAR-10, maximum probability
Numbers = Mapping[str, Any]


def run(settings: Settings) -> Findings:
    """A table of means over seeds for each block that is at hand."""
    introduction = (
        "Small convolutional networks, each detector with its defaults and fitted on the training "
        f"images. {FPR95['ood'].format(data='the test images')} AUROC, and below "
        f"FPR95: means over {budget(settings).seeds} trainings, ± their standard deviation. "
        f"{COMBINED}: the nearest neighbor and the distance, by the harmonic mean of "
        f"p-values with weights {WEIGHTS[0]:g} and {WEIGHTS[1]:g}, calibrated on a tenth of the "
        "training images, which its parts were not fitted on."
    )
    blocks = {name: _findings(settings, block) for name, block in BLOCKS.items()}
    return joined(blocks, introduction)


def _findings(settings: Settings, block: Block) -> Findings:
    in_dist = in_data(block, budget(settings))
    if isinstance(in_dist, Absent):
        return absent(block.name, in_dist.why)
    numbers = _block(settings, block, in_dist)
    return Findings(
        numbers=numbers,
        comparisons=_comparisons(block.name, numbers),
        text="\n\n".join(_texts(block.name, numbers)),
        skipped=numbers["absent"],
    )


def _comparisons(name: str, numbers: Numbers) -> list[Published]:
    """Published AUROCs of the maximum probability beside ours."""
    rows = numbers["detectors"]["msp"]["rows"]
    said = {
        "MNIST": {row: (PUBLISHED_AUROC[row], PUBLISHED_NOTES[row]) for row in PUBLISHED_AUROC},
        "CIFAR-10": {MEAN: (WIDE, "the logs of outlier exposure: a wide residual network, other "
                            "OOD sets")},
    }.get(name, {})  # fmt: skip
    return [
        Published(
            f"trained on {name}, AUROC of the maximum probability: {row}",
            value,
            rows[row]["auroc"]["value"],
            note=note,
        )
        for row, (value, note) in said.items()
        if row in rows
    ]


def _block(settings: Settings, block: Block, in_dist: InData) -> dict[str, Any]:
    sizes = budget(settings)
    model = trained(
        settings,
        PART,
        slug(block.name),
        in_dist,
        epochs=sizes.epochs[block.name],
        members=sizes.seeds,
    )
    tables = [_table(settings, block, in_dist, one_of(model, i)) for i in range(model.members)]
    first = tables[0]
    names = [n for n in first.subjects if all(n in one.subjects for one in tables)]
    means = {one.name: list(one.of) for one in first.sets if one.kind == "mean"}
    return {
        "seeds": len(tables),
        "accuracy": [accuracy(one_of(model, i), in_dist) for i in range(model.members)],
        "absent": {one.name: one.absent for one in first.sets if one.absent},
        "means": means,
        "left_out": dict(first.about.left_out),
        "detectors": {name: _means(tables, name) for name in names},
    }


def _table(settings: Settings, block: Block, in_dist: InData, model: Model) -> Comparison:
    sizes = budget(settings)

    rows = ood_data(block, in_dist, sizes, settings.seed)

    def make() -> Comparison:
        return compare(
            model,
            in_dist.test,
            rows,
            train=in_dist.train,
            near=near(block),
            detectors={"all": "all", COMBINED: combination()},
            layers=[EARLY, LAST],
            name=block.name,
            resamples=0,
            seed=settings.seed,
            progress=False,
        )

    folder = folder_of(settings, PART) / f"{slug(block.name)}--{weights_digest(model)[:12]}"
    return compared(folder, model, sizes, rows, make)


def combination() -> Callable[[Activations], Detector]:
    """Neighbors before the last layer and a distance in the first, by p-values."""

    def make(seen: Activations) -> Detector:
        held = [index for index in range(seen.samples) if index % HELD == 0]
        rest = [index for index in range(seen.samples) if index % HELD]
        fitted = seen[rest]
        parts = [detectors.knn(fitted, k=1), detectors.mahalanobis(fitted, layers=EARLY)]
        return detectors.combined(parts, seen[held], rule="harmonic", weights=WEIGHTS)

    return make


def _means(tables: Sequence[Comparison], name: str) -> dict[str, Any]:
    parts = [rows_of(table, name) for table in tables]
    rows = {
        row: {key: _mean([part[row][key]["value"] for part in parts]) for key in KEYS}
        for row in parts[0]
        if row
    }
    return {"rows": rows, **{key: fmean(part[""][key] for part in parts) for key in COSTS}}


def _mean(values: Sequence[float]) -> dict[str, float | None]:
    return {"value": fmean(values), "deviation": stdev(values) if len(values) > 1 else None}


def _texts(name: str, part: Numbers) -> list[str]:
    """AUROC and FPR95, best mean AUROC first, and what was left out."""
    right = ", ".join(f"{100 * one:.2f} %" for one in part["accuracy"])
    order = sorted(
        part["detectors"],
        key=lambda n: part["detectors"][n]["rows"][MEAN]["auroc"]["value"],
        reverse=True,
    )
    columns = [*part["means"][MEAN], *part["means"]]
    texts = [f"### Trained on {name}", f"Accuracy {right}."]
    for key, title in (("auroc", "AUROC"), ("fpr_at_95_tpr", "FPR95")):
        rows = []
        for one in order:
            result = part["detectors"][one]
            rows.append([one, *(_said(result["rows"][column][key]) for column in columns)])
        texts += [title, table(["", *columns], rows)]
    texts += [f"{row} is not at hand: {why}." for row, why in part["absent"].items()]
    texts += [f"{one} left out: {why}" for one, why in part["left_out"].items()]
    return texts


def _said(number: Numbers) -> str:
    spread = number["deviation"]
    return f"{number['value']:.3f}" + ("" if spread is None else f" ± {spread:.3f}")
