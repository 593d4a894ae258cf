"""Student t densities, as evidential regression predicts them (Amini et al., 2020).

Where the mean and the variance of a normal target have a normal-inverse-gamma distribution with
parameters gamma, nu, alpha and beta, the target has a Student t density with mean gamma, 2 alpha
degrees of freedom and the squared scale beta (1 + nu) / (nu alpha).
"""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from nescio.core.densities import Regression
from nescio.core.errors import NescioError, NotFiniteError

HALF_LOG_PI = 0.5 * math.log(math.pi)
LARGE = 8.0  # from here on the series of `log_gamma_step` has an error below 2e-11
SERIES = (-1 / 8, 1 / 192, -1 / 640, 17 / 14336)  # of 1/a, 1/a^3, 1/a^5, 1/a^7


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StudentT(Regression):
    """Student t densities with `mean`, `scale` and more than 2 degrees of freedom `df`.

    Of each variance the share 1 / (1 + evidence) is epistemic: it is about the mean, of which as
    much is known as from `evidence` observations. Infinite evidence: all of it is noise in the
    data. Each field is `(M, *batch, D)`.

    mean: center of the density.
    scale: scale of the density; the variance is scale^2 df / (df - 2).
    df: degrees of freedom, above 2.
    evidence: number of observations that the mean rests on; it may be infinite.
    """

    mean: Tensor
    scale: Tensor
    df: Tensor
    evidence: Tensor

    @classmethod
    def from_normal_inverse_gamma(
        cls, mean: Tensor, nu: Tensor, alpha: Tensor, beta: Tensor
    ) -> Self:
        """The density of a target whose mean and variance are normal-inverse-gamma.

        mean: expected mean, `(M, *batch, D)`.
        nu: number of observations that the mean rests on.
        alpha, beta: shape and scale of the inverse gamma distribution of the variance; alpha above
          1.
        """
        scale = predictive_scale(nu, alpha, beta)
        return cls(mean=mean, scale=scale, df=2 * alpha, evidence=nu)

    def _check(self) -> None:
        if not (self.df > 2).all():
            raise NescioError("StudentT: df must be above 2, otherwise there is no variance")
        if not ((self.scale >= 0) & (self.evidence > 0)).all():
            raise NescioError("StudentT: scale must not be negative, and evidence positive")
        if not all(t.isfinite().all() for t in (self.mean, self.scale, self.df)):
            raise NotFiniteError("StudentT: mean, scale and df must be finite; check the inputs")

    @property
    def member_variance(self) -> Tensor:
        """Variance of each member, `(M, *batch, D)`."""
        return self.scale.square() * (self.df / (self.df - 2))

    @property
    def aleatoric(self) -> Tensor:
        """Mean over members of the expected noise, beta / (alpha - 1), `(*batch, D)`."""
        return (self.member_variance / (1 + 1 / self.evidence)).mean(0)

    @property
    def epistemic(self) -> Tensor:
        """Variance of the mean: of each member, beta / (nu (alpha - 1)), and between members."""
        return (self.member_variance / (1 + self.evidence)).mean(0) + super().epistemic

    def _member_log_density(self, target: Tensor) -> Tensor:
        return log_student_t(target, self.mean, self.scale, self.df)

    def rescaled(self, shift: Tensor, scale: Tensor) -> Self:
        """The same for the targets `shift + scale * y`."""
        mean, spread = self.mean * scale + shift, self.scale * scale
        return type(self)(mean=mean, scale=spread, df=self.df, evidence=self.evidence)

    def member_cdf(self, target: Tensor) -> Tensor:
        """Probability of at most `target`, by member, `(M, *batch, D)`."""
        from scipy.special import stdtr

        z = ((target - self.mean) / self.scale).detach().cpu()
        found = stdtr(self.df.detach().cpu().double().numpy(), z.double().numpy())
        return torch.as_tensor(found).to(self.mean)

    def member_quantile(self, level: float) -> Tensor:
        """The quantile of each member at `level`, `(M, *batch, D)`."""
        from scipy.special import stdtrit

        z = torch.as_tensor(stdtrit(self.df.detach().cpu().double().numpy(), level))
        return self.mean + self.scale * z.to(self.mean)


def predictive_scale(nu: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """The scale of the target's Student t density under a normal-inverse-gamma distribution."""
    return (beta * (1 + 1 / nu) / alpha).sqrt()


def log_student_t(target: Tensor, mean: Tensor, scale: Tensor, df: Tensor) -> Tensor:
    """Log density of each target, elementwise; accurate for any number of degrees of freedom."""
    half = 0.5 * df
    z = (target - mean) / scale
    norm = log_gamma_step(half) - HALF_LOG_PI - 0.5 * df.log() - scale.log()
    return norm - (half + 0.5) * (z.square() / df).log1p()


def evidential_slope(
    y: Tensor, mean: Tensor, nu: Tensor, alpha: Tensor, beta: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Derivatives of the NLL of the target in mean, nu, alpha and beta (Amini et al., eq. 8)."""
    gap = y - mean
    omega = 2 * beta * (1 + nu)
    whole = omega + nu * gap.square()
    pull = (alpha + 0.5) / whole
    by_alpha = (nu * gap.square() / omega).log1p() - (alpha + 0.5).digamma() + alpha.digamma()
    by_nu = pull * (gap.square() + 2 * beta) - alpha / (1 + nu) - 0.5 / nu
    return -2 * pull * gap * nu, by_nu, by_alpha, 2 * (1 + nu) * (pull - alpha / omega)


def log_gamma_step(a: Tensor) -> Tensor:
    """log Gamma(a + 1/2) - log Gamma(a); for large a by its series, where terms would cancel."""
    large = a.clamp_min(LARGE)
    inverse = large.reciprocal()
    square = inverse.square()
    series = sum(c * inverse * square**k for k, c in enumerate(SERIES))
    small = a.clamp_max(LARGE)
    direct = (small + 0.5).lgamma() - small.lgamma()
    return torch.where(a < LARGE, direct, 0.5 * large.log() + series)


def kl_normal_inverse_gamma(p: tuple[Tensor, ...], q: tuple[Tensor, ...]) -> Tensor:
    """KL divergence of two normal-inverse-gamma distributions (mean, nu, alpha, beta)."""
    (m1, n1, a1, b1), (m2, n2, a2, b2) = ([t.double() for t in side] for side in (p, q))
    ratio, rates = n2 / n1, b2 / b1
    normal = 0.5 * (ratio - 1 - ratio.log() + n2 * (m1 - m2).square() * a1 / b1)
    shapes = (a1 - a2) * torch.digamma(a1) - a1.lgamma() + a2.lgamma()
    gamma = shapes - a2 * rates.log() + a1 * (rates - 1)
    return (normal + gamma).to(p[0].dtype)
