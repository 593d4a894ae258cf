"""A Weibull distribution of positive numbers, by maximum likelihood."""

import math

from torch import Tensor

SPREAD = 1e-6  # numbers that differ by less have no shape to fit
STEPS = 200


def fit_weibull(numbers: Tensor) -> tuple[float, float]:
    """Shape k and scale of `1 - exp(-(x / scale)^k)`, by Newton's method inside a bracket.

    The likelihood is largest where sum(x^k log x) / sum(x^k) - 1 / k equals the mean of log x; the
    left side rises with k. Numbers are taken relative to the largest, so no power overflows.
    """
    largest = float(numbers.double().max())
    logs = (numbers.double() / largest).log()
    mean = float(logs.mean())
    low, high = 0.0, math.inf
    shape = 1.2 / float(
        logs.std(correction=0)
    )  # the standard deviation of log x is pi / (k sqrt 6)
    for _ in range(STEPS):
        powers = (shape * logs).exp()
        share = powers / powers.sum()
        first = float((share * logs).sum())
        second = float((share * logs.square()).sum())
        gap = first - 1 / shape - mean
        low, high = (low, shape) if gap > 0 else (shape, high)
        following = shape - gap / (second - first**2 + shape**-2)
        if not low < following < high:
            following = 0.5 * (low + high) if high < math.inf else 2 * shape
        if abs(following - shape) <= 1e-13 * shape:
            break
        shape = following
    return shape, largest * float((shape * logs).exp().mean()) ** (1 / shape)
