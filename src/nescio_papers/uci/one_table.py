"""A part for each table: all methods, at the published epochs and at those of validation."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from nescio.core import LocalEngine, NescioError, one_thread
from nescio_papers.data import uci_file
from nescio_papers.kit import Findings, Settings, absent, table
from nescio_papers.uci import published
from nescio_papers.uci.choosing import Tried, best, search
from nescio_papers.uci.methods import ENSEMBLE, MC_DROPOUT, METHODS, Choice, recipe_of
from nescio_papers.uci.scoring import METRICS, on_test_rows
from nescio_papers.uci.stacks import stacks
from nescio_papers.uci.tables import TABLES, Work, work_on

PUBLISHED, FREE = "published", "validated"
BUDGETS = {PUBLISHED: "the published number of epochs", FREE: "epochs chosen on validation"}
CHAINS = (
    (ENSEMBLE, "adversarial ensemble", "anchored ensemble", "evidential regression"),
    (MC_DROPOUT, "plain"),
)  # each in a process of its own
HEADER = ["", "RMSE", "NLL, mixture", "NLL, normal with its moments", "CRPS"]


def run(name: str, settings: Settings) -> Findings:
    """All methods on a table, or what is missing."""
    try:
        uci_file(TABLES[name].file)
    except NescioError as error:
        return absent(TABLES[name].title, str(error))
    return findings(work_on(name, settings))


def findings(work: Work) -> Findings:
    """Scores of all methods on each split, and tables of their means."""
    chains = [(work.name, work.settings, methods) for methods in CHAINS]
    found: dict[str, Any] = {}
    workers = 1 if work.settings.quick else torch.get_num_threads()  # a process costs seconds
    if work.settings.engine is not None:
        workers = 1  # the networks of all splits go to the engine instead
    for scores in LocalEngine(workers).as_finished(_chain, chains):
        found |= scores
    rows = [len(part) for part in work.splits.rows[0]]
    numbers = {
        "samples": {"train": rows[0], "test": rows[1]},
        "features": work.splits.x.shape[1],
        "splits": len(work.splits),
        "epochs": work.epochs,
        "methods": {method: found[method] for method in METHODS},
    }
    return Findings(numbers=numbers, text=_text(work.name, numbers))


@one_thread()
def _chain(task: tuple[str, Settings, Sequence[str]]) -> dict[str, Any]:
    """Methods of which the later ones take over what the first one chose."""
    name, settings, methods = task
    work = work_on(name, settings)
    found: dict[str, Any] = {}
    tried: dict[str, list[Tried]] = {}
    for method in methods:
        start = time.process_time()
        source = METHODS[method].like or method
        if source not in tried:
            tried[source] = search(work, source)
        found[method] = {
            budget: _scores(work, method, tried[source], free=budget == FREE) for budget in BUDGETS
        }
        found[method]["cpu_seconds"] = round(time.process_time() - start, 1)
    return found


def _scores(work: Work, method: str, tried: list[Tried], *, free: bool) -> dict[str, Any]:
    """Networks of all training rows with the choices of each split, on its test rows."""
    choices = best(work, method, tried, free=free)
    recipe = recipe_of(method, work.budget, work.budget.dropouts[0])
    models = stacks(
        work,
        method,
        FREE if free else PUBLISHED,
        choices,
        lambda split: work.splits.rows[split][0],
        recipe.members,
    )
    rows = [
        on_test_rows(
            work, method, split, model, precision=tried[split][choices[split]].get("precision")
        )
        for split, model in sorted(models.items())
    ]
    scores = {metric: [row[metric] for row in rows] for metric in METRICS}
    return {**scores, "choices": _counted(choices)}


def _counted(choices: Mapping[int, Choice]) -> list[dict[str, Any]]:
    """Each choice with the number of splits that made it, the most frequent first."""
    every = list(choices.values())
    counts = {choice: every.count(choice) for choice in sorted(set(every))}
    ordered = sorted(counts, key=lambda choice: -counts[choice])
    return [{**vars(choice), "splits": counts[choice]} for choice in ordered]


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean over the splits and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def written(values: Sequence[float]) -> str:
    """A mean and its standard error, with as many digits as it needs."""
    mean, error = mean_and_error(values)
    digits = 2 if mean == 0 or abs(mean) >= 0.1 else 1 - math.floor(math.log10(abs(mean)))
    return f"{mean:.{digits + 1}f} ± {error:.{digits + 1}f}"


def _text(name: str, numbers: Mapping[str, Any]) -> str:
    samples = numbers["samples"]
    parts = [
        f"{samples['train']:,} training and {samples['test']:,} test rows in each of "
        f"{numbers['splits']} splits, {numbers['features']} features. Means over the splits and "
        "their standard errors, in the units of the target; NLL in nats."
    ]
    for budget, title in BUDGETS.items():
        rows = [
            [method, *(written(found[budget][metric]) for metric in METRICS)]
            for method, found in numbers["methods"].items()
        ]
        rows += _published(name, numbers["splits"]) if budget == PUBLISHED else []
        parts += [f"{title[0].upper()}{title[1:]}:", table(HEADER, rows)]
    chosen = (
        f"{method}: {_said(found[FREE]['choices'])}" for method, found in numbers["methods"].items()
    )
    return "\n\n".join([*parts, f"Chosen on validation: {'; '.join(chosen)}."])


def _said(choices: Sequence[Mapping[str, Any]]) -> str:
    """The most frequent choice in words."""
    first = choices[0]
    dropout = f", dropout {first['dropout']:g}" if first["dropout"] else ""
    return (
        f"{first['schedule']} learning rate {first['learning_rate']:g}, {first['epochs']} "
        f"epochs{dropout} "
        f"({first['splits']} splits)"
    )


def _published(name: str, splits: int) -> list[list[str]]:
    """The rows of the published table, with standard errors."""

    def cell(printed: published.Printed) -> str:
        return f"{printed.value:.2f} ± {printed.standard_error(splits):.2f}"

    return [
        [
            f"published: {one}",
            cell(published.RMSE[name][one]),
            "",
            cell(published.NLL[name][one]),
            "",
        ]
        for one in published.METHODS
    ]
