"""The tables of an audit as rows of text and numbers, for the terminal and for the page."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Separation:
    """How well one measure tells one outside set from the test data; None where unknown."""

    auroc: float | None
    fpr: float | None


def outside_names(result: Result) -> list[str]:
    """The outside sets of all predictors, in the order in which they come."""
    return _union(found["outside"] for found in result["predictors"].values())


QUALITY_COLUMNS = ("accuracy", "sure", "ECE", "NLL", "Brier")
QUALITY_NOTE = "Accuracy, mean maximum confidence (sure) and ECE in per cent, NLL in nats."


def quality_rows(result: Result, *, missing: str) -> list[tuple[str, list[str]]]:
    """A row for each predictor; accuracy, mean maximum confidence and ECE in per cent."""
    rows = []
    for name, found in result["predictors"].items():
        test, shares = found["test"], ("accuracy", "mean_max_confidence", "ece")
        cells = [
            *(decimal(test.get(key), 1, scale=100, missing=missing) for key in shares),
            *(decimal(test.get(key), 3, missing=missing) for key in ("nll", "brier")),
        ]
        rows.append((name, cells))
    return rows


def confidence_rows(result: Result, *, missing: str) -> list[tuple[str, list[str]]]:
    """A row for each set, a cell for each predictor: mean maximum confidence in per cent."""
    rows = []
    for where in ["test data", *outside_names(result)]:
        parts = [
            found["test"] if where == "test data" else found["outside"].get(where, {})
            for found in result["predictors"].values()
        ]
        values = [part.get("mean_max_confidence") for part in parts]
        rows.append((where, [decimal(v, 1, scale=100, missing=missing) for v in values]))
    return rows


def separation_rows(result: Result, where: str) -> list[tuple[str, list[Separation]]]:
    """A row for each measure, a cell for each predictor, for one outside set."""
    parts = [
        found["outside"].get(where, {}).get("measures", {})
        for found in result["predictors"].values()
    ]
    return [
        (measure, [_separation(part.get(measure, {})) for part in parts])
        for measure in _union(parts)
    ]


def followed(result: Result) -> Result:
    """The predictors whose far field is known, with its rays by kind."""
    parts = {name: found.get("far_field", {}) for name, found in result["predictors"].items()}
    return {name: part["rays"] for name, part in parts.items() if part.get("rays")}


def not_followed(result: Result) -> list[tuple[str, str]]:
    """The predictors whose far field cannot be computed, and why."""
    parts = {name: found.get("far_field", {}) for name, found in result["predictors"].items()}
    return [(name, part["skipped"]) for name, part in parts.items() if part.get("skipped")]


def attack_notes(result: Result) -> list[tuple[str, str]]:
    """The predictors that could not be attacked, or not everywhere, and why."""
    notes = []
    for name, found in result["predictors"].items():
        attack = found.get("attack", {})
        if attack.get("skipped"):
            notes.append((name, f"no adversarial noise. {attack['skipped']}"))
        elif blind := known(attack.get("blind")):
            share = f"{decimal(blind, 0, scale=100, missing='')} %"
            why = "the network gives no gradient there, so a low confidence is no evidence"
            notes.append((name, f"the attack could not move {share} of its inputs: {why}"))
    return notes


FAR_COLUMNS = (
    "certain", "sure in the limit", "last breakpoint", "factor to 95 %", "factor to 99.9 %",
)  # fmt: skip


def far_rows(result: Result, kind: str, *, missing: str) -> list[tuple[str, list[str]]]:
    """A row for each predictor: the far field along one kind of rays, medians of the factors."""
    rows = []
    for name, kinds in followed(result).items():
        part = kinds.get(kind)
        if part is None:
            continue
        levels = [part["factor"][level]["quantiles"] for level in ("0.95", "0.999")]
        cells = [
            f"{decimal(part['certain'], 0, scale=100, missing=missing)} %",
            f"{decimal(part['mean_limit_confidence'], 1, scale=100, missing=missing)} %",
            short(_median(part["radius"]), missing="never"),
            *(_factor(_median(values), part["start"]) for values in levels),
        ]
        rows.append((name, cells))
    return rows


def far_kinds(result: Result) -> list[str]:
    """The kinds of rays that were followed."""
    return _union(followed(result).values())


def short(value: Any, *, missing: str) -> str:
    """A factor with three digits; large ones as powers of ten."""
    number = known(value)
    if number is None:
        return missing
    if number < 1000:
        return f"{number:.3g}"
    return f"{number:,.0f}" if number < 1e6 else f"{number:.0e}".replace("e+0", "e")


def _factor(value: Any, start: float) -> str:
    return "at once" if value == start else short(value, missing="never")


def _median(quantiles: Any) -> Any:
    return quantiles[len(quantiles) // 2]


def measure_names(result: Result) -> list[str]:
    """Every measure that some table or curve of the audit shows."""
    predictors = result["predictors"].values()
    sets = [part["measures"] for found in predictors for part in found["outside"].values()]
    curves = [found["scaling"]["auroc"] for found in predictors if found.get("scaling")]
    return _union([*sets, *curves])


def constant(numbers: Result) -> bool:
    """Whether a measure gave every case the same score, so that it tells nothing apart."""
    return numbers.get("auroc") == 0.5 and numbers.get("fpr_at_95_tpr") == 1.0


def known(value: Any) -> float | None:
    """The number, or None if it is missing or not finite."""
    if value is None or not abs(value) < float("inf"):
        return None
    return float(value)


def decimal(value: Any, digits: int, *, scale: float = 1.0, missing: str) -> str:
    """A number with a fixed count of decimals, or `missing`; never a negative zero."""
    number = known(value)
    if number is None:
        return missing
    return f"{round(scale * number, digits) + 0.0:.{digits}f}"


def _separation(numbers: Mapping[str, Any]) -> Separation:
    if constant(numbers):
        return Separation(None, None)
    return Separation(known(numbers.get("auroc")), known(numbers.get("fpr_at_95_tpr")))


def _union(names: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for part in names for name in part))
