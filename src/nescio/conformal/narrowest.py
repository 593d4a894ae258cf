"""The kind of prediction interval that is narrowest, chosen and calibrated on separate samples.

A kind that was chosen by its width on the samples that calibrate it covers too little (Yang and
Kuchibhotla, 2024). So a random part of the samples, which depends on nothing but the seed, chooses,
and the rest calibrates: given the choice, the rest and new samples are exchangeable.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.conformal.prediction_intervals import Intervals, bands
from nescio.conformal.score_limits import check_groups, needed
from nescio.core import Floats, NescioError, Regression, as_targets, derive, generator
from nescio.core.registry import conformal_methods

SHARE, ENOUGH = 0.25, 500  # of the samples, which choose, and their most
CLEAR, RESAMPLES = 0.8, 200  # the share of resamples in which another kind must be narrower
GAIN = 0.97  # and its mean width at most this share of the usual one
TINY = 1e-300
Options = dict[str, float]


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
    prediction allows them. `normalized` is kept unless another is narrower in 80 % of resamples,
    and by 3 %. With too few samples to choose, all calibrate `normalized`, or `residual` where
    nothing is said about variances.

        intervals = narrowest(prediction, targets)
        intervals.name  # "quantile", for example

    prediction: a regression on calibration data.
    targets: true targets of the calibration data, `(N,)` or `(N, D)`.
    miscoverage: share of new samples whose target may be missed, for each target by itself.
    by: None for all samples together, or group numbers `(N,)` for each group.
    randomize: whether to break ties at random, so that the share is met exactly.
    seed: seed of the random draws: of the part that chooses, and of ties.
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
        name = _clearly_narrowest(kinds, prediction[first], y[first], miscoverage, seed)
    own = None if groups is None else groups[rest]
    made: Intervals = conformal_methods[name](
        prediction[rest], y[rest], by=own, **options, **kinds[name]
    )
    return made


def _parts(samples: int, miscoverage: float, seed: int) -> tuple[Tensor, Tensor]:
    """Samples that choose, and the others; none choose where they could not calibrate."""
    count = min(round(SHARE * samples), ENOUGH)
    count = count if count >= 2 * needed(miscoverage) else 0
    order = torch.randperm(samples, generator=generator(seed, "narrowest"))
    return order[:count].sort().values, order[count:].sort().values


def _usual(prediction: Regression) -> dict[str, Options]:
    """The kind that is taken without a comparison."""
    said = prediction.mixture_variance
    if (said > 0).all() and not torch.equal(said, said[:1].expand_as(said)):
        return {"normalized": {}}
    return {"residual": {}}


def _kinds(prediction: Regression, y: Tensor) -> dict[str, Options]:
    """The kinds that this prediction allows with their options, the usual one first."""
    found = _usual(prediction)
    if "normalized" in found and (prediction.member_variance > 0).all():
        found["quantile"] = {}  # of one variance for all, these are the residual ones
    if prediction.members > 1:
        error = float((prediction.mixture_mean.double().cpu() - y).square().mean().sqrt())
        if error > 0:
            found["spread"] = {"noise": error}
    return {**found, "residual": {}}


def _clearly_narrowest(
    kinds: Mapping[str, Options], prediction: Regression, y: Tensor, miscoverage: float, seed: int
) -> str:
    """The kind with the smallest mean width over resamples of the samples, if it is so in most."""
    draws = np.random.default_rng(derive(seed, "kinds of intervals")).integers(
        len(y), size=(RESAMPLES, len(y))
    )
    widths = {}
    for name, options in kinds.items():
        own = {"tail": miscoverage / 2} if name == "quantile" else options
        band = [part.cpu().numpy() for part in bands[name](prediction, **own)]
        widths[name] = _mean_widths(band, y.numpy(), miscoverage, draws)
    usual, *_ = kinds
    best = min(widths, key=lambda kind: float(widths[kind].mean()))
    narrower = widths[best].mean() < GAIN * widths[usual].mean()
    return best if narrower and (widths[best] < widths[usual]).mean() >= CLEAR else usual


def _mean_widths(
    band: Sequence[Floats], y: Floats, miscoverage: float, draws: NDArray[np.int64]
) -> Floats:
    """The mean width in each resample `(R,)`, each target in the unit of its deviation."""
    low, high, unit = band
    score = np.maximum(low - y, y - high) / unit
    place = min(math.ceil((len(y) + 1) * (1 - miscoverage)), len(y)) - 1
    total = np.zeros(len(draws))
    for k in range(y.shape[1]):
        limit = np.partition(score[:, k][draws], place, axis=1)[:, place]
        base, scale = (high - low)[:, k][draws].mean(1), unit[:, k][draws].mean(1)
        total += (base + 2 * limit * scale) / max(float(y[:, k].std()), TINY)
    return total
