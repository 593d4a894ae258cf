"""The tables, how long networks train on each, and the rows that choose settings."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.core import generator
from nescio_papers.data import SplitTable, uci_splits
from nescio_papers.kit import Settings, full_and_quick, size

SHARE = 0.8  # of the training rows of a split that settings are tried on; the others judge them

Rates = tuple[tuple[str, float], ...]  # schedules and learning rates
RATES = (
    ("constant", 0.1),  # as published
    ("constant", 0.03),
    ("constant", 0.01),
    ("constant", 0.003),
    ("cosine", 0.1),
    ("cosine", 0.03),
    ("cosine", 0.01),
)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A set of the collection, and the sizes that belong to it."""

    file: str
    title: str
    hidden: int = 50
    epochs: int = 40
    others: tuple[int, ...] = (20, 100, 200, 400)  # epochs that validation may choose instead
    tried: int = 5  # networks by which a setting is judged; at least two of an ensemble


TABLES: Mapping[str, Table] = {
    "boston": Table(file="bostonHousing", title="Boston housing"),
    "concrete": Table(file="concrete", title="Concrete strength"),
    "energy": Table(file="energy", title="Energy efficiency"),
    "wine": Table(file="wine-quality-red", title="Red wine quality"),
    "power": Table(file="power-plant", title="Power plant", others=(80,), tried=1),
    "naval": Table(file="naval-propulsion-plant", title="Naval plant", others=(80,), tried=1),
    "protein": Table(
        file="protein-tertiary-structure",
        title="Protein structure",
        hidden=100,
        epochs=20,
        others=(40,),
        tried=1,
    ),
}


@dataclass(frozen=True)
class Budget:
    """The sizes of a run."""

    splits: int = size(20, quick=2)  # at most
    rows: int = size(1_000_000, quick=120)  # of the training and of the test part, at most
    members: int = size(5, quick=2)
    epochs: int = size(1000, quick=2)  # at most
    rates: Rates = size(RATES, quick=(("constant", 0.01),))
    dropout_rates: Rates = size((RATES[1], RATES[3], RATES[5]), quick=(("constant", 0.01),))
    dropouts: tuple[float, ...] = size((0.005, 0.01, 0.05, 0.1), quick=(0.05,))
    passes: int = size(100, quick=5)  # of MC dropout


FULL, QUICK = full_and_quick(Budget)


@dataclass(frozen=True, kw_only=True)
class Work:
    """A table with the rows of this run, and the settings of it."""

    name: str
    table: Table
    settings: Settings
    splits: SplitTable

    @property
    def budget(self) -> Budget:
        """The sizes of this run."""
        return QUICK if self.settings.quick else FULL

    @property
    def epochs(self) -> int:
        """Of the published protocol."""
        return min(self.table.epochs, self.budget.epochs)

    @property
    def others(self) -> tuple[int, ...]:
        """Epochs that validation may choose instead."""
        most = self.budget.epochs + 1
        return tuple(sorted({min(epochs, most) for epochs in self.table.others}))

    def tried(self, mixture: bool) -> int:
        """Networks by which a setting is judged, by their mixture or each alone."""
        return min(max(2, self.table.tried) if mixture else self.table.tried, self.budget.members)

    def sub_split(self, split: int) -> tuple[Tensor, Tensor]:
        """Rows of the training part of a split that try settings, and rows that judge them."""
        train = self.splits.rows[split][0]
        draws = generator(self.settings.seed, "uci sub-split", self.name, split)
        order = train[torch.randperm(len(train), generator=draws)]
        first = round(SHARE * len(train))
        return order[:first], order[first:]


def work_on(name: str, settings: Settings) -> Work:
    """A table and its splits; a quick run has few of its rows."""
    table, budget = TABLES[name], QUICK if settings.quick else FULL
    found = uci_splits(table.file)
    rows = tuple(
        (train[: budget.rows], test[: budget.rows]) for train, test in found.rows[: budget.splits]
    )
    splits = SplitTable(name=found.name, x=found.x, y=found.y, rows=rows)
    return Work(name=name, table=table, settings=settings, splits=splits)
