"""What is compared with a limit in the audit of a regression, with the default limits."""

from nescio.evaluation.audit.audit_limits import Measured, limit
from nescio.evaluation.audit.default_limits import RANDOM, measured, share_of
from nescio.evaluation.regression.regression_findings import RegressionFindings, RegressorFindings

NUMBERS = ("regression",)


def _first(found: RegressionFindings) -> RegressorFindings:
    return next(iter(found.predictors.values()))


@limit(
    "interval_coverage",
    section="intervals",
    title="values in the predicted 90 % intervals",
    better="higher",
    attention=0.85,
    fail=0.8,
    unit="share",
    tasks=NUMBERS,
    rank=20,
    meaning="The share of the test values that lie in the network's own 90 % intervals; fewer than "
    "90 % is overconfidence.",
    advice="Use the conformal intervals of the guard, which hold what they say.",
)
def interval_coverage(found: RegressionFindings) -> Measured | None:
    """The coverage of the predicted 90 % intervals."""
    return measured(_first(found).test.coverage.get("0.9"), found.samples)


@limit(
    "rmse",
    section="accuracy",
    title="root mean squared error",
    better="lower",
    tasks=NUMBERS,
    rank=40,
    meaning="The root of the mean squared error, in the unit of the targets.",
    advice="Look at the groups and at the largest errors.",
)
def rmse(found: RegressionFindings) -> Measured | None:
    """The root mean squared error on the test data."""
    return measured(_first(found).test.rmse, found.samples)


@limit(
    "rmse_over_baseline",
    section="accuracy",
    title="error relative to no network",
    better="lower",
    attention=0.95,
    fail=1.0,
    tasks=NUMBERS,
    rank=12,
    meaning="The root mean squared error, divided by that of predicting the mean of the targets.",
    advice="Check that targets and inputs are in the same order and scaled as in training, and "
    "that the weights are loaded.",
)
def rmse_over_baseline(found: RegressionFindings) -> Measured | None:
    """The RMSE divided by that of the mean of the targets."""
    part, base = _first(found).test.rmse, found.baseline.rmse.value
    if not base:
        return None
    low, value, high = (one / base for one in (part.low, part.value, part.high))
    return Measured(value=value, low=low, high=high, samples=found.samples)


@limit(
    "nll_over_baseline",
    section="accuracy",
    title="NLL above that of no network",
    better="lower",
    attention=0.0,
    tasks=NUMBERS,
    rank=24,
    meaning="The negative log-likelihood less that of one normal density for all samples: above 0, "
    "the predicted densities are worse than none.",
    advice="Recalibrate the variance, or use the conformal intervals of the guard.",
)
def nll_over_baseline(found: RegressionFindings) -> Measured | None:
    """The NLL less that of the same normal density for every sample."""
    return measured(_first(found).test.nll, found.samples, less=found.baseline.nll.value)


@limit(
    "spread_correlation",
    section="spread",
    title="spread larger where errors are",
    better="higher",
    tasks=NUMBERS,
    rank=32,
    meaning="The rank correlation of the predicted deviation and the error; 0 where the deviation "
    "tells nothing about the error, also if all targets have equal noise.",
    advice="Train with a head that predicts the variance, or an ensemble.",
)
def spread_correlation(found: RegressionFindings) -> Measured | None:
    """The rank correlation of predicted deviation and error."""
    part = _first(found).spread
    return measured(part.rank_correlation, part.samples)


@limit(
    "outrun_far_away",
    section="far field",
    title="intervals too narrow infinitely far away",
    better="lower",
    attention=0.2,
    unit="share",
    tasks=NUMBERS,
    rank=70,
    meaning="The share of random directions in which, infinitely far away, the mean leaves every "
    "predicted interval behind; computed exactly.",
    advice="Use the guard, which can abstain there, or an ensemble, whose deviation grows as its "
    "mean does.",
)
def outrun_far_away(found: RegressionFindings) -> Measured | None:
    """The share of random directions in which the mean outruns the predicted deviation."""
    far = _first(found).far_field
    part = None if far is None or far.rays is None else far.rays.get(RANDOM)
    return None if part is None or not part.count else share_of(part.outrun, part.count)
