"""Named methods as combinations: a loss, a number of members, and where members come from."""

import inspect
from dataclasses import dataclass, field
from typing import Any

from nescio import losses
from nescio.errors import NescioError
from nescio.heads import Head, fixed_variance
from nescio.model import Model
from nescio.predictors import Predictor
from nescio.registry import predictors, recipes


@dataclass(frozen=True)
class Recipe:
    """What a named method trains, and how it predicts."""

    loss: losses.Loss
    members: int = 1
    dropout: float = 0.0  # of the network
    net: str = "mlp"  # the default network
    sampler: str | None = None  # the predictor that draws members from the model, if any
    sampling: dict[str, Any] = field(default_factory=dict)  # its options

    def predictor(self, model: Model) -> Predictor:
        """The predictor of a model that was trained with this recipe."""
        if self.sampler is None:
            return model
        drawn: Predictor = predictors[self.sampler](model, **self.sampling)
        return drawn


@recipes.register
def single(head: Head | None = None, *, weight_decay: float = 0.0) -> Recipe:
    """One network, maximum likelihood."""
    return Recipe(_decayed(losses.nll(head), weight_decay))


@recipes.register
def dropout(head: Head | None = None, *, dropout: float = 0.2, passes: int = 100) -> Recipe:
    """One network with dropout, sampled at prediction (MC dropout)."""
    sampling = {"passes": passes, "seed": 0}
    return Recipe(losses.nll(head), dropout=dropout, sampler="mc_dropout", sampling=sampling)


@recipes.register
def deep_ensemble(
    head: Head | None = None, *, members: int = 5, weight_decay: float = 0.0
) -> Recipe:
    """Networks from different starts and batch orders, averaged."""
    return Recipe(_decayed(losses.nll(head), weight_decay), members)


@recipes.register
def adversarial_ensemble(
    head: Head | None = None, *, members: int = 5, share: float = 0.01
) -> Recipe:
    """A deep ensemble with fast-gradient-sign adversarial training."""
    return Recipe(losses.adversarial(losses.nll(head), share=share), members)


@recipes.register
def virtual_adversarial_ensemble(
    head: Head | None = None, *, members: int = 5, radius: float = 0.05, weight: float = 1.0
) -> Recipe:
    """A deep ensemble smoothed by virtual adversarial training, which reads no labels."""
    base = losses.nll(head)
    return Recipe(losses.virtual_adversarial(base, radius=radius, weight=weight), members)


@recipes.register
def bayes_by_backprop(
    head: Head | None = None, *, passes: int = 100, prior_spread: float = 1.0
) -> Recipe:
    """A distribution over every weight, drawn from at prediction."""
    loss = losses.elbo(losses.nll(head), prior_spread=prior_spread)
    sampling = {"passes": passes, "seed": 0}
    return Recipe(loss, net="bayesian_mlp", sampler="weight_samples", sampling=sampling)


@recipes.register
def anchored_ensemble(
    head: Head | None = None,
    *,
    members: int = 10,
    prior_variance: float | None = None,
    noise: float | None = None,
) -> Recipe:
    """Networks that stay near their own draws from the prior.

    With `noise`, the variance of the targets, the base is the squared error of a mean (regression).
    """
    base = losses.nll(head)
    if noise is not None:
        base = losses.nll(_fixed(head, noise))
    return Recipe(losses.anchored(base, prior_variance=prior_variance), members)


def _fixed(head: Head | None, noise: float) -> Head:
    if head is None or head.task != "regression":
        raise NescioError("noise is the variance of regression targets; classes have none")
    return fixed_variance(variance=noise)


def _decayed(base: losses.Loss, strength: float) -> losses.Loss:
    return losses.weight_decay(base, strength=strength) if strength else base


def recipe_options(name: str) -> dict[str, Any]:
    """The options of a recipe and their defaults."""
    parameters = inspect.signature(recipes[name]).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
