"""Settings of a method, chosen on rows of the training parts.

The learning rate and its schedule, settings of the optimizer, are chosen for a table, by the mean
over the splits; dropout and epochs for each split by itself, on a fifth of its training rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nescio_papers.uci.methods import MC_DROPOUT, METHODS, Choice
from nescio_papers.uci.scoring import on_validation_rows
from nescio_papers.uci.stacks import stacks
from nescio_papers.uci.tables import Work

Tried = dict[Choice, dict[str, float]]  # scores on the validation rows of a split


def search(work: Work, method: str) -> list[Tried]:
    """What each split tried with the best learning rate: dropout, then the number of epochs."""
    budget = work.budget
    drops = method == MC_DROPOUT
    dropouts = budget.dropouts if drops else (0.0,)
    given = budget.dropout_rates if drops else budget.rates
    middle = dropouts[len(dropouts) // 2]
    rates = [Choice(rate, name, work.epochs, middle) for name, rate in given]
    seen: list[Tried] = [{} for _ in range(len(work.splits))]
    for choice in rates:
        _try(work, method, seen, dict.fromkeys(range(len(seen)), choice))
    chosen = min(rates, key=lambda choice: _mean(method, seen, choice))
    seen = [{chosen: own[chosen]} for own in seen]
    for changes in (_each("dropout", dropouts), _each("epochs", work.others)):
        current = best(work, method, seen, free=False)
        for change in changes:
            changed = {split: replace(choice, **change) for split, choice in current.items()}
            _try(work, method, seen, changed)
    return seen


def _each(field: str, values: Sequence[Any]) -> list[dict[str, Any]]:
    return [{field: value} for value in values]


def _mean(method: str, seen: list[Tried], choice: Choice) -> float:
    return float(np.mean([own[choice][_key(method)] for own in seen]))


def _key(method: str) -> str:
    return "mixture" if METHODS[method].ensemble else "single"


def _try(work: Work, method: str, seen: list[Tried], choices: Mapping[int, Choice]) -> None:
    """Score the choice of each split, where it is new."""
    members = 1 if method == MC_DROPOUT else work.tried(METHODS[method].ensemble)
    new = {split: choice for split, choice in choices.items() if choice not in seen[split]}
    models = stacks(work, method, "sub-split", new, lambda one: work.sub_split(one)[0], members)
    for split, model in models.items():
        seen[split][new[split]] = on_validation_rows(work, method, split, model)


def best(work: Work, method: str, seen: list[Tried], *, free: bool) -> dict[int, Choice]:
    """The best choice of each split, of the published number of epochs, or of any where free."""
    key = _key(method)

    def of(own: Tried) -> Choice:
        fitting = [choice for choice in own if free or choice.epochs == work.epochs]
        return min(fitting, key=lambda choice: own[choice][key])

    return {split: of(own) for split, own in enumerate(seen)}
