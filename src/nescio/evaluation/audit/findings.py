"""What an audit finds, section by section, as typed values: `audit.json` is made from them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nescio.core import DataSet, Results, Row, Shape
from nescio.evaluation.audit.named_files import FileDigest
from nescio.evaluation.under_shift import ShiftCurves
from nescio.metrics import Interval, Reliability
from nescio.version import VERSION

Number = float | None  # None where it is unknown


@dataclass(frozen=True, kw_only=True)
class Quality:
    """On labeled data: NLL in nats, Brier as a sum over classes, ECE over 15 bins."""

    accuracy: Number
    nll: Number
    brier: Number
    ece: Number
    mean_max_confidence: Number


@dataclass(frozen=True, kw_only=True)
class Separation:
    """How well a measure tells an OOD set from the test data; OOD is the positive class."""

    auroc: Number
    aupr: Number = None
    fpr_at_95_tpr: Number = None

    @property
    def constant(self) -> bool:
        """Whether every sample has the same score, so that it tells nothing apart."""
        return self.auroc == 0.5 and self.fpr_at_95_tpr == 1.0


@dataclass(frozen=True, kw_only=True)
class OnSet:
    """A predictor on an OOD set."""

    mean_max_confidence: Number
    measures: Mapping[str, Separation]


def separations(
    measures: Mapping[str, Separation], name: str, data: str
) -> dict[tuple[str, str, str], Number]:
    """Numbers of measures by predictor, data set and metric, which is `measure metric`."""
    return {
        (name, data, f"{measure} {metric}"): value
        for measure, separation in measures.items()
        for metric, value in vars(separation).items()
    }


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Along alpha * x, for x in the test data."""

    alpha: tuple[float, ...]
    mean_max_confidence: tuple[Number, ...]
    auroc: Mapping[str, tuple[Number, ...]]  # by measure


@dataclass(frozen=True, kw_only=True)
class CalibrationNumbers:
    """How well confidence agrees with accuracy."""

    nll: float
    brier: float
    ece: Interval
    smooth_ece: float
    reliability: Reliability


@dataclass(frozen=True, kw_only=True)
class CalibrationFindings:
    """Before and after a temperature that was fitted on other samples, or why there is none."""

    before: CalibrationNumbers | None = None
    after: CalibrationNumbers | None = None
    temperature: float | None = None
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class FailureScore:
    """How well a score finds errors; gain: over the maximum probability."""

    ap_error: Interval
    auroc: Interval
    aurc: Interval
    gain: Mapping[str, Interval] | None = None


@dataclass(frozen=True, kw_only=True)
class RiskCurve:
    """The error rate among the most confident answers, by their share."""

    coverage: tuple[float, ...]
    risk: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class FailureFindings:
    """How well a predictor's errors are found; the first score is what others are compared with."""

    errors: int
    samples: int
    scores: Mapping[str, FailureScore] | None = None
    curves: Mapping[str, RiskCurve] | None = None
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class AttackFindings:
    """The share of inputs on which the attack had no gradient, or why there was no attack."""

    blind: float | None = None
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class Factor:
    """How far rays go until a level of confidence."""

    rays: int
    reached: float
    quantiles: tuple[Number, ...]  # at 0, 1/20, ..., 1; None: never


@dataclass(frozen=True, kw_only=True)
class RayFindings:
    """The far field along one kind of rays."""

    count: int
    start: float
    members: Mapping[str, float]  # shares of the kinds of limits
    certain: float
    undecided: float
    mean_limit_confidence: float
    radius: tuple[Number, ...]
    factor: Mapping[str, Factor]  # by the level of confidence


@dataclass(frozen=True, kw_only=True)
class FarFieldFindings:
    """Rays by kind, or why they cannot be followed."""

    rays: Mapping[str, RayFindings] | None = None
    skipped: str | None = None
    growing_precision: Mapping[str, float] | None = None  # of Dirichlets, the share of rays by kind


@dataclass(frozen=True, kw_only=True)
class PredictorFindings:
    """All that is found of one predictor."""

    members: int
    classes: int
    test: Quality
    reliability: Reliability
    ood: Mapping[str, OnSet]
    scaling: Scaling | None = None
    confidence_histograms: Mapping[str, tuple[int, ...]]
    attack: AttackFindings = field(default_factory=AttackFindings)
    calibration: CalibrationFindings | None = None
    failure: FailureFindings | None = None
    far_field: FarFieldFindings | None = None


@dataclass(frozen=True, kw_only=True)
class Shares:
    """What a guard decides for inputs."""

    inputs: int
    answer: float
    unsure: float
    ood: float


@dataclass(frozen=True, kw_only=True)
class OnTest:
    """What a guard does on the samples that fitted nothing, with exact intervals."""

    samples: int
    answered: Interval
    ood: Interval
    unsure: float
    errors: int
    risk: Interval | None  # None: nothing is answered


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the calibration data show about the error rate among the answers."""

    samples: int
    answered: int
    errors: int
    bound: float
    needed: int | None = None
    at_risks: tuple[tuple[float, float], ...] = ()  # larger risks, and the coverage of each
    calibration: int  # samples that show guarantees


@dataclass(frozen=True, kw_only=True)
class Broken:
    """Which guarantees the test data break by more than chance."""

    false_alarm: bool
    risk: bool


@dataclass(frozen=True, kw_only=True)
class GuardFindings:
    """What was asked of the guard; then why there is none, or what it guarantees and does."""

    predictor: str
    false_alarm: float
    risk: float
    confidence: float
    samples: int  # calibration samples
    needed: int
    halved: bool
    left_out: int = 0
    skipped: str | None = None
    holds: bool | None = None
    shown: Shown | None = None
    enough: int | None = None  # calibration samples that would be enough
    trained: int | None = None
    detector: str | None = None
    failure: str | None = None
    own_network: bool | None = None
    arrays: tuple[str, ...] = ()  # that it reads, of a network that runs elsewhere
    guarantees: tuple[str, ...] | None = None
    test: OnTest | None = None
    broken: Broken | None = None
    ood: Mapping[str, Shares] | None = None
    file: str | None = None
    net: str | None = None


@dataclass(frozen=True, kw_only=True)
class RangeFindings:
    """Test samples with numbers outside the range of the training data, and in which features."""

    ood: int
    samples: int
    features: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class CostFindings:
    """Of an audit that drew samples because the networks are large."""

    multiplications: float  # of one sample
    passes: float  # over the test samples, without rays; a step of the attack counts as one
    drawn: Mapping[str, int]  # samples by part of the audit; rays of each kind


@dataclass(frozen=True, kw_only=True)
class AuditFindings(ABC):
    """What audits of every task find.

    nescio: version of nescio that made the audit.
    samples: number of test samples.
    features: shape of one sample; by name where the inputs are several tensors.
    seed: seed of the random draws.
    sets: data sets beside the test data, each with its kind: noise, adversarial, ood or far.
    held_out: which samples fitted temperatures and the guard, and which measured, in words.
    range: test samples outside the range of the training data.
    shift: curves under a shift of the test data.
    no_shift: why there are no such curves.
    attack: options of the attack, by name.
    cost: which samples were drawn, where the networks are large.
    class_names: names of the classes.
    columns: names of the inputs, where they are a table.
    budget: `"quick"`, `"standard"` or `"thorough"`.
    sections: findings of the other sections, by the name of the section.
    not_run: why a section is missing, by the name of the section.
    required: limits that were asked for, such as `"ece<0.05"`.
    command: words of the command that made the audit.
    files: digests of the files that the command names.
    """

    nescio: str = VERSION
    samples: int
    features: Shape
    seed: int
    sets: tuple[DataSet, ...]
    held_out: str | None = None
    range: RangeFindings | None = None
    shift: ShiftCurves | None = None
    no_shift: str | None = None
    attack: Mapping[str, float | int] | None = None
    cost: CostFindings | None = None
    class_names: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    budget: str = "standard"
    sections: Mapping[str, Any] = field(default_factory=dict)
    not_run: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    command: tuple[str, ...] | None = None
    files: Mapping[str, FileDigest] = field(default_factory=dict)

    def kind(self, data: str) -> str:
        """The kind of the set named `data`: noise, adversarial, ood or far."""
        return next((one.kind for one in self.sets if one.name == data), "ood")

    def of_kind(self, *kinds: str) -> list[DataSet]:
        """The data sets of some kinds."""
        return [one for one in self.sets if one.kind in kinds]

    @property
    @abstractmethod
    def results(self) -> Results:
        """One row per predictor, data set and number; a metric of a measure is `measure metric`."""

    def table(self, numbers: Mapping[tuple[str, str, str], Number | Interval]) -> Results:
        """Results of numbers by predictor, data set and metric.

        numbers: numbers, with or without intervals, by (predictor, data set, metric).
        """
        rows = []
        for (name, data, metric), given in numbers.items():
            part = given if isinstance(given, Interval) else None
            value, low, high = (part.value, part.low, part.high) if part else (given, None, None)
            assert not isinstance(value, Interval)
            row = Row(subject=name, data=data, metric=metric, value=value, low=low, high=high)
            rows.append(row)
        test = DataSet(name="test", kind="test", samples=self.samples)
        about = {"kind": "audit", "nescio": self.nescio, "seed": self.seed}
        return Results(tuple(rows), (test, *self.sets), about)


@dataclass(frozen=True, kw_only=True)
class Findings(AuditFindings):
    """All sections of the audit of a classifier.

    guard: what the guard guarantees and does; None: it was not asked for.
    predictors: findings by the name of each predictor.
    """

    guard: GuardFindings | None = None
    predictors: Mapping[str, PredictorFindings]

    @property
    def results(self) -> Results:
        """All numbers of the predictors as a table: on the test data and on every OOD set."""
        numbers: dict[tuple[str, str, str], Number | Interval] = {}
        for name, found in self.predictors.items():
            numbers |= {(name, "test", metric): value for metric, value in vars(found.test).items()}
            for data, part in found.ood.items():
                numbers[name, data, "mean_max_confidence"] = part.mean_max_confidence
                numbers |= separations(part.measures, name, data)
        return self.table(numbers)
