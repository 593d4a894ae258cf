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

from nescio.core import concentrations
from nescio.core.counted import mean_per_sample as mean_per_sample
from nescio.core.densities import Regression
from nescio.core.dirichlet import Dirichlet
from nescio.core.errors import NescioError
from nescio.core.prediction import Classification, Prediction
from nescio.core.registry import measures

M = TypeVar("M", bound=Callable[..., Tensor])


def measure(function: M) -> M:
    """Register a `function` as a measure; its first annotation says what it can read."""
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
    """Natural logarithm of a unit's `base`: e for nats, 2 for bits, C for the normalized form."""
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
    """Mean variance of the members, summed over targets: data uncertainty.

    prediction: a regression, such as `nescio.Gaussian`.
    """
    return prediction.aleatoric.sum(-1)


@measure
def class_variance(prediction: Classification) -> Tensor:
    """Population variance of the probabilities over members, averaged over classes.

    prediction: a prediction of classes.
    """
    return class_variances(prediction).mean(-1)


def class_variances(prediction: Classification) -> Tensor:
    """Population variance of each class's probability over members, `(*batch, C)`.

    prediction: a prediction of classes.
    """
    probs = prediction.member_probs
    variance = (probs - probs.mean(0)).square().mean(0)
    if isinstance(prediction, Dirichlet):  # law of total variance
        variance = variance + _variance_within(prediction.log_alpha.double()).to(probs.dtype)
    return variance


def _variance_within(logs: Tensor) -> Tensor:
    """p (1 - p) / (precision + 1), averaged over members, `(*batch, C)`."""
    total = concentrations.log_total(logs)
    product = concentrations.log_shares(logs) + concentrations.log_rest(logs) - total
    return (product.exp() * torch.sigmoid(-total)).mean(0)


@measure
def differential_entropy(prediction: Dirichlet) -> Tensor:
    """Differential entropy, averaged over members; negative without bound when sharp.

    prediction: a Dirichlet prediction.
    """
    value = concentrations.differential_entropy(prediction.log_alpha.double())
    return value.mean(0).to(prediction.log_alpha.dtype)


@measure
def epistemic_variance(prediction: Regression) -> Tensor:
    """Variance of the member means, summed over targets: knowledge uncertainty.

    prediction: a regression, such as `nescio.Gaussian`.
    """
    return prediction.epistemic.sum(-1)


@measure
def predictive_entropy(prediction: Classification, *, base: float = math.e) -> Tensor:
    """Entropy of the mean probabilities (total uncertainty); `base=C` is the normalized form.

    prediction: a prediction of classes.
    base: base of the logarithm, the unit: e for nats, 2 for bits, C for the normalized form.
    """
    if isinstance(prediction, Dirichlet):
        exact = entropy(prediction.to(torch.float64).log_probs)
        return exact.to(prediction.log_alpha.dtype) / logarithm(base)
    return entropy(prediction.log_probs) / logarithm(base)


def entropy(log_probs: Tensor) -> Tensor:
    """Entropy over the last axis of `log_probs`, in nats; a probability of 0 adds nothing."""
    probs = log_probs.exp()
    return -torch.where(probs > 0, probs * log_probs, 0.0).sum(-1)


@measure
def expected_entropy(prediction: Classification, *, base: float = math.e) -> Tensor:
    """Mean entropy of the members (data uncertainty); for a Dirichlet the mean over its draws.

    prediction: a prediction of classes.
    base: base of the logarithm, the unit: e for nats, 2 for bits, C for the normalized form.
    """
    if isinstance(prediction, Dirichlet):
        return _mean_gap(prediction, 0) / logarithm(base)
    return entropy(prediction.member_log_probs).mean(0) / logarithm(base)


def _mean_gap(prediction: Dirichlet, which: int) -> Tensor:
    """The mean over classes and members of `rise` (0) or `fall` (1), as concentrations has them."""
    logs = prediction.log_alpha.double()
    probs = concentrations.log_shares(logs).exp()
    gap = torch.where(probs > 0, probs * concentrations.gaps(logs)[which], 0.0)
    return gap.sum(-1).mean(0).to(prediction.log_alpha.dtype)


@measure
def expected_pairwise_kl(prediction: Classification) -> Tensor:
    """Mean of KL(p_i || p_j) over all pairs of members; (C - 1) / precision for one Dirichlet.

    prediction: a prediction of classes.
    """
    # The covariance over members of probability and log probability: no pairs, no cancellation.
    probs = prediction.member_probs.double()
    within = torch.zeros_like(probs[0, ..., 0])
    if isinstance(prediction, Dirichlet):  # pairs of draws; the covariance may then be negative
        alpha = prediction.log_alpha.double()
        total = concentrations.log_total(alpha)
        logs = alpha + concentrations.lack(alpha) - total - concentrations.lack(total)
        within = ((prediction.classes - 1) * (-total[..., 0]).exp()).mean(0)
    else:
        logs = prediction.member_log_probs.double()
    terms = ((probs - probs.mean(0)) * (logs - logs.mean(0))).mean(0)
    zero = logs == -math.inf  # not where probabilities only underflow
    terms = torch.where(zero.any(0), torch.where(zero.all(0), 0.0, math.inf), terms)
    value = torch.where(within.isinf(), math.inf, terms.sum(-1) + within)
    return value.clamp_min(0).to(prediction.member_probs.dtype)


@measure
def least_confidence(prediction: Classification) -> Tensor:
    """One minus the largest probability, as the sum of the others, so that it does not saturate.

    prediction: a prediction of classes.
    """
    probs = prediction.log_probs.exp()
    return probs.scatter(-1, prediction.labels[..., None], 0.0).sum(-1)


@measure
def log_odds(prediction: Classification) -> Tensor:
    """Log of (1 - p) / p for the predicted class; ranks where probabilities round to 1.

    prediction: a prediction of classes.
    """
    logs, label = prediction.log_probs, prediction.labels[..., None]
    others = logs.scatter(-1, label, -math.inf).logsumexp(-1)
    return others - logs.gather(-1, label)[..., 0]


@measure
def mutual_information(prediction: Classification, *, base: float = math.e) -> Tensor:
    """Total minus data uncertainty: how much the members disagree; at most log min(C, M).

    prediction: a prediction of classes.
    base: base of the logarithm, the unit: e for nats, 2 for bits, C for the normalized form.
    """
    if isinstance(prediction, Dirichlet):
        return (_between(prediction) + _mean_gap(prediction, 1)) / logarithm(base)
    probs, logs = prediction.member_probs, prediction.member_log_probs
    gaps = torch.where(probs > 0, probs * (logs - prediction.log_probs), 0.0)
    return gaps.sum(-1).mean(0).clamp_min(0) / logarithm(base)


def _between(prediction: Dirichlet) -> Tensor:
    """The mean divergence of the members' means from the mean of all."""
    exact = prediction.to(torch.float64)
    gaps = concentrations.categorical_divergence(exact.member_log_probs, exact.log_probs)
    return gaps.mean(0).to(prediction.log_alpha.dtype)


@measure
def negative_log_precision(prediction: Dirichlet) -> Tensor:
    """Minus the log of the precision: how little evidence there is, whatever its classes.

    prediction: a Dirichlet prediction.
    """
    return -prediction.log_precision


@measure
def total_variance(prediction: Regression) -> Tensor:
    """Variance of the mixture, summed over targets: total uncertainty.

    prediction: a regression, such as `nescio.Gaussian`.
    """
    return prediction.mixture_variance.sum(-1)


@measure
def variation_ratio(prediction: Classification) -> Tensor:
    """Share of members whose label is not the most frequent one; 0 for a single network.

    prediction: a prediction of classes.
    """
    votes = prediction.member_log_probs.argmax(-1).movedim(0, -1)
    counts = torch.zeros_like(prediction.log_probs)
    counts.scatter_add_(-1, votes, torch.ones_like(votes, dtype=counts.dtype))
    return 1 - counts.amax(-1) / prediction.members
