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
    """On data with targets; NLL in nats, of all targets of a sample; the others by target.

    rmse, mae: root mean squared error, and mean absolute error.
    crps: continuous ranked probability score; None: no closed form is known.
    nll: negative log-likelihood of the mixture.
    moment_matched_nll: that of the normal density with the same mean and variance.
    sharpness: root of the mean predicted variance.
    r2: share of the variance of the targets that is explained; None where a target never varies.
    coverage: coverage of the central intervals, by their probability.
    standardized_error: root of the mean squared error over the predicted variance.
    calibration_error: calibration error of the quantiles.
    curve: the calibration curve.
    """

    rmse: Interval
    mae: Interval
    crps: Interval | None = None
    nll: Interval
    moment_matched_nll: Interval
    sharpness: Interval
    r2: Number
    coverage: Mapping[str, Interval]
    standardized_error: Number
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
    """Intervals on samples that fitted nothing; width and score in the unit of the targets.

    coverage: share of targets in their interval.
    width: mean width; None: some intervals are infinite.
    score: mean interval score.
    """

    coverage: Interval
    width: Number
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
    """Predictions on data without targets, in standard deviations of the test targets.

    deviation: median predicted deviation.
    distance: median distance of the predicted mean from the mean of the test targets.
    """

    deviation: Number
    distance: Number


@dataclass(frozen=True, kw_only=True)
class SpreadOnSet(Spread):
    """Predictions on an OOD set, and how well measures tell it from the test data.

    deviation: median predicted deviation, in standard deviations of the test targets.
    distance: median distance of the predicted mean from the mean of the test targets.
    measures: how well each measure separates the set from the test data.
    """

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

    count: number of rays.
    start: factor t at which the rays start to leave the data.
    shrinks: share where it falls to the smallest deviation the head allows.
    bounded: share where it has a limit.
    root: share where it grows like the square root of the distance.
    linear: share where it grows like the distance, as the mean does.
    outrun: share where the mean moves by ever more predicted deviations.
    undecided: share where rounding leaves it open.
    radius: quantiles of the last breakpoint, at 0, 1/20, ..., 1.
    deviations: median limit of the mean's distance in predicted deviations, if linear.
    """

    count: int
    start: float
    shrinks: float
    bounded: float
    root: float
    linear: float
    outrun: float
    undecided: float
    radius: tuple[Number, ...]
    deviations: Number


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
    """All that is found of one predictor.

    members: number of members.
    head: name of the head.
    fitted_spread: whether it predicts means alone; the spread is then that of its residuals.
    test: quality on the test data.
    targets: quality of each target by name, of several.
    intervals: prediction intervals by how they are made.
    spread: whether the predicted spread is larger where the errors are.
    deviation: predicted deviations on the test data.
    ood: predicted deviations on each OOD set, by name.
    scaling: what becomes of them along scaled test inputs.
    attack: an attack on the predicted means.
    far_field: how the deviation grows along rays to infinity.
    examples: test samples for the pictures.
    """

    members: int
    head: str
    fitted_spread: bool
    test: RegressionQuality
    targets: Mapping[str, TargetQuality]
    intervals: IntervalFindings
    spread: SpreadFindings
    deviation: Spread
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
    """Why there is no guard, or what it guarantees and does.

    predictor: name of the predictor.
    samples: number of calibration samples.
    halved: whether they are test samples.
    skipped: why there is no guard.
    false_alarm: largest share of in-distribution inputs that may be called OOD.
    risk: largest share of answers that may be wrong.
    confidence: probability with which the calibration data must show it.
    miscoverage: largest share of intervals that may miss the target.
    intervals: name of the kind of intervals.
    detector: name of the detector.
    holds: whether the calibration data show the risk.
    own_network: whether a network is one that the file of the guard cannot rebuild.
    guarantees: the guarantees in words.
    test: what the guard does on the test data.
    ood: shares of its decisions on each OOD set, by name.
    file: path of the guard.
    net: `package.module:factory` of the network, or the folder of a run.
    """

    predictor: str
    samples: int
    halved: bool
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
    """All sections of the audit of a regression.

    task: always `"regression"`.
    guard: what the guard guarantees and does; None: it was not asked for.
    predictors: findings by the name of each predictor.
    baseline: quality of the same normal density for every sample.
    baseline_from: which targets gave its mean and variance.
    """

    task: str = "regression"
    guard: RegressionGuardFindings | None = None
    predictors: Mapping[str, RegressorFindings]
    baseline: RegressionQuality
    baseline_from: str

    @property
    def results(self) -> Results:
        """All numbers of the predictors and of the baseline as a table."""
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
