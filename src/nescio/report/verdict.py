"""The findings of an audit in plain words: a few sentences for each predictor."""

from collections.abc import Sequence
from typing import Any

from nescio.evaluate import ADVERSARIAL, FAR
from nescio.report.findings import attack_confidence, far_confidence, scaled
from nescio.report.tables import Result, constant, known

LISTED = 4  # outside sets named in a sentence; the tables have them all


def headline(result: Result) -> str:
    """What all predictors do far away from the data, and under attack."""
    if not scaled(result):
        return "No predictor was followed away from the data."
    return " ".join(f"{found}." for found in [far_confidence(result), *attack_confidence(result)])


def verdict(result: Result) -> list[str]:
    """How right, how sure, and where surer than on its own data; of others, what differs."""
    (name, first), *others = result["predictors"].items()
    whole = [
        _summary(name, first),
        *_miscalibrated(first, result),
        *_too_sure(first),
        *_under_attack(first),
        *_in_the_limit(first),
    ]
    return [" ".join(whole), *(_differs(other, found, first) for other, found in others)]


def compared(result: Result) -> str:
    """What the brackets of `verdict` hold, where there are several predictors."""
    first, *others = result["predictors"]
    return f"In brackets, the difference from {first} in percentage points:" if others else ""


def _differs(name: str, found: Result, first: Result) -> str:
    """A line: quality on the test data, and the set on which its confidence differs the most."""
    accuracy, sure = (
        _beside(found["test"][key], first["test"][key])
        for key in ("accuracy", "mean_max_confidence")
    )
    parts = [f"right on {accuracy} of the test data, {sure} sure on average"]
    own, theirs = (_confidence(part) for part in (found, first))
    both = [where for where in own if where in theirs]
    if both:
        where = max(both, key=lambda where: abs(own[where] - theirs[where]))
        parts.append(f"{_beside(own[where], theirs[where])} sure on {_place(where)}")
    return f"{name}: {'; '.join(parts)}."


def _beside(value: Any, other: Any) -> str:
    """A share, and by how many percentage points it differs."""
    a, b = known(value), known(other)
    gap = "" if a is None or b is None else f" ({round(100 * (a - b), 1) + 0.0:+.1f})"
    return f"{percent(value)}{gap}"


def percent(value: Any) -> str:
    """A share in per cent; what only rounds to all of it does not read as all of it."""
    share = known(value)
    if share is None:
        return "an unknown share"
    if 0.9995 <= share < 1:
        return "over 99.9 %"
    return "100 %" if share == 1 else f"{100 * share:.1f} %"


def _summary(name: str, found: Result) -> str:
    test, confidence = found["test"], _outside_confidence(found)
    listed = list(confidence)
    if len(listed) > LISTED:
        listed = sorted(listed, key=lambda where: -confidence[where])[:LISTED]
    parts = [
        f"right on {percent(test['accuracy'])} of the test data, "
        f"{percent(test['mean_max_confidence'])} sure on average",
        *(f"{percent(confidence[where])} sure on {_place(where)}" for where in listed),
    ]
    rest = len(confidence) - len(listed)
    if rest:
        parts.append(f"no surer on {rest} other outside set{'s' if rest > 1 else ''}")
    return f"{name}: {'; '.join(parts)}."


def _miscalibrated(found: Result, result: Result) -> list[str]:
    """A sentence if confidence and accuracy differ by more than two standard errors."""
    accuracy = known(found["test"]["accuracy"])
    sure = known(found["test"]["mean_max_confidence"])
    if accuracy is None or sure is None:
        return []
    error = (accuracy * (1 - accuracy) / result["cases"]) ** 0.5
    if abs(sure - accuracy) <= 2 * error:
        return []
    way = "surer" if sure > accuracy else "less sure"
    gap = f"{100 * abs(sure - accuracy):.1f} percentage points"
    return [f"On the test data it is {gap} {way} than it is right."]


def _too_sure(found: Result) -> list[str]:
    own, confidence = known(found["test"]["mean_max_confidence"]), _outside_confidence(found)
    if own is None or not confidence:
        return []
    blind = [where for where, sure in confidence.items() if sure > own or _blind(found, where)]
    if not blind:
        return ["Every outside set looks less certain to it than its own data."]
    return [_surer(blind, found)]


def _blind(found: Result, where: str) -> bool:
    """Whether a set looks more certain than the test data to the predictive entropy."""
    area = known(found["outside"][where]["measures"].get("predictive_entropy", {}).get("auroc"))
    return area is not None and area < 0.5


def _surer(places: Sequence[str], found: Result) -> str:
    """Which sets look more certain than its own data, and whether any measure tells them apart."""
    listed = places[:LISTED]
    rest = [f"{len(places) - LISTED} more"] if len(places) > LISTED else []
    verb = "look" if len(places) > 1 or _place(places[0]).endswith("s") else "looks"
    names = _listed([*map(_place, listed), *rest])
    start = f"To it, {names} {verb} more certain than its own data"
    if places[0].startswith(FAR):
        start = f"To it, {names} look more certain than its own data"
    areas = [_best_area(found["outside"][where]) for where in listed]
    if None in areas:
        return f"{start}."
    best = _listed([f"{area:.2f}" for area in areas])
    return f"{start}; its best measure reaches an AUROC of {best} there (0.5 is chance)."


def _under_attack(found: Result) -> list[str]:
    """How sure an attack makes it near noise, and whether any measure still tells."""
    sentences = []
    for where, part in found["outside"].items():
        sure = known(part["mean_max_confidence"])
        if not where.startswith(ADVERSARIAL) or sure is None:
            continue
        area = _best_area(part)
        told = "" if area is None else f"; its best measure reaches an AUROC of {area:.2f} there"
        how = where.removeprefix(ADVERSARIAL).strip(" ()")
        sentences.append(
            f"An attack ({how}) finds inputs near noise on which it is {percent(sure)} sure{told}."
        )
    return sentences


def _in_the_limit(found: Result) -> list[str]:
    """What is proved about random directions, if the far field is known."""
    part = found.get("far_field", {}).get("rays", {}).get("random directions")
    if not part:
        return []
    share, sure = percent(part["certain"]), percent(part["mean_limit_confidence"])
    return [
        f"In the limit it is certain of one class in {share} of random directions, and {sure} sure "
        "on average."
    ]


def _best_area(part: Result) -> float | None:
    areas = [known(n["auroc"]) for n in part["measures"].values() if not constant(n)]
    return max((area for area in areas if area is not None), default=None)


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _outside_confidence(found: Result) -> dict[str, float]:
    """Confidence by set; the attacked one has a sentence of its own."""
    every = _confidence(found).items()
    return {where: value for where, value in every if not where.startswith(ADVERSARIAL)}


def _confidence(found: Result) -> dict[str, float]:
    """Mean maximum confidence by outside set, where it is known."""
    values = {where: known(p["mean_max_confidence"]) for where, p in found["outside"].items()}
    return {where: value for where, value in values.items() if value is not None}


def _place(where: str) -> str:
    return f"inputs scaled by {where.removeprefix(FAR)}" if where.startswith(FAR) else where
