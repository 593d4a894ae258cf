"""Prediction intervals by split conformal prediction: one width, predicted spreads, quantiles."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.conformal import score_limits
from nescio.conformal.score_limits import CALLS, Fitted, in_words
from nescio.core import (
    Array,
    Gaussian,
    NescioError,
    Registry,
    Regression,
    as_targets,
    as_tensor,
)
from nescio.core.registry import conformal_methods

MARGIN = 8 * torch.finfo(torch.float64).eps  # by which ends are rounded to the safe side

bands = Registry("kind of prediction interval")  # what is widened, and in which unit: (N, D) each

Band = tuple[Tensor, Tensor, Tensor]  # low, high and the unit of the width, (N, D) each


@dataclass(frozen=True, eq=False)
class Intervals(Fitted):
    """Prediction intervals that can be called; calibrated by a function of `nescio.conformal`.

    With D targets each has its own width, and the guarantee is for each target by itself; for all
    together, ask for `miscoverage / D`.

    name: name of the function that calibrated them.
    options: their options, as JSON values.
    state: limits of each cell, in float64, by name.
    """

    kind = "prediction intervals"
    known = bands

    @torch.no_grad()
    def __call__(
        self, prediction: Any, groups: Any = None, *, inputs: Array | None = None
    ) -> tuple[Tensor, Tensor]:
        """Lowest and highest values, `(N, D)` each, infinite where nothing can be said.

        prediction: predictions on new data, of the form that the intervals were calibrated with.
        groups: group numbers `(N,)`, for intervals that hold for each group.
        inputs: inputs of the network, `(N, ...)`. In randomized intervals each sample draws its
          number by them, alone or in any batch; None: by its prediction, so that equal predictions
          draw alike.
        """
        low, high, scale = bands[self.name](prediction, **self.options["score"])
        if low.shape[1] != self.options["targets"]:
            raise NescioError(
                f"these intervals were calibrated for {self.options['targets']} target(s), the "
                f"prediction has {low.shape[1]}; use the same network"
            )
        targets, cells = low.shape[1], self.group_cells(groups, "intervals", len(low), low.device)
        cells = cells * targets + torch.arange(targets, device=low.device)
        u = None
        if self.options["randomize"]:
            keys = score_limits.keys(
                torch.cat([low, high], 1) if inputs is None else inputs, len(low)
            )
            u = score_limits.uniforms(self.options["seed"], CALLS, keys).to(low.device)[:, None]
        most, closed = score_limits.limits(self.state, cells, u)
        width = most * scale
        slack = MARGIN * (torch.maximum(low.abs(), high.abs()) + width.abs())
        width = torch.where(closed, width + slack, width - slack)
        middle = 0.5 * (low + high)  # where the ends would cross, this point stays
        low, high = low - width, high + width
        crossed = low > high
        return torch.where(crossed, middle, low), torch.where(crossed, middle, high)

    @property
    def guarantee(self) -> str:
        """The guarantee in words, with its assumption."""
        what = "target" if self.options["targets"] == 1 else "value of a target (each by itself)"
        exact = self.options["randomize"] and self.name != "quantile"  # there a point may stay
        return in_words(what, "interval", self, exact=exact)


@torch.no_grad()
def calibrate(
    name: str,
    prediction: Any,
    targets: Any,
    miscoverage: float,
    by: Any,
    randomize: bool,
    seed: int,
    **band_options: Any,
) -> Intervals:
    """Intervals of a named band, from calibration samples with their targets."""
    score_limits.check_miscoverage(miscoverage)
    low, high, scale = (part.cpu() for part in bands[name](prediction, **band_options))
    y = as_targets(targets, len(low), task="regression", dtype=torch.float64).cpu()
    if y.shape != low.shape:
        raise NescioError(
            f"targets have shape {tuple(y.shape)}, the prediction {tuple(low.shape)}; "
            "they must agree"
        )
    if isinstance(by, str):
        raise NescioError(f"by must be None or group numbers (N,) for intervals, got {by!r}")
    options: dict[str, Any] = {
        "targets": y.shape[1],
        "samples": len(y),
        "miscoverage": float(miscoverage),
        "by": None if by is None else "group",
        "randomize": bool(randomize),
        "seed": score_limits.seed_of(seed, y, low, high) if randomize else seed,
        "score": band_options,
    }
    cells, known = score_limits.calibration_cells(by, len(y))
    cells = cells[:, None] * y.shape[1] + torch.arange(y.shape[1])
    score = torch.maximum(low - y, y - high) / scale
    state = score_limits.calibrated(score.flatten(), cells.flatten(), known, options)
    return Intervals(name, options, state)


@conformal_methods.register
def residual(
    prediction: Regression | Array,
    targets: Any,
    *,
    miscoverage: float = 0.1,
    by: Any = None,
    randomize: bool = False,
    seed: int = 0,
) -> Intervals:
    """The mean and a width that is the same for all samples, from absolute residuals.

    Papadopoulos et al. (2002), Lei et al. (2018).

        low, high = residual(means, targets)(new_means)  # (N, D) each

    prediction: predictions on calibration data: a regression, or means `(N,)`, `(N, D)` or `(M, N,
      D)`.
    targets: true targets of the calibration data, `(N,)` or `(N, D)`.
    miscoverage: share of new samples whose target may be missed, for each target by itself.
    by: None for all samples together, or group numbers `(N,)` for each group.
    randomize: whether to break ties at random, so that the share is met exactly.
    seed: seed of the random draws; read with `randomize` only.
    """
    return calibrate("residual", prediction, targets, miscoverage, by, randomize, seed)


@bands.named("residual")
def _residual(prediction: Regression | Array) -> Band:
    mean = _as_regression(prediction).mixture_mean
    return mean, mean, torch.ones_like(mean)


def _as_regression(value: Regression | Array) -> Regression:
    """A regression of N samples in float64; means alone get no spread."""
    if not isinstance(value, Regression):
        mean = as_tensor(value, "means")
        mean = mean[:, None] if mean.ndim == 1 else mean
        mean = mean[None] if mean.ndim == 2 else mean
        value = Gaussian(mean, torch.zeros_like(mean))
    if len(value.batch_shape) != 1:
        raise NescioError(
            f"prediction intervals need samples (N,), got a batch of {tuple(value.batch_shape)}; "
            "several values of one sample are not exchangeable: choose one per sample"
        )
    return value.to(torch.float64)


@conformal_methods.register
def normalized(
    prediction: Regression,
    targets: Any,
    *,
    miscoverage: float = 0.1,
    by: Any = None,
    randomize: bool = False,
    seed: int = 0,
) -> Intervals:
    """The mean and a multiple of the predicted standard deviation: wider where the model says so.

    Papadopoulos et al. (2008), Lei et al. (2018). The deviation is the mixture's, disagreement
    included.

        low, high = normalized(prediction, targets)(new_prediction)  # (N, D) each

    prediction: a regression on calibration data.
    targets: true targets of the calibration data, `(N,)` or `(N, D)`.
    miscoverage: share of new samples whose target may be missed, for each target by itself.
    by: None for all samples together, or group numbers `(N,)` for each group.
    randomize: whether to break ties at random, so that the share is met exactly.
    seed: seed of the random draws; read with `randomize` only.
    """
    return calibrate("normalized", prediction, targets, miscoverage, by, randomize, seed)


@bands.named("normalized")
def _normalized(prediction: Regression) -> Band:
    if not isinstance(prediction, Regression):
        raise NescioError(
            f"normalized intervals need a prediction with a spread, got a "
            f"{type(prediction).__name__}; use `residual`, or nescio.Gaussian(mean, variance)"
        )
    wide = _as_regression(prediction)
    mean, spread = wide.mixture_mean, wide.mixture_variance.sqrt()
    if not (spread > 0).all():
        raise NescioError(
            f"{int((spread == 0).sum())} predicted spreads are 0, which nothing can be measured "
            "in; give the head a floor, or use `residual`"
        )
    return mean, mean, spread


@conformal_methods.register
def quantile(
    prediction: Regression | tuple[Array, Array],
    targets: Any,
    *,
    miscoverage: float = 0.1,
    by: Any = None,
    randomize: bool = False,
    seed: int = 0,
) -> Intervals:
    """Predicted quantiles, both moved out or in by one amount (CQR).

    Romano, Patterson and Candès (2019).

        low, high = quantile((lower, upper), targets)((new_lower, new_upper))  # (N, D) each

    prediction: predictions on calibration data: a regression, whose mixture's quantiles at
      `miscoverage / 2` from both ends are taken, or a pair of lower and upper values `(N,)` or `(N,
      D)`, as a quantile network gives.
    targets: true targets of the calibration data, `(N,)` or `(N, D)`.
    miscoverage: share of new samples whose target may be missed, for each target by itself.
    by: None for all samples together, or group numbers `(N,)` for each group.
    randomize: whether to break ties at random, so that the share is met exactly.
    seed: seed of the random draws; read with `randomize` only.
    """
    tail = score_limits.check_miscoverage(miscoverage) / 2
    options = miscoverage, by, randomize, seed
    return calibrate("quantile", prediction, targets, *options, tail=tail)


@bands.named("quantile")
def _quantile(prediction: Regression | tuple[Array, Array], *, tail: float) -> Band:
    if isinstance(prediction, Regression):
        wide = _as_regression(prediction)
        ends = wide.quantile(tail), wide.quantile(1 - tail)
    elif isinstance(prediction, (tuple, list)) and len(prediction) == 2:
        ends = _columns(prediction[0]), _columns(prediction[1])
    else:
        raise NescioError("quantile intervals need a regression, or a pair (lower, upper)")
    if ends[0].shape != ends[1].shape or not all(end.isfinite().all() for end in ends):
        raise NescioError(
            f"lower and upper quantiles must be finite and of one shape, got "
            f"{tuple(ends[0].shape)} and {tuple(ends[1].shape)}"
        )
    return *ends, torch.ones_like(ends[0])


def _columns(given: Array) -> Tensor:
    values = as_tensor(given, "quantiles").to(torch.float64)
    if values.ndim not in (1, 2):
        raise NescioError(f"quantiles must have shape (N,) or (N, D), got {tuple(values.shape)}")
    return values[:, None] if values.ndim == 1 else values


@conformal_methods.register
def spread(
    prediction: Regression,
    targets: Any,
    *,
    miscoverage: float = 0.1,
    by: Any = None,
    randomize: bool = False,
    seed: int = 0,
    noise: float = 0.0,
) -> Intervals:
    """The mean and a multiple of how far the members disagree: for ensembles that predict means.

    The unit of the width is sqrt(variance of the members' means + noise^2); what the members say
    about variances is not read.

        low, high = spread(prediction, targets, noise=0.5)(new_prediction)  # (N, D) each

    prediction: a regression of two members or more on calibration data.
    targets: true targets of the calibration data, `(N,)` or `(N, D)`.
    miscoverage: share of new samples whose target may be missed, for each target by itself.
    by: None for all samples together, or group numbers `(N,)` for each group.
    randomize: whether to break ties at random, so that the share is met exactly.
    seed: seed of the random draws; read with `randomize` only.
    noise: standard deviation of the noise in the data, in the unit of the targets; estimate it
      without the calibration samples, as the RMSE on others for example.
    """
    if not 0 <= noise < float("inf"):
        raise NescioError(f"noise must be a standard deviation, 0 or more, got {noise}")
    options = miscoverage, by, randomize, seed
    return calibrate("spread", prediction, targets, *options, noise=float(noise))


@bands.named("spread")
def _spread(prediction: Regression, *, noise: float) -> Band:
    if not isinstance(prediction, Regression) or prediction.members < 2:
        raise NescioError(
            "intervals by the spread of an ensemble need a regression with two members or more; "
            "use `normalized` or `residual`"
        )
    wide = _as_regression(prediction)
    unit = (wide.epistemic + noise**2).sqrt()
    if not (unit > 0).all():
        raise NescioError(
            f"the members agree exactly on {int((unit == 0).sum())} targets, a spread of 0, which "
            "nothing can be measured in; give noise="
        )
    return wide.mixture_mean, wide.mixture_mean, unit
