"""Maximum mean discrepancy (Gretton et al., 2012), with exact p-values."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, derive
from nescio.monitoring.shift.shift import Floats, Shift, as_batches, check_draws, permutation_test

LARGE = 4000  # samples of both batches up to which all pairs are compared
MEDIAN = 1000  # samples whose distances the median is taken of
BLOCK = 1 << 22  # numbers at a time


def mmd(
    before: Any,
    after: Any,
    *,
    width: float | None = None,
    method: Literal["quadratic", "linear"] | None = None,
    permutations: int = 999,
    seed: int = 0,
) -> Shift:
    """How far apart two batches are in a space of Gaussian features (squared, unbiased).

    width: of the kernel exp(-d^2 / (2 width^2)); None: the median distance of all samples, or of
    1000 of them. method: "quadratic" compares all pairs and draws labels again. "linear" pairs
    samples off (its section 6), and draws the sign of each pair of pairs again: less power, any
    size; of the larger batch as many are used as the smaller has. None: by size, 4000 samples in
    all. Both p-values are exact: the draws are as likely as the data where nothing has shifted.
    """
    first, second = as_batches(before, after, least=2)
    check_draws(permutations)
    if method not in ("quadratic", "linear", None):
        raise NescioError(f'method must be "quadratic", "linear" or None, got {method!r}')
    rng = np.random.default_rng(derive(seed, "mmd"))
    pooled = np.concatenate([first, second])
    wide = _median(pooled, rng) if width is None else float(width)
    if not 0 < wide < np.inf:
        raise NescioError(f"width must be positive, got {width}")
    chosen = method or ("quadratic" if len(pooled) <= LARGE else "linear")
    notes: Any = {"method": chosen, "width": wide, "permutations": permutations, "seed": seed}
    if chosen == "linear":
        terms = _pairs_of_pairs(rng.permutation(first), rng.permutation(second), wide)
        signs = (
            rng.integers(2, size=(n, len(terms))) * 2.0 - 1
            for n in _steps(permutations, len(terms))
        )
        drawn = np.concatenate([sign @ terms for sign in signs]) / len(terms)
        value, used = float(terms.mean()), 2 * len(terms)
        return permutation_test("mmd", value, drawn, (used, used), **notes)
    kernel = _kernel(pooled, pooled, wide)
    np.fill_diagonal(kernel, 0.0)
    value = float(_unbiased(kernel, _labels(len(first), len(second)))[0])
    drawn = np.concatenate(
        [
            _unbiased(kernel, rng.permuted(_labels(len(first), len(second), count), axis=1))
            for count in _steps(permutations, len(pooled))
        ]
    )
    return permutation_test("mmd", value, drawn, (len(first), len(second)), **notes)


def _steps(total: int, size: int) -> Iterator[int]:
    step = max(1, BLOCK // size)
    for start in range(0, total, step):
        yield min(step, total - start)


def _labels(first: int, second: int, rows: int = 1) -> Floats:
    """Rows of `first` ones and `second` zeros."""
    return np.tile(np.repeat([1.0, 0.0], [first, second]), (rows, 1))


def _median(pooled: Floats, rng: np.random.Generator) -> float:
    """The median distance of two samples; that of different ones where most are the same."""
    chosen = rng.permutation(len(pooled))[:MEDIAN]
    squares = _squares(pooled[chosen], pooled[chosen])[np.triu_indices(len(chosen), 1)]
    middle = np.median(squares)
    if middle == 0 and squares.any():
        middle = np.median(squares[squares > 0])
    return float(np.sqrt(middle)) or 1.0


def _squares(one: Floats, two: Floats) -> Floats:
    from scipy.spatial.distance import cdist

    squares: Floats = cdist(one, two, "sqeuclidean")
    return squares


def _kernel(one: Floats, two: Floats, width: float) -> Floats:
    return np.exp(_squares(one, two) / (-2 * width**2))


def _unbiased(kernel: Floats, labels: Floats) -> Floats:
    """Mean within the first, plus within the second, less twice between; for rows of labels."""
    first = labels.sum(1)
    second = labels.shape[1] - first
    sums = labels @ kernel
    one = np.einsum("pn,pn->p", sums, labels)
    between = sums.sum(1) - one
    other = kernel.sum() - one - 2 * between
    result: Floats = (
        one / (first * (first - 1))
        + other / (second * (second - 1))
        - 2 * between / (first * second)
    )
    return result


def _pairs_of_pairs(first: Floats, second: Floats, width: float) -> NDArray[np.float64]:
    """k(x, x') + k(y, y') - k(x, y') - k(x', y) of pairs: swapping x' and y' turns the sign."""
    count = min(len(first), len(second)) // 2
    x, y = first[:count], second[:count]
    x2, y2 = first[count : 2 * count], second[count : 2 * count]

    def k(one: Floats, two: Floats) -> Floats:
        result: Floats = np.exp(np.square(one - two).sum(1) / (-2 * width**2))
        return result

    return k(x, x2) + k(y, y2) - k(x, y2) - k(x2, y)
