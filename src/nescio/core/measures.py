"""Measures: `Prediction -> (*batch,)`, larger where the model is less sure.

Entropies and the variation ratio are those of Gal (2016), class variance and mutual information
(as a mean divergence, which does not cancel) of Smith and Gal (2018), least confidence of
Hendrycks and Gimpel (2017), and the expected pairwise KL of Malinin and Gales.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_type_hints

import torch
from torch import Tensor

from nescio.core.densities import Regression
from nescio.core.errors import NescioError
from nescio.core.prediction import Classification, Dirichlet, Prediction
from nescio.core.registry import measures

M = TypeVar("M", bound=Callable[..., Tensor])

# For large a: lgamma(a) = (a - 1/2) log(a) - a + log(2 pi) / 2 + sum of LOG_GAMMA[k] / a^(2k+1),
# digamma(a) = log(a) - 1 / (2 a) - sum of DIGAMMA[k] / a^(2k+2).
SERIES = 20.0  # from here on the series are exact to the last digit
LOG_GAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def measure(function: M) -> M:
    """Register a measure; the annotation of its first argument says what it can read."""
    kind = get_type_hints(function)["prediction"]

    @functools.wraps(function)
    def checked(prediction: Prediction, **options: Any) -> Tensor:
        if not isinstance(prediction, kind):
            raise NescioError(
                f"{function.__name__} reads a {kind.__name__}, got {type(prediction).__name__}; "
                f"measures for it: {', '.join(applicable(prediction)) or 'none'}"
            )
        return function(prediction, **options)

    checked.kind = kind  # type: ignore[attr-defined]
    return cast(M, measures.register(checked))


def logarithm(base: float) -> float:
    """Natural logarithm of a unit's base: e for nats, 2 for bits, C for the normalized form."""
    if not (0 < base < math.inf and base != 1):
        raise NescioError(f"base must be positive and not 1, got {base}; 2 gives bits")
    return math.log(base)


def applicable(prediction: object) -> tuple[str, ...]:
    """Names of the measures that can read `prediction`."""
    return tuple(name for name in measures if isinstance(prediction, measures[name].kind))  # type: ignore[attr-defined]


def measure_all(prediction: Prediction) -> dict[str, Tensor]:
    """Every applicable measure of `prediction` by name, each `(*batch,)`."""
    return {name: measures[name](prediction) for name in applicable(prediction)}


@measure
def aleatoric_variance(prediction: Regression) -> Tensor:
    """Mean variance of the members, summed over targets: data uncertainty."""
    return prediction.aleatoric.sum(-1)


@measure
def class_variance(prediction: Classification) -> Tensor:
    """Population variance of the probabilities over members, averaged over classes."""
    probs = prediction.member_probs
    variance = (probs - probs.mean(0)).square().mean(0)
    if isinstance(prediction, Dirichlet):  # law of total variance
        precision = prediction.member_precision[..., None]
        variance = variance + (probs * (1 - probs) / (precision + 1)).mean(0)
    return variance.mean(-1)


@measure
def differential_entropy(prediction: Dirichlet) -> Tensor:
    """Differential entropy, averaged over members; negative without bound when sharp."""
    # The concentrations, which cancel, are taken out of each term: no digit is lost at 1e12.
    alpha = prediction.alpha.double()
    value = _log_gamma_less(alpha, 1).sum(-1) - _log_gamma_less(alpha.sum(-1), alpha.shape[-1])
    return value.mean(0).to(prediction.alpha.dtype)


def _log_gamma_less(a: Tensor, shift: int) -> Tensor:
    """`lgamma(a) - (a - shift) digamma(a) + a`, by Stirling's series where `a` is large."""
    large = a.clamp_min(SERIES)
    tail = _series(large, LOG_GAMMA) + (large - shift) * _series(large, DIGAMMA) / large
    far = (shift - 0.5) * large.log() + HALF_LOG_TWO_PI + 0.5 * (1 - shift / large) + tail
    near = a.clamp_max(SERIES)
    direct = torch.lgamma(near) - (near - shift) * torch.digamma(near) + near
    return torch.where(a > SERIES, far, direct)


def _excess(a: Tensor) -> Tensor:
    """`digamma(a + 1) - log(a)`, about 1 / (2 a): by its series where `a` is large."""
    large, near = a.clamp_min(SERIES), a.clamp_max(SERIES)
    far = (0.5 - _series(large, DIGAMMA)) / large
    return torch.where(a > SERIES, far, torch.digamma(near + 1) - near.log())


def _series(a: Tensor, weights: tuple[float, ...]) -> Tensor:
    """The sum of `weights[k] / a ** (2 k + 1)`."""
    inverse = a.reciprocal()
    value = torch.zeros_like(a)
    for weight in reversed(weights):
        value = value * inverse.square() + weight
    return value * inverse


@measure
def epistemic_variance(prediction: Regression) -> Tensor:
    """Variance of the member means, summed over targets: knowledge uncertainty."""
    return prediction.epistemic.sum(-1)


@measure
def predictive_entropy(prediction: Classification, *, base: float = math.e) -> Tensor:
    """Entropy of the mean probabilities (total uncertainty); `base=C` is the normalized form."""
    return entropy(prediction.log_probs) / logarithm(base)


def entropy(log_probs: Tensor) -> Tensor:
    """Entropy over the last axis in nats; a probability of 0 adds nothing."""
    probs = log_probs.exp()
    return -torch.where(probs > 0, probs * log_probs, 0.0).sum(-1)


@measure
def expected_entropy(prediction: Classification, *, base: float = math.e) -> Tensor:
    """Mean entropy of the members (data uncertainty); for a Dirichlet the mean over its draws."""
    if isinstance(prediction, Dirichlet):
        return _dirichlet(prediction) / logarithm(base)
    return entropy(prediction.member_log_probs).mean(0) / logarithm(base)


def _dirichlet(prediction: Dirichlet) -> Tensor:
    alpha = prediction.alpha.double()  # digamma differences cancel in float32
    total = alpha.sum(-1, keepdim=True)
    terms = alpha / total * (torch.digamma(alpha + 1) - torch.digamma(total + 1))
    return -terms.sum(-1).mean(0).to(prediction.alpha.dtype)


@measure
def expected_pairwise_kl(prediction: Classification) -> Tensor:
    """Mean of KL(p_i || p_j) over all pairs of members; (C - 1) / precision for one Dirichlet."""
    # The covariance over members of probability and log probability: no pairs, no cancellation.
    probs = prediction.member_probs.double()
    within = torch.zeros_like(probs[0, ..., 0])
    if isinstance(prediction, Dirichlet):  # pairs of draws; the covariance may then be negative
        alpha = prediction.alpha.double()
        total = alpha.sum(-1, keepdim=True)
        logs = torch.digamma(alpha) - torch.digamma(total)
        within = ((prediction.classes - 1) / total[..., 0]).mean(0)
    else:
        logs = prediction.member_log_probs.double()
    terms = ((probs - probs.mean(0)) * (logs - logs.mean(0))).mean(0)
    zero = logs == -math.inf  # not where probabilities only underflow
    terms = torch.where(zero.any(0), torch.where(zero.all(0), 0.0, math.inf), terms)
    return (terms.sum(-1) + within).clamp_min(0).to(prediction.member_probs.dtype)


@measure
def least_confidence(prediction: Classification) -> Tensor:
    """One minus the largest probability, as the sum of the others, so that it does not saturate."""
    probs = prediction.log_probs.exp()
    return probs.scatter(-1, prediction.labels[..., None], 0.0).sum(-1)


@measure
def log_odds(prediction: Classification) -> Tensor:
    """Log of (1 - p) / p for the predicted class; ranks where probabilities round to 1."""
    logs, label = prediction.log_probs, prediction.labels[..., None]
    others = logs.scatter(-1, label, -math.inf).logsumexp(-1)
    return others - logs.gather(-1, label)[..., 0]


@measure
def mutual_information(prediction: Classification, *, base: float = math.e) -> Tensor:
    """Total minus data uncertainty: how much the members disagree; at most log min(C, M)."""
    probs, logs = prediction.member_probs, prediction.member_log_probs
    gaps = torch.where(probs > 0, probs * (logs - prediction.log_probs), 0.0)
    information = gaps.sum(-1).mean(0).clamp_min(0)
    if isinstance(prediction, Dirichlet):
        information = information + _within(prediction)
    return information / logarithm(base)


def _within(prediction: Dirichlet) -> Tensor:
    alpha = prediction.alpha.double()
    total = alpha.sum(-1, keepdim=True)
    within = (alpha / total * (_excess(alpha) - _excess(total))).sum(-1)
    return within.mean(0).to(prediction.alpha.dtype)


@measure
def total_variance(prediction: Regression) -> Tensor:
    """Variance of the mixture, summed over targets: total uncertainty."""
    return prediction.mixture_variance.sum(-1)


@measure
def variation_ratio(prediction: Classification) -> Tensor:
    """Share of members whose label is not the most frequent one; 0 for a single network."""
    votes = prediction.member_log_probs.argmax(-1).movedim(0, -1)
    counts = torch.zeros_like(prediction.log_probs)
    counts.scatter_add_(-1, votes, torch.ones_like(votes, dtype=counts.dtype))
    return 1 - counts.amax(-1) / prediction.members
