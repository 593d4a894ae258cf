"""Scores of rows a block at a time, so that intermediate numbers stay in the cache."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from nescio.core import NescioError, keep_freed, one_thread

NUMBERS = 1 << 19  # of a block: two megabytes of float32


def by_rows(logits: Tensor, temperature: float, score: Callable[[Tensor], Tensor]) -> Tensor:
    """`score` of logits `(N, C)` divided by the temperature, `(N,)`; all at once with gradients.

    Above a temperature of 1 scores crowd together, so they are computed in float64.
    """
    return in_blocks(logits, lambda block: score(tempered(block, temperature)))


def in_blocks(rows: Tensor, score: Callable[[Tensor], Tensor]) -> Tensor:
    """`score` of rows `(N, F)`, `(N,)`, a block at a time; all at once with gradients."""
    if rows.requires_grad or rows.numel() <= NUMBERS:
        return score(rows)
    keep_freed()
    size = max(1, NUMBERS // rows.shape[1])

    @torch.no_grad()  # each thread has its own switch
    def scored(part: Tensor) -> Tensor:
        return torch.cat([score(block) for block in part.split(size)])

    threads = torch.get_num_threads() if rows.device.type == "cpu" else 1
    if threads == 1:
        return scored(rows)
    with one_thread(), ThreadPoolExecutor(threads) as pool:  # each has rows of its own
        return torch.cat(list(pool.map(scored, rows.chunk(threads))))


def tempered(logits: Tensor, temperature: float) -> Tensor:
    """Logits divided by a temperature, in float64 where that is above 1."""
    if temperature == 1:
        return logits
    return (logits.double() if temperature > 1 else logits) / temperature


def check_temperature(temperature: float) -> float:
    """The temperature as a float, or an error."""
    if not (math.isfinite(temperature) and temperature > 0):
        raise NescioError(f"temperature must be positive and finite, got {temperature}")
    return float(temperature)


def check_classes(logits: Tensor) -> Tensor:
    """The logits, or an error where there are no two classes to compare."""
    if logits.shape[-1] < 2:
        raise NescioError(
            "this detector compares classes and the network has one output; use energy, or "
            "give two logits: torch.stack([torch.zeros_like(z), z], -1)"
        )
    return logits


def others(powers: Tensor) -> tuple[Tensor, Tensor]:
    """The sum over each row of exp(z - max) but for the largest, and that with it.

    The first is not a difference, so it does not vanish where the largest rounds to all of it.
    """
    whole = powers.sum(-1)
    rest = whole - 1
    sure = (whole < 1.5).nonzero()[:, 0]  # then no other is as large
    rest[sure] = powers[sure].frac_().sum(-1)
    return rest, whole
