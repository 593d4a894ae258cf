"""What each plot shows, as one sentence made from the numbers: its title."""

from collections.abc import Sequence

from nescio.evaluate import ADVERSARIAL
from nescio.report.tables import Result, followed, known

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
        for where, part in found["outside"].items()
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
