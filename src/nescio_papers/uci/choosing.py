"""Settings of a method, chosen on rows of the training parts.

The settings of the optimizer, learning rate, schedule and epochs, are chosen for a table, by the
mean over the splits of what the judging rows of each say; dropout is chosen for each split by
itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from nescio_papers.uci.methods import MC_DROPOUT, METHODS, Choice
from nescio_papers.uci.scoring import on_validation_rows
from nescio_papers.uci.stacks import stacks
from nescio_papers.uci.tables import Work

Tried = dict[Choice, dict[str, float]]  # scores on the validation rows of a split


def search(work: Work, method: str) -> list[Tried]:
    """What each split tried: learning rates, its dropout, then other numbers of epochs."""
    drops = method == MC_DROPOUT
    dropouts = work.budget.dropouts if drops else (0.0,)
    given = work.budget.dropout_rates if drops else work.budget.rates
    middle = dropouts[len(dropouts) // 2]
    rates = [Choice(rate, name, work.epochs, middle) for name, rate in given]
    seen: list[Tried] = [{} for _ in range(len(work.splits))]
    for choice in rates:
        _try(work, method, seen, dict.fromkeys(range(len(seen)), choice))
    means = {choice: _mean(method, [own[choice] for own in seen]) for choice in rates}
    chosen = min(rates, key=lambda choice: means[choice])
    for dropout in dropouts:
        choice = replace(chosen, dropout=dropout)
        _try(work, method, seen, dict.fromkeys(range(len(seen)), choice))
    of_split = [_best_dropout(method, own, chosen) for own in seen]
    seen = [{choice: own[choice]} for choice, own in zip(of_split, seen, strict=True)]
    steady = min(rates, key=lambda choice: (choice.schedule != "constant", means[choice]))
    for base in dict.fromkeys([chosen, steady]):  # the falling rate is of its number of epochs
        for epochs in work.others:
            longer = replace(base, epochs=epochs)
            each = (replace(longer, dropout=choice.dropout) for choice in of_split)
            _try(work, method, seen, dict(enumerate(each)))
    return seen


def _best_dropout(method: str, own: Tried, chosen: Choice) -> Choice:
    fitting = [choice for choice in own if replace(choice, dropout=chosen.dropout) == chosen]
    return min(fitting, key=lambda choice: own[choice][_key(method)])


def _mean(method: str, scores: Sequence[Mapping[str, float]]) -> float:
    return float(np.mean([own[_key(method)] for own in scores]))


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
    """The choice of each split: the best of the published number of epochs, or of any if free."""
    by_setting = [{replace(choice, dropout=0.0): choice for choice in own} for own in seen]
    means = {
        setting: _mean(method, [own[by[setting]] for own, by in zip(seen, by_setting, strict=True)])
        for setting in by_setting[0]
        if free or setting.epochs == work.epochs
    }
    chosen = min(means, key=lambda setting: means[setting])
    return {split: by[chosen] for split, by in enumerate(by_setting)}
