"""Whether the predicted spread finds the errors, and intervals that hold what they say."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nescio import conformal, metrics
from nescio.core import NescioError, Regression
from nescio.evaluation.regression.regression_findings import (
    OWN_INTERVALS,
    ErrorCurve,
    IntervalFindings,
    IntervalQuality,
    SpreadFindings,
)
from nescio.evaluation.regression.regression_quality import CENTRAL, RESAMPLES, Scale, covered

METHODS = ("normalized", "residual", "quantile")
LARGE = 0.9  # errors above this quantile are the large ones
FEWEST = 30  # samples: with fewer, the order is chance
SAME = 1e-9  # relative: spreads that differ by less are one
POINTS = 200  # of a curve at most
SORTED, FEW = 5_000_000, 100  # samples that are sorted in all resamples; resamples at least
Array = NDArray[Any]
Ends = Callable[[Regression], tuple[Tensor, Tensor]]


def spread_findings(
    prediction: Regression, y: Tensor, scale: Scale, *, seed: int = 0
) -> SpreadFindings:
    """How the predicted deviations rank the errors, both over all targets."""
    spread = scale.spread(prediction.mixture_variance).numpy()
    error = scale.distance(y - prediction.mixture_mean).numpy()
    skipped = None
    if np.ptp(spread) <= SAME * spread.max():
        skipped = "its spread is the same for every sample, so it does not tell large errors"
    elif len(error) < FEWEST:
        skipped = f"{len(error)} samples are too few to say (it takes {FEWEST})"
    elif np.ptp(error) == 0:
        skipped = "all errors are equal"
    if skipped is not None:
        return SpreadFindings(samples=len(error), skipped=skipped)
    large = error > np.quantile(error, LARGE)
    resamples = max(FEW, min(RESAMPLES, SORTED // len(error)))
    options: Any = {"resamples": resamples, "seed": seed}
    found = metrics.bootstrap_ranking(spread[~large], spread[large], of=("auroc",), **options)
    curve, best = error_curve(spread, error), error_curve(error, error)
    possible = error.mean() - best.mean()
    return SpreadFindings(
        samples=len(error),
        rank_correlation=metrics.bootstrap_metric(
            rank_correlation, spread, error, unbiased=True, **options
        ),
        auroc=found["auroc"],
        gain=float((error.mean() - curve.mean()) / possible),
        curve=_some(curve),
    )


def rank_correlation(first: Any, second: Any) -> float:
    """Spearman's rank correlation; equal numbers share their mean rank."""
    ranks = [_ranks(np.asarray(one)) for one in (first, second)]
    a, b = (one - one.mean() for one in ranks)
    length = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / length if length else 0.0


def _ranks(values: Array) -> Array:
    _, kind, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((count.cumsum() - (count - 1) / 2)[kind])


def error_curve(score: Array, error: Array) -> Array:
    """The mean error of the k samples with the smallest scores, for k = 1 to N.

    Where scores are equal their order is random, and the mean is the expected one.
    """
    _, kind, count = np.unique(score, return_inverse=True, return_counts=True)
    expected = np.bincount(kind, weights=error) / count
    ordered = expected[np.sort(kind)]
    return np.asarray(ordered.cumsum() / np.arange(1, len(error) + 1))


def _some(curve: Array) -> ErrorCurve:
    count = len(curve)
    shown = np.unique(np.linspace(0, count - 1, min(count, POINTS)).astype(int))
    return ErrorCurve(
        coverage=tuple(((shown + 1) / count).tolist()), error=tuple(curve[shown].tolist())
    )


def interval_findings(
    fitting: tuple[Regression, Tensor], measured: tuple[Regression, Tensor], *, seed: int = 0
) -> IntervalFindings:
    """Intervals of 90 %: the predictor's own, and calibrated on the samples that fit."""
    made: dict[str, Ends] = {OWN_INTERVALS: _own}
    skipped = {}
    for name in METHODS:
        try:
            made[name] = getattr(conformal, name)(*fitting, miscoverage=1 - CENTRAL)
        except NescioError as error:
            skipped[name] = str(error)
    prediction, y = measured
    methods = {}
    for name, ends in made.items():
        low, high = ends(prediction)
        methods[name] = _measured(low.cpu(), high.cpu(), y, seed)
    return IntervalFindings(wanted=CENTRAL, samples=len(y), methods=methods, skipped=skipped)


def _own(prediction: Regression) -> tuple[Tensor, Tensor]:
    tail = (1 - CENTRAL) / 2
    return prediction.quantile(tail), prediction.quantile(1 - tail)


def _measured(low: Tensor, high: Tensor, y: Tensor, seed: int) -> IntervalQuality:
    held = ((low <= y) & (y <= high)).numpy()
    width = (high - low).mean().item()
    finite = bool(np.isfinite(width))
    return IntervalQuality(
        coverage=covered(held, seed),
        width=width if finite else None,
        score=metrics.interval_score(low, high, y, miscoverage=1 - CENTRAL) if finite else None,
    )
