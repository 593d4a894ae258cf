"""Worlds of patients: who is inside, who is outside, and what one wrong unit does."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import derive
from nescio.data import Columns, Table, learn_columns
from nescio.data.encoding import Kind
from nescio_papers.data import diabetes_table, heart_disease_table
from nescio_papers.data.medical import AGES, DIABETES, HEART
from nescio_papers.kit import Settings

FACTORS = (10.0, 100.0, 1000.0, 10_000.0)
LACKING = ("slope", "ca", "thal")  # what the Hungarian hospital hardly ever recorded
Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class World:
    """A question: models learn from some rows; which other rows can they tell apart?"""

    name: str
    kinds: Mapping[str, Kind]  # of the columns that are read
    target: str
    in_dist: Table
    ood: Table
    about: str  # in words
    scaled: bool = False  # also with one column at a time in a wrong unit


@dataclass(frozen=True, eq=False)
class Parts:
    """A world, drawn and encoded."""

    columns: Columns
    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: Table
    ood: Table

    def encoded(self, table: Table) -> Tensor:
        """Rows as a network reads them."""
        return self.columns.encode(table).x


@dataclass(frozen=True)
class Budget:
    """How many rows and trainings."""

    train: int
    test: int
    trainings: int
    epochs: int


def budget(settings: Settings, world: World) -> Budget:
    """Hospitals are small: more trainings. The others have as many rows as minutes allow."""
    if len(world.in_dist) < 1000:
        return Budget(
            train=10_000,
            test=1000,
            trainings=1 if settings.quick else 5,
            epochs=10 if settings.quick else 60,
        )
    rows, tests = (300, 150) if settings.quick else (6000, 2000)
    return Budget(
        train=rows,
        test=tests,
        trainings=1 if settings.quick else 2,
        epochs=8 if settings.quick else 30,
    )


def worlds(settings: Settings) -> Iterator[World]:
    """All worlds; in a quick run some of them."""
    yield from hospitals()
    groups = GROUPS[:1] if settings.quick else GROUPS
    for index, (name, column, levels) in enumerate(groups):
        yield left_out(name, column, levels, scaled=index == 0)


def hospitals() -> Iterator[World]:
    """One hospital against the other."""
    tables = {"Cleveland": heart_disease_table(), "Hungary": heart_disease_table("hungarian")}
    shared = {name: kind for name, kind in HEART.items() if name not in LACKING}
    without = f"without {', '.join(LACKING)}, which Hungary hardly ever recorded"
    for one, two in (("Cleveland", "Hungary"), ("Hungary", "Cleveland")):
        yield World(
            name=f"{one}, then {two}",
            kinds=shared,
            target="disease",
            in_dist=tables[one],
            ood=tables[two],
            about=f"patients of {two} for models of {one}, {without}",
            scaled=one == "Cleveland",
        )
    yield World(
        name="Cleveland, then Hungary, all columns",
        kinds=HEART,
        target="disease",
        in_dist=tables["Cleveland"],
        ood=tables["Hungary"],
        about="the same with all 13 columns: holes give patients of Hungary away",
    )


GROUPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("under 30", "age", ("[0-10)", "[10-20)", "[20-30)")),
    ("90 and over", "age", ("[90-100)",)),
    ("elective", "admission_type_id", ("3",)),
    ("transferred", "admission_source_id", ("4", "5", "6", "10", "22")),
    ("obstetrics", "medical_specialty", ("ObstetricsandGynecology", "Obstetrics", "Gynecology")),
    ("psychiatry", "medical_specialty", ("Psychiatry",)),
    ("cardiology", "medical_specialty", ("Cardiology",)),
)


def left_out(name: str, column: str, levels: tuple[str, ...], *, scaled: bool) -> World:
    """Patients of some levels of a column against the others; the column itself is not read."""
    table = _diabetes()
    group = _is(table, column, levels)
    kinds = {key: kind for key, kind in DIABETES.items() if key != column}
    about = f"{column} of {', '.join(levels)}, left out in training; {column} is not read"
    return World(
        name=f"diabetes: {name}",
        kinds=kinds,
        target="readmitted",
        in_dist=table.rows(~group),
        ood=table.rows(group),
        about=about,
        scaled=scaled,
    )


@cache
def _diabetes() -> Table:
    return diabetes_table()


def _is(table: Table, column: str, levels: tuple[str, ...]) -> Rows:
    values = table[column]
    if values.dtype.kind == "f":
        return np.isin(values, [float(level) for level in levels])
    return np.isin(values, levels)


def drawn(world: World, sizes: Budget, seed: int) -> Parts:
    """Rows in an order given by the seed: a tenth to validate, a quarter to test, rest to learn."""
    in_dist = _some(world.in_dist, sizes.train + 2 * sizes.test, seed, "in_dist")
    held, tests = max(30, len(in_dist) // 10), min(sizes.test, len(in_dist) // 4)
    cuts = np.split(np.arange(len(in_dist)), [tests, tests + held])
    test, validation, train = (in_dist.rows(part) for part in cuts)
    levels = {"age": AGES} if world.kinds.get("age") == "ordinal" else {}
    columns = learn_columns(train.only(*world.kinds), world.kinds, levels=levels)
    learned, held_out = (
        (columns.encode(table).x, torch.from_numpy(table[world.target].astype(np.int64)))
        for table in (train, validation)
    )
    ood = _some(world.ood, sizes.test, seed, "ood")
    return Parts(columns=columns, train=learned, validation=held_out, test=test, ood=ood)


def _some(table: Table, count: int, seed: int, side: str) -> Table:
    order = np.random.default_rng(derive(seed, "patients", side)).permutation(len(table))
    return table.rows(order[:count])


def wrong_units(parts: Parts) -> Iterator[tuple[str, float, Table]]:
    """The test rows with one continuous column times 10 to 10^4: column, factor, table."""
    for column in parts.columns.columns:
        if column.kind == "continuous":
            for factor in FACTORS:
                values = parts.test[column.name] * factor
                yield column.name, factor, parts.test.changed(**{column.name: values})
