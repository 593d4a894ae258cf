"""The six methods, each a recipe, and the networks that they train."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn

from nescio import heads, recipes
from nescio.training.recipe import Recipe
from nescio_papers.uci.tables import Budget

MC_DROPOUT, ENSEMBLE = "MC dropout", "deep ensemble"


@dataclass(frozen=True, order=True)
class Choice:
    """What is chosen on validation rows: the rate for a table, the others for each split."""

    learning_rate: float
    epochs: int
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Method:
    """A recipe, and how its settings are chosen."""

    recipe: Callable[[Budget, float], Recipe]  # of the sizes and the dropout
    like: str | None = None  # the method whose choices it takes over
    alone: bool = False  # settings are judged by single networks, not by their mixture


METHODS: Mapping[str, Method] = {
    "plain": Method(recipe=lambda _, __: recipes.single(heads.gaussian()), alone=True),
    MC_DROPOUT: Method(
        recipe=lambda budget, share: recipes.dropout(
            heads.fixed_variance(), dropout=share, passes=budget.passes
        ),
        alone=True,
    ),
    ENSEMBLE: Method(
        recipe=lambda budget, _: recipes.deep_ensemble(heads.gaussian(), members=budget.members)
    ),
    "adversarial ensemble": Method(
        recipe=lambda budget, _: recipes.adversarial_ensemble(
            heads.gaussian(), members=budget.members
        ),
        like=ENSEMBLE,
    ),
    "anchored ensemble": Method(
        recipe=lambda budget, _: recipes.anchored_ensemble(
            heads.gaussian(), members=budget.members
        ),
        like=ENSEMBLE,
    ),
    "evidential regression": Method(
        recipe=lambda _, __: recipes.evidential_regression(), alone=True
    ),
}


def network(inputs: int, hidden: int, outputs: int, dropout: float) -> nn.Module:
    """One hidden layer of ReLU units; dropout, where there is any, on the inputs too."""
    drop = [nn.Dropout(dropout)] if dropout else []
    layers = [*drop, nn.Linear(inputs, hidden), nn.ReLU(), *drop, nn.Linear(hidden, outputs)]
    return nn.Sequential(*layers)
