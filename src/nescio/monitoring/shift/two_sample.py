"""Two-sample tests with exact p-values: maximum mean discrepancy, and a classifier."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import NescioError, as_batch, derive, is_whole, only_tensor
from nescio.data import Table, door
from nescio.metrics import auroc

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Shift:
    """A test of two batches: under no shift, p_value <= a happens in a share of at most a.

    test: name of the test.
    statistic: its statistic; larger: further apart.
    p_value: its p-value.
    samples: number of samples that the statistic was computed from, before and after.
    notes: other facts about the test, by name.
    """

    test: str
    statistic: float
    p_value: float
    samples: tuple[int, int]
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
    if not is_whole(count, 1):
        raise NescioError(f"{name} must be a whole number from 1 up, got {count!r}")
    return count


def permutation_p(observed: float, drawn: Floats, scale: float = 0.0) -> float:
    """The share of draws at least as large, the observed one counted among them: exact.

    Rounding must not tell equal statistics apart, so a relative 1e-12 counts as equal: of the
    statistics, or of `scale`, the size of what they are differences of.
    """
    slack = 1e-12 * max(abs(observed), float(np.abs(drawn).max(initial=0.0)), scale)
    return float((1 + (drawn >= observed - slack).sum()) / (1 + len(drawn)))


Scores: TypeAlias = Callable[[Floats], Any]  # rows -> (N,), larger: more like after
Learner: TypeAlias = Callable[[Floats, NDArray[np.int64]], Scores]  # rows, 0 or 1 -> scores
BLOCK = 1 << 22  # labels drawn at a time


def classifier_two_sample(
    before: Any,
    after: Any,
    *,
    classifier: Literal["boosting", "logistic"] | Learner = "boosting",
    permutations: int = 999,
    seed: int = 0,
) -> Shift:
    """AUROC, on test samples, of a classifier that was taught to tell after from before.

    A random half of each batch teaches, the other is told apart; its labels are drawn again for the
    p-value, which is exact whatever the classifier learned. The statistic is 1/2 where nothing has
    shifted; the test looks for more.

    before, after: the two batches, `(N, *features)` and `(M, *features)`.
    classifier: `"boosting"` (trees), `"logistic"` (linear), or a function of rows and labels 0, 1
      that returns a function of rows.
    permutations: number of draws of the labels.
    seed: seed of the random draws.
    """
    first, second = as_batches(before, after, least=4)
    check_draws(permutations)
    learn = classifier if callable(classifier) else _learner(classifier, seed)
    rng = np.random.default_rng(derive(seed, "classifier"))
    halves = [np.array_split(rng.permutation(rows), 2) for rows in (first, second)]
    taught, others = (
        (
            np.concatenate([half[part] for half in halves]),
            np.repeat([0, 1], [len(half[part]) for half in halves]),
        )
        for part in (0, 1)
    )
    learned = learn(*taught)
    if not callable(learned):
        raise NescioError(
            "the classifier must return a function of rows, which gives one number per row; it "
            f"returned a {type(learned).__name__}"
        )
    rows, labels = others
    scores = np.asarray(learned(rows), dtype=np.float64).reshape(-1)
    if scores.shape != labels.shape or np.isnan(scores).any():
        raise NescioError(
            f"the classifier must give {len(labels)} numbers, one per row, got shape "
            f"{scores.shape} with {int(np.isnan(scores).sum())} NaN"
        )
    zeros, ones = (int((labels == label).sum()) for label in (0, 1))
    value = auroc(scores[labels == 0], scores[labels == 1])
    drawn = _drawn(scores, ones, permutations, rng)
    name = classifier if isinstance(classifier, str) else "own function"
    return Shift(
        test="classifier_two_sample",
        statistic=value,
        p_value=permutation_p(value, drawn),
        samples=(zeros, ones),
        notes={"classifier": name, "permutations": len(drawn), "seed": seed},
    )


def _drawn(scores: Floats, ones: int, permutations: int, rng: np.random.Generator) -> Floats:
    """The AUROC of other orders of the labels, given as zeros first; ranks with ties shared."""
    from scipy.stats import rankdata

    ranks, zeros = rankdata(scores), len(scores) - ones
    sums = [labels @ ranks for labels in _relabeled(zeros, ones, permutations, rng)]  # of zeros
    return 1 - (np.concatenate(sums) - zeros * (zeros + 1) / 2) / (ones * zeros)


def _relabeled(
    first: int, second: int, permutations: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """Rows of `first` ones and `second` zeros in other orders, some at a time.

    Random orders; all orders but the given one, ones first, where there are no more of these.
    """
    size = first + second
    if math.comb(size, first) - 1 <= permutations:
        every = np.array(list(combinations(range(size), first)))[1:]
        labels = np.zeros((len(every), size))
        np.put_along_axis(labels, every, 1.0, axis=1)
        yield labels
        return
    given = np.repeat([1.0, 0.0], [first, second])
    for count in steps(permutations, size):
        yield rng.permuted(np.tile(given, (count, 1)), axis=1)


def _learner(name: str, seed: int) -> Learner:
    if name not in ("boosting", "logistic"):
        raise NescioError(f'classifier must be "boosting", "logistic" or a function, got {name!r}')

    def learn(x: Floats, y: NDArray[np.int64]) -> Scores:
        if name == "boosting":
            from sklearn.ensemble import HistGradientBoostingClassifier

            model: Any = HistGradientBoostingClassifier(
                min_samples_leaf=max(2, min(20, len(x) // 10)),  # small batches: small leaves
                random_state=derive(seed, "boosting") % 2**32,
            )
        else:
            from sklearn.linear_model import LogisticRegression
            from sklearn.pipeline import make_pipeline
            from sklearn.preprocessing import StandardScaler

            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        return model.fit(x, y).decision_function  # type: ignore[no-any-return]

    return learn


LARGE = 4000  # samples of both batches up to which all pairs are compared
MEDIAN = 1000  # samples whose distances the median is taken of


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

    Both p-values are exact: the draws are as likely as the data where nothing has shifted. Where
    the labels have no more orders than `permutations`, each order is taken once.

    before, after: the two batches, `(N, *features)` and `(M, *features)`.
    width: width of the kernel exp(-d^2 / (2 width^2)); None: the median distance of all samples, or
      of 1000 of them.
    method: `"quadratic"` compares all pairs and draws labels again. `"linear"` pairs samples off
      (Gretton et al., 2012, section 6), and draws the sign of each pair of pairs again: less power,
      any size; of the larger batch as many are used as the smaller has. None: quadratic up to 4000
      samples in all.
    permutations: number of draws of the labels or signs.
    seed: seed of the random draws.
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
    if chosen == "linear":
        used = min(len(first), len(second)) // 2 * 2
        sizes = used, used
        pairs = _pairs_of_pairs(rng.permutation(first), rng.permutation(second), wide)
        value, drawn, scale = _signs_drawn(*pairs, permutations, rng)
    else:
        sizes = len(first), len(second)
        value, drawn, scale = _labels_drawn(pooled, sizes, wide, permutations, rng)
    notes = {"method": chosen, "width": wide, "permutations": len(drawn), "seed": seed}
    p_value = permutation_p(value, drawn, scale)
    return Shift(test="mmd", statistic=value, p_value=p_value, samples=sizes, notes=notes)


def _labels_drawn(
    pooled: Floats, sizes: tuple[int, int], width: float, permutations: int, rng: Any
) -> tuple[float, Floats, float]:
    """The statistic, those of other orders of the labels, and the size of the means in it."""
    kernel = np.exp(_squares(pooled, pooled) / (-2 * width**2))
    np.fill_diagonal(kernel, 0.0)
    given = np.repeat([1.0, 0.0], sizes)[None]
    drawn = [_unbiased(kernel, labels) for labels in _relabeled(*sizes, permutations, rng)]
    return float(_unbiased(kernel, given)[0]), np.concatenate(drawn), float(kernel.max())


def _signs_drawn(
    terms: Floats, scale: float, permutations: int, rng: Any
) -> tuple[float, Floats, float]:
    """The same of the linear method, whose terms get other signs."""
    signs = (
        rng.integers(2, size=(n, len(terms))) * 2.0 - 1 for n in steps(permutations, len(terms))
    )
    return float(terms.mean()), np.concatenate([s @ terms for s in signs]) / len(terms), scale


def steps(total: int, size: int) -> Iterator[int]:
    """How many of `total` draws of `size` numbers to make at a time."""
    step = max(1, BLOCK // size)
    for start in range(0, total, step):
        yield min(step, total - start)


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

    return np.asarray(cdist(one, two, "sqeuclidean"))


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


def _pairs_of_pairs(first: Floats, second: Floats, width: float) -> tuple[Floats, float]:
    """k(x, x') + k(y, y') - k(x, y') - k(x', y) of pairs, and the largest k.

    Swapping x' and y' turns the sign.
    """
    count = min(len(first), len(second)) // 2
    x, y = first[:count], second[:count]
    x2, y2 = first[count : 2 * count], second[count : 2 * count]

    def k(one: Floats, two: Floats) -> Floats:
        return np.asarray(np.exp(np.square(one - two).sum(1) / (-2 * width**2)))

    alike, across = k(x, x2) + k(y, y2), k(x, y2) + k(x2, y)
    return alike - across, float(max(alike.max(), across.max()))
