"""One width for all cases (Papadopoulos et al., 2002; Lei et al., 2018)."""

from typing import Any

import torch
from torch import Tensor

from nescio.checks import Array, as_tensor
from nescio.conformal.intervals import Intervals, bands, calibrate
from nescio.errors import NescioError
from nescio.prediction import Gaussian, Regression
from nescio.registry import conformals


@conformals.register
def residual(
    prediction: Regression | Array,
    targets: Any,
    *,
    miscoverage: float = 0.1,
    by: Any = None,
    randomise: bool = False,
    seed: int = 0,
) -> Intervals:
    """The mean and a width that is the same for all cases, from absolute residuals.

    prediction, targets: of held-out cases; a regression, or means `(N,)`, `(N, D)` or `(M, N, D)`.
    miscoverage: the share of new cases whose target may be missed.
    by: None for all cases together, or group numbers `(N,)`.
    randomise: break ties at random, so that the share is met exactly.
    """
    return calibrate(
        "residual",
        prediction,
        targets,
        miscoverage=miscoverage,
        by=by,
        randomise=randomise,
        seed=seed,
    )


@bands.named("residual")
def band(prediction: Regression | Array) -> tuple[Tensor, Tensor, Tensor]:
    """The mean twice, in the unit of the target."""
    mean = as_regression(prediction).mixture_mean
    return mean, mean, torch.ones_like(mean)


def as_regression(value: Regression | Array) -> Regression:
    """A regression of N cases in float64; means alone get no spread."""
    if not isinstance(value, Regression):
        mean = as_tensor(value, "means")
        mean = mean[:, None] if mean.ndim == 1 else mean
        mean = mean[None] if mean.ndim == 2 else mean
        value = Gaussian(mean, torch.zeros_like(mean))
    if len(value.batch_shape) != 1:
        raise NescioError(
            f"prediction intervals need cases (N,), got a batch of {tuple(value.batch_shape)}; "
            "values at several places of one case are not exchangeable: choose one a case"
        )
    return value.to(torch.float64)
