"""The words of an audit: findings, verdict and advice."""

from collections.abc import Mapping, Sequence

from nescio.evaluation.audit.findings import (
    AuditFindings,
    CalibrationFindings,
    FailureScore,
    Findings,
    OnSet,
    PredictorFindings,
    RiskCurve,
    Scaling,
)
from nescio.report.audit_tables import followed
from nescio.report.render import known, percent
from nescio.report.sections.stability_words import flips_half

# What to do after an audit, in a few sentences: scaling, temperature, failure score, risk.

NAMED = 4  # features in a sentence
RISKS = (0.01, 0.02, 0.05, 0.1)  # that are looked for on the curve
MANY = 0.5  # a share of test samples out of range that is no accident
RECOMMENDED = "recommended score"


def range_warning(found: AuditFindings) -> str:
    """A sentence where most test inputs lie outside the range of the training data."""
    part = found.range
    if part is None or part.ood <= MANY * part.samples:
        return ""
    return (
        f"{part.ood:,} of {part.samples:,} test samples hold numbers outside the range of the "
        f"training data{_features(part.features)}: are they scaled alike?"
    )


def advice(found: Findings) -> list[str]:
    """What to do, for the first predictor."""
    if range_warning(found):
        return ["Scale the test data as the training data were; until then no number here counts."]
    first = next(iter(found.predictors.values()))
    said = [_temperature(first.calibration)] if first.calibration else []
    if first.failure is not None:
        said += [_failure(first.failure.scores or {}), _risks(first.failure.curves or {})]
    return [sentence for sentence in said if sentence]


def _features(indices: Sequence[int]) -> str:
    if not indices:
        return ""
    shown = ", ".join(map(str, indices[:NAMED]))
    rest = f" and {len(indices) - NAMED} more" if len(indices) > NAMED else ""
    return f" (feature{'s' if len(indices) > 1 else ''} {shown}{rest}, counted from 0)"


def _temperature(found: CalibrationFindings) -> str:
    before, after = found.before, found.after
    if before is None or after is None:
        return ""
    errors = [100 * part.ece.value for part in (before, after)]
    change = f"calibration error {errors[0]:.1f} % before, {errors[1]:.1f} % after"
    worse = after.ece.value > before.ece.value
    if after.nll < before.nll and not worse:
        return f"Use a temperature of {found.temperature:.2f}: divide the logits by it ({change})."
    if after.nll < before.nll:
        likelihood = f"negative log-likelihood {before.nll:.3f} before, {after.nll:.3f} after"
        return (
            f"A temperature of {found.temperature:.2f} improves the likelihood ({likelihood}) but "
            f"makes the calibration error worse ({change}): use it only for the likelihood."
        )
    return f"Leave the temperature at 1: the one that was fitted does not help ({change})."


def _failure(scores: Mapping[str, FailureScore]) -> str:
    """Which score finds errors better, if the interval of the gain tells."""
    part = scores.get(RECOMMENDED)
    gain = None if part is None or part.gain is None else part.gain.get("ap_error")
    if gain is None or known(gain.value) is None:
        return ""
    value, low, high = (f"{100 * one:+.1f}" for one in (gain.value, gain.low, gain.high))
    numbers = f"gain in AP of errors {value} ({low} to {high})"
    if gain.high < 0:
        return (
            f"The log-odds find errors better here than the recommended score, {numbers}: make the "
            "guard with `--failure msp`."
        )
    if gain.low > 0:
        return f"The recommended score finds errors better than the log-odds, {numbers}: keep it."
    return (
        f"The recommended score is not shown to find errors better than the log-odds, {numbers}: "
        "`--failure msp` is simpler."
    )


def _risks(curves: Mapping[str, RiskCurve]) -> str:
    """How much can be answered at which risk, on the curve that errs least."""
    if not curves:
        return ""
    curve = min(curves.values(), key=lambda one: sum(one.risk) / len(one.risk))
    pairs = list(zip(curve.coverage, curve.risk, strict=True))
    total = curve.risk[-1]
    shares: dict[float, float] = {}  # a share is named once, with the least risk
    for risk in (risk for risk in RISKS if risk < total):
        shares.setdefault(max((c for c, wrong in pairs if wrong <= risk), default=0.0), risk)
    reached = [
        f"{100 * share:.0f} % leaves {100 * risk:g} %"
        for share, risk in shares.items()
        if share >= 0.005
    ]
    if not reached:
        return ""
    first, *others = reached
    said = ", ".join([f"Answering the most confident {first} errors", *others])
    return f"{said}; answering all leaves {100 * total:.1f} % (measured, not guaranteed)."


# What each plot shows, as one sentence made from the numbers: its title.

TELLING = ("predictive_entropy", "mutual_information", "differential_entropy")


def scaled(found: Findings) -> dict[str, tuple[PredictorFindings, Scaling]]:
    """The predictors that were followed along alpha * x."""
    return {
        name: (one, one.scaling)
        for name, one in found.predictors.items()
        if one.scaling is not None and one.scaling.alpha
    }


def _curves(found: Findings) -> list[Mapping[str, tuple[float | None, ...]]]:
    return [ray.auroc for _, ray in scaled(found).values()]


def telling_measures(found: Findings) -> list[str]:
    """The few measures worth a plot along the ray: present, and not constant for everyone."""
    return [
        name
        for name in TELLING
        if any(known(v) not in (None, 0.5) for curve in _curves(found) for v in curve.get(name, ()))
    ]


def far_confidence(found: Findings) -> str:
    """How confident the predictors are at the end of the ray, against the test data."""
    surer = [
        _exceeds(ray.mean_max_confidence[-1], one.test.mean_max_confidence)
        for one, ray in scaled(found).values()
    ]
    return f"{_at_the_end(found)}, {_counted(surer, 'more confident than on the test data')}"


def attack_confidence(found: Findings) -> list[str]:
    """How many predictors an attack near noise makes more confident than on the test data."""
    surer = [
        _exceeds(part.mean_max_confidence, one.test.mean_max_confidence)
        for one in found.predictors.values()
        for where, part in one.ood.items()
        if found.kind(where) == "adversarial"
    ]
    if not surer:
        return []
    return [f"On adversarial noise, {_counted(surer, 'more confident than on the test data')}"]


def far_separation(found: Findings) -> str:
    """Whether the measures still tell the far inputs from the test data at the end of the ray."""
    ends = [
        end
        for name in telling_measures(found)
        for curve in _curves(found)
        if name in curve
        and set(curve[name]) != {0.5}  # the same score everywhere
        and (end := known(curve[name][-1])) is not None
    ]
    if not ends:
        return "How well the far inputs are told from the test data is not known"
    if len(ends) == 1:
        return f"{_at_the_end(found)}, the AUROC is {ends[0]:.2f}; 0.5 is chance"
    below = sum(end < 0.5 for end in ends)
    curves_end = "curve ends" if below == 1 else "curves end"
    count = f"{below} of {len(ends)} {curves_end}" if below else "no curve ends"
    best = f"the best ends at an AUROC of {max(ends):.2f}"
    return f"{_at_the_end(found)}, {count} below chance; {best}"


def far_certainty(found: Findings) -> str:
    """In how many directions the predictors become certain of one class."""
    shares = [known(part.certain) for rays in followed(found).values() for part in rays.values()]
    certain = [share for share in shares if share is not None]
    if not certain:
        return "How certain the predictors become far away is not known"
    low, high = (f"{100 * share:.0f} %" for share in (min(certain), max(certain)))
    range_ = f"In {low}" if low == high else f"In {low} to {high}"
    return f"{range_} of directions all probability goes to one class in the limit"


def high_confidence(found: Findings) -> str:
    """The largest share of an OOD set that gets a confidence in the last bin."""
    tops: dict[bool, list[tuple[float, str]]] = {True: [], False: []}
    for one in found.predictors.values():
        for where, counts in one.confidence_histograms.items():
            share = counts[-1] / max(sum(counts), 1)
            edge = f"{100 * (1 - 1 / len(counts)):.0f} %"
            tops[where == "test"].append((share, edge))
    shown = tops[False] or tops[True]
    share, edge = max(shown)
    where = "an OOD set" if tops[False] else "the test data"
    start = "Up to " if len(shown) > 1 else ""
    return f"{start}{100 * share:.0f} % of {where} gets a confidence of {edge} or more"


def calibration(found: Findings) -> str:
    """Whether the predictors claim more than they get right on the test data."""
    tests = [one.test for one in found.predictors.values()]
    surer = [_exceeds(test.mean_max_confidence, test.accuracy) for test in tests]
    errors = [error for test in tests if (error := known(test.ece)) is not None]
    which = "its" if len(tests) == 1 else "the largest"
    worst = f"; {which} ECE is {100 * max(errors):.1f} %" if errors else ""
    return f"On the test data, {_counted(surer, 'more confident than accurate')}{worst}"


def _at_the_end(found: Findings) -> str:
    _, ray = next(iter(scaled(found).values()))
    return f"At {ray.alpha[-1]:g} times the test inputs"


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

LISTED = 4  # OOD sets named in a sentence; the tables have them all


def headline(found: Findings) -> str:
    """What all predictors do far away from the data, and under attack."""
    if not scaled(found):
        return "No predictor was followed away from the data."
    return " ".join(f"{said}." for said in [far_confidence(found), *attack_confidence(found)])


def verdict(found: Findings) -> list[str]:
    """Accuracy, confidence, and where it is above that on the test data; of others, differences."""
    (name, first), *others = found.predictors.items()
    words = _Words(found, first)
    whole = [
        words.summary(name),
        *words.miscalibrated(),
        *words.too_sure(),
        *words.under_attack(),
        *words.in_the_limit(),
        *filter(
            None, [flips_half(found.sections["stability"])] if "stability" in found.sections else []
        ),
    ]
    return [" ".join(whole), *(_Words(found, one).differs(other, first) for other, one in others)]


def compared(found: Findings) -> str:
    """What the brackets of `verdict` hold, where there are several predictors."""
    first, *others = found.predictors
    return f"In brackets, the difference from {first} in percentage points:" if others else ""


class _Words:
    """Sentences about one predictor."""

    def __init__(self, whole: Findings, one: PredictorFindings) -> None:
        self.whole, self.one = whole, one

    def summary(self, name: str) -> str:
        test, confidence = self.one.test, self.ood_confidence()
        listed = list(confidence)
        if len(listed) > LISTED:
            listed = sorted(listed, key=lambda where: -confidence[where])[:LISTED]
        parts = [
            f"right on {percent(test.accuracy)} of the test data, "
            f"{percent(test.mean_max_confidence)} mean confidence",
            *(
                f"{percent(confidence[where])} confidence on {self.place(where)}"
                for where in listed
            ),
        ]
        rest = len(confidence) - len(listed)
        if rest:
            parts.append(f"no more confident on {rest} other OOD set{'s' if rest > 1 else ''}")
        return f"{name}: {'; '.join(parts)}."

    def differs(self, name: str, first: PredictorFindings) -> str:
        """A line: quality on the test data, and the set on which its confidence differs most."""
        test, other = self.one.test, first.test
        accuracy = _beside(test.accuracy, other.accuracy)
        sure = _beside(test.mean_max_confidence, other.mean_max_confidence)
        parts = [f"right on {accuracy} of the test data, {sure} mean confidence"]
        own, theirs = _confidence(self.one), _confidence(first)
        both = [where for where in own if where in theirs]
        if both:
            where = max(both, key=lambda where: abs(own[where] - theirs[where]))
            parts.append(f"{_beside(own[where], theirs[where])} confidence on {self.place(where)}")
        return f"{name}: {'; '.join(parts)}."

    def miscalibrated(self) -> list[str]:
        """A sentence if confidence and accuracy differ by more than two standard errors."""
        accuracy, sure = (known(v) for v in (self.one.test.accuracy, self._own()))
        if accuracy is None or sure is None:
            return []
        error = (accuracy * (1 - accuracy) / self.whole.samples) ** 0.5
        if abs(sure - accuracy) <= 2 * error:
            return []
        way = "above" if sure > accuracy else "below"
        gap = f"{100 * abs(sure - accuracy):.1f} percentage points"
        return [f"On the test data its mean confidence is {gap} {way} its accuracy."]

    def too_sure(self) -> list[str]:
        own, confidence = known(self._own()), self.ood_confidence()
        if own is None or not confidence:
            return []
        sets = [w for w, sure in confidence.items() if sure > own or _misled(self.one.ood[w])]
        if not sets:
            return ["Every OOD set looks less certain to it than its own data."]
        return [self._surer(sets)]

    def _own(self) -> float | None:
        return self.one.test.mean_max_confidence

    def _surer(self, sets: Sequence[str]) -> str:
        """Which sets look more certain than the test data, and whether a measure tells."""
        listed = sets[:LISTED]
        rest = [f"{len(sets) - LISTED} more"] if len(sets) > LISTED else []
        plural = len(sets) > 1 or self.place(sets[0]).endswith("s")
        plural = plural or self.whole.kind(sets[0]) == "far"
        names = listed_words([*map(self.place, listed), *rest])
        start = f"To it, {names} look{'' if plural else 's'} more certain than its own data"
        areas = [_best_area(self.one.ood[where]) for where in listed]
        if None in areas:
            return f"{start}."
        best = listed_words([f"{area:.2f}" for area in areas])
        return f"{start}; its best measure reaches an AUROC of {best} there (0.5 is chance)."

    def under_attack(self) -> list[str]:
        """How confident an attack makes it near noise, and whether any measure still tells."""
        sentences = []
        for data in self.whole.of_kind("adversarial"):
            part = self.one.ood.get(data.name)
            mean = None if part is None else known(part.mean_max_confidence)
            if part is None or mean is None:
                continue
            area = _best_area(part)
            told = (
                "" if area is None else f"; its best measure reaches an AUROC of {area:.2f} there"
            )
            sentences.append(
                f"An attack ({data.description}) finds inputs near noise on which its mean "
                f"confidence is {percent(mean)}{told}."
            )
        return sentences

    def in_the_limit(self) -> list[str]:
        """What is proved about random directions, if the far field is known."""
        far = self.one.far_field
        sentences = []
        part = None if far is None or far.rays is None else far.rays.get("random directions")
        if part is not None:
            share, mean = percent(part.certain), percent(part.mean_limit_confidence)
            sentences.append(
                f"In the limit it is certain of one class in {share} of random directions, and its "
                f"mean confidence is {mean}."
            )
        growing = (far and far.growing_precision) or {}
        if "random directions" in growing:
            sentences.append(
                "The precision of its Dirichlets, which stands for evidence, grows without bound "
                f"in {percent(growing['random directions'])} of random directions."
            )
        return sentences

    def ood_confidence(self) -> dict[str, float]:
        """Confidence by set; the attacked one has a sentence of its own."""
        every = _confidence(self.one).items()
        return {name: v for name, v in every if self.whole.kind(name) != "adversarial"}

    def place(self, where: str) -> str:
        """A data set in a sentence."""
        far = [one for one in self.whole.of_kind("far") if one.name == where]
        return f"inputs scaled by {far[0].strength:.12g}" if far else where


def _beside(value: float | None, other: float | None) -> str:
    """A share, and by how many percentage points it differs."""
    a, b = known(value), known(other)
    gap = "" if a is None or b is None else f" ({round(100 * (a - b), 1) + 0.0:+.1f})"
    return f"{percent(value)}{gap}"


def _misled(part: OnSet) -> bool:
    """Whether a set looks more certain than the test data to the predictive entropy."""
    entropy = part.measures.get("predictive_entropy")
    area = None if entropy is None else known(entropy.auroc)
    return area is not None and area < 0.5


def _best_area(part: OnSet) -> float | None:
    areas = [known(one.auroc) for one in part.measures.values() if not one.constant]
    return max((area for area in areas if area is not None), default=None)


def listed_words(words: Sequence[str]) -> str:
    """Words with commas and an "and"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _confidence(one: PredictorFindings) -> dict[str, float]:
    """Mean maximum confidence by OOD set, where it is known."""
    values = {where: known(part.mean_max_confidence) for where, part in one.ood.items()}
    return {where: value for where, value in values.items() if value is not None}
