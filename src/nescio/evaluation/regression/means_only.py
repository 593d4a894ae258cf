"""A network that predicts means alone, with the spread of its residuals on other samples."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.core import Gaussian, NescioError, Prediction, Regression, answer, asked
from nescio.models import Member, Predictor, networks

LEAST = 1e-12  # of the variance of the targets: residuals of 0 have no density


@dataclass(frozen=True, eq=False)
class MeansOnly:
    """The means of a predictor, and one variance for each target."""

    inner: Predictor
    variance: Tensor  # (D,)

    def networks(self) -> list[Member]:
        """Those of the predictor."""
        return networks(self.inner)

    def __call__(self, x: Any) -> Prediction:
        return self._with_spread(self.inner(x))

    def answer(self, x: Tensor) -> Prediction:
        """The prediction with gradients with respect to the inputs."""
        return self._with_spread(answer(self.inner, x))

    def _with_spread(self, prediction: Prediction) -> Prediction:
        assert isinstance(prediction, Regression)
        mean = prediction.mean
        return Gaussian(mean, self.variance.to(mean).expand_as(mean))


@torch.no_grad()
def with_residual_spread(predictor: Predictor, fitting: tuple[Any, Tensor]) -> MeansOnly:
    """The predictor with the mean squared residual of the fitting samples as its variance."""
    x, y = fitting
    found = predictor(x)
    assert isinstance(found, Regression)
    if found.mean.shape[-1] != y.shape[1]:
        raise NescioError(
            f"it is not known how to read the network: it has {found.mean.shape[-1]} output(s) for "
            f"{y.shape[1]} target(s); {asked()}"
        )
    mean = found.mixture_mean.double().cpu()
    variance = (y - mean).square().mean(0)
    return MeansOnly(predictor, variance.clamp_min(LEAST * y.var(0, correction=0)))
