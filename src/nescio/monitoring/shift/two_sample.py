"""Two-sample tests with exact p-values: maximum mean discrepancy, and a classifier."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import NescioError, as_batch, derive, only_tensor
from nescio.data import Table, door
from nescio.metrics import auroc

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

    A random half of each batch teaches, the other is told apart; its labels are drawn again for
    the p-value, which is exact whatever the classifier learned. classifier: "boosting" (trees),
    "logistic" (linear), or a function of rows and labels 0, 1 that returns a function of rows.
    The statistic is 1/2 where nothing has shifted; the test looks for more.
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
    notes: dict[str, Any] = {"classifier": name, "permutations": permutations, "seed": seed}
    return permutation_test("classifier_two_sample", value, drawn, (zeros, ones), **notes)


def _drawn(scores: Floats, ones: int, permutations: int, rng: np.random.Generator) -> Floats:
    """The AUROC of `permutations` drawings of the labels, from ranks with ties shared."""
    from scipy.stats import rankdata

    ranks = rankdata(scores)
    areas = []
    for count in steps(permutations, len(ranks)):
        rows = np.tile(ranks, (count, 1))
        sums = rng.permuted(rows, axis=1)[:, :ones].sum(1)
        areas.append((sums - ones * (ones + 1) / 2) / (ones * (len(ranks) - ones)))
    return np.concatenate(areas)


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
            rng.integers(2, size=(n, len(terms))) * 2.0 - 1 for n in steps(permutations, len(terms))
        )
        drawn = np.concatenate([sign @ terms for sign in signs]) / len(terms)
        value, used = float(terms.mean()), 2 * len(terms)
        return permutation_test("mmd", value, drawn, (used, used), **notes)
    kernel = np.exp(_squares(pooled, pooled) / (-2 * wide**2))
    np.fill_diagonal(kernel, 0.0)
    value = float(_unbiased(kernel, _labels(len(first), len(second)))[0])
    drawn = np.concatenate(
        [
            _unbiased(kernel, rng.permuted(_labels(len(first), len(second), count), axis=1))
            for count in steps(permutations, len(pooled))
        ]
    )
    return permutation_test("mmd", value, drawn, (len(first), len(second)), **notes)


def steps(total: int, size: int) -> Iterator[int]:
    """How many of `total` draws of `size` numbers to make at a time."""
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


def _pairs_of_pairs(first: Floats, second: Floats, width: float) -> NDArray[np.float64]:
    """k(x, x') + k(y, y') - k(x, y') - k(x', y) of pairs: swapping x' and y' turns the sign."""
    count = min(len(first), len(second)) // 2
    x, y = first[:count], second[:count]
    x2, y2 = first[count : 2 * count], second[count : 2 * count]

    def k(one: Floats, two: Floats) -> Floats:
        return np.asarray(np.exp(np.square(one - two).sum(1) / (-2 * width**2)))

    return k(x, x2) + k(y, y2) - k(x, y2) - k(x2, y)
