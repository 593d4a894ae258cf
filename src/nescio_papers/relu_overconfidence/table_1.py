"""Table 1 of Hein et al. (2019), block by block: how sure networks are off their training data."""

from collections.abc import Callable, Mapping
from typing import Any

from nescio.core import kept
from nescio.evaluation import Comparison
from nescio.evaluation.compare import Absent
from nescio.evaluation.compare.comparison import NUMBERS
from nescio.evaluation.compare.confidence_task import FILTERED
from nescio_papers.kit import experiment
from nescio_papers.kit.claims import judged
from nescio_papers.kit.experiment import Findings, Settings
from nescio_papers.kit.images import InData
from nescio_papers.kit.nested import nested
from nescio_papers.kit.shares import percent
from nescio_papers.kit.stores import folder_of, slug
from nescio_papers.kit.summary import table
from nescio_papers.relu_overconfidence.blocks import BLOCKS, Block, in_data, probes, unseen_noise
from nescio_papers.relu_overconfidence.budgets import budget
from nescio_papers.relu_overconfidence.cells import Trained, cell, difference, trained
from nescio_papers.relu_overconfidence.methods import RECIPES
from nescio_papers.relu_overconfidence.published import (
    ADVERSARIAL_NOISE,
    ADVERSARIAL_SAMPLES,
    METHODS,
    NOISE,
    TABLE_1,
)
from nescio_papers.relu_overconfidence.stronger import (
    LEAK,
    stronger_noise,
    stronger_samples,
    without_gradient,
)
from nescio_papers.relu_overconfidence.table_1_claims import claims_of

WRONG = f"{ADVERSARIAL_SAMPLES}{FILTERED}"  # the paper's row of adversarial samples
SHORT = {"mean_max_confidence": "MMC", "auroc": "AUROC", "fpr_at_95_tpr": "FPR95"}
QUICK = "This is a quick run: its networks have hardly learned anything, and it judges nothing. "
Numbers = Mapping[str, Any]


def part_of(name: str) -> Callable[[Settings], Findings]:
    """The part of a block."""

    def run(settings: Settings) -> Findings:
        in_dist = in_data(BLOCKS[name], budget(settings))
        if isinstance(in_dist, Absent):
            return _absent(name, in_dist)
        return _measured(settings, BLOCKS[name], in_dist)

    return run


def published_row(block: Block, row: str) -> str | None:
    """The row of the paper that a row of ours stands beside."""
    known = {WRONG: ADVERSARIAL_SAMPLES, ADVERSARIAL_SAMPLES: None, **block.stand_ins}
    there = known.get(row, row)
    return there if there in TABLE_1[block.name].rows else None


def _measured(settings: Settings, block: Block, in_dist: InData) -> Findings:
    """Train each column, then fill the table cell by cell."""
    models: dict[str, Trained] = {}
    parts, dead = [], {}
    for column in RECIPES[block.name].columns:
        models[column] = trained(settings, block, column, in_dist)
        dead[column] = _dead(settings, block, column, models[column], in_dist)
        for row, probe in _rows(settings, block, in_dist).items():
            parts.append(cell(settings, block, column, models[column], in_dist, row, probe))
    whole = _with_published(block, Comparison.join(parts))
    whole.save(folder_of(settings, block.part), "table")
    numbers = {
        **nested(whole),
        "block": block.name,
        "training_seconds": {name: one.seconds for name, one in models.items()},
        "without_gradient": dead,
        "difference": difference(settings, block, in_dist),
        "quick": settings.quick,
    }
    return Findings(
        numbers=numbers,
        comparisons=_comparisons(block, numbers),
        claims=judged(settings, claims_of(numbers)),
        text=_text(block, whole, numbers),
        skipped={one.name: one.absent for one in whole.sets if one.absent},
    )


def _rows(settings: Settings, block: Block, in_dist: InData) -> dict[str, Any]:
    """The rows of the paper, and two of stronger attacks."""
    rows = probes(block, in_dist, budget(settings), settings)
    noise, samples = rows[ADVERSARIAL_NOISE], rows[ADVERSARIAL_SAMPLES]
    return {
        **rows,
        f"{ADVERSARIAL_NOISE}{LEAK}": stronger_noise(noise),
        f"{ADVERSARIAL_SAMPLES}{LEAK}": stronger_samples(samples, budget(settings).noise_steps),
    }


def _dead(
    settings: Settings, block: Block, column: str, result: Trained, in_dist: InData
) -> dict[str, float]:
    """The share of noise, and of test images, at which a network has no gradient; kept."""
    count = budget(settings).attacked[block.name]
    noise = unseen_noise(in_dist, settings)
    key = {"weights": result.digest, "noise": noise.description, "images": count}
    path = folder_of(settings, block.part) / f"gradients--{slug(column)}.json"
    inputs = {NOISE: noise.take(count), block.name: in_dist.test[0][:count]}
    shares: dict[str, float] = kept(
        path, key, lambda: {row: without_gradient(result.model, x) for row, x in inputs.items()}
    )
    return shares


def _with_published(block: Block, whole: Comparison) -> Comparison:
    there = TABLE_1[block.name]
    beside: dict[str, Any] = {}
    for row in (one.name for one in whole.sets):
        source = published_row(block, row)
        if source is not None:
            beside[row] = dict(there.rows[source])
    for name, error in there.errors.items():
        confidence = there.rows[block.name][name][0]
        beside[block.name][name] = {"error": error / 100, "mean_max_confidence": confidence}
    return whole.beside(beside)


def _text(block: Block, whole: Comparison, numbers: Numbers) -> str:
    seconds = numbers["training_seconds"].values()
    spent = f"{sum(seconds) / 60:.1f} minutes of training in all" if all(seconds) else ""
    words = [
        f"Here: {numbers['difference']}{'; ' if spent else ''}{spent}. {QUICK * numbers['quick']}"
        "The noise of the test has another seed than that of the training. "
        f"{ADVERSARIAL_SAMPLES}: all of them, and those no longer classified correctly, which is "
        "what the paper's numbers count.",
    ]
    words.append(
        "Share of images at which the confidence has no gradient at all, so that the paper's "
        f"attacks cannot move them: {_no_slope(numbers)}. In the rows with leaking gradients the "
        "attack sees ReLU as leaky ReLU, and test images are moved to a wrong class."
    )
    if set(block.stand_ins) & {one.name for one in whole.sets}:
        words.append(
            "EMNIST is not at hand: 2,990 capital letters of another collection stand in for it, "
            "with and without those that look like digits."
        )
    baselines = [name for name in RECIPES[block.name].columns if name not in METHODS]
    tables = [whole.only(METHODS).markdown()]
    if baselines:
        errors, grid, *_ = whole.only(baselines).markdown().split("\n\n")
        tables += ["Baselines the paper has no column for:", errors, grid]
    return "\n\n".join([*words, *tables])


def _no_slope(numbers: Numbers) -> str:
    return "; ".join(
        f"{column} " + ", ".join(f"{row} {percent(share)}" for row, share in shares.items())
        for column, shares in numbers["without_gradient"].items()
    )


def _comparisons(block: Block, numbers: Numbers) -> list[experiment.Comparison]:
    """Test errors of all, and all numbers of ACET: the rest stands in the table."""
    note, printed = numbers["difference"], TABLE_1[block.name]
    rows = []
    for name, error in printed.errors.items():
        ours = 100 * numbers["predictors"][name]["rows"][block.name]["error"]["value"]
        what = f"{block.name}, {name}: test error, %"
        rows.append(experiment.Comparison(what, error, round(ours, 4), note=note))
    for row, result in numbers["predictors"]["ACET"]["rows"].items():
        source = published_row(block, row)
        if source is None or row == block.name:
            continue
        said = f"{note}; {source} there" if source != row else note
        for key, value in zip(NUMBERS, printed.rows[source]["ACET"], strict=True):
            if result.get(key) is not None:
                what = f"{block.name}, ACET on {row}: {SHORT[key]}"
                rows.append(experiment.Comparison(what, value, result[key]["value"], note=said))
    return rows


def _absent(name: str, missing: Absent) -> Findings:
    """The published block, and how to get what is missing."""
    printed = TABLE_1[name]
    header = ["data", *(f"{m} {s}" for m in METHODS for s in SHORT.values())]
    rows = [
        [row, *("–" if v is None else f"{v:.3f}" for m in METHODS for v in cells[m])]
        for row, cells in printed.rows.items()
    ]
    errors = ", ".join(f"{m} {error:g} %" for m, error in printed.errors.items())
    text = f"{name} is not at hand: {missing.why}. As published (test errors: {errors}):"
    return Findings(
        numbers={"block": name, "absent": missing.why, "published": rows_of(name)},
        text=f"{text}\n\n{table(header, rows)}",
        skipped={name: missing.why},
        empty=True,
    )


def rows_of(name: str) -> dict[str, Any]:
    """The published block as plain numbers."""
    printed = TABLE_1[name]
    return {"errors": dict(printed.errors), "rows": {r: dict(c) for r, c in printed.rows.items()}}
