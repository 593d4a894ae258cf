"""Table 1 of Hein et al. (2019), block by block: the confidence of networks off their data."""

from collections.abc import Mapping
from typing import Any

from nescio.evaluation import Comparison
from nescio.evaluation.compare import Absent
from nescio.evaluation.compare.comparison import NUMBERS
from nescio.evaluation.compare.confidence_task import FILTERED
from nescio_papers.kit import experiment
from nescio_papers.kit.experiment import Findings, Settings
from nescio_papers.kit.images import InData
from nescio_papers.kit.nested import nested
from nescio_papers.kit.shares import percent
from nescio_papers.kit.stores import folder_of
from nescio_papers.kit.summary import table
from nescio_papers.relu_overconfidence.block_numbers import LESS
from nescio_papers.relu_overconfidence.blocks import (
    BLOCKS,
    IMAGENET,
    LETTERS,
    STRICT,
    TINY,
    Block,
    in_data,
)
from nescio_papers.relu_overconfidence.budgets import budget
from nescio_papers.relu_overconfidence.cells import (
    difference,
)
from nescio_papers.relu_overconfidence.methods import ACET, CEDA, NO_DECAY, PLAIN, RECIPES
from nescio_papers.relu_overconfidence.published import (
    ADVERSARIAL_NOISE,
    ADVERSARIAL_SAMPLES,
    METHODS,
    TABLE_1,
)
from nescio_papers.relu_overconfidence.seeds_and_pairs import MMC
from nescio_papers.relu_overconfidence.stronger import (
    STRONG,
    WRONG_CLASS,
)
from nescio_papers.relu_overconfidence.table_1_columns import (
    column_of,
    held_by_balls,
    pair_of,
    readable_in_balls,
    whatever_class,
)

WRONG = f"{ADVERSARIAL_SAMPLES}{FILTERED}"  # the paper's row of adversarial samples
PAIRS = ((CEDA, PLAIN), (ACET, PLAIN), (ACET, CEDA), (NO_DECAY, PLAIN))  # compared by input
SHORT = {"mean_max_confidence": "MMC", "auroc": "AUROC", "fpr_at_95_tpr": "FPR95"}
QUICK = "This is a quick run: its networks have hardly learned anything, and it judges nothing. "
Numbers = Mapping[str, Any]


def run(name: str, settings: Settings) -> Findings:
    """The part of a block."""
    in_dist = in_data(BLOCKS[name], budget(settings))
    if isinstance(in_dist, Absent):
        return _absent(name, in_dist)
    return _measured(settings, BLOCKS[name], in_dist)


def published_row(block: Block, row: str) -> str | None:
    """The row of the paper that a row of ours is compared with."""
    known = {
        WRONG: ADVERSARIAL_SAMPLES,
        ADVERSARIAL_SAMPLES: None,
        f"{ADVERSARIAL_NOISE}{STRONG}": ADVERSARIAL_NOISE,
        f"{ADVERSARIAL_SAMPLES}{WRONG_CLASS}": ADVERSARIAL_SAMPLES,
        **block.stand_ins,
    }
    there = known.get(row, row)
    return there if there in TABLE_1[block.name].rows else None


def _measured(settings: Settings, block: Block, in_dist: InData) -> Findings:
    """Train each column, then fill the table cell by cell."""
    names = RECIPES[block.name].columns
    columns = {name: column_of(settings, block, name, in_dist) for name in names}
    joined = Comparison.join([one.table for one in columns.values()])
    whole = _with_published(block, joined)
    whole.save(folder_of(settings, block.part), "table")
    numbers = {
        **nested(whole),
        "block": block.name,
        "training_seconds": {name: one.seconds for name, one in columns.items()},
        "without_gradient": {name: one.dead for name, one in columns.items()},
        "balls_with_data": held_by_balls(settings, block, in_dist),
        "readable_in_balls": readable_in_balls(settings, block, in_dist),
        "any_class": whatever_class(settings, block, in_dist),
        "by_seed": {name: one.by_seed for name, one in columns.items() if len(one.each) > 1},
        "pairs": {
            f"{first}{LESS}{second}": pair_of(block, columns[first], columns[second])
            for first, second in PAIRS
            if {first, second} <= set(columns)
        },
        "difference": difference(settings, block, in_dist),
        "quick": settings.quick,
    }
    return Findings(
        numbers=numbers,
        comparisons=_comparisons(block, numbers),
        text=_text(block, whole, numbers),
        skipped={one.name: one.absent for one in whole.sets if one.absent},
    )


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
    spent = f"; {sum(seconds) / 60:.1f} minutes of training a seed" if all(seconds) else ""
    words = [
        f"Here: {numbers['difference']}{spent}. {QUICK * numbers['quick']}"
        "The noise of the test has another seed than that of the training. "
        f"{ADVERSARIAL_SAMPLES}: by the label loss, the paper's, all of them, and those no longer "
        "classified correctly, which is what the paper counts; by the confidence in a wrong class, "
        "the latter alone.",
        "The strong judge counts, for each input, the best of several attacks, the paper's among "
        f"them. {percent(numbers['balls_with_data'])} of the balls around noise hold a test image, "
        "changed by less than 1 % of the range; of test images clipped to such balls, the plain "
        f"network reads {percent(numbers['readable_in_balls'])} right. The own label of such an "
        "image is a right answer: from test images that a network reads right as they are, the "
        "judge raises the other classes, and counts wrong answers alone. Where it counts any "
        f"answer, ACET has a mean confidence of {_with_ends(numbers['any_class'][MMC])}. An image "
        "whose confidence is .999 is settled, and not attacked any further: an AUROC near 0 can be "
        "a little higher than under the paper's attack.",
        "Share of images at which the confidence has no gradient at all, so that the paper's "
        f"attack cannot move them: {_no_slope(numbers)}.",
        *_said_of_seeds(numbers),
        *_said_of_stand_ins(whole),
    ]
    baselines = [name for name in RECIPES[block.name].columns if name not in METHODS]
    tables = [whole.only(METHODS).markdown()]
    if baselines:
        errors, grid, *_ = whole.only(baselines).markdown().split("\n\n")
        tables += ["Networks the paper has no column for:", errors, grid]
    return "\n\n".join([*words, *tables])


def _with_ends(number: Numbers) -> str:
    return f"{number['value']:.3f} ({number['low']:.3f} to {number['high']:.3f})"


def _said_of_seeds(numbers: Numbers) -> list[str]:
    columns: dict[int, list[str]] = {}
    for name, rows in numbers["by_seed"].items():
        quoted = f'"{name}"' if "," in name else name
        columns.setdefault(len(rows[numbers["block"]]["error"]), []).append(quoted)
    if not columns:
        return []
    means = "; ".join(
        f"{', '.join(names)}: means of {count} trainings" for count, names in columns.items()
    )
    return [
        f"{means}; their intervals have the part of the seeds (Student) and that of the test "
        "images."
    ]


def _said_of_stand_ins(whole: Comparison) -> list[str]:
    there = {one.name for one in whole.sets if one.absent is None}
    words = []
    if there & {LETTERS, STRICT}:
        words.append(
            "EMNIST is not at hand: 2,990 capital letters of another collection replace it, "
            "with and without those that look like digits."
        )
    if TINY in there and IMAGENET not in there:
        words.append(
            "ImageNet- is not at hand: photographs of Tiny-ImageNet replace it, without the 28 "
            "classes similar to those of CIFAR-10."
        )
    return words


def _no_slope(numbers: Numbers) -> str:
    return "; ".join(
        f"{column} " + ", ".join(f"{row} {percent(share)}" for row, share in shares.items())
        for column, shares in numbers["without_gradient"].items()
    )


def _comparisons(block: Block, numbers: Numbers) -> list[experiment.Comparison]:
    """Test errors of all, and all numbers of ACET: the rest is in the table."""
    printed, rows = TABLE_1[block.name], []
    for name, error in printed.errors.items():
        ours = 100 * numbers["predictors"][name]["rows"][block.name]["error"]["value"]
        what = f"{block.name}, {name}: test error, %"
        rows.append(experiment.Comparison(what, error, round(ours, 4)))
    for row, result in numbers["predictors"][ACET]["rows"].items():
        source = published_row(block, row)
        if source is None or row == block.name:
            continue
        note = f"published for {source}" if source != row else ""
        for key, value in zip(NUMBERS, printed.rows[source][ACET], strict=True):
            if result.get(key) is not None:
                what = f"{block.name}, ACET on {row}: {SHORT[key]}"
                rows.append(experiment.Comparison(what, value, result[key]["value"], note=note))
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
