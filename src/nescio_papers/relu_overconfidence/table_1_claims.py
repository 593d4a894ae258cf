"""What Hein et al. (2019) say about table 1, beside their own numbers and ours."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nescio_papers.kit import Claim, verdict, verdict_of
from nescio_papers.relu_overconfidence.methods import ACET, CEDA, NO_DECAY, PLAIN
from nescio_papers.relu_overconfidence.published import (
    ADVERSARIAL_NOISE,
    ADVERSARIAL_SAMPLES,
    METHODS,
    NOISE,
    TABLE_1,
)
from nescio_papers.relu_overconfidence.stronger import LEAK

MMC, AUROC, FPR = "mean_max_confidence", "auroc", "fpr_at_95_tpr"
CLOSE = {"MNIST": 0.3}  # points of test error that are almost no difference; elsewhere:
NEAR = 2.0
LOW, HIGH = 0.2, 0.9  # confidence that is low, or high, with ten classes
GOOD = 0.95  # an AUROC that is high
Numbers = Mapping[str, Any]


def claims_of(numbers: Numbers) -> list[Claim]:
    """The paper's sentences on a block, with verdicts."""
    makers: list[Callable[[Numbers], Claim | None]] = [
        _errors,
        _plain_on_noise,
        _ceda,
        _only_acet,
        _improve,
        _related,
        _samples,
        _detected,
        _decay,
    ]
    return [claim for make in makers if (claim := make(numbers)) is not None]


def value(numbers: Numbers, column: str, row: str, key: str = MMC) -> float | None:
    """One number of ours, if it was measured."""
    result = numbers["predictors"][column]["rows"].get(row, {}).get(key)
    return None if result is None else float(result["value"])


def samples_row(numbers: Numbers) -> str:
    """The row of adversarial samples that ACET is surest of; filtered ones, where some are left."""
    wrong = (f"{ADVERSARIAL_SAMPLES}, misclassified", f"{ADVERSARIAL_SAMPLES}{LEAK}")
    return _surest(numbers, wrong) or ADVERSARIAL_SAMPLES


def noise_row(numbers: Numbers) -> str:
    """The row of adversarial noise that ACET is surest of."""
    rows = (ADVERSARIAL_NOISE, f"{ADVERSARIAL_NOISE}{LEAK}")
    return _surest(numbers, rows) or ADVERSARIAL_NOISE


def _surest(numbers: Numbers, rows: Sequence[str]) -> str | None:
    whole = [r for r in rows if None not in (value(numbers, m, r) for m in METHODS)]
    return max(whole, key=lambda r: value(numbers, ACET, r) or 0.0, default=None)


def _claim(numbers: Numbers, sentence: str, measured: str, verdict: str) -> Claim:
    block = numbers["block"]
    return Claim(
        f"Hein et al., section 5, table 1 ({block})",
        sentence,
        measured,
        verdict=verdict,
    )


def _triple(numbers: Numbers, column: str, row: str) -> str:
    result = [value(numbers, column, row, key) for key in (MMC, AUROC, FPR)]
    return "/".join("–" if v is None else f"{v:.3f}" for v in result)


def _printed(numbers: Numbers, column: str, row: str) -> str:
    return "/".join(
        f"{v:.3f}" for v in TABLE_1[numbers["block"]].rows[row][column] if v is not None
    )


def _errors(numbers: Numbers) -> Claim:
    block = numbers["block"]
    ours = {m: 100 * (value(numbers, m, block, "error") or 0.0) for m in METHODS}
    spread, allowed = max(ours.values()) - min(ours.values()), CLOSE.get(block, NEAR)
    said = ", ".join(f"{m} {error:.2f} %" for m, error in ours.items())
    theirs = ", ".join(f"{m} {error:g} %" for m, error in TABLE_1[block].errors.items())
    return _claim(
        numbers,
        "There is almost no difference between the test errors of all three methods.",
        f"{said}; published: {theirs}. {allowed:g} points count as almost none",
        verdict(spread <= allowed),
    )


def _plain_on_noise(numbers: Numbers) -> Claim:
    sure = value(numbers, PLAIN, NOISE) or 0.0
    fooled = value(numbers, PLAIN, ADVERSARIAL_NOISE) or 0.0
    kept = [sure > 0.5, fooled > HIGH]
    own = TABLE_1[numbers["block"]].rows[NOISE][PLAIN]
    failure_score = (
        f" On their own table the noise has a confidence of {own[0]:.3f} and an AUROC of "
        f"{own[1]:.3f}: not high."
        if own[0] < 0.5
        else ""
    )
    return _claim(
        numbers,
        "The plain models always produce high confidence predictions on noise images and "
        "completely fail on adversarial noise.",
        f"noise {_triple(numbers, PLAIN, NOISE)}, adversarial noise "
        f"{_triple(numbers, PLAIN, ADVERSARIAL_NOISE)} (MMC/AUROC/FPR95).{failure_score}",
        verdict_of(*kept),
    )


def _ceda(numbers: Numbers) -> Claim:
    row = noise_row(numbers)
    low = (value(numbers, CEDA, NOISE) or 1.0) < LOW
    fails = (value(numbers, CEDA, row) or 0.0) > 0.5
    own = TABLE_1[numbers["block"]].rows[ADVERSARIAL_NOISE][CEDA][0]
    failure_score = ": it does not fail on their own table" if own < LOW else ""
    return _claim(
        numbers,
        "CEDA produces low confidence on noise images but mostly fails on adversarial noise.",
        f"noise {_triple(numbers, CEDA, NOISE)}, {row} {_triple(numbers, CEDA, row)}; published "
        f"adversarial noise {_printed(numbers, CEDA, ADVERSARIAL_NOISE)}{failure_score}",
        verdict(low and fails, low or fails),
    )


def _only_acet(numbers: Numbers) -> Claim:
    block = TABLE_1[numbers["block"]].rows[ADVERSARIAL_NOISE]
    row = noise_row(numbers)
    good, alone = _resists(numbers, ACET, row), not _resists(numbers, CEDA, row)
    failure_score = (
        f" On their own table CEDA ({_printed(numbers, CEDA, ADVERSARIAL_NOISE)}) is better than "
        f"ACET ({_printed(numbers, ACET, ADVERSARIAL_NOISE)})."
        if block[CEDA][0] < block[ACET][0]
        else ""
    )
    return _claim(
        numbers,
        "Only ACET consistently produces low confidence predictions on adversarial noise and has "
        "high AUROC.",
        f"{row}: ACET {_triple(numbers, ACET, row)}, CEDA "
        f"{_triple(numbers, CEDA, row)}.{failure_score}",
        verdict(good and alone, good),
    )


def _resists(numbers: Numbers, column: str, row: str) -> bool:
    sure, area = value(numbers, column, row), value(numbers, column, row, AUROC)
    return sure is not None and area is not None and sure < LOW and area > GOOD


def other_sets(numbers: Numbers) -> list[str]:
    """The rows of other data sets that were measured."""
    attacks = (ADVERSARIAL_NOISE, ADVERSARIAL_SAMPLES)
    rows = numbers["predictors"][PLAIN]["rows"]
    return [r for r in rows if r not in (numbers["block"], NOISE) and not r.startswith(attacks)]


def _improve(numbers: Numbers) -> Claim | None:
    rows = other_sets(numbers)
    if not rows:
        return None
    ours = {
        r: {m: (value(numbers, m, r), value(numbers, m, r, AUROC)) for m in METHODS} for r in rows
    }
    better, theirs = _better(ours), _better(_printed_sets(numbers))
    sets = len(_printed_sets(numbers))
    said = "; ".join(
        f"{r}: {', '.join(f'{m} {_triple(numbers, m, r)}' for m in METHODS)}" for r in rows
    )
    most = [count > len(rows) / 2 for count in better.values()]
    return _claim(
        numbers,
        "For the out-of-distribution datasets CEDA and ACET improve most of the time the maximum "
        "confidence and the AUROC.",
        f"CEDA improves both on {better[CEDA]} and ACET on {better[ACET]} of {len(rows)}; in their "
        f"own table on {theirs[CEDA]} and {theirs[ACET]} of {sets}. {said}",
        verdict_of(*most),
    )


def _printed_sets(numbers: Numbers) -> dict[str, dict[str, tuple[Any, ...]]]:
    """MMC and AUROC of the other data sets, as published."""
    apart = (numbers["block"], NOISE, ADVERSARIAL_NOISE, ADVERSARIAL_SAMPLES)
    rows = TABLE_1[numbers["block"]].rows
    return {r: {m: c[:2] for m, c in rows[r].items()} for r in rows if r not in apart}


def _better(rows: Mapping[str, Mapping[str, tuple[Any, ...]]]) -> dict[str, int]:
    """On how many rows CEDA and ACET have a lower confidence and a higher AUROC than plain."""
    return {
        m: sum(c[m][0] < c[PLAIN][0] and c[m][1] > c[PLAIN][1] for c in rows.values())
        for m in (CEDA, ACET)
    }


def _related(numbers: Numbers) -> Claim | None:
    near = [row for row in ("EMNIST", "letters") if row in other_sets(numbers)]
    far = [row for row in ("FMNIST", "grayCIFAR-10") if row in other_sets(numbers)]
    if not near or not far:
        return None
    sure = value(numbers, ACET, near[0]) or 0.0
    others = {row: value(numbers, ACET, row) or 0.0 for row in far}
    said = ", ".join(f"{row} {v:.3f}" for row, v in others.items())
    return _claim(
        numbers,
        "It is more difficult to reduce the confidence for related tasks, e.g. MNIST evaluated on "
        "EMNIST.",
        f"confidence of ACET on {near[0]} {sure:.3f}, on {said}",
        verdict(sure > max(others.values())),
    )


def _samples(numbers: Numbers) -> Claim:
    row = samples_row(numbers)
    sure = {m: value(numbers, m, row) or 0.0 for m in METHODS}
    lowest = min(sure[PLAIN], sure[CEDA])
    said = ", ".join(f"{m} {_triple(numbers, m, row)}" for m in METHODS)
    return _claim(
        numbers,
        "ACET reduces the confidence on adversarial examples.",
        f"{row}: {said}; published: ACET {_printed(numbers, ACET, ADVERSARIAL_SAMPLES)}",
        verdict(sure[ACET] < lowest - 0.05, sure[ACET] < lowest),
    )


def _detected(numbers: Numbers) -> Claim | None:
    if numbers["block"] != "MNIST":
        return None
    row = samples_row(numbers)
    area, rate = (value(numbers, ACET, row, key) for key in (AUROC, FPR))
    assert area is not None
    return _claim(
        numbers,
        "ACET achieves on MNIST very high AUROC values so that one can detect adversarial examples "
        "via thresholding the confidence.",
        f"{row}: AUROC {area:.3f}, FPR95 {rate:.3f}. Their own table says 0.692 and 0.782: at the "
        "threshold that keeps 95 % of the test images, 78 % of the adversarial ones pass",
        verdict(area > GOOD, area > 0.8),
    )


def _decay(numbers: Numbers) -> Claim | None:
    if NO_DECAY not in numbers["predictors"]:
        return None
    rows = [*other_sets(numbers), NOISE]
    pairs = [(value(numbers, PLAIN, r) or 0.0, value(numbers, NO_DECAY, r) or 0.0) for r in rows]
    lower = sum(a < b for a, b in pairs)
    said = ", ".join(f"{r} {a:.3f} and {b:.3f}" for r, (a, b) in zip(rows, pairs, strict=True))
    return _claim(
        numbers,
        "It is well known that weight decay alone reduces overconfident predictions.",
        f"mean confidence with and without it: {said}; lower with it on {lower} of {len(rows)}",
        verdict(lower == len(rows), lower),
    )
