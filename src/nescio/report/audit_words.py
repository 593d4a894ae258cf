"""The words of an audit: findings, verdict and advice."""

from collections.abc import Sequence
from typing import Any

from nescio.evaluation.answers import ADVERSARIAL, FAR
from nescio.report.audit_tables import Result, constant, followed, known

# What to do after an audit, in a few sentences: scaling, temperature, failure score, risk.

NAMED = 4  # features in a sentence
RISKS = (0.01, 0.02, 0.05, 0.1)  # that are looked for on the curve
MANY = 0.5  # a share of test samples out of range that is no accident
BASELINE, RECOMMENDED = "maximum probability", "recommended score"


def range_warning(result: Result) -> str:
    """A sentence where most test inputs lie outside the range of the training data."""
    found = result.get("range")
    if not found or found["ood"] <= MANY * found["samples"]:
        return ""
    return (
        f"{found['ood']:,} of {found['samples']:,} test samples hold numbers outside the range of "
        f"the training data{_features(found['features'])}: are they scaled alike?"
    )


def advice(result: Result) -> list[str]:
    """What to do, for the first predictor."""
    if range_warning(result):
        return ["Scale the test data as the training data were; until then no number here counts."]
    first = next(iter(result["predictors"].values()))
    said = [
        _temperature(first.get("calibration") or {}),
        _failure(first.get("failure", {}).get("scores", {})),
        _risks(first.get("failure", {}).get("curves", {})),
    ]
    return [sentence for sentence in said if sentence]


def _features(places: list[int]) -> str:
    if not places:
        return ""
    shown = ", ".join(map(str, places[:NAMED]))
    rest = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
    return f" (feature{'s' if len(places) > 1 else ''} {shown}{rest}, counted from 0)"


def _temperature(found: Result) -> str:
    if "after" not in found:
        return ""
    before, after = (found[key]["nll"] for key in ("before", "after"))
    errors = [100 * found[key]["ece"]["value"] for key in ("before", "after")]
    change = f"calibration error {errors[0]:.1f} % before, {errors[1]:.1f} % after"
    if after < before:
        return (
            f"Use a temperature of {found['temperature']:.2f}: divide the logits by it ({change})."
        )
    return f"Leave the temperature at 1: the one that was fitted does not help ({change})."


def _failure(scores: Result) -> str:
    """Which score finds errors better, if the interval of the gain tells."""
    gain = scores.get(RECOMMENDED, {}).get("gain", {}).get("ap_error")
    if not gain or known(gain["value"]) is None:
        return ""
    value, low, high = (f"{100 * gain[key]:+.1f}" for key in ("value", "low", "high"))
    numbers = f"gain in AP of errors {value} ({low} to {high})"
    if gain["high"] < 0:
        return (
            f"The log-odds find errors better here than the recommended score, {numbers}: make the "
            "guard with `--failure msp`."
        )
    if gain["low"] > 0:
        return f"The recommended score finds errors better than the log-odds, {numbers}: keep it."
    return (
        f"The recommended score is not shown to find errors better than the log-odds, {numbers}: "
        "`--failure msp` is simpler."
    )


def _risks(curves: Result) -> str:
    """How much can be answered at which risk, on the curve that errs least."""
    if not curves:
        return ""
    curve = min(curves.values(), key=lambda one: sum(one["risk"]) / len(one["risk"]))
    pairs = list(zip(curve["coverage"], curve["risk"], strict=True))
    total = curve["risk"][-1]
    shares: dict[float, float] = {}  # a share is named once, with the least risk
    for risk in (risk for risk in RISKS if risk < total):
        shares.setdefault(max((c for c, wrong in pairs if wrong <= risk), default=0.0), risk)
    reached = [
        f"{100 * share:.0f} % leaves {100 * risk:g} %" for share, risk in shares.items() if share
    ]
    if not reached:
        return ""
    first, *others = reached
    said = ", ".join([f"Answering the surest {first} errors", *others])
    return f"{said}; answering all leaves {100 * total:.1f} % (measured, not promised)."


# What each plot shows, as one sentence made from the numbers: its title.

TELLING = ("predictive_entropy", "mutual_information", "differential_entropy")


def telling_measures(result: Result) -> list[str]:
    """The few measures worth a plot along the ray: present, and not constant for everyone."""
    curves = [found["scaling"]["auroc"] for found in scaled(result).values()]
    return [
        name
        for name in TELLING
        if any(known(value) not in (None, 0.5) for curve in curves for value in curve.get(name, ()))
    ]


def scaled(result: Result) -> Result:
    """The predictors that were followed along alpha * x."""
    predictors = result["predictors"].items()
    return {name: found for name, found in predictors if found.get("scaling", {}).get("alpha")}


def far_confidence(result: Result) -> str:
    """How sure the predictors are at the end of the ray, against the test data."""
    found = scaled(result).values()
    surer = [
        _exceeds(part["scaling"]["mean_max_confidence"][-1], part["test"]["mean_max_confidence"])
        for part in found
    ]
    return f"{_at_the_end(result)}, {_counted(surer, 'surer than on the test data')}"


def attack_confidence(result: Result) -> list[str]:
    """How many predictors an attack near noise makes surer than on the test data, if any."""
    surer = [
        _exceeds(part["mean_max_confidence"], found["test"]["mean_max_confidence"])
        for found in result["predictors"].values()
        for where, part in found["ood"].items()
        if where.startswith(ADVERSARIAL)
    ]
    if not surer:
        return []
    return [f"On adversarial noise, {_counted(surer, 'surer than on the test data')}"]


def far_separation(result: Result) -> str:
    """Whether the measures still tell the far inputs from the test data at the end of the ray."""
    curves = [found["scaling"]["auroc"] for found in scaled(result).values()]
    ends = [
        end
        for name in telling_measures(result)
        for curve in curves
        if name in curve
        and set(curve[name]) != {0.5}  # the same score everywhere
        and (end := known(curve[name][-1])) is not None
    ]
    if not ends:
        return "How well the far inputs are told from the test data is not known"
    if len(ends) == 1:
        return f"{_at_the_end(result)}, the AUROC is {ends[0]:.2f}; 0.5 is chance"
    below = sum(end < 0.5 for end in ends)
    curves_end = "curve ends" if below == 1 else "curves end"
    count = f"{below} of {len(ends)} {curves_end}" if below else "no curve ends"
    best = f"the best ends at an AUROC of {max(ends):.2f}"
    return f"{_at_the_end(result)}, {count} below chance; {best}"


def far_certainty(result: Result) -> str:
    """In how many directions the predictors end up certain."""
    shares = [
        known(part["certain"]) for rays in followed(result).values() for part in rays.values()
    ]
    found = [share for share in shares if share is not None]
    if not found:
        return "How certain the predictors become far away is not known"
    low, high = (f"{100 * share:.0f} %" for share in (min(found), max(found)))
    range_ = f"In {low}" if low == high else f"In {low} to {high}"
    return f"{range_} of directions all probability goes to one class in the limit"


def high_confidence(result: Result) -> str:
    """The largest share of an outside set that gets a confidence in the last bin."""
    tops: dict[bool, list[tuple[float, str]]] = {True: [], False: []}
    for found in result["predictors"].values():
        for where, counts in found["confidence_histograms"].items():
            share = counts[-1] / max(sum(counts), 1)
            edge = f"{100 * (1 - 1 / len(counts)):.0f} %"
            tops[where == "test"].append((share, edge))
    shown = tops[False] or tops[True]
    share, edge = max(shown)
    where = "an outside set" if tops[False] else "the test data"
    start = "Up to " if len(shown) > 1 else ""
    return f"{start}{100 * share:.0f} % of {where} gets a confidence of {edge} or more"


def calibration(result: Result) -> str:
    """Whether the predictors claim more than they get right on the test data."""
    tests = [found["test"] for found in result["predictors"].values()]
    surer = [_exceeds(test["mean_max_confidence"], test["accuracy"]) for test in tests]
    errors = [error for test in tests if (error := known(test["ece"])) is not None]
    which = "its" if len(tests) == 1 else "the largest"
    worst = f"; {which} ECE is {100 * max(errors):.1f} %" if errors else ""
    return f"On the test data, {_counted(surer, 'surer than right on average')}{worst}"


def _at_the_end(result: Result) -> str:
    alpha = next(iter(scaled(result).values()))["scaling"]["alpha"]
    return f"At {alpha[-1]:g} times the test inputs"


def _counted(hits: Sequence[bool], what: str) -> str:
    """How many of the predictors it is true of, in words."""
    total, count = len(hits), sum(hits)
    if total == 1:
        return f"the predictor is {what}" if count else f"the predictor is not {what}"
    if count in (0, total):
        return f"all {total} predictors are {what}" if count else f"no predictor is {what}"
    return f"{count} of {total} predictors {'is' if count == 1 else 'are'} {what}"


def _exceeds(left: float | None, right: float | None) -> bool:
    a, b = known(left), known(right)
    return a is not None and b is not None and a > b


# The findings of an audit in plain words: a few sentences for each predictor.

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
    test, confidence = found["test"], _ood_confidence(found)
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
    error = (accuracy * (1 - accuracy) / result["samples"]) ** 0.5
    if abs(sure - accuracy) <= 2 * error:
        return []
    way = "surer" if sure > accuracy else "less sure"
    gap = f"{100 * abs(sure - accuracy):.1f} percentage points"
    return [f"On the test data it is {gap} {way} than it is right."]


def _too_sure(found: Result) -> list[str]:
    own, confidence = known(found["test"]["mean_max_confidence"]), _ood_confidence(found)
    if own is None or not confidence:
        return []
    blind = [where for where, sure in confidence.items() if sure > own or _blind(found, where)]
    if not blind:
        return ["Every outside set looks less certain to it than its own data."]
    return [_surer(blind, found)]


def _blind(found: Result, where: str) -> bool:
    """Whether a set looks more certain than the test data to the predictive entropy."""
    area = known(found["ood"][where]["measures"].get("predictive_entropy", {}).get("auroc"))
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
    areas = [_best_area(found["ood"][where]) for where in listed]
    if None in areas:
        return f"{start}."
    best = _listed([f"{area:.2f}" for area in areas])
    return f"{start}; its best measure reaches an AUROC of {best} there (0.5 is chance)."


def _under_attack(found: Result) -> list[str]:
    """How sure an attack makes it near noise, and whether any measure still tells."""
    sentences = []
    for where, part in found["ood"].items():
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


def _ood_confidence(found: Result) -> dict[str, float]:
    """Confidence by set; the attacked one has a sentence of its own."""
    every = _confidence(found).items()
    return {where: value for where, value in every if not where.startswith(ADVERSARIAL)}


def _confidence(found: Result) -> dict[str, float]:
    """Mean maximum confidence by outside set, where it is known."""
    values = {where: known(p["mean_max_confidence"]) for where, p in found["ood"].items()}
    return {where: value for where, value in values.items() if value is not None}


def _place(where: str) -> str:
    return f"inputs scaled by {where.removeprefix(FAR)}" if where.startswith(FAR) else where
