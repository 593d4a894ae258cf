"""The six methods, each a recipe, and the networks that they train."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from nescio import heads
from nescio.core.registry import recipes
from nescio.training.recipe import Recipe
from nescio_papers.uci.tables import Budget

MC_DROPOUT, ENSEMBLE = "MC dropout", "deep ensemble"


@dataclass(frozen=True, order=True)
class Choice:
    """What is chosen on validation rows: dropout for each split, the others for a table."""

    learning_rate: float
    schedule: str
    epochs: int
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Method:
    """A recipe, and how its settings are chosen."""

    recipe: str
    ensemble: bool = False  # settings are judged by the mixture of networks, not by single ones
    like: str | None = None  # the method whose choices it takes over


METHODS: Mapping[str, Method] = {
    "plain": Method(recipe="single"),
    MC_DROPOUT: Method(recipe="dropout"),
    ENSEMBLE: Method(recipe="deep_ensemble", ensemble=True),
    "adversarial ensemble": Method(recipe="adversarial_ensemble", ensemble=True, like=ENSEMBLE),
    "anchored ensemble": Method(recipe="anchored_ensemble", ensemble=True, like=ENSEMBLE),
    "evidential regression": Method(recipe="evidential_regression"),
}


def recipe_of(method: str, budget: Budget, dropout: float = 0.0) -> Recipe:
    """The recipe with its sizes; MC dropout has means alone, its noise is chosen later."""
    make = recipes[METHODS[method].recipe]
    if method == MC_DROPOUT:
        found: Recipe = make(heads.fixed_variance(), dropout=dropout, passes=budget.passes)
    elif METHODS[method].ensemble:
        found = make(heads.gaussian(), members=budget.members)
    else:
        found = make(heads.gaussian())
    return found


def network(inputs: int, hidden: int, outputs: int, dropout: float) -> nn.Module:
    """One hidden layer of ReLU units; dropout, where there is any, on the inputs too."""
    drop = [nn.Dropout(dropout)] if dropout else []
    layers = [*drop, nn.Linear(inputs, hidden), nn.ReLU(), *drop, nn.Linear(hidden, outputs)]
    return nn.Sequential(*layers)
