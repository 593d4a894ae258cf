"""The Dirichlet value: a distribution over class probabilities, given by log concentrations."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from nescio.core.concentrations import divergence, log_rest, log_shares, log_total
from nescio.core.errors import NescioError
from nescio.core.prediction import Classification


@dataclass(frozen=True, eq=False, repr=False)
class Dirichlet(Classification):
    """A distribution over class probabilities with log concentrations `(M, *batch, C)`.

    Logarithms, because networks give concentrations that no floating point number holds.

    >>> p = Dirichlet.from_alpha(torch.tensor([[[6.0, 2.0]]]))
    >>> p.probs, p.precision
    (tensor([[0.7500, 0.2500]]), tensor([8.]))

    log_alpha: logarithms of the concentrations of each member, `(M, *batch, C)`.
    """

    log_alpha: Tensor

    def _check(self) -> None:
        if not self.log_alpha.isfinite().all():
            raise NescioError(
                "Dirichlet: log concentrations must be finite; for concentrations, which are "
                "positive, use Dirichlet.from_alpha(alpha)"
            )

    @classmethod
    def from_alpha(cls, alpha: Tensor) -> Self:
        """The same from concentrations `alpha` `(M, *batch, C)`, positive with a finite sum."""
        if not isinstance(alpha, Tensor) or not alpha.is_floating_point():
            raise NescioError("from_alpha: concentrations must be a floating point tensor")
        if alpha.dtype in (torch.float16, torch.bfloat16):
            alpha = alpha.float()
        if not (alpha > 0).all() or (alpha.ndim and not alpha.sum(-1).isfinite().all()):
            raise NescioError(
                "from_alpha: concentrations must be positive, and they and their sum finite; "
                "larger ones are given by their logarithms: Dirichlet(log_alpha)"
            )
        return cls(alpha.log())

    @property
    def alpha(self) -> Tensor:
        """Concentrations of each member, `(M, *batch, C)`; an error where they overflow."""
        return self._held(self.log_alpha, "alpha: concentrations", "log_alpha")

    @cached_property
    def member_log_precision(self) -> Tensor:
        """Log of the sum of the concentrations of each member, `(M, *batch)`."""
        return self._exact_log_precision.to(self.log_alpha.dtype)

    @cached_property
    def _exact_log_precision(self) -> Tensor:
        return self.log_alpha.double().logsumexp(-1)

    @cached_property
    def log_precision(self) -> Tensor:
        """Log of the precision, `(*batch,)`."""
        mean = self._exact_log_precision.logsumexp(0) - math.log(self.members)
        return mean.to(self.log_alpha.dtype)

    @property
    def precision(self) -> Tensor:
        """Sum of the concentrations, averaged over members, `(*batch,)`: the evidence."""
        return self._held(self.log_precision, "precision: sums of concentrations", "log_precision")

    def _held(self, logs: Tensor, what: str, instead: str) -> Tensor:
        values = logs.exp()
        if values.isinf().any():
            raise NescioError(
                f"{what} overflow: their logarithms go up to {logs.max().item():.4g}, which "
                f"{str(logs.dtype).removeprefix('torch.')} cannot hold; use .{instead}"
            )
        return values

    @cached_property
    def member_log_probs(self) -> Tensor:
        """Logarithms of the expected probabilities of each member, `(M, *batch, C)`."""
        return log_shares(self.log_alpha.double()).to(self.log_alpha.dtype)

    @cached_property
    def log_probs(self) -> Tensor:
        """Log probabilities of the mixture, `(*batch, C)`, accurate near 0 and near 1."""
        if self.members == 1:
            return self.member_log_probs[0]
        logs = self.log_alpha.double()
        own = log_shares(logs).logsumexp(0) - math.log(self.members)
        others = (log_rest(logs) - log_total(logs)).logsumexp(0) - math.log(self.members)
        near_one = torch.log1p(-others.exp().clamp_max(0.5))
        return torch.where(own > others, near_one, own).to(self.log_alpha.dtype)

    def kl(self, other: "Dirichlet") -> Tensor:
        """KL divergence of each member from that of `other`, `(M, *batch)`, in nats."""
        if not isinstance(other, Dirichlet) or other.classes != self.classes:
            raise NescioError(
                f"kl compares two Dirichlets over the same classes, got {self!r} and {other!r}"
            )
        value = divergence(self.log_alpha.double(), other.log_alpha.double())
        return value.to(self.log_alpha.dtype)
