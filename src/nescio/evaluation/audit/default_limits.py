"""What is compared with a limit in every audit, with the limits that count by default.

They are about the first predictor. A default is chosen so that a network that is fit for use keeps
it; what is common but should be known (a ReLU network is certain infinitely far away) is attention,
and what makes other numbers void or harms (a broken guarantee, answers that are shown to be
overconfident, data that are scaled otherwise) is a failure.
"""

from collections.abc import Mapping
from typing import Any

from nescio.conformal import binomial_interval
from nescio.evaluation.audit.audit_limits import Measured, limit
from nescio.evaluation.audit.findings import AuditFindings, Findings, Number, PredictorFindings
from nescio.evaluation.audit.guard_section import risk_broken
from nescio.evaluation.regression.regression_findings import DETECTOR, RegressionFindings
from nescio.metrics import Interval

CLASSES = ("classification",)
RANDOM = "random directions"
CONSTANT = 0.5  # AUROC of a measure that is the same everywhere, as disagreement of one network


def _first(found: Findings) -> PredictorFindings:
    return next(iter(found.predictors.values()))


def measured(part: Interval | None, samples: int, less: float = 0.0) -> Measured | None:
    """An interval of findings, less a number."""
    if part is None:
        return None
    value, low, high = (one - less for one in (part.value, part.low, part.high))
    return Measured(value=value, low=low, high=high, samples=samples)


def share_of(share: float, samples: int, note: str = "") -> Measured:
    """A share of samples with its exact interval."""
    part = binomial_interval(round(share * samples), samples)
    return Measured(value=share, low=part.low, high=part.high, samples=samples, note=note)


def _accuracy(found: Findings) -> Measured | None:
    share = _first(found).test.accuracy
    return None if share is None else share_of(share, found.samples)


@limit(
    "accuracy",
    section="accuracy",
    title="accuracy on the test data",
    better="higher",
    unit="share",
    tasks=CLASSES,
    rank=40,
    meaning="The share of the test samples that get the right label.",
    advice="Look at the groups and at the most confident errors.",
)
def accuracy(found: Findings) -> Measured | None:
    """The accuracy on the test data."""
    return _accuracy(found)


@limit(
    "above_chance",
    section="accuracy",
    title="accuracy above guessing",
    better="higher",
    attention=0.0,
    fail=0.0,
    strict=True,
    unit="points",
    tasks=CLASSES,
    rank=12,
    meaning="The accuracy less that of a guess among all classes: 0 says that nothing was learned.",
    advice="Check that the labels and the inputs are in the same order, that the inputs are scaled "
    "as in training, and that the weights are loaded.",
)
def above_chance(found: Findings) -> Measured | None:
    """The accuracy less one over the number of classes."""
    part, chance = _accuracy(found), 1 / _first(found).classes
    if part is None or part.value is None or part.low is None or part.high is None:
        return None
    return Measured(
        value=part.value - chance,
        low=part.low - chance,
        high=part.high - chance,
        samples=found.samples,
    )


@limit(
    "nll",
    section="accuracy",
    title="negative log-likelihood in nats",
    better="lower",
    rank=45,
    meaning="The mean surprise at the true labels or values.",
    advice="Calibrate with a temperature, or train longer or with more data.",
)
def nll(found: AuditFindings) -> Measured | None:
    """The negative log-likelihood of the test data."""
    if isinstance(found, RegressionFindings):
        return measured(next(iter(found.predictors.values())).test.nll, found.samples)
    assert isinstance(found, Findings)
    return Measured(value=_first(found).test.nll, samples=found.samples)


@limit(
    "brier",
    section="accuracy",
    title="Brier score",
    better="lower",
    tasks=CLASSES,
    rank=46,
    meaning="The squared distance of the probabilities from the labels, summed over the classes.",
    advice="Calibrate with a temperature, or train longer or with more data.",
)
def brier(found: Findings) -> Measured | None:
    """The Brier score of the test data."""
    return Measured(value=_first(found).test.brier, samples=found.samples)


@limit(
    "overconfidence",
    section="accuracy",
    title="confidence above accuracy",
    better="lower",
    attention=0.03,
    fail=0.05,
    unit="points",
    tasks=CLASSES,
    rank=20,
    meaning="By how much the mean confidence exceeds the accuracy: answers claim more than they "
    "hold.",
    advice="Divide the logits by the temperature of the section on calibration, or calibrate with "
    "`nescio.calibration`.",
)
def overconfidence(found: Findings) -> Measured | None:
    """The mean confidence less the accuracy, with the exact interval of the accuracy."""
    part, mean = _accuracy(found), _first(found).test.mean_max_confidence
    if part is None or mean is None or part.value is None:
        return None
    assert part.low is not None
    assert part.high is not None
    return Measured(
        value=mean - part.value,
        low=mean - part.high,
        high=mean - part.low,
        samples=found.samples,
    )


@limit(
    "ece",
    section="calibration",
    title="calibration error",
    better="lower",
    attention=0.05,
    fail=0.15,
    unit="share",
    tasks=CLASSES,
    rank=22,
    meaning="The mean gap of confidence and accuracy over 15 bins (ECE).",
    advice="Divide the logits by the temperature of the section on calibration.",
)
def ece(found: Findings) -> Measured | None:
    """The ECE on samples that fitted nothing, with its interval."""
    one = _first(found)
    if one.calibration is not None and one.calibration.before is not None:
        part = one.calibration.before
        return measured(part.ece, int(part.reliability.count.sum()))
    gap = overconfidence(found)
    ends = gap.ends if isinstance(gap, Measured) else None
    least = 0.0 if ends is None else max(0.0, ends[0], -ends[1])  # no ECE is below the mean gap
    return Measured(value=one.test.ece, low=least, samples=found.samples)


@limit(
    "failure_auroc",
    section="failure",
    title="AUROC of the failure score for errors",
    better="higher",
    attention=0.7,
    fail=0.5,
    tasks=CLASSES,
    rank=32,
    meaning="How well the failure score ranks errors before right answers (AUROC; 0.5 is chance).",
    advice="Try other failure scores (`nescio list detectors`), an ensemble, or more calibration "
    "data.",
)
def failure_auroc(found: Findings) -> Measured | None:
    """The AUROC of the best failure score for errors."""
    part = _first(found).failure
    if part is None or not part.scores:
        return None
    *_, last = part.scores.values()  # the guard's, where there is one
    return measured(last.auroc, part.samples)


@limit(
    "coverage",
    section="guard",
    title="inputs answered with a guarantee",
    better="higher",
    attention=0.5,
    unit="share",
    rank=30,
    meaning="The share of inputs like the test data that the guard answers, with errors below its "
    "guaranteed rate.",
    advice="Allow more risk (`nescio guard --risk`), give more calibration data, or improve the "
    "network.",
)
def coverage(found: Findings | RegressionFindings) -> Measured | None:
    """The share that the guard answers; 0 where it can guarantee nothing."""
    guard = found.guard
    if guard is None or guard.test is None:
        return None
    if not guard.holds:
        return Measured(value=0.0, samples=guard.samples, note="no share can be guaranteed")
    return measured(guard.test.answered, guard.test.samples)


@limit(
    "risk",
    section="guard",
    title="error rate among the answers",
    better="lower",
    unit="share",
    rank=34,
    meaning="The share of the guard's answers on test data that are wrong; of a regression, that "
    "miss their value.",
    advice="Make a guard with a smaller risk: `nescio guard --risk`.",
)
def risk(found: Findings | RegressionFindings) -> Measured | None:
    """The measured error rate among the guard's answers."""
    guard = found.guard
    if guard is None or guard.test is None or guard.test.risk is None:
        return None
    answered = round(guard.test.answered.value * guard.test.samples)
    return measured(guard.test.risk, answered)


@limit(
    "false_alarms",
    section="guard",
    title="test data called OOD",
    better="lower",
    unit="share",
    rank=36,
    meaning="The share of the test data that the guard calls OOD.",
    advice="Make a guard with fewer false alarms: `nescio guard --false-alarm`.",
)
def false_alarms(found: Findings | RegressionFindings) -> Measured | None:
    """The measured rate of false alarms."""
    guard = found.guard
    return (
        None
        if guard is None or guard.test is None
        else measured(guard.test.ood, guard.test.samples)
    )


@limit(
    "broken_guarantees",
    section="guard",
    title="guarantees broken on the test data",
    better="lower",
    attention=0.0,
    fail=0.0,
    unit="count",
    rank=10,
    meaning="Guarantees of the guard that the test data break by more than chance does in 1 of "
    "1,000 audits.",
    advice="The test data are not drawn like the calibration data: mix and split them again, or "
    "calibrate on data from where the network will be used.",
)
def broken_guarantees(found: Findings | RegressionFindings) -> Measured | None:
    """How many guarantees the test data break."""
    guard = found.guard
    if guard is None or guard.test is None:
        return None
    if isinstance(found, Findings):
        assert found.guard is not None
        broken = found.guard.broken
        if broken is None:
            return None
        count = int(broken.false_alarm) + int(broken.risk and bool(guard.holds))
        return Measured(value=count, samples=guard.test.samples)
    if not guard.holds:
        return None
    assert found.guard is not None
    assert found.guard.test is not None
    answered = round(guard.test.answered.value * guard.test.samples)
    missed = risk_broken(answered, found.guard.test.misses, guard.risk)
    return Measured(value=int(missed), samples=guard.test.samples)


@limit(
    "abstained",
    section="guard",
    title="abstention on OOD inputs",
    better="higher",
    attention=0.8,
    unit="share",
    rank=50,
    meaning="The share of an OOD set that the guard does not answer; measured, not guaranteed.",
    advice="Allow more false alarms (`nescio guard --false-alarm 0.03`), try other detectors with "
    "`nescio compare`, or train with inputs like these.",
)
def abstained(found: Findings | RegressionFindings) -> Mapping[str, Measured] | None:
    """The share of each OOD set on which the guard abstains."""
    if found.guard is None or found.guard.ood is None:
        return None
    return {name: share_of(1 - part.answer, part.inputs) for name, part in found.guard.ood.items()}


@limit(
    "auroc",
    section="ood",
    title="AUROC of OOD data against test data",
    better="higher",
    attention=0.5,
    rank=55,
    meaning="How well the network's own uncertainty ranks an OOD set before the test data (AUROC; "
    "below 0.5 the OOD data look more certain than the test data).",
    advice="Do not use the confidence to recognize such inputs: use the guard, or try a detector "
    "of `nescio compare`.",
)
def auroc(found: Findings | RegressionFindings) -> Mapping[str, Measured]:
    """The best AUROC of the network's own measures, for noise and the OOD sets that were given."""
    sets = {one.name: one.samples for one in found.of_kind("ood", "noise")}
    one: Any = next(iter(found.predictors.values()))
    best: dict[str, Number] = {}
    for name, part in one.ood.items():
        own = [m.auroc for key, m in part.measures.items() if key != DETECTOR]
        areas = [area for area in own if area is not None]
        told = [area for area in areas if area != CONSTANT]
        best[name] = max(told or areas, default=None)
    return {
        name: Measured(value=area, samples=sets[name])
        for name, area in best.items()
        if name in sets
    }


@limit(
    "confidence",
    section="confidence",
    title="mean confidence on OOD data",
    better="lower",
    unit="share",
    tasks=CLASSES,
    rank=60,
    meaning="The mean maximum probability on an OOD set.",
    advice="Train with a recipe for low confidence off the data: `nescio audit --recipe acet`.",
)
def confidence(found: Findings) -> Mapping[str, Measured]:
    """The mean confidence on each OOD set."""
    sets = {one.name: one.samples for one in found.sets}
    return {
        name: Measured(value=part.mean_max_confidence, samples=sets.get(name))
        for name, part in _first(found).ood.items()
    }


@limit(
    "certain_far_away",
    section="far field",
    title="certainty infinitely far away",
    better="lower",
    attention=0.2,
    unit="share",
    tasks=CLASSES,
    rank=70,
    meaning="The share of random directions in which the confidence goes to 100 %, where nothing "
    "is known; computed exactly, and common to ReLU networks.",
    advice="Use the guard, which can abstain there, or a network whose confidence falls: see "
    "the page on geometry in the documentation.",
)
def certain_far_away(found: Findings) -> Measured | None:
    """The share of random directions in which all probability goes to one class."""
    far = _first(found).far_field
    part = None if far is None or far.rays is None else far.rays.get(RANDOM)
    return None if part is None or not part.count else share_of(part.certain, part.count)


@limit(
    "out_of_range",
    section="accuracy",
    title="test data beyond the range of the training data",
    better="lower",
    attention=0.2,
    fail=0.5,
    unit="share",
    rank=11,
    meaning="The share of the test samples with numbers outside the range of the training data.",
    advice="Scale the test data as the training data were; until then no number here counts.",
)
def out_of_range(found: AuditFindings) -> Measured | None:
    """The share of test samples with numbers outside the range of the training data."""
    part = found.range
    return (
        None
        if part is None or not part.samples
        else share_of(part.ood / part.samples, part.samples)
    )
