"""Decisions about a row that do not depend on the rows beside it, to the last bit.

How a sum is rounded depends on its order, and libraries choose the order by the size of a batch.
From a few rows on, however, the rows of a batch have the same bits at every size and every place,
on one thread and where MKL is asked for it (`MKL_CBWR=AUTO`, which the command line sets and which
must be set before the first product is computed). So smaller batches are filled up. Which size that
takes is measured on the machine that decides, when the guard is loaded.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import FEWEST, Inputs, in_order, one_thread, quiet, spans
from nescio.guards.decide import Guard
from nescio.guards.decisions import Decisions
from nescio.guards.file_parts import random_inputs
from nescio.guards.regression_decisions import RegressionDecisions
from nescio.guards.regression_guard import RegressionGuard
from nescio.guards.watching import Range
from nescio.nets import columns_of

Decided = Decisions | RegressionDecisions
SIZES = (  # of batches that are compared: all small ones, and those around widths of vectors
    *range(1, FEWEST + 1),
    *(17, 20, 24, 31, 32, 33, 40, 48, 63, 64, 65, 96, 127, 128, 200, 255),
)
SOME = (1, 2, 3, 4, 6, 8, 12, FEWEST, 17, 33, 64)  # the same of a slow network
SLOW = 2e-3  # seconds that such a network takes for one row
MIDDLE = 0.8  # of the range of calibration, from which inputs are drawn


def decided_together(
    guard: Guard | RegressionGuard, x: Inputs, least: int = FEWEST
) -> Decisions | RegressionDecisions:
    """Decisions about inputs `(N, ...)` in a batch of at least `least` rows; no warnings.

    guard: the guard.
    x: the inputs; where they are too few, the first of them are repeated.
    least: the number of rows.
    """
    count = len(x)
    with quiet():
        if count >= least or not count:
            return guard(x)
        return guard(x[torch.arange(least) % count])[:count]


def decided_in_pieces(
    guard: Guard | RegressionGuard, x: Inputs, threads: int
) -> Decisions | RegressionDecisions:
    """The same, with `threads` threads, each for another piece.

    guard: the guard.
    x: the inputs.
    threads: the number of threads.
    """
    cuts = spans(len(x), max(FEWEST, math.ceil(len(x) / threads)))
    parts = in_order(lambda cut: decided_together(guard, x[cut]), cuts, threads)
    return _joined(list(parts))


@dataclass(frozen=True, eq=False)
class Steady:
    """A guard whose decisions about a row have the same bits in every batch, and in `score`.

    guard: a guard that decides about each input by itself, on the CPU.
    least: rows from which on its decisions have the same bits; smaller batches are filled up. None:
      there is no such number, as on a GPU or without MKL_CBWR=AUTO. Each row is then decided alone:
      its decision does not depend on other rows, but may differ in the last digits from `score`.
    """

    guard: Guard | RegressionGuard
    least: int | None = field(init=False)

    def __post_init__(self) -> None:
        with one_thread():
            object.__setattr__(self, "least", _least(self.guard))

    def __call__(self, x: Inputs) -> Decisions | RegressionDecisions:
        """Decisions about inputs `(N, ...)`, on one thread.

        x: inputs as the guard reads them, a tensor or several.
        """
        with one_thread():
            if self.least is not None:
                return decided_together(self.guard, x, self.least)
            alone = (x[row : row + 1].clone() for row in range(len(x)))
            return _joined([decided_together(self.guard, row, 1) for row in alone])


def _joined(parts: list[Any]) -> Decided:
    found: Decided = type(parts[0]).join(parts)
    return found


def _least(guard: Guard | RegressionGuard) -> int | None:
    """The least number of rows from which on all batches that are tried agree; None: they do not.

    Random inputs are decided in one batch as large as those of `score`, and in batches of each
    size, so that the place of each input differs, too.
    """
    if guard.range is None or not guard.nets:
        return None
    count = max(guard.batch_size, max(SIZES) + 1)
    x = _random_inputs(guard, guard.range, count)
    began = time.perf_counter()
    same = _comparison(decided_together(guard, x))
    slow = time.perf_counter() - began > SLOW * count
    found = None
    for size in sorted(SOME if slow else SIZES, reverse=True):
        spans_of = (slice(start, start + size) for start in _starts(size, count, slow))
        if not all(same(cut, decided_together(guard, x[cut], 1)) for cut in spans_of):
            break
        found = size
    return found if found is not None and found <= FEWEST else None


def _starts(size: int, count: int, slow: bool) -> tuple[int, ...]:
    """Where batches begin that are compared: small ones in two places, one of them odd."""
    odd = (count - size) // 2 | 1
    if slow:
        return (0,)
    return (0, odd) if size <= FEWEST else (odd,)


def _random_inputs(guard: Guard | RegressionGuard, known: Range, count: int) -> Inputs:
    """Inputs of nobody in the range of calibration; of a table, rows with levels that it has."""
    columns = columns_of(guard.nets[0])
    if columns is None:
        return random_inputs(guard.nets[0], known, count=count, middle=MIDDLE)
    draw = np.random.default_rng(0)
    return columns.numbers(
        {
            one.name: draw.choice(one.levels, count)
            if one.levels
            else one.mean + one.deviation * draw.normal(size=count)
            for one in columns.columns
        }
    )


def _comparison(whole: Decided) -> Callable[[slice, Decided], bool]:
    """Whether decisions about some of the rows are those that were made about all."""
    bits = _bits(whole)

    def same(rows: slice, found: Decided) -> bool:
        return all(torch.equal(bits[name][rows], part) for name, part in _bits(found).items())

    return same


def _bits(decisions: Decided) -> dict[str, Tensor]:
    """All columns as whole numbers, so that NaN is equal to itself and -0 is not 0."""
    columns = {name: one for name, one in vars(decisions).items() if isinstance(one, Tensor)}
    return {
        name: one.contiguous().view(torch.int64) if one.dtype == torch.float64 else one
        for name, one in columns.items()
    }
