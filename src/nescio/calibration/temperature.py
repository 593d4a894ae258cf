"""Temperature scaling (Guo et al., 2017): divide all logits by one number.

The number minimizes the likelihood loss of the mixture on calibration data, by Newton's method with
closed-form derivatives, guarded by a bracket.
"""

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from nescio.calibration.map import State, affine, calibration, logits_of, refuse_perfect
from nescio.core import Classification, NescioError, counted, workers

LIMIT = math.log(100.0)  # temperatures between 0.01 and 100
CHUNK = 1 << 18  # numbers of a chunk: they stay in the cache
FEW = 1 << 11  # samples that find the neighborhood of the best


class NoTemperatureError(NescioError):
    """No temperature between 0.01 and 100 fits best."""


class Point(NamedTuple):
    """A log(1 / T), and another with the second derivative there."""

    place: float
    before: tuple[float, float] | None = None


@calibration(affine)
def temperature(prediction: Classification, labels: Tensor) -> State:
    """Temperature scaling: all logits divided by one number, fitted on calibration data `(x, y)`.

    Guo et al. (2017). The order of the classes stays.

    predictor: a network or a predictor, of classes or of several labels.
    data: calibration data: a pair `(x, y)`, a loader of such pairs, or a mapping with labels.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    slope = torch.tensor(1 / fit_temperature(prediction, labels), dtype=torch.float64)
    return {"weight": slope, "intercept": torch.zeros(prediction.classes, dtype=torch.float64)}


def fit_temperature(
    prediction: Classification, labels: Tensor, *, ignore_index: int | None = None
) -> float:
    """The temperature that minimizes the negative log-likelihood of the mixture.

    prediction: a prediction of classes.
    labels: true classes, `(N,)`, or `(N, H, W)` of maps.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    prediction, labels = counted(prediction, labels, ignore_index=ignore_index)
    logits = logits_of(prediction).detach()
    refuse_perfect(logits, labels)
    logits, labels = logits.flatten(1, -2), labels.flatten().to(logits.device)
    low, high = _bracket(logits, labels)
    start, every = Point(0.5 * (low + high)), len(labels) // FEW
    if every > 1:  # some samples, then all in single precision: that is near, and costs little
        few = _newton(logits[:, ::every], labels[::every], (low, start, high), torch.float32)
        start = Point(few.place) if abs(few.place) < 0.9 * LIMIT else start
        start = _newton(logits, labels, (low, start, high), torch.float32)
    point = _newton(logits, labels, (low, start, high), torch.float64).place
    if abs(point) > 0.999 * LIMIT:
        alike = (logits >= 0).all() and ((logits.sum(-1) - 1).abs() < 1e-3).all()
        hint = "; these rows sum to 1: if they are probabilities, pass probs=True" if alike else ""
        raise NoTemperatureError(
            "the best temperature lies outside 0.01 to 100: either the logits are very large or "
            "small, or they do not speak for the labels; check that the inputs are scaled as in "
            f"training, the order of the classes, and that x and y belong together{hint}"
        )
    return math.exp(-point)


def _newton(
    logits: Tensor, labels: Tensor, around: tuple[float, Point, float], dtype: torch.dtype
) -> Point:
    """Newton's method in log(1 / T), with the third derivative from the last two second ones."""
    low, at, high = around
    enough = 1e-3 if dtype == torch.float32 else 5e-9
    for _ in range(100):
        _, first, second = _derivatives(logits, labels, math.exp(at.place), dtype)
        low, high = (low, at.place) if first > 0 else (at.place, high)
        step = -first / second if second > 0 else math.nan
        apart = 1.0 if at.before is None else at.place - at.before[0]
        bend = 0.0 if at.before is None or not apart else (second - at.before[1]) / apart
        if abs(bend * step) < second:
            step = -first / (second + 0.5 * bend * step)
        in_dist = low < at.place + step < high
        place = at.place + step if in_dist else 0.5 * (low + high)
        moved = place - at.place
        at = Point(place, (at.place, second))
        if (in_dist and moved**2 * min(1.0, abs(apart)) < enough) or abs(moved) < 1e-13:
            break
    return at


def _bracket(logits: Tensor, labels: Tensor) -> tuple[float, float]:
    """An interval of log(1 / T) around the best minimum that is reached downhill from T = 1."""
    if len(logits) == 1:  # one network is convex, a mixture need not be
        return -LIMIT, LIMIT
    grid = torch.linspace(-LIMIT, LIMIT, 19).tolist()
    value = cache(lambda at: _derivatives(logits, labels, math.exp(grid[at]), torch.float32)[0])
    best, last = len(grid) // 2, len(grid) - 1
    while (lower := min((best, max(best - 1, 0), min(best + 1, last)), key=value)) != best:
        best = lower
    if best in (0, last):  # next to T = 0 members only vote, and some vote is right by chance
        inner = [k for k in range(1, last) if value(k) < min(value(k - 1), value(k + 1))]
        best = min(inner, key=value, default=best)
    return grid[max(best - 1, 0)], grid[min(best + 1, last)]


def _derivatives(
    logits: Tensor, labels: Tensor, slope: float, dtype: torch.dtype
) -> tuple[float, float, float]:
    """Mean NLL of the mixture at logits x slope, and its derivatives in log slope."""
    members, samples, classes = logits.shape
    size = max(1, CHUNK // (members * classes))

    def part(z: Tensor, y: Tensor) -> Tensor:
        z = z.to(torch.promote_types(z.dtype, dtype))
        return _sums((z - z.amax(-1, keepdim=True)).to(dtype), y, slope)  # before it is rounded

    blocks, threads = (logits.split(size, 1), labels.split(size)), torch.get_num_threads()
    if len(blocks[0]) == 1 or threads == 1 or logits.device.type != "cpu":
        found = list(map(part, *blocks))
    else:
        with workers(threads) as pool:  # a block each, not each shared
            found = list(pool.map(part, *blocks))
    value, first, second = (-torch.stack(found).sum(0) / samples).tolist()
    return value, slope * first, slope * first + slope**2 * second


def _sums(z: Tensor, y: Tensor, slope: float) -> Tensor:
    """Log-likelihoods of the mixture and their derivatives in slope, summed over the samples."""
    own = z.gather(-1, y.expand(len(z), -1)[..., None])[..., 0].double()
    parts, mean, square = _moments(z, slope)
    logs = slope * own - parts.log()
    share = logs.softmax(0)
    value = logs.logsumexp(0) - math.log(len(z))
    rise = torch.where(own.isinf(), 0.0, own) - mean  # d log p_m / d slope
    first = (share * rise).sum(0)
    second = (share * (rise.square() - square + mean.square())).sum(0) - first.square()
    return torch.stack([value.sum(), first.sum(), second.sum()])


def _moments(z: Tensor, slope: float) -> tuple[Tensor, Tensor, Tensor]:
    """The sum of exp(slope z), and the means of z and of its square with these weights."""
    weights = (slope * z).exp_()
    parts = weights.sum(-1).double()
    first = weights.mul_(z).sum(-1)
    if first.isnan().any():  # 0 x infinity: a class that is ruled out adds nothing
        return _moments(z.clamp(min=-1e30), slope)
    return parts, first.double() / parts, weights.mul_(z).sum(-1).double() / parts
