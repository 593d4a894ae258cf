"""Digits that turn, by samples of MC dropout: do the top logits overlap, how far do outputs spread?

Gal and Ghahramani (2016) read their picture so: where the range of a class's logits is away from
those of the others, the network is sure; where ranges overlap, the output may be anything, even
if its mean is high. Both are measured where the mean output is least sure, and upright.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nescio_papers.kit import A_SHARE, Fact
from nescio_papers.robust_deep_learning.stored_facts import of_count, over_seeds

Numbers = Mapping[str, Any]
TAIL = 0.05  # of the passes on each side are left out of a spread
SURE = 0.9


def ranges_overlap(logits: Tensor) -> Tensor:
    """Whether the ranges of the two classes with the largest mean logits overlap, `(D, A)`.

    logits: those of the passes, `(D, T, A, C)`.
    """
    top = logits.mean(1).topk(2, -1).indices  # (D, A, 2)
    both = logits.gather(-1, top[:, None].expand(-1, logits.shape[1], -1, -1))
    return both[..., 0].amin(1) < both[..., 1].amax(1)


def output_spread(logits: Tensor) -> Tensor:
    """From the 5 % to the 95 % quantile of the probability of the likeliest class, `(D, A)`."""
    probs = logits.softmax(-1)
    top = probs.mean(1).argmax(-1)[:, None, :, None]
    own = probs.gather(-1, top.expand(-1, probs.shape[1], -1, -1))[..., 0]  # (D, T, A)
    return own.quantile(1 - TAIL, 1) - own.quantile(TAIL, 1)


def turning_numbers(logits: Tensor) -> dict[str, Any]:
    """Overlaps and spreads of digits, upright and where the mean output is least sure.

    logits: those of the passes, `(D, T, A, C)`, the first angle upright.
    """
    probs = logits.softmax(-1)
    worst = probs.mean(1).amax(-1).argmin(-1)  # (D,) angle
    overlap, spread = ranges_overlap(logits), output_spread(logits)
    digits = torch.arange(len(logits))
    sure = (probs.amax(-1) >= SURE).double().mean(1)  # (D, A) share of passes
    return {
        "digits": len(logits),
        "passes": logits.shape[1],
        "angles where least sure": worst.tolist(),
        "overlap": {
            "least sure": int(overlap[digits, worst].sum()), "upright": int(overlap[:, 0].sum())
        },
        "spread": {
            "least sure": spread[digits, worst].tolist(), "upright": spread[:, 0].tolist()
        },
        "passes that are sure": {
            "least sure": float(sure[digits, worst].mean()), "upright": float(sure[:, 0].mean())
        },
    }  # fmt: skip


def turning_facts(found: Numbers) -> list[Fact]:
    """The picture in four numbers: overlap and spread, there and upright."""
    count, there, upright = found["digits"], "least sure", "upright"
    ranges = "digits whose top two logits' ranges overlap"
    return [
        of_count(f"{ranges} where least sure", found["overlap"][there], count, above=0.5),
        of_count(f"{ranges} upright", found["overlap"][upright], count, below=0.5),
        over_seeds(
            "spread of the output where least sure",
            found["spread"][there],
            above=0.5,
            within=A_SHARE,
        ),
        over_seeds(
            "spread of the output upright", found["spread"][upright], below=0.1, within=A_SHARE
        ),
    ]
