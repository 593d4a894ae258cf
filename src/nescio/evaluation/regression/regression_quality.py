"""How good a regression is on data with targets: errors, densities, coverage, calibration."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio import metrics
from nescio.conformal import binomial_interval
from nescio.core import Gaussian, Inputs, NescioError, Regression
from nescio.evaluation.regression.regression_findings import (
    CoverageCurve,
    Example,
    RegressionQuality,
    TargetQuality,
)
from nescio.metrics import Interval
from nescio.models import Predictor

LEVELS = (0.5, 0.9, 0.95)  # of the intervals whose coverage is told
CENTRAL = 0.9
BAND = 0.975  # of the quantiles and of the intervals each, so that both hold with 95 %
RESAMPLES = 500
EXAMPLES = 400  # samples in a picture, at most
NUMBERS = ("rmse", "mae", "mixture_nll", "moment_matched_nll", "sharpness",
           "quantile_calibration_error")  # fmt: skip


@torch.no_grad()
def predicted(predictor: Predictor, x: Inputs) -> Regression:
    """The prediction in float64, if it is one of numbers."""
    found = predictor(x)
    if not isinstance(found, Regression):
        raise NescioError(
            f"expected a regression, got a {type(found).__name__}; audit networks of one task"
        )
    return found.to("cpu", torch.float64)


def quality(prediction: Regression, y: Tensor, *, seed: int = 0) -> RegressionQuality:
    """All numbers of the held-out data, with intervals from resampled samples."""
    names = [*NUMBERS, *(["crps"] if _has_crps(prediction, y) else [])]
    found = metrics.bootstrap_regression(prediction, y, of=names, resamples=RESAMPLES, seed=seed)
    u = metrics.pit(prediction, y)
    gap = y - prediction.mixture_mean
    return RegressionQuality(
        rmse=found["rmse"],
        mae=found["mae"],
        crps=found.get("crps"),
        nll=found["mixture_nll"],
        moment_matched_nll=found["moment_matched_nll"],
        sharpness=found["sharpness"],
        r2=r_squared(gap, y),
        coverage={f"{level:g}": covered(_inside(u, level), seed) for level in LEVELS},
        standardized_error=(gap.square() / prediction.mixture_variance).mean().sqrt().item(),
        calibration_error=found["quantile_calibration_error"],
        curve=_curve(prediction, y, u),
    )


def _has_crps(prediction: Regression, y: Tensor) -> bool:
    """Whether a closed form is known for this kind of density."""
    try:
        metrics.crps(prediction[:1], y[:1])
    except NescioError:
        return False
    return True


def _inside(u: Any, level: float) -> Any:
    """Whether each target lies in the central interval of a probability, from its transform."""
    return np.abs(2 * u - 1) <= level


def covered(held: Any, seed: int = 0) -> Interval:
    """The share that is held `(N, D)`: exact bounds for one target, resampled ones for several."""
    if held.shape[1] == 1:
        return binomial_interval(int(held.sum()), len(held))
    return metrics.bootstrap_mean(held.mean(1), resamples=RESAMPLES, seed=seed)


def r_squared(gap: Tensor, y: Tensor) -> float | None:
    """One minus the squared error over that of the mean of the targets, averaged over targets."""
    total = (y - y.mean(0)).square().sum(0)
    if not (total > 0).all():
        return None
    return (1 - gap.square().sum(0) / total).mean().item()


def _curve(prediction: Regression, y: Tensor, u: Any) -> CoverageCurve:
    found = metrics.quantile_calibration(prediction, y, confidence=BAND)
    as_wide = bool((np.abs(found.covered - found.levels[:, None]) <= found.band).all())
    return CoverageCurve(
        levels=tuple(found.levels.tolist()),
        held=tuple(found.covered.mean(1).tolist()),
        band=found.band,
        below_median=float((u < 0.5).mean()),
        as_wide=as_wide,
        calibrated=as_wide and found.calibrated,
    )


def by_target(prediction: Regression, y: Tensor) -> dict[str, TargetQuality]:
    """The quality of each target, where there are several; they are numbered."""
    if y.shape[1] == 1:
        return {}
    gap, inside = y - prediction.mixture_mean, _inside(metrics.pit(prediction, y), CENTRAL)
    return {
        str(k): TargetQuality(
            rmse=gap[:, k].square().mean().sqrt().item(),
            mae=gap[:, k].abs().mean().item(),
            r2=r_squared(gap[:, k : k + 1], y[:, k : k + 1]),
            coverage=covered(inside[:, k : k + 1]),
            deviation=y[:, k].std(correction=0).item(),
        )
        for k in range(y.shape[1])
    }


def constant(targets: Tensor, count: int) -> Gaussian:
    """The same normal density for every sample: what is known without any input."""
    mean, variance = targets.mean(0), targets.var(0, correction=0)
    if not (variance > 0).all():
        raise NescioError(
            f"the targets of the {len(targets)} samples that fit the comparison without a network "
            "are all the same; an audit needs targets that differ: give more samples (train=, "
            "validation=)"
        )
    return Gaussian(mean.expand(1, count, -1), variance.expand(1, count, -1))


@dataclass(frozen=True, eq=False)
class Scale:
    """The test targets' mean and standard deviation, `(D,)` each: the unit of comparisons."""

    mean: Tensor
    deviation: Tensor

    def spread(self, variance: Tensor) -> Tensor:
        """Predicted deviations `(N,)` in this unit, of variances `(N, D)`: over all targets."""
        return (variance / self.deviation.square()).mean(-1).sqrt()

    def distance(self, gap: Tensor) -> Tensor:
        """The root mean square over targets `(N,)` of differences `(N, D)`, in this unit."""
        return (gap / self.deviation).square().mean(-1).sqrt()


def scale_of(y: Tensor, where: str = "test data") -> Scale:
    """The scale of targets; one that never varies is refused."""
    deviation = y.std(0, correction=0)
    if not (deviation > 0).all():
        which = [int(k) for k in (deviation == 0).nonzero().flatten()]
        names, value = ", ".join(map(str, which)), y[0, which[0]].item() + 0.0
        raise NescioError(
            f"target{'s' if len(which) > 1 else ''} {names} of the {where} never "
            f"var{'y' if len(which) > 1 else 'ies'} (all {value:g}), so no error can be judged; "
            f"give {where} with varying targets, or leave that target out"
        )
    return Scale(y.mean(0), deviation)


def examples(prediction: Regression, y: Tensor) -> tuple[Example, ...]:
    """The first target of some samples, in rising order of the predicted mean."""
    rows = torch.linspace(0, len(y) - 1, min(len(y), EXAMPLES)).long()
    some = prediction[rows]
    tail = (1 - CENTRAL) / 2
    low, high = some.quantile(tail)[:, 0], some.quantile(1 - tail)[:, 0]
    mean, spread = some.mixture_mean[:, 0], some.mixture_variance[:, 0].sqrt()
    columns = zip(*(part.tolist() for part in (y[rows, 0], mean, low, high, spread)), strict=True)
    found = [
        Example(truth=truth, mean=center, low=below, high=above, deviation=deviation)
        for truth, center, below, above, deviation in columns
    ]
    return tuple(sorted(found, key=lambda one: one.mean))
