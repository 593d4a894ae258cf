"""Which columns have shifted: a test for each, corrected for their number."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, derive
from nescio.data import Columns, Table, learn_columns
from nescio.data.encoding import Kind
from nescio.metrics.paired import Correction, adjust
from nescio.monitoring.shift.two_sample import Floats, as_batches, check_draws, permutation_p, steps

FEW = 5  # an expected count below this: tables are drawn instead of the chi-squared limit
KS, CHI = "Kolmogorov-Smirnov", "chi-squared"


@dataclass(frozen=True, kw_only=True)
class ColumnShift:
    """One test of one column.

    column: name of the column.
    test: name of the test.
    statistic: its statistic.
    p_value: its p-value.
    adjusted: p-value adjusted for the number of tests.
    """

    column: str
    test: str
    statistic: float
    p_value: float
    adjusted: float = 1.0


@dataclass(frozen=True)
class ColumnShifts:
    """A test for every column, and one more where values are missing.

    rows: the tests.
    correction: `"holm"` or `"bh"`, see `nescio.metrics.adjust`.
    samples: number of samples before and after.
    """

    rows: tuple[ColumnShift, ...]
    correction: Correction
    samples: tuple[int, int]

    @property
    def p_value(self) -> float:
        """The p-value of no shift in any column: the smallest adjusted one."""
        return min(row.adjusted for row in self.rows)

    def shifted(self, level: float = 0.05) -> list[str]:
        """Columns whose adjusted p-value is at most a level, each once.

        level: the largest adjusted p-value.
        """
        return list(dict.fromkeys(row.column for row in self.rows if row.adjusted <= level))

    def __str__(self) -> str:
        """One line per test, the smallest p-value first."""
        rows = sorted(self.rows, key=lambda row: row.p_value)
        width = max(len("column"), *(len(row.column) for row in rows))
        lines = [f"{row.column:<{width}}  {row.adjusted:<16.3g}  {row.test}" for row in rows]
        return "\n".join([f"{'column':<{width}}  adjusted p-value  test", *lines])


def by_column(
    before: Any,
    after: Any,
    *,
    columns: Columns | None = None,
    kinds: Mapping[str, Kind] | None = None,
    correction: Correction = "holm",
    draws: int = 9999,
    seed: int = 0,
) -> ColumnShifts:
    """Kolmogorov-Smirnov for continuous columns, chi-squared for levels and for missing values.

    Levels that only one table has are levels. Where an expected count is below 5, the p-value is
    that of random tables with the same margins, not the limit's. With ties, Kolmogorov-Smirnov
    gives too large p-values: no false alarms, fewer alarms.

    before, after: two `Table`s, or arrays `(N, F)` of which every column is continuous.
    columns: kinds of the columns as learned before; None: those of `kinds`, or proposed from both
      tables.
    kinds: kind of each column by name; None: they are proposed from both tables.
    correction: correction for the number of tests, `"holm"` or `"bh"`, see `nescio.metrics.adjust`.
    draws: number of random tables.
    seed: seed of the random draws.
    """
    check_draws(draws, "draws")
    rng = np.random.default_rng(derive(seed, "by column"))
    tests: list[ColumnShift] = []
    if isinstance(before, Table) and isinstance(after, Table):
        pairs, samples = _of_tables(before, after, columns, kinds), (len(before), len(after))
    elif isinstance(before, Table) or isinstance(after, Table):
        raise NescioError("give two tables, or two arrays")
    else:
        first, second = as_batches(before, after, least=2)
        names = [str(index) for index in range(first.shape[1])]
        pairs = ((n, "continuous", x, y) for n, x, y in zip(names, first.T, second.T, strict=True))
        samples = len(first), len(second)
    for name, kind, one, two in pairs:
        tests += _tests(name, kind, one, two, draws, rng)
    adjusted = adjust([row.p_value for row in tests], correction)
    rows = tuple(
        replace(row, adjusted=float(value)) for row, value in zip(tests, adjusted, strict=True)
    )
    return ColumnShifts(rows, correction, samples)


def _of_tables(
    before: Table, after: Table, columns: Columns | None, kinds: Mapping[str, Kind] | None
) -> Iterator[tuple[str, str, Any, Any]]:
    """Name, kind and the values of both; NaN is missing."""
    if columns is None:
        names = before.names
        if extra := [name for name in after.names if name not in names]:
            raise NescioError(
                f"after has columns that before lacks: {', '.join(extra)}; leave them out with "
                "after.without, or give columns="
            )
        both = {
            name: np.concatenate([_same(before, after, name), _same(after, before, name)])
            for name in names
        }
        columns = learn_columns(Table(both), kinds)
    for column in columns.columns:
        one, two = (_same(*pair, column.name) for pair in ((before, after), (after, before)))
        if column.kind == "continuous" and one.dtype.kind != "f":
            raise NescioError(f"column {column.name!r} is continuous, but holds text; repair it")
        yield column.name, column.kind, one, two


def _same(table: Table, other: Table, name: str) -> NDArray[Any]:
    """A column as text where it is text in either table."""
    values = table[name]
    if values.dtype.kind == "f" and other[name].dtype.kind != "f":
        return np.array(["" if np.isnan(value) else f"{value:.15g}" for value in values])
    return values


def _tests(
    name: str, kind: str, one: Any, two: Any, draws: int, rng: np.random.Generator
) -> Iterator[ColumnShift]:
    gone = [values == "" if values.dtype.kind != "f" else np.isnan(values) for values in (one, two)]
    if kind != "continuous":
        yield _chi(name, CHI, one, two, draws, rng)  # NaN and "" are levels
        return
    known = one[~gone[0]], two[~gone[1]]
    if min(map(len, known)):
        from scipy.stats import ks_2samp

        with warnings.catch_warnings():  # where the exact law overflows, its limit is taken
            warnings.simplefilter("ignore", RuntimeWarning)
            result = ks_2samp(*known)
        p_value = min(1.0, float(result.pvalue))
        yield ColumnShift(column=name, test=KS, statistic=float(result.statistic), p_value=p_value)
    if gone[0].any() or gone[1].any():
        yield _chi(name, f"{CHI}, missing or not", gone[0], gone[1], draws, rng)


def _chi(
    name: str, test: str, one: Any, two: Any, draws: int, rng: np.random.Generator
) -> ColumnShift:
    """The chi-squared test of levels, exact in small tables."""
    from scipy.stats import chi2

    levels, position = np.unique(np.concatenate([one, two]), return_inverse=True)
    counts = np.stack(
        [np.bincount(part, minlength=len(levels)) for part in np.split(position, [len(one)])]
    )
    if len(levels) == 1:
        return ColumnShift(column=name, test=test, statistic=0.0, p_value=1.0)
    expected = np.outer(counts.sum(1), counts.sum(0)) / counts.sum()
    value = float((np.square(counts - expected) / expected).sum())
    if expected.min() >= FEW:
        p_value = float(chi2.sf(value, len(levels) - 1))
    else:
        p_value = permutation_p(value, _drawn(counts, expected, draws, rng))
    return ColumnShift(column=name, test=test, statistic=value, p_value=p_value)


def _drawn(counts: NDArray[Any], expected: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """The statistic of `draws` tables with the margins of `counts`."""
    from scipy.stats import random_table

    tables = random_table(counts.sum(1), counts.sum(0))
    some = (tables.rvs(count, random_state=rng) for count in steps(draws, counts.size))
    return np.concatenate([(np.square(each - expected) / expected).sum((1, 2)) for each in some])
