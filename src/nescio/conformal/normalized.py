"""Widths in units of the predicted spread (Papadopoulos et al., 2008; Lei et al., 2018)."""

from typing import Any

from torch import Tensor

from nescio.conformal.prediction_intervals import Intervals, bands, calibrate
from nescio.conformal.residual import as_regression
from nescio.core import NescioError, Regression
from nescio.core.registry import conformal_methods


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

    The deviation is the mixture's, disagreement included. The options are those of `residual`.
    """
    return calibrate(
        "normalized",
        prediction,
        targets,
        miscoverage=miscoverage,
        by=by,
        randomize=randomize,
        seed=seed,
    )


@bands.named("normalized")
def band(prediction: Regression) -> tuple[Tensor, Tensor, Tensor]:
    """The mean twice, in units of the predicted standard deviation."""
    if not isinstance(prediction, Regression):
        raise NescioError(
            f"normalized intervals need a prediction with a spread, got a "
            f"{type(prediction).__name__}; use `residual`, or nescio.Gaussian(mean, variance)"
        )
    wide = as_regression(prediction)
    mean, spread = wide.mixture_mean, wide.mixture_variance.sqrt()
    if not (spread > 0).all():
        raise NescioError(
            f"{int((spread == 0).sum())} predicted spreads are 0, which nothing can be measured "
            "in; give the head a floor, or use `residual`"
        )
    return mean, mean, spread
