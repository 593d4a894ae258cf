"""What to do after an audit, in a few sentences: scaling, temperature, failure score, risk."""

from nescio.report.tables import Result, known

NAMED = 4  # features in a sentence
RISKS = (0.01, 0.02, 0.05, 0.1)  # that are looked for on the curve
MANY = 0.5  # a share of test cases out of range that is no accident
BASELINE, RECOMMENDED = "maximum probability", "recommended score"


def range_warning(result: Result) -> str:
    """A sentence where most test inputs lie outside the range of the training data."""
    found = result.get("range")
    if not found or found["outside"] <= MANY * found["cases"]:
        return ""
    return (
        f"{found['outside']:,} of {found['cases']:,} test cases hold numbers outside the range of "
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
