"""What Hein et al. (2019) say about table 1, judged by the stored numbers of a block."""

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Any

from nescio.metrics import Interval
from nescio_papers.kit import Claim, Fact, exactly, fact
from nescio_papers.relu_overconfidence.block_numbers import BlockNumbers, minus, size_of
from nescio_papers.relu_overconfidence.blocks import EMNIST_STRICT, KANA, LETTERS, STRICT
from nescio_papers.relu_overconfidence.methods import ACET, CEDA, NO_DECAY, PLAIN
from nescio_papers.relu_overconfidence.published import (
    ADVERSARIAL_NOISE,
    ADVERSARIAL_SAMPLES,
    METHODS,
    NOISE,
    TABLE_1,
)
from nescio_papers.relu_overconfidence.seeds_and_pairs import AUROC, FPR, MMC
from nescio_papers.relu_overconfidence.stronger import STRONG

LEARNED = {"MNIST": 0.02, "SVHN": 0.08, "CIFAR-10": 0.16, "CIFAR-100": 0.40}  # test errors
CLOSE = {"MNIST": 0.003, "SVHN": 0.015, "CIFAR-10": 0.015, "CIFAR-100": 0.02}  # almost the same
LOW, HIGH = 0.2, 0.9  # confidence that is low, or high, with ten classes
LOWER = 0.05  # of confidence: what counts as a reduction
STRONGEST = "the strong judge takes the best of several attacks for each image"
ONCE = "one training {}: the intervals are over test images alone"
GOOD = 0.95  # an AUROC that is high, and a share that is nearly all
NEAR = ("EMNIST", LETTERS, KANA)  # handwriting, as the digits of MNIST
Numbers = Mapping[str, Any]


def claims_of(stored: Numbers) -> list[Claim]:
    """The paper's sentences on a block, with verdicts; none where its data are absent."""
    if "predictors" not in stored:
        return []
    found = BlockNumbers(stored)
    makers: list[Callable[[BlockNumbers], Claim | None]] = [
        _errors,
        _plain_on_noise,
        _ceda,
        _only_acet,
        _improve,
        _related,
        _samples,
        _detected,
        _decay,
        _asked,
    ]
    return [claim for make in makers if (claim := make(found)) is not None]


def limit(
    what: str,
    number: Interval,
    *,
    above: float | None = None,
    below: float | None = None,
    form: str = ".3f",
) -> Fact:
    """A fact of a number with its interval."""
    ends = number.low, number.high
    return fact(what, number.value, ends, above=above, below=below, form=form, alike=True)


def learned(found: BlockNumbers, *columns: str) -> list[Fact]:
    """That the networks have learned: claims about them are not tested otherwise."""
    most = LEARNED[found.block]
    return [
        limit(f"test error of {name}", found.of(name, found.block, "error"), below=most, form=".1%")
        for name in columns
    ]


def _claim(
    found: BlockNumbers,
    sentence: str,
    facts: Sequence[Fact],
    *,
    columns: Sequence[str],
    note: str = "",
    section: str = "section 5, table 1",
) -> Claim:
    """A claim about the networks of some columns, which must have learned."""
    alone = [name for name in columns if found.once(name)]
    which = "each" if len(alone) == len(columns) else f"of {', '.join(alone)}"
    words = STRONGEST if any(STRONG in one.what for one in facts) else ""
    return Claim(
        source=f"Hein et al., {section} ({found.block})",
        sentence=sentence,
        facts=facts,
        needs=learned(found, *columns),
        note="; ".join(filter(None, [words, note, ONCE.format(which) if alone else ""])),
    )


def _printed(found: BlockNumbers, row: str, *columns: str) -> str:
    """The published numbers of a row, in words."""
    cells = TABLE_1[found.block].rows[row]
    each = [
        f"{name} " + "/".join(f"{v:.3f}" for v in cells[name] if v is not None) for name in columns
    ]
    return f"published: {', '.join(each)}"


def _errors(found: BlockNumbers) -> Claim:
    most = CLOSE[found.block]
    facts = [
        limit(
            f"{name} and plain differ by",
            size_of(found.less(name, PLAIN, found.block, "error")),
            below=most,
            form=".2%",
        )
        for name in (CEDA, ACET)
    ]
    ours = ", ".join(
        f"{name} {100 * found.of(name, found.block, 'error').value:.2f} %"
        for name in (PLAIN, CEDA, ACET)
    )
    theirs = ", ".join(f"{m} {error:g} %" for m, error in TABLE_1[found.block].errors.items())
    return _claim(
        found,
        "There is almost no difference between the test errors of all three methods.",
        facts,
        columns=(PLAIN,),
        note=f"test errors: {ours}; published: {theirs}",
    )


def _plain_on_noise(found: BlockNumbers) -> Claim:
    row = found.noise_row(PLAIN)
    return _claim(
        found,
        "The plain models always produce high confidence predictions on noise images and "
        "completely fail on adversarial noise.",
        [
            limit("confidence on noise", found.of(PLAIN, NOISE), above=HIGH),
            limit("on adversarial noise", found.of(PLAIN, row), above=HIGH),
            limit(
                "share of it above the threshold that keeps 95 % of the test images",
                found.of(PLAIN, row, FPR),
                above=HIGH,
                form=".1%",
            ),
        ],
        columns=(PLAIN,),
        note=_printed(found, NOISE, PLAIN),
    )


def _ceda(found: BlockNumbers) -> Claim:
    row = found.noise_row(CEDA)
    return _claim(
        found,
        "CEDA produces low confidence on noise images but mostly fails on adversarial noise.",
        [
            limit("confidence of CEDA on noise", found.of(CEDA, NOISE), below=LOW),
            limit(f"on {row}", found.of(CEDA, row), above=0.5),
        ],
        columns=(CEDA,),
        note=_printed(found, ADVERSARIAL_NOISE, CEDA),
    )


def _only_acet(found: BlockNumbers) -> Claim:
    rows = {name: found.noise_row(name) for name in METHODS}
    return _claim(
        found,
        "Only ACET consistently produces low confidence predictions on adversarial noise and has "
        "high AUROC.",
        [
            limit(f"ACET on {rows[ACET]}: confidence", found.of(ACET, rows[ACET]), below=LOW),
            limit("AUROC", found.of(ACET, rows[ACET], AUROC), above=GOOD),
            limit("confidence of CEDA", found.of(CEDA, rows[CEDA]), above=LOW),
            limit("of plain", found.of(PLAIN, rows[PLAIN]), above=LOW),
        ],
        columns=METHODS,
        note=f"{_whatever_class(found)}{_printed(found, ADVERSARIAL_NOISE, CEDA, ACET)}",
    )


def _whatever_class(found: BlockNumbers) -> str:
    """What the judge finds where an image that can still be read counts, too."""
    number = found.any_class
    if isnan(number.value):
        return ""
    return (
        "the judge counts wrong answers about readable images; if right ones count too, ACET's "
        f"confidence is {number.value:.3f} ({number.low:.3f} to {number.high:.3f}); "
    )


def _improve(found: BlockNumbers) -> Claim | None:
    rows = [row for row in found.other_sets if row not in (STRICT, EMNIST_STRICT)]  # of a set twice
    if not rows:
        return None
    facts = []
    for name in (CEDA, ACET):
        better, worse = (sum(_sure(found, name, row)[k] for row in rows) for k in (0, 1))
        what = (
            f"share of {len(rows)} sets on which {name} is better in both (clearly {better}, "
            f"clearly not {worse}):"
        )
        ends = better / len(rows), 1 - worse / len(rows)
        if ends[0] == ends[1]:
            why = "counted, each set by its paired intervals"
            facts.append(exactly(what, ends[0], why=why, above=0.5, form=".0%"))
        else:
            facts.append(fact(what, sum(ends) / 2, ends, above=0.5, form=".0%"))
    theirs = _better_in_theirs(found.block)
    return _claim(
        found,
        "For the out-of-distribution datasets CEDA and ACET improve most of the time the maximum "
        "confidence and the AUROC.",
        facts,
        columns=METHODS,
        note="each set by its intervals: clearly better in confidence and AUROC, clearly not, or "
        f"neither; in the published table CEDA on {theirs[CEDA]} and ACET on {theirs[ACET]} of "
        f"{theirs['sets']} sets",
    )


def _sure(found: BlockNumbers, name: str, row: str) -> tuple[bool, bool]:
    """Whether lower confidence and higher AUROC than plain are sure; whether one of them is not."""
    less, area = (found.less(name, PLAIN, row, key) for key in (MMC, AUROC))
    return less.high < 0 and area.low > 0, less.low >= 0 or area.high <= 0


def _better_in_theirs(block: str) -> dict[str, int]:
    apart = (block, NOISE, ADVERSARIAL_NOISE, ADVERSARIAL_SAMPLES)
    rows = [cells for row, cells in TABLE_1[block].rows.items() if row not in apart]
    found = {"sets": len(rows)}
    for name in (CEDA, ACET):
        gains = [(c[name][0] - c[PLAIN][0], (c[name][1] or 0) - (c[PLAIN][1] or 0)) for c in rows]
        found[name] = sum(sure < 0 < area for sure, area in gains)
    return found


def _related(found: BlockNumbers) -> Claim | None:
    near = [row for row in NEAR if row in found.other_sets]
    far = [row for row in ("FMNIST", "grayCIFAR-10") if row in found.other_sets]
    if not near or not far:
        return None
    gain = {row: found.less(ACET, PLAIN, row) for row in (near[0], *far)}
    return _claim(
        found,
        "It is more difficult to reduce the confidence for related tasks, e.g. MNIST evaluated on "
        "EMNIST.",
        [
            limit(
                f"ACET lowers the confidence on {row} by more than on {near[0]}:",
                minus(gain[near[0]], gain[row]),
                above=0,
            )
            for row in far
        ],
        columns=(PLAIN, ACET),
        note=_printed(found, "EMNIST", PLAIN, ACET),
    )


def _samples(found: BlockNumbers) -> Claim | None:
    rows = found.sample_rows(PLAIN, ACET)
    if not rows:
        return None
    return _claim(
        found,
        "ACET reduces the confidence on adversarial examples.",
        [
            limit(f"by {words}: ACET less plain", found.less(ACET, PLAIN, row), below=-LOWER)
            for words, row in rows.items()
        ],
        columns=(PLAIN, ACET),
        note=_printed(found, ADVERSARIAL_SAMPLES, PLAIN, ACET),
    )


def _detected(found: BlockNumbers) -> Claim | None:
    rows = found.sample_rows(ACET)
    if found.block != "MNIST" or not rows:
        return None
    return _claim(
        found,
        "ACET achieves on MNIST very high AUROC values so that one can detect adversarial examples "
        "via thresholding the confidence.",
        [
            limit(f"by {words}: AUROC of ACET", found.of(ACET, row, AUROC), above=GOOD)
            for words, row in rows.items()
        ],
        columns=(ACET,),
        note="published: AUROC 0.692, and at the threshold that keeps 95 % of the test images, "
        "78 % of the adversarial ones pass",
    )


def _decay(found: BlockNumbers) -> Claim | None:
    if NO_DECAY not in found.columns:
        return None
    return _claim(
        found,
        "It is well known that weight decay alone reduces overconfident predictions.",
        [
            limit(f"without decay less with it, {row}", found.less(NO_DECAY, PLAIN, row), above=0)
            for row in (*found.other_sets, NOISE)
        ],
        columns=(PLAIN, NO_DECAY),
        section="section 5",
    )


def _asked(found: BlockNumbers) -> Claim:
    """The reject option: a low confidence hands an input over."""
    row = found.noise_row(ACET)
    more = found.less(ACET, PLAIN, row, FPR, beside=found.noise_row(PLAIN))
    return _claim(
        found,
        "Far away from the training data a classifier should not make high confidence predictions "
        "... such an input should either lead to the fact that other redundant sensors are used or "
        "that a human doctor is asked to check the diagnosis.",
        [
            limit(
                "rejected by ACET at the threshold that keeps 95 % of the test images: noise",
                _rest(found.of(ACET, NOISE, FPR)),
                above=GOOD,
                form=".1%",
            ),
            limit(row, _rest(found.of(ACET, row, FPR)), above=GOOD, form=".1%"),
            limit("share rejected less that of plain", _negative(more), above=0.5, form=".1%"),
        ],
        columns=(PLAIN, ACET),
        section="section 1",
    )


def _rest(share: Interval) -> Interval:
    return Interval(1 - share.value, 1 - share.high, 1 - share.low)


def _negative(number: Interval) -> Interval:
    return Interval(-number.value, -number.high, -number.low)
