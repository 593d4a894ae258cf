"""What a guard guarantees, in words and as a table, each with what it assumes."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TYPE_CHECKING

from nescio.core import FewSamplesWarning, RepeatedInputsWarning, warn
from nescio.guards.decisions import text_table
from nescio.guards.largest_coverage import fewest
from nescio.guards.rules import Rule, rate_interval

if TYPE_CHECKING:
    from nescio.guards.decide import Guard
    from nescio.guards.map_guard import MapGuard
    from nescio.guards.regression_guard import RegressionGuard

RATES = (
    "Nothing is guaranteed for inputs that are drawn differently from the calibration data "
    "(another camera, another hospital, a later year), nor for inputs made to fool the network, "
    "nor for any single input: the guarantees are rates."
)
SHIFT = (
    f"{RATES} How many OOD inputs are recognized is not guaranteed either: it depends on the "
    "detector, and can be measured on examples."
)
WEAK = 0.9  # a mean AUROC for outliers below which the detector is called weak
SHARES = ("answered", "errors", "risk at most", "failure score up to")
COLUMNS = ("group", "samples", "OOD above", *SHARES)


def guarantees(guard: "Guard") -> tuple[str, ...]:
    """The guarantees with their assumptions, and what is not guaranteed."""
    sets = [] if guard.sets is None else ["Sets: " + guard.sets.guarantee]
    known = [*dropped_words(guard), *repeated_words(guard)]
    said = (ood_words(guard), _unsure(guard), *sets, *guard.withheld, *known)
    return (*said, *strength_words(guard), SHIFT)


def warn_about(guard: "Guard | RegressionGuard") -> None:
    """Warn where a new guard was calibrated on copies, or will abstain on every input."""
    for text in dropped_words(guard):
        warn(text, RepeatedInputsWarning, stacklevel=3)
    if not guard.notes["repeats"]:
        for text in repeated_words(guard):
            warn(text, RepeatedInputsWarning, stacklevel=3)
    if not any(rule.coverage.holds for rule in guard.rules):
        more = f" So in all {len(guard.rules)} groups." if len(guard.rules) > 1 else ""
        text = f"the guard will abstain on every input. {guard.withheld[0]}{more}"
        warn(text, FewSamplesWarning, stacklevel=3)


def ood_words(guard: "Guard | RegressionGuard") -> str:
    """How often inputs like the calibration data are called OOD."""
    samples = [len(rule.scores) for rule in guard.rules]
    alike = {"class": " with the same predicted class", "groups": " of the same group"}
    spread = ""
    if len(samples) == 1:
        low, high = rate_interval(samples[0], guard.false_alarm)
        spread = (
            " Where scores do not tie, the rate of one calibration set lies between "
            f"{rounded(low, ROUND_FLOOR)} and {rounded(high)} in 95 of 100 samples."
        )
    return (
        f"OOD: an input like the calibration data{alike.get(guard.by or '', '')} is called OOD "
        f"with probability at most {percent(guard.false_alarm)} (conformal p-values against "
        f"{sum(samples):,} samples). This holds on average over calibration sets, for any "
        f"network and detector, if the input and the samples are exchangeable.{spread}"
    )


def _unsure(guard: "Guard") -> str:
    holding = [rule for rule in guard.rules if rule.coverage.holds]
    if not holding:
        return (
            "Unsure: the calibration data support no answer, so the guard abstains on every input."
        )
    each = {"class": " for each predicted class", "groups": " for each group"}.get(guard.by or "")
    each = f"{each} by itself (those listed)" if each else ""
    whose = {"class": "for each class ", "groups": "for each group "}.get(guard.by or "", "")
    samples = sum(rule.coverage.samples for rule in holding)
    answered = sum(rule.coverage.answered for rule in holding)
    return (
        f"Unsure: of the inputs that are answered, at most {percent(guard.risk)} get a wrong "
        f"label{each}. The calibration data show this with a confidence of "
        f"{percent(guard.confidence)}: {whose}it fails for at most "
        f"{percent(1 - guard.confidence)} of calibration sets (exact binomial bounds, tested in "
        "an order fixed beforehand). It holds if samples and inputs are drawn independently from "
        f"one distribution. Of {samples:,} samples that are not OOD, {answered:,} are answered."
    )


def strength_words(guard: "Guard | RegressionGuard") -> list[str]:
    """What the chosen detector found of the outliers that it was chosen by."""
    if not (record := guard.detector.chosen):
        return []
    areas: dict[str, float] = record["auroc"]
    mean, weakest = sum(areas.values()) / len(areas), min(areas, key=lambda name: areas[name])
    weak = (
        " That is weak: try detectors by name (detector=) with OOD examples of yours (nescio "
        "compare), or another network."
        if mean < WEAK
        else ""
    )
    return [
        f"The detector ({', '.join(record['parts'])}) was chosen by outliers made from the "
        f"training data. It finds these with a mean AUROC of {mean:.3f}, least well the kind "
        f"{weakest!r} with {areas[weakest]:.3f}; real OOD inputs may be harder to find.{weak}"
    ]


def dropped_words(guard: "Guard | RegressionGuard | MapGuard") -> list[str]:
    """What the training samples among the calibration data mean."""
    if not (count := guard.notes.get("dropped", 0)):
        return []
    return [
        f"{count:,} of {guard.notes['calibration'] + count:,} calibration inputs are training "
        "inputs, too, and were left out: the guarantees are about inputs that the network was not "
        "trained on."
    ]


def repeated_words(guard: "Guard | RegressionGuard | MapGuard") -> list[str]:
    """What equal inputs mean for the guarantees."""
    if guard.notes.get("repeats"):
        return [
            "Equal inputs were taken as separate samples, so the calibration data were not "
            "compared with training data: that none was trained on is an assumption."
        ]
    if not (count := guard.notes.get("copies", 0)):
        return []
    return [
        f"{count:,} of {guard.notes['calibration']:,} calibration inputs are copies "
        "of another one, and copies show less than separate samples do: the guarantees may not "
        "hold. Give each sample once, or repeats=True (--repeats) where equal inputs are separate "
        "samples."
    ]


def why_not(guard: "Guard", rule: Rule) -> str:
    """Why nothing is answered in a group."""
    found = rule.coverage
    where = f"In group {rule.group}" if rule.group else "Here"
    if not found.samples:
        return (
            f"{where} nothing is answered: none of {len(rule.scores):,} samples is below "
            f"{rule.limit:.4g}, where OOD begins, by more than rounding; use a detector that "
            "tells inputs apart, or a larger false_alarm."
        )
    said = (
        f"{where} nothing is answered: {found.errors} errors among the {found.answered:,} "
        f"most confident of {found.samples:,} samples show a risk of at most "
        f"{rounded(found.bound)}, not of {percent(guard.risk)}.{other_risks(rule)}"
    )
    least = found.needed or fewest(guard.risk, guard.confidence)
    total = max(1, math.ceil(least * len(rule.scores) / found.samples))
    if found.needed is not None:
        return (
            f"{said} It takes {total:,} samples or more in this part of the calibration data, or a "
            "larger risk."
        )
    said += (
        " At this share of errors more samples would not help, unless there are so many that fewer "
        "and more confident answers can be tried; or allow more risk."
    )
    if found.samples >= least:
        return said
    return f"{said} Only from {total:,} samples on could fewer and more confident answers be tried."


def other_risks(rule: Rule) -> str:
    """What other risks would answer, as a sentence."""
    rows = rule.at_risks()
    if not rows:
        return ""
    shares = [f"{percent(risk)} answers {100 * share:.1f} %" for risk, share in rows]
    return f" A risk of {', of '.join(shares)} of the samples (each risk shown by itself)."


def table(guard: "Guard") -> str:
    """One row per group."""
    rows = []
    for rule in guard.rules:
        found, count = rule.coverage, len(rule.scores)
        share = f"{found.answered / max(1, count):.1%}"
        answers = [share, str(found.errors), rounded(found.bound), f"{found.threshold:.4g}"]
        answers = answers if found.holds else ["0 %", "-", "-", "never"]
        rows.append([rule.group or "all", f"{count:,}", f"{rule.limit:.4g}", *answers])
    larger = [
        [rule.group or "all", percent(risk), f"{share:.1%}"]
        for rule in guard.rules
        for risk, share in rule.at_risks()
    ]
    more = (
        ["", text_table(("group", "at a risk of", "would be answered"), larger)] if larger else []
    )
    return "\n".join([text_table(COLUMNS, rows), *more])


def percent(share: float) -> str:
    """A share as it was asked for."""
    return f"{100 * share:.10g} %"


def rounded(share: float, rounding: str = ROUND_CEILING) -> str:
    """A bound in three digits that is still one."""
    whole = Context(prec=12).create_decimal_from_float(100 * share)  # without what floats add
    return f"{float(Context(prec=3, rounding=rounding).plus(whole)):.3g} %"
