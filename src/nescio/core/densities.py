"""What a model says about real targets: mixtures of normal or Laplace densities."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from statistics import NormalDist
from typing import Self

import torch
from torch import Tensor

from nescio.core.errors import NescioError, NotFiniteError
from nescio.core.prediction import Prediction

LOG_TWO_PI = math.log(2 * math.pi)
CHUNK = 1 << 18  # numbers of a chunk in float64
HALVINGS = 128  # at most: for members whose scales differ by 20 powers of ten


class Regression(Prediction, ABC):
    """A prediction of D real targets; moments of the mixture by the law of total variance."""

    mean: Tensor

    @property
    @abstractmethod
    def member_variance(self) -> Tensor:
        """Variance of each member, `(M, *batch, D)`."""

    @abstractmethod
    def _member_log_density(self, target: Tensor) -> Tensor:
        """Log density of each target under each member, `(M, *batch, D)`."""

    @abstractmethod
    def rescaled(self, shift: Tensor, scale: Tensor) -> Self:
        """The prediction of `shift + scale * target`; both broadcast with `mean`, scale > 0."""

    @property
    def mixture_mean(self) -> Tensor:
        """Mean of the mixture, `(*batch, D)`."""
        return self.mean.mean(0)

    @property
    def aleatoric(self) -> Tensor:
        """Mean of the member variances: noise in the data, `(*batch, D)`."""
        return self.member_variance.mean(0)

    @property
    def epistemic(self) -> Tensor:
        """Variance of the member means: disagreement, `(*batch, D)`; no cancellation."""
        gap = self.mean - self.mean[:1]  # exact for close means, so rounding of their size is gone
        return (gap - gap.mean(0)).square().mean(0)

    @property
    def mixture_variance(self) -> Tensor:
        """Variance of the mixture, `aleatoric + epistemic`, `(*batch, D)`."""
        return self.aleatoric + self.epistemic

    def log_prob(self, target: Tensor) -> Tensor:
        """Log density of `target` `(*batch, D)` under the mixture of independent targets."""
        density = self._member_log_density(self._checked(target)).sum(-1)
        return density.logsumexp(0) - math.log(self.members)

    def member_cdf(self, target: Tensor) -> Tensor:  # noqa: ARG002 (of those that have one)
        """Probability of a value up to `target` for each member, `(M, *batch, D)`."""
        raise NescioError(f"no distribution function is known of a {type(self).__name__}")

    def member_quantile(self, level: float) -> Tensor:  # noqa: ARG002
        """Quantile of each member at `level`, `(M, *batch, D)`."""
        raise NescioError(f"no quantiles are known of a {type(self).__name__}")

    def cdf(self, target: Tensor) -> Tensor:
        """Probability of a value up to `target` `(*batch, D)` under the mixture, so shaped."""
        return self.member_cdf(self._checked(target)).mean(0)

    def quantile(self, level: float) -> Tensor:
        """Quantile of the mixture at `level`, `(*batch, D)`, in float64 and to its precision."""
        if not 0 < level < 1:
            raise NescioError(f"the level of a quantile lies between 0 and 1, got {level}")
        self._check_density()
        wide = self.to(torch.float64)
        size = max(1, CHUNK // max(1, wide.mean[:, :1].numel()))
        starts = range(0, max(1, len(wide)), size)
        return torch.cat([_by_halving(wide[start : start + size], level) for start in starts])

    def _checked(self, target: Tensor) -> Tensor:
        expected = self.mean.shape[1:]
        if target.shape != expected:
            raise NescioError(
                f"targets have shape {tuple(target.shape)}, expected {tuple(expected)}"
            )
        self._check_density()
        return target

    def _check_density(self) -> None:
        if not (self.member_variance > 0).all():
            raise NescioError("a member with variance 0 has no density; give the head a floor")


def _by_halving(prediction: Regression, level: float) -> Tensor:
    """The quantile lies between the smallest and the largest of the members' quantiles."""
    ends = prediction.member_quantile(level)
    low, high = ends.amin(0), ends.amax(0)
    for _ in range(HALVINGS if len(ends) > 1 else 0):
        middle = low + 0.5 * (high - low)
        if ((middle <= low) | (middle >= high)).all():  # there is no number between them
            break
        below = prediction.member_cdf(middle).mean(0) < level
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return low + 0.5 * (high - low)


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(Regression):
    """Normal densities with `mean` and `variance`, each `(M, *batch, D)`."""

    mean: Tensor
    variance: Tensor

    def _check(self) -> None:
        _check_spread(self.mean, self.variance, "Gaussian: variance")

    @property
    def member_variance(self) -> Tensor:
        """Variance of each member, `(M, *batch, D)`."""
        return self.variance

    def rescaled(self, shift: Tensor, scale: Tensor) -> Self:
        """The density of `scale` times the target plus `shift`."""
        return type(self)(self.mean * scale + shift, self.variance * scale.square())

    def _member_log_density(self, target: Tensor) -> Tensor:
        scaled = (target - self.mean).square() / self.variance
        return -0.5 * (LOG_TWO_PI + self.variance.log() + scaled)

    def member_cdf(self, target: Tensor) -> Tensor:
        """Probability below `target` under each member, `(M, *batch, D)`."""
        below: Tensor = torch.special.ndtr((target - self.mean) / self.variance.sqrt())
        return below

    def member_quantile(self, level: float) -> Tensor:
        """Quantile of each member at `level`, `(M, *batch, D)`."""
        return self.mean + self.variance.sqrt() * NormalDist().inv_cdf(level)


@dataclass(frozen=True, eq=False, repr=False)
class DoubleExponential(Regression):
    """Laplace densities with `mean` and `scale` b (variance 2 b^2), each `(M, *batch, D)`."""

    mean: Tensor
    scale: Tensor

    def _check(self) -> None:
        _check_spread(self.mean, self.scale, "DoubleExponential: scale")

    @property
    def member_variance(self) -> Tensor:
        """Variance of each member, `(M, *batch, D)`."""
        return 2 * self.scale.square()

    def rescaled(self, shift: Tensor, scale: Tensor) -> Self:
        """The density of `scale` times the target plus `shift`."""
        return type(self)(self.mean * scale + shift, self.scale * scale)

    def _member_log_density(self, target: Tensor) -> Tensor:
        return -((2 * self.scale).log() + (target - self.mean).abs() / self.scale)

    def member_cdf(self, target: Tensor) -> Tensor:
        """Probability below `target` under each member, `(M, *batch, D)`."""
        z = (target - self.mean) / self.scale
        return 0.5 - 0.5 * (-z.abs()).expm1() * z.sign()

    def member_quantile(self, level: float) -> Tensor:
        """Quantile of each member at `level`, `(M, *batch, D)`."""
        away = -math.log(2 * min(level, 1 - level))
        return self.mean + self.scale * math.copysign(away, level - 0.5)


def _check_spread(mean: Tensor, spread: Tensor, name: str) -> None:
    if (spread < 0).any():
        raise NescioError(f"{name} must not be negative; use a head with softplus and a floor")
    if mean.isinf().any() or spread.isinf().any():
        raise NotFiniteError(f"{name} and mean must be finite; check the network's inputs")
