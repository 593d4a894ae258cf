"""The classifier two-sample test (Lopez-Paz and Oquab, 2017): can the batches be told apart?"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, derive
from nescio.metrics import auroc
from nescio.monitoring.shift.shift import Floats, Shift, as_batches, check_draws, permutation_test

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
    step = max(1, BLOCK // len(ranks))
    areas = []
    for start in range(0, permutations, step):
        rows = np.tile(ranks, (min(step, permutations - start), 1))
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
