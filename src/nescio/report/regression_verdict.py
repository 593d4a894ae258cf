"""The words of the audit of a regression: findings, verdict and advice."""

from nescio.evaluation import (
    OWN_INTERVALS,
    IntervalQuality,
    RegressionFindings,
    RegressorFindings,
    SpreadOnSet,
)
from nescio.report.audit_words import listed_words, range_warning
from nescio.report.guard_words import abstained, guard_place, wished
from nescio.report.render import known, percent

TOTAL = "total_variance"
LISTED = 4  # OOD sets named in a sentence; the tables have them all
YET = "Yet its densities are worse"  # though its means are better
NOTICED = 0.6  # AUROC of the spread from which an attack is noticed
FACTOR = 1.1  # of the spread: what is too wide or too narrow by less is not worth a word


def regression_headline(found: RegressionFindings) -> str:
    """Whether the first predictor's intervals hold what they say, and what it does far away."""
    first = next(iter(found.predictors.values()))
    return " ".join([calibration_sentence(first), *far_sentences(first)])


def regression_guard_sentence(found: RegressionFindings) -> str:
    """How much can be answered with which intervals, where it abstains, and where the guard is."""
    guard = found.guard
    if guard is None or guard.skipped or guard.test is None:
        return ""  # the advice says why
    start = f"At {wished(guard.false_alarm)} false alarms"
    if not guard.holds:
        said = (
            f"{start} there is no share of inputs that this network can be shown to answer with "
            f"at most {wished(guard.risk)} of the intervals missing their value (confidence "
            f"{wished(guard.confidence)})"
        )
        return f"{said}. {guard_place(guard, 'Its guard gives intervals, and says what is OOD')}"
    width = known(guard.test.width)
    wide = "" if width is None else f" of mean width {_number(width)}"
    said = (
        f"{start} this network can answer {percent(guard.test.answered.value)} of inputs like its "
        f"test data, with intervals{wide} of which at most {wished(guard.risk)} miss their value "
        f"(confidence {wished(guard.confidence)})"
    )
    others = abstained(guard, found)
    return f"{said}{'; ' if others else ''}{others}. {guard_place(guard)}"


def calibration_sentence(one: RegressorFindings) -> str:
    """Overconfident, too cautious, or as the samples cannot tell otherwise."""
    share = one.test.coverage["0.9"]
    held = f"its 90 % intervals hold {percent(share.value)} of the test values"
    ends = f"({percent(share.low)} to {percent(share.high)})"
    curve, wrong = one.test.curve, f"Miscalibrated, though {held} {ends}"
    if share.high < 0.9:
        return f"Overconfident: {held} {ends}{_factor(one, small=True)}."
    if share.low > 0.9:
        return f"Too cautious: {held} {ends}{_factor(one, small=False)}."
    if not curve.as_wide:
        several = " of each target or" if one.targets else ""
        return f"{wrong}: those{several} of other probabilities do not."
    if not curve.calibrated:
        low = "" if one.targets else f" ({percent(curve.below_median)} below the predicted median)"
        return f"{wrong}: the values lie too often to one side of its quantiles{low}."
    return f"Calibrated as far as the test data tell: {held} {ends}."


def _factor(one: RegressorFindings, *, small: bool) -> str:
    """By how much the predicted deviations are too small or too large, if by much.

    A few large errors may say the other thing than the intervals; then nothing is said.
    """
    factor = known(one.test.standardized_error)
    if factor is None or not factor > 0:
        return ""
    ratio = factor if small else 1 / factor
    if ratio < FACTOR:
        return ""
    kind = "small" if small else "large"
    return f"; its predicted deviations are too {kind} by a factor of {_number(ratio)}"


def far_sentences(one: RegressorFindings) -> list[str]:
    """What is proved about random directions, if the far field is known."""
    far = one.far_field
    part = None if far is None or far.rays is None else far.rays.get("random directions")
    if part is None:
        return []
    said = []
    if part.shrinks:
        said.append(
            f"Infinitely far away its predicted deviation falls to its smallest value in "
            f"{percent(part.shrinks)} of random directions"
        )
    if part.outrun:
        start = "its mean" if said else "Infinitely far away its mean"
        said.append(f"{start} leaves every interval behind in {percent(part.outrun)}"
                    f"{'' if len(said) else ' of random directions'}")  # fmt: skip
    if said:
        return [f"{' and '.join(said)}."]
    if not part.linear:
        return []
    away = known(part.deviations)
    end = "" if away is None else f", which ends up {away:.2g} deviations away (median)"
    where = "" if part.linear == 1 else f" in {percent(part.linear)} of random directions"
    return [f"Infinitely far away its predicted deviation grows as fast as its mean{where}{end}."]


def regression_verdict(found: RegressionFindings) -> list[str]:
    """Errors, the spread on the data and off them, an attack; of other predictors, differences."""
    (name, first), *others = found.predictors.items()
    whole = [
        _errors(name, first, found),
        *_ranks(first),
        *_off_data(first, found),
        *_attack(first, found),
    ]
    return [" ".join(whole), *(_differs(other, one, first) for other, one in others)]


def _number(value: float) -> str:
    """Three digits, and no powers of ten for what people can read."""
    return f"{value:.3g}" if abs(value) < 1000 or abs(value) >= 1e9 else f"{value:,.0f}"


def _errors(name: str, one: RegressorFindings, found: RegressionFindings) -> str:
    test, base = one.test, found.baseline
    explained = known(test.r2)
    r2 = "" if explained is None else f" (R² {explained:.2f})"
    said = (
        f"{name}: RMSE {_number(test.rmse.value)}{r2}; the mean of the {found.baseline_from} "
        f"targets has {_number(base.rmse.value)}"
    )
    if test.rmse.low >= base.rmse.value:
        return f"{said}, so that the network is worse than no network."
    if test.nll.value >= base.nll.value:
        both = f"NLL {test.nll.value:.3g} against {base.nll.value:.3g}"
        yet = "Its densities are worse, too" if test.rmse.value > base.rmse.value else YET
        return f"{said}. {yet} ({both})."
    return f"{said}."


def _ranks(one: RegressorFindings) -> list[str]:
    part = one.spread
    if part.rank_correlation is None:
        return [] if part.skipped is None else [f"{part.skipped[0].upper()}{part.skipped[1:]}."]
    order = part.rank_correlation
    numbers = f"rank correlation {order.value:.2f} ({order.low:.2f} to {order.high:.2f})"
    if order.low > 0:
        return [f"Its spread is larger where the errors are: {numbers}."]
    if order.high < 0:
        return [f"Its spread is smaller where the errors are larger: {numbers}."]
    return [f"Its spread is not shown to tell where the errors are larger: {numbers}."]


def _off_data(one: RegressorFindings, found: RegressionFindings) -> list[str]:
    """Which OOD sets look as certain as the test data, and whether the detector tells them."""
    areas = {where: _area(part, TOTAL) for where, part in one.ood.items()}
    lost = [_place(where, found) for where, area in areas.items() if area != area]  # NaN
    broken = [f"Its predictions overflow on {listed_words(lost)}."] if lost else []
    if not areas:
        return []
    blind = [where for where, area in areas.items() if area <= 0.5]
    return [*broken, *_certain(blind, one, found)] if len(lost) < len(areas) else broken


def _certain(blind: list[str], one: RegressorFindings, found: RegressionFindings) -> list[str]:
    if not blind:
        return ["Every OOD set looks less certain to it than its own data."]
    some = blind[:LISTED]
    rest = [f"{len(blind) - LISTED} more"] if len(blind) > LISTED else []
    names = listed_words([*(_place(where, found) for where in some), *rest])
    areas = listed_words([f"{_area(one.ood[where], TOTAL):.2f}" for where in some])
    said = (
        f"To it, {names} look{'' if len(blind) > 1 or names.endswith('s') else 's'} no less "
        f"certain than its own data: its predicted variance reaches an AUROC of {areas} (0.5 is "
        "chance)"
    )
    told = [_area(one.ood[where], "detector") for where in some]
    if all(area == area for area in told):  # not NaN: there is a detector
        best = listed_words([f"{area:.2f}" for area in told])
        return [f"{said}; a detector on its features reaches {best}."]
    return [f"{said}."]


def _area(part: SpreadOnSet, measure: str) -> float:
    found = part.measures.get(measure)
    area = None if found is None else known(found.auroc)
    return float("nan") if area is None else area


def _place(where: str, found: RegressionFindings) -> str:
    far = [one for one in found.of_kind("far") if one.name == where]
    return f"inputs scaled by {far[0].strength:.12g}" if far else where


def _attack(one: RegressorFindings, found: RegressionFindings) -> list[str]:
    part = one.attack
    if part is None or part.before is None or part.after is None:
        return []
    options = found.attack or {}
    steps = options.get("steps", 0)
    noticed = (known(part.auroc) or 0.0) >= NOTICED
    return [
        f"An attack (radius {options.get('radius', 0):g}, {steps} step{'' if steps == 1 else 's'}) "
        f"raises the error from {part.before.error:.3g} to {part.after.error:.3g} standard "
        f"deviations of the targets; its 90 % intervals then hold {percent(part.after.coverage)}, "
        f"and its spread {'notices' if noticed else 'does not notice'} (AUROC "
        f"{known(part.auroc) or 0.0:.2f})."
    ]


def _differs(name: str, one: RegressorFindings, first: RegressorFindings) -> str:
    """A line: errors, densities and intervals, beside those of the first predictor."""
    test, other = one.test, first.test
    held = test.coverage["0.9"].value
    return (
        f"{name}: RMSE {_number(test.rmse.value)} ({_number(other.rmse.value)}), NLL "
        f"{test.nll.value:.3g} ({other.nll.value:.3g}); its 90 % intervals hold {percent(held)} "
        f"({percent(other.coverage['0.9'].value)})."
    )


def regression_compared(found: RegressionFindings) -> str:
    """What the brackets of the verdict hold, where there are several predictors."""
    first, *others = found.predictors
    return f"In brackets, the numbers of {first}:" if others else ""


def regression_advice(found: RegressionFindings) -> list[str]:
    """What to do, for the first predictor."""
    if range_warning(found):
        return ["Scale the test data as the training data were; until then no number here counts."]
    first = next(iter(found.predictors.values()))
    return [*_better_intervals(first), *_members(first), *_head(first), *_no_guard(found)]


def _no_guard(found: RegressionFindings) -> list[str]:
    """Why there is no guard, and what would give one."""
    if found.guard is None or not found.guard.skipped:
        return []
    return [f"There is no guard for this network: {found.guard.skipped.rstrip('.')}."]


def _better_intervals(one: RegressorFindings) -> list[str]:
    """The calibrated intervals of the best score, and what they change."""
    methods = one.intervals.methods
    own = methods[OWN_INTERVALS]
    calibrated = {n: part for n, part in methods.items() if n != OWN_INTERVALS and part.score}
    if not calibrated:
        return []
    name = min(calibrated, key=lambda n: calibrated[n].score or 0.0)
    best = calibrated[name]
    wide = f"mean width {_number(own.width or 0)} before, {_number(best.width or 0)} after"
    change = (
        f"{percent(own.coverage.value)} held before, {percent(best.coverage.value)} after, {wide}"
    )
    call = f"`nescio.conformal.{name}`"
    if _off(own):
        return [
            f"Use calibrated intervals, {call}: they guarantee 90 % for inputs like these "
            f"({change})."
        ]
    return [f"Its intervals need no repair; {call} adds a guarantee ({change})."]


def _off(part: IntervalQuality) -> bool:
    return part.coverage.high < 0.9 or part.coverage.low > 0.9


def _members(one: RegressorFindings) -> list[str]:
    """An ensemble, where one network does not know what it does not know."""
    if one.members > 1:
        return []
    blind = [where for where, part in one.ood.items() if _area(part, TOTAL) < 0.75]
    far = one.far_field
    outrun = far is not None and far.rays is not None and any(r.outrun for r in far.rays.values())
    if not blind and not outrun:
        return []
    return [
        "Train several networks (`nescio train deep_ensemble`, `members=5`): far away the "
        "deviation of members that disagree grows as fast as their means, and one network's does "
        "not."
    ]


def _head(one: RegressorFindings) -> list[str]:
    if not one.fitted_spread and one.head != "fixed_variance":
        return []
    return [
        "Let the network predict its spread: twice the outputs and the head `gaussian`. One that "
        "is the same everywhere tells nothing about a single prediction."
    ]


# What each plot shows, as one sentence made from the numbers: its title.


def coverage_title(found: RegressionFindings) -> str:
    """Which predictors' intervals hold less than they say."""
    over = sum(one.test.coverage["0.9"].high < 0.9 for one in found.predictors.values())
    return _counted(over, len(found.predictors), "hold fewer values than they say", "intervals")


def _counted(count: int, total: int, what: str, of: str) -> str:
    if total == 1:
        return f"Its {of} {what}" if count else f"Its {of} do not {what}"
    return f"The {of} of {count} of {total} predictors {what}"


def examples_title(found: RegressionFindings) -> str:
    """The share of test values in the 90 % intervals."""
    held = [one.test.coverage["0.9"].value for one in found.predictors.values()]
    low, high = percent(min(held)), percent(max(held))
    ends = low if low == high else f"{low} to {high}"
    return f"The 90 % intervals hold {ends} of the test values"


def spread_title(found: RegressionFindings) -> str:
    """How the spread ranks the errors."""
    orders = [one.spread.rank_correlation for one in found.predictors.values()]
    values = [order.value for order in orders if order is not None]
    if not values:
        return "The predicted deviation is the same for every sample"
    low, high = (f"{end:.2f}" for end in (min(values), max(values)))
    range_ = low if low == high else f"{low} to {high}"
    return f"Predicted deviation and error have a rank correlation of {range_}"


def ray_title(found: RegressionFindings) -> str:
    """How mean and deviation grow along alpha * x."""
    parts = [one.scaling for one in found.predictors.values() if one.scaling is not None]
    far = [
        (d / s)
        for one in parts
        if (d := known(one.distance[-1])) and (s := known(one.deviation[-1]))
    ]
    alpha = parts[0].alpha[-1]
    if not far:
        return "How far the mean goes is not known"
    low, high = (_number(end) for end in (min(far), max(far)))
    ends = low if low == high else f"{low} to {high}"
    return f"At {alpha:g} times the inputs the mean is {ends} predicted deviations from the targets"
