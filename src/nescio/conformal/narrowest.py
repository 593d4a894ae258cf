"""The kind of prediction interval that is narrowest, chosen and calibrated on separate samples.

A kind that was chosen by its width on the samples that calibrate it covers too little (Yang and
Kuchibhotla, 2024). So a random part of the samples, which depends on nothing but the seed, chooses,
and the rest calibrates: given the choice, the rest and new samples are exchangeable.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nescio.conformal.prediction_intervals import (
    Intervals,
    normalized,
    quantile,
    residual,
    spread,
)
from nescio.conformal.score_limits import check_groups, needed
from nescio.core import NescioError, Regression, as_targets, generator

SHARE, ENOUGH = 0.25, 500  # of the samples, which choose, and their most
CLEAR = 0.97  # another kind than the usual one must be narrower than this share of it
Build = Callable[..., Intervals]


def narrowest(
    prediction: Regression,
    targets: Any,
    *,
    miscoverage: float = 0.1,
    by: Any = None,
    randomize: bool = False,
    seed: int = 0,
) -> Intervals:
    """Intervals of the kind that is narrowest on a part of the samples, calibrated on the others.

    Of `normalized`, `quantile`, `spread` (of two members or more) and `residual`, as far as the
    prediction allows them. `normalized` is kept unless another is clearly narrower. With too few
    samples to choose, all calibrate `normalized`, or `residual` where nothing is said about
    variances. The options are those of `residual`; `seed` also draws the part.

        intervals = narrowest(prediction, targets)
        intervals.name  # "quantile", for example
    """
    if not isinstance(prediction, Regression):
        raise NescioError(
            f"kinds of intervals are compared for a regression, got a {type(prediction).__name__}; "
            "use `residual` for means"
        )
    y = as_targets(targets, len(prediction), task="regression", dtype=torch.float64).cpu()
    groups = None if by is None else check_groups(by, len(y))
    first, rest = _parts(len(y), miscoverage, seed)
    options: dict[str, Any] = {"miscoverage": miscoverage, "randomize": randomize, "seed": seed}
    kinds = _kinds(prediction[first], y[first]) if len(first) else _usual(prediction)
    name = next(iter(kinds))
    if len(first) and len(kinds) > 1:
        widths = _widths(kinds, prediction[first], y[first], miscoverage)
        best = min(widths, key=lambda kind: widths[kind])
        name = best if widths[best] < CLEAR * widths[name] else name
    own = None if groups is None else groups[rest]
    return kinds[name](prediction[rest], y[rest], by=own, **options)


def _parts(samples: int, miscoverage: float, seed: int) -> tuple[Tensor, Tensor]:
    """Samples that choose, and the others; none choose where they could not calibrate."""
    count = min(round(SHARE * samples), ENOUGH)
    count = count if count >= 2 * needed(miscoverage) else 0
    order = torch.randperm(samples, generator=generator(seed, "narrowest"))
    return order[:count].sort().values, order[count:].sort().values


def _usual(prediction: Regression) -> dict[str, Build]:
    """The kind that is taken without a comparison."""
    said = prediction.mixture_variance
    if (said > 0).all() and not torch.equal(said, said[:1].expand_as(said)):
        return {"normalized": normalized}
    return {"residual": residual}


def _kinds(prediction: Regression, y: Tensor) -> dict[str, Build]:
    """The kinds that this prediction allows, the usual one first."""
    found = _usual(prediction)
    if (prediction.member_variance > 0).all():
        found["quantile"] = quantile
    if prediction.members > 1:
        error = (prediction.mixture_mean.double().cpu() - y).square().mean().sqrt()
        found["spread"] = partial(spread, noise=float(error))
    return {**found, "residual": residual}


def _widths(
    kinds: Mapping[str, Build], prediction: Regression, y: Tensor, miscoverage: float
) -> dict[str, float]:
    """The mean width of each kind, each target in the unit of its deviation; refused: infinite."""
    scale = y.std(0).clamp(min=torch.finfo(torch.float64).tiny)
    found = {}
    for name, build in kinds.items():
        try:
            low, high = build(prediction, y, miscoverage=miscoverage)(prediction)
        except NescioError:  # members that agree exactly, for example
            found[name] = math.inf
            continue
        found[name] = float(((high - low).cpu() / scale).mean())
    return found
