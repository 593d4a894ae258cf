"""What the audit of a regression finds, as typed values: `audit.json` is made from them.

Numbers about test data are in the unit of the targets, averaged over targets. Numbers that compare
data are in standard deviations of the test targets, so that targets of any scale count alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nescio.core import Results
from nescio.evaluation.audit.findings import (
    AuditFindings,
    Number,
    Separation,
    Shares,
    separations,
)
from nescio.metrics import Interval

DETECTOR = "detector"  # of the guard, beside the measures of the network


@dataclass(frozen=True, kw_only=True)
class CoverageCurve:
    """The share of targets in the central predicted interval of each probability.

    band: with probability 95 % the true shares of all levels lie within it of the observed ones;
    those of the intervals and those below the quantiles, of each target.
    """

    levels: tuple[float, ...]
    held: tuple[float, ...]  # mean over targets
    band: float
    below_median: float  # the share of targets below the predicted median, mean over targets
    as_wide: bool  # whether the intervals of each target show no miscalibration
    calibrated: bool  # whether neither they do nor the quantiles


@dataclass(frozen=True, kw_only=True)
class RegressionQuality:
    """On data with targets; NLL in nats, of all targets of a sample; the others by target."""

    rmse: Interval
    mae: Interval
    crps: Interval | None = None  # None: no closed form is known
    nll: Interval
    moment_matched_nll: Interval
    sharpness: Interval  # root of the mean predicted variance
    r2: Number  # None where a target never varies
    coverage: Mapping[str, Interval]  # of the central intervals, by their probability
    standardized_error: Number  # root of the mean squared error over the predicted variance
    calibration_error: Interval
    curve: CoverageCurve


@dataclass(frozen=True, kw_only=True)
class TargetQuality:
    """One of several targets."""

    rmse: float
    mae: float
    r2: Number
    coverage: Interval  # of the central 90 % intervals
    deviation: float  # of the targets


@dataclass(frozen=True, kw_only=True)
class IntervalQuality:
    """Intervals on samples that fitted nothing; width and score in the unit of the targets."""

    coverage: Interval
    width: Number  # None: some intervals are infinite
    score: Number


@dataclass(frozen=True, kw_only=True)
class IntervalFindings:
    """Intervals of one wanted coverage by how they are made, or why some are missing."""

    wanted: float
    samples: int
    methods: Mapping[str, IntervalQuality]
    skipped: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ErrorCurve:
    """The mean error among the samples of the smallest predicted spread, by their share."""

    coverage: tuple[float, ...]
    error: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class SpreadFindings:
    """Whether the predicted spread is larger where the errors are; or why it cannot be said.

    Errors are in standard deviations of the targets. rank_correlation: Spearman's, of spread and
    error. auroc: of the spread, for the tenth of the samples with the largest errors. gain: how
    much of what a perfect order saves, in the area under `curve`, the order by spread saves.
    """

    samples: int
    rank_correlation: Interval | None = None
    auroc: Interval | None = None
    gain: Number = None
    curve: ErrorCurve | None = None
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Predictions on data without targets, in standard deviations of the test targets."""

    deviation: Number  # median predicted deviation
    distance: Number  # median distance of the predicted mean from the mean of the test targets


@dataclass(frozen=True, kw_only=True)
class SpreadOnSet(Spread):
    """The same on an OOD set, and how well measures tell it from the test data."""

    measures: Mapping[str, Separation]


@dataclass(frozen=True, kw_only=True)
class SpreadAlongRay:
    """Along alpha * x, for x in the test data."""

    alpha: tuple[float, ...]
    deviation: tuple[Number, ...]
    distance: tuple[Number, ...]
    auroc: Mapping[str, tuple[Number, ...]]  # by measure


@dataclass(frozen=True, kw_only=True)
class UnderAttack:
    """Test samples as they are, or moved to where the error is largest."""

    error: float  # root mean squared, in standard deviations of the targets
    deviation: float  # median predicted
    coverage: float  # share of targets in the central 90 % intervals


@dataclass(frozen=True, kw_only=True)
class ErrorAttack:
    """An attack on the predicted means, or why there was none."""

    samples: int = 0
    before: UnderAttack | None = None
    after: UnderAttack | None = None
    auroc: Number = None  # of the total variance: attacked samples against the same as they are
    blind: float | None = None  # the share of samples without any gradient
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class SpreadRays:
    """The far field along one kind of rays: how the predicted deviation grows, as shares of rays.

    Each target of a ray counts as one.
    """

    count: int
    start: float
    shrinks: float  # to the smallest deviation the head allows
    bounded: float
    root: float  # like the square root of the distance
    linear: float  # like the distance, as the mean does
    outrun: float  # the mean moves by ever more predicted deviations
    undecided: float
    radius: tuple[Number, ...]  # quantiles of the last breakpoint
    deviations: Number  # median limit of the mean's distance in predicted deviations, if linear


@dataclass(frozen=True, kw_only=True)
class SpreadFarField:
    """Rays by kind, or why they cannot be followed."""

    rays: Mapping[str, SpreadRays] | None = None
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class Example:
    """Test samples for the pictures: one target of each."""

    truth: float
    mean: float
    low: float  # of the central 90 % interval
    high: float
    deviation: float


@dataclass(frozen=True, kw_only=True)
class RegressorFindings:
    """All that is found of one predictor."""

    members: int
    head: str
    fitted_spread: bool  # it predicts means alone; the spread is that of its residuals
    test: RegressionQuality
    targets: Mapping[str, TargetQuality]  # of several
    intervals: IntervalFindings
    spread: SpreadFindings
    deviation: Spread  # on the test data
    ood: Mapping[str, SpreadOnSet]
    scaling: SpreadAlongRay | None = None
    attack: ErrorAttack | None = None
    far_field: SpreadFarField | None = None
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AnswersOnTest:
    """What a guard does on the samples that fitted nothing, with exact intervals."""

    samples: int
    answered: Interval
    ood: Interval
    unsure: float
    misses: int  # answers whose interval does not hold the target
    risk: Interval | None  # the share of these; None: nothing is answered
    held: Interval  # the share of all targets in their intervals
    width: Number  # mean of the answered intervals, in the unit of the targets


@dataclass(frozen=True, kw_only=True)
class RegressionGuardFindings:
    """Why there is no guard, or what it guarantees and does."""

    predictor: str
    samples: int  # calibration samples
    halved: bool  # whether they are test samples
    skipped: str | None = None
    false_alarm: float = 0.0
    risk: float = 0.0
    confidence: float = 0.0
    miscoverage: float = 0.0
    intervals: str | None = None
    detector: str | None = None
    holds: bool | None = None
    own_network: bool | None = None
    guarantees: tuple[str, ...] | None = None
    test: AnswersOnTest | None = None
    ood: Mapping[str, Shares] | None = None
    file: str | None = None
    net: str | None = None


@dataclass(frozen=True, kw_only=True)
class RegressionFindings(AuditFindings):
    """All sections of the audit of a regression."""

    task: str = "regression"
    guard: RegressionGuardFindings | None = None
    predictors: Mapping[str, RegressorFindings]
    baseline: RegressionQuality  # of the same normal density for every sample
    baseline_from: str  # which targets gave its mean and variance

    @property
    def results(self) -> Results:
        numbers: dict[tuple[str, str, str], Number | Interval] = {}
        tests = {name: one.test for name, one in self.predictors.items()}
        for name, test in {**tests, BASELINE: self.baseline}.items():
            found = {k: v for k, v in vars(test).items() if k not in ("coverage", "curve")}
            numbers |= {(name, "test", metric): v for metric, v in found.items() if v is not None}
            for level, share in test.coverage.items():
                numbers[name, "test", f"coverage {level}"] = share
        for name, one in self.predictors.items():
            for data, part in one.ood.items():
                numbers[name, data, "deviation"] = part.deviation
                numbers[name, data, "distance"] = part.distance
                numbers |= separations(part.measures, name, data)
        return self.table(numbers)


BASELINE = "mean of targets"  # the name of the baseline among the results
OWN_INTERVALS = "its own"
