"""Settings of a method, chosen on rows of the training parts.

The learning rate, a setting of the optimizer, is chosen for a table, by the mean over the splits;
dropout and epochs are chosen for each split by itself, on a fifth of its training rows.
"""

from collections.abc import Mapping
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
    budget, mixture = work.budget, METHODS[method].ensemble
    dropouts = budget.dropouts if method == MC_DROPOUT else (0.0,)
    start = Choice(budget.rates[0], work.epochs, dropouts[len(dropouts) // 2])
    seen: list[Tried] = [{} for _ in range(len(work.splits))]
    current = dict.fromkeys(range(len(seen)), start)
    _try(work, method, seen, current, "learning_rate", budget.rates)
    rate = min(
        budget.rates, key=lambda one: _mean(seen, replace(start, learning_rate=one), mixture)
    )
    seen = [{c: own[c] for c in own if c.learning_rate == rate} for own in seen]
    for field, values in {"dropout": dropouts, "epochs": work.others}.items():
        _try(work, method, seen, best(work, method, seen, free=False), field, values)
    return seen


def _mean(seen: list[Tried], choice: Choice, mixture: bool) -> float:
    return float(np.mean([own[choice][_key(mixture)] for own in seen]))


def _key(mixture: bool) -> str:
    return "mixture" if mixture else "single"


def _try(
    work: Work,
    method: str,
    seen: list[Tried],
    current: Mapping[int, Choice],
    field: str,
    values: tuple[Any, ...],
) -> None:
    """Score other values of one field of the current choice of each split."""
    members = 1 if method == MC_DROPOUT else work.tried(METHODS[method].ensemble)
    for value in values:
        wanted = {split: replace(choice, **{field: value}) for split, choice in current.items()}
        new = {split: choice for split, choice in wanted.items() if choice not in seen[split]}
        models = stacks(
            work, method, "sub-split", new, lambda split: work.sub_split(split)[0], members
        )
        for split, model in models.items():
            seen[split][new[split]] = on_validation_rows(work, method, split, model)


def best(work: Work, method: str, seen: list[Tried], *, free: bool) -> dict[int, Choice]:
    """The best choice of each split, of the published number of epochs, or of any where free."""
    key = _key(METHODS[method].ensemble)

    def of(own: Tried) -> Choice:
        fitting = [choice for choice in own if free or choice.epochs == work.epochs]
        return min(fitting, key=lambda choice: own[choice][key])

    return {split: of(own) for split, own in enumerate(seen)}
