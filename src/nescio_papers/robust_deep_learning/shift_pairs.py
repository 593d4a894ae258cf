"""An ensemble beside MC dropout on the same inputs: paired differences with their intervals."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio import metrics
from nescio.core import Floats, to_json
from nescio.data.corruptions import Shifted
from nescio.data.dataset import Part
from nescio.evaluation.answers import Seen, see
from nescio.metrics import Interval
from nescio.models import Predictor

STRENGTHS = range(6)
RESAMPLES = 200
CONFIDENT = 0.9
LEVEL = (0.025, 0.975)


def along_shifts(
    pair: tuple[Predictor, Predictor],
    test: Part,
    shifts: Sequence[Callable[[], Shifted]],
    *,
    seed: int,
) -> dict[str, Any]:
    """Mean differences over all shifts and strengths, by digit; the digits are drawn again.

    pair: the ensemble and MC dropout.
    test: the digits, as they are.
    shifts: the shifts; strength 0 is the same of all and counts once.
    seed: seed of the draws.
    """
    x, y = test
    moved = [(make(), strength) for number, make in enumerate(shifts)
             for strength in STRENGTHS[number > 0 :]]  # fmt: skip
    sides = [
        [_answers(see(one, shift(x, strength)), y) for shift, strength in moved] for one in pair
    ]
    right, loss, confidence = (
        [torch.stack([answer[k] for answer in side]) for side in sides] for k in range(3)
    )
    gaps = {"accuracy": right[0].double() - right[1].double(), "nll": loss[0] - loss[1]}
    areas = [[metrics.ece(*each) for each in zip(confidence[k], right[k], strict=True)]
             for k in range(2)]  # fmt: skip
    won = {name: gap.mean(1).numpy() for name, gap in gaps.items()}
    won["ece"] = np.array(areas[0]) - np.array(areas[1])
    return {
        "conditions": len(moved),
        **{name: to_json(metrics.bootstrap_mean(gap.mean(0), seed=seed))
           for name, gap in gaps.items()},
        "ece": to_json(_calibration(confidence, right, float(won["ece"].mean()), seed)),
        "better": {name: int((sign * won[name] > 0).sum())
                   for name, sign in (("accuracy", 1), ("nll", -1), ("ece", -1))},
    }  # fmt: skip


def _answers(seen: Seen, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Whether each answer is right, its NLL and its confidence."""
    loss = -seen.log_probs.gather(1, y[:, None])[:, 0]
    return seen.labels == y, loss.double(), seen.confidence


def _calibration(
    confidence: Sequence[Tensor], right: Sequence[Tensor], value: float, seed: int
) -> Interval:
    """The mean difference of the ECE, with the digits drawn again."""
    draws, count = np.random.default_rng(seed), right[0].shape[1]
    again = []
    for _ in range(RESAMPLES):
        rows = torch.from_numpy(draws.integers(count, size=count))
        first, second = (
            np.mean([metrics.ece(one[rows], two[rows])
                     for one, two in zip(confidence[k], right[k], strict=True)])
            for k in range(2)
        )  # fmt: skip
        again.append(first - second)
    return _interval(value, np.array(again))


def _interval(value: float, again: Floats) -> Interval:
    kept = again[np.isfinite(again)]
    if not len(kept):
        return Interval(value, float("nan"), float("nan"))
    low, high = np.quantile(kept, LEVEL)
    return Interval(value, float(low), float(high))


def entropy_growth(other: Mapping[str, Seen], names: Sequence[str], *, seed: int) -> dict[str, Any]:
    """How much the entropy of each ensemble is above that of the smaller one, by input.

    other: answers to inputs of unknown classes.
    names: the ensembles, from the smallest.
    seed: seed of the draws.
    """
    values = {name: torch.as_tensor(other[name].scores["predictive_entropy"]) for name in names}
    return {
        f"{large} less {small}": to_json(
            metrics.bootstrap_mean((values[large] - values[small]).double(), seed=seed)
        )
        for small, large in pairwise(names)
    }


def confident_gain(
    in_dist: tuple[Seen, Seen], y: Tensor, ood: tuple[Seen, Seen], *, seed: int
) -> dict[str, Any]:
    """Accuracy of confident answers, the first less the second; unknown classes are wrong.

    in_dist: the answers of both to the test inputs.
    y: true classes of these.
    ood: the answers of both to inputs of unknown classes.
    seed: seed of the draws.
    """
    counted = [
        np.stack([_both(one.confidence >= CONFIDENT, other.confidence >= CONFIDENT),
                  _both((one.confidence >= CONFIDENT) & (one.labels == y),
                        torch.zeros(len(other.labels), dtype=torch.bool))])
        for one, other in zip(in_dist, ood, strict=True)
    ]  # fmt: skip
    draws, count = np.random.default_rng(seed), counted[0].shape[1]
    again = [_gain(counted, draws.integers(count, size=count)) for _ in range(5 * RESAMPLES)]
    return dict(to_json(_interval(_gain(counted, np.arange(count)), np.array(again))))


def _both(known: Tensor, unknown: Tensor) -> Floats:
    return torch.cat([known, unknown]).double().numpy()


def _gain(counted: Sequence[Floats], rows: Any) -> float:
    """The share of right answers among the confident ones, the first less the second."""
    with np.errstate(invalid="ignore"):
        shares = [np.divide(right[rows].sum(), answered[rows].sum()) for answered, right in counted]
    return float(shares[0] - shares[1])
