"""A logistic head on features, at its minimum by Newton steps, and how one sample moves it.

The head minimizes the mean of log(1 + exp(-y f)) plus decay / 2 times the sum of squares, the bias
included, with y = 1 or -1. There are more features than samples, so the steps are made on one
number per sample: the weights are a sum of training features. H is the Hessian.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError

STEPS = 100  # of Newton
TOLERANCE = 1e-8  # of the gradient norm


@dataclass(frozen=True, eq=False, kw_only=True)
class Head:
    """A head at its minimum."""

    features: Tensor  # (n, d), the last is the constant of the bias
    signs: Tensor  # (n,) labels as 1 and -1
    decay: float
    kernel: Tensor  # (n, n) products of features
    shares: Tensor  # (n,) the weights are their sum of features
    gradient_norm: float
    factor: Tensor  # Cholesky, of decay + roots * kernel * roots
    roots: Tensor  # (n,) of the second derivatives, divided by n

    @property
    def weights(self) -> Tensor:
        """`(d,)`."""
        return self.features.T @ self.shares

    def logits(self, features: Tensor) -> Tensor:
        """Positive where the label is 1, `(T,)`."""
        return features @ self.weights

    def solved(self, vectors: Tensor) -> Tensor:
        """The inverse of H times vectors `(d, k)`."""
        inner = self.roots[:, None] * (self.features @ vectors)
        back = self.features.T @ (self.roots[:, None] * torch.cholesky_solve(inner, self.factor))
        return (vectors - back) / self.decay

    def slopes(self, direction: Tensor, index: Tensor) -> Tensor:
        """How features of training samples act on `direction` times the weights, `(k, d)`.

        With v = H^-1 direction, the derivative of the minimum by a training feature x is
        -(l' v + l'' (x v) w) / n, where l is the loss of that sample.
        """
        lever = self.solved(direction[:, None])[:, 0]
        rows, signs, weights = self.features[index], self.signs[index], self.weights
        logits = rows @ weights
        first = -signs * (-signs * logits).sigmoid()
        second = logits.sigmoid() * (-logits).sigmoid()
        both = first[:, None] * lever + (second * (rows @ lever))[:, None] * weights
        return -both / len(self.signs)

    def self_influence(self) -> Tensor:
        """The rise of each sample's own loss when it is left out, to first order, `(n,)`."""
        inner = torch.linalg.solve_triangular(
            self.factor, self.roots[:, None] * self.kernel, upper=False
        )
        lengths = (self.kernel.diagonal() - inner.square().sum(0)) / self.decay
        first = -self.signs * (-self.signs * (self.kernel @ self.shares)).sigmoid()
        shift = self.features @ self.solved(self.decay * self.weights[:, None])[:, 0]
        rise: Tensor = first.square() * lengths + first * shift
        return rise / len(self.signs)

    def moved(self, index: int, feature: Tensor) -> "Head":
        """The head trained again with another feature `(d,)` of one sample."""
        features, kernel = self.features.clone(), self.kernel.clone()
        features[index] = feature
        row = features @ feature
        kernel[index], kernel[:, index] = row, row
        return _minimum(features, self.signs, self.decay, kernel, self.shares)


def fitted(features: Tensor, signs: Tensor, decay: float) -> Head:
    """The head of all samples; features `(n, d)` in float64."""
    start = torch.zeros(len(features), dtype=features.dtype)
    return _minimum(features, signs, decay, features @ features.T, start)


def _minimum(features: Tensor, signs: Tensor, decay: float, kernel: Tensor, start: Tensor) -> Head:
    shares, samples = start, len(signs)
    logits = kernel @ shares
    for _ in range(STEPS):
        first = signs * (-signs * logits).sigmoid() / samples
        second = logits.sigmoid() * (-logits).sigmoid() / samples
        rest = decay * shares - first
        norm = float((rest @ kernel @ rest).clamp_min(0).sqrt())
        roots = second.sqrt()
        inner = roots[:, None] * kernel * roots
        inner.diagonal().add_(decay)
        factor = torch.linalg.cholesky(inner)
        if norm <= TOLERANCE:
            parts = {"features": features, "signs": signs, "kernel": kernel, "shares": shares}
            found = {"gradient_norm": norm, "factor": factor, "roots": roots}
            return Head(**parts, **found, decay=decay)  # type: ignore[arg-type]
        wanted = second * logits + first
        solved = torch.cholesky_solve((roots * (kernel @ wanted))[:, None], factor)[:, 0]
        step = (wanted - roots * solved) / decay - shares
        shares = shares + _length(shares, step, (kernel, signs, decay)) * step
        logits = kernel @ shares
    raise NescioError(
        f"the head did not reach its minimum: its gradient norm is {norm:.2g} after {STEPS} steps"
    )


def _length(shares: Tensor, step: Tensor, problem: tuple[Tensor, Tensor, float]) -> float:
    """The first of 1, 1/2, 1/4 and so on that lowers the objective, up to rounding."""
    kernel, signs, decay = problem

    def value(at: Tensor) -> Tensor:
        logits = kernel @ at
        return F.softplus(-signs * logits).mean() + decay / 2 * at @ logits

    before, length = value(shares), 1.0
    while length > 1e-6 and value(shares + length * step) > before + 1e-12:
        length /= 2
    return length
