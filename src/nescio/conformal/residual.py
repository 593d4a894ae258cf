"""One width for all samples (Papadopoulos et al., 2002; Lei et al., 2018)."""

from typing import Any

import torch
from torch import Tensor

from nescio.conformal.prediction_intervals import Intervals, bands, calibrate
from nescio.core import Array, Gaussian, NescioError, Regression, as_tensor
from nescio.core.registry import conformal_methods


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

    prediction, targets: of held-out samples; a regression, or means `(N,)`, `(N, D)` or `(M, N,
    D)`. miscoverage: the share of new samples whose target may be missed.
    by: None for all samples together, or group numbers `(N,)`.
    randomize: break ties at random, so that the share is met exactly.
    """
    return calibrate(
        "residual",
        prediction,
        targets,
        miscoverage=miscoverage,
        by=by,
        randomize=randomize,
        seed=seed,
    )


@bands.named("residual")
def band(prediction: Regression | Array) -> tuple[Tensor, Tensor, Tensor]:
    """The mean twice, in the unit of the target."""
    mean = as_regression(prediction).mixture_mean
    return mean, mean, torch.ones_like(mean)


def as_regression(value: Regression | Array) -> Regression:
    """A regression of N samples in float64; means alone get no spread."""
    if not isinstance(value, Regression):
        mean = as_tensor(value, "means")
        mean = mean[:, None] if mean.ndim == 1 else mean
        mean = mean[None] if mean.ndim == 2 else mean
        value = Gaussian(mean, torch.zeros_like(mean))
    if len(value.batch_shape) != 1:
        raise NescioError(
            f"prediction intervals need samples (N,), got a batch of {tuple(value.batch_shape)}; "
            "values at several places of one sample are not exchangeable: choose one per sample"
        )
    return value.to(torch.float64)
