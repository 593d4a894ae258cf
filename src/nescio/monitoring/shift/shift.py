"""The result of a test of shift, and the batches it reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import NescioError, as_batch, only_tensor
from nescio.data import Table, door

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Shift:
    """A test of two batches: under no shift, p_value <= a happens in a share of at most a."""

    test: str
    statistic: float  # larger: further apart
    p_value: float
    samples: tuple[int, int]  # that the statistic was computed from, before and after
    notes: Mapping[str, Any] = field(default_factory=dict)


def as_batches(before: Any, after: Any, *, least: int) -> tuple[Floats, Floats]:
    """Two batches as rows `(N, F)` of one width, with at least `least` samples each."""
    if isinstance(before, Table) or isinstance(after, Table):
        raise NescioError(
            "this test takes arrays; encode tables first: learn_columns(before).encode(after).x"
        )
    pair = [
        as_batch(only_tensor(door.read(given, name=name, labels=False)[0], name), torch.float64)
        .flatten(1)
        .cpu()
        .numpy()
        for given, name in ((before, "before"), (after, "after"))
    ]
    if pair[0].shape[1] != pair[1].shape[1]:
        raise NescioError(
            f"before has {pair[0].shape[1]} numbers per sample, after {pair[1].shape[1]}; they "
            "must agree"
        )
    for name, rows in zip(("before", "after"), pair, strict=True):
        if len(rows) < least:
            raise NescioError(f"{name} has {len(rows)} samples; the test needs at least {least}")
    return pair[0], pair[1]


def check_draws(count: int, name: str = "permutations") -> int:
    """A number of permutations: p-values are multiples of 1 / (count + 1)."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise NescioError(f"{name} must be a whole number from 1 up, got {count!r}")
    return count


def permutation_test(
    test: str, value: float, drawn: Floats, samples: tuple[int, int], **notes: Any
) -> Shift:
    """A statistic with its p-value among those of the draws."""
    p_value = permutation_p(value, drawn)
    return Shift(test=test, statistic=value, p_value=p_value, samples=samples, notes=notes)


def permutation_p(observed: float, drawn: Floats) -> float:
    """The share of draws at least as large, the observed one counted among them: exact.

    Rounding must not tell equal statistics apart, so a relative 1e-12 counts as equal.
    """
    slack = 1e-12 * max(abs(observed), float(np.abs(drawn).max(initial=0.0)))
    return float((1 + (drawn >= observed - slack).sum()) / (1 + len(drawn)))
