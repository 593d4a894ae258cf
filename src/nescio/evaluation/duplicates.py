"""Test samples that are among the training data, or twice in the test data."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.conformal import binomial_interval
from nescio.core import Inputs, NescioError, generator, hash_inputs
from nescio.evaluation.near_duplicates import comparable_rows, near_duplicates
from nescio.metrics import Interval

LISTED = 50  # pairs of each kind that are named
ROWS = 2000  # row numbers that are named
TRAINING, TEST = 60_000, 10_000  # samples among which near-duplicates are looked for, at most


@dataclass(frozen=True, kw_only=True)
class Duplicate:
    """A test sample, and the sample that it repeats.

    sample: index in the test data.
    other: index in the training data; within the test data, in these.
    exact: whether the inputs are equal; otherwise nearly.
    label, other_label: their labels; None: not known.
    """

    sample: int
    other: int
    exact: bool
    label: int | None = None
    other_label: int | None = None


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """Test samples that repeat samples of one set: how many, which, and the first pairs.

    exact: number of test samples that repeat one exactly.
    near: number of test samples that repeat one nearly; None: not looked for.
    rows: indices of these test samples, exact or near; at most 2,000.
    pairs: the first pairs; at most 50.
    conflicts: number of pairs whose labels differ; None: a label is unknown.
    by_chance: share of the training samples that equal another one.
    looked_at: number of test samples whose near-duplicates were looked for.
    among: number of samples among which.
    skipped: why near-duplicates were not looked for.
    """

    exact: int
    near: int | None
    rows: tuple[int, ...]
    pairs: tuple[Duplicate, ...]
    conflicts: int | None = None
    by_chance: float | None = None
    looked_at: int
    among: int
    skipped: str | None = None

    @property
    def count(self) -> int:
        """Test samples that repeat others."""
        return self.exact + (self.near or 0)


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Repetitions between test and training data and within the test data.

    samples: number of test samples.
    in_training: test samples that are in the training data; None: there are no training data.
    in_test: test samples that repeat an earlier one.
    accuracy, accuracy_without: accuracy on all test samples, and without those that are in the
      training data.
    mean_error, mean_error_without: the same of a regression, its mean absolute error.
    """

    samples: int
    in_training: Repeats | None
    in_test: Repeats
    accuracy: Interval | None = None
    accuracy_without: Interval | None = None
    mean_error: float | None = None
    mean_error_without: float | None = None


@dataclass(frozen=True, eq=False)
class Compared:
    """Samples to compare: inputs, rows whose distances say how alike they are, labels."""

    x: Inputs | None
    features: Tensor | None = None  # (N, F), used where the inputs have no distances
    labels: Tensor | None = None

    def __len__(self) -> int:
        one: Any = self.features if self.x is None else self.x
        return len(one)

    def hashes(self) -> Tensor:
        """Equal for equal samples."""
        return hash_inputs(self.features if self.x is None else self.x)  # type: ignore[arg-type]

    def label(self, row: int) -> int | None:
        """Of a sample, where labels are classes."""
        whole = self.labels is not None and not self.labels.is_floating_point()
        return int(self.labels[row]) if whole and self.labels is not None else None


def find_duplicates(
    x: Any,
    train: Any = None,
    *,
    features: Tensor | None = None,
    train_features: Tensor | None = None,
    labels: Tensor | None = None,
    train_labels: Tensor | None = None,
    wrong: Tensor | None = None,
    most: int = TEST,
    seed: int = 0,
) -> Duplicates:
    """Test samples whose input is a training input, or an earlier test input, exactly or nearly.

    Exact ones are found by hashes of all inputs. Near ones are images, tables of measurements or
    features that are much closer to one sample than the spacing of its neighbors explains; of those
    named at most 1 % are false in expectation.

    x: test inputs; None where only `features` are known.
    train: training inputs; None where only `train_features` are known, or where there are none.
    features, train_features: features of the test and training samples, `(N, F)`.
    labels, train_labels: labels of the test and training samples, `(N,)`.
    wrong: whether the answer to each test sample is wrong, `(N,)`; of a regression the error.
    most: largest number of test samples that are compared for near ones, with 60,000 (or ten times
      as many) training samples at most.
    seed: seed of the random draws.
    """
    if x is None and features is None:
        raise NescioError("duplicates are found by inputs or features, and neither is known")
    test = Compared(x, features, labels)
    known = None if train is None and train_features is None else Compared(
        train, train_features, train_labels
    )  # fmt: skip
    leaked = None if known is None else _repeats(test, known, most, seed)
    return Duplicates(
        samples=len(test),
        in_training=None if leaked is None else leaked[1],
        in_test=_repeats(test, None, most, seed)[1],
        **({} if wrong is None else _without(wrong, None if leaked is None else leaked[0])),
    )


def _without(wrong: Tensor, leaked: Tensor | None) -> dict[str, Any]:
    """How good the answers are, with and without the samples that are in the training data."""
    kept = wrong if leaked is None else wrong[~leaked]
    if wrong.is_floating_point():
        means = (float(part.double().abs().mean()) if len(part) else None for part in (wrong, kept))
        return dict(zip(("mean_error", "mean_error_without"), means, strict=True))
    shares = (binomial_interval(len(part) - int(part.sum()), len(part)) if len(part) else None
              for part in (wrong, kept))  # fmt: skip
    return dict(zip(("accuracy", "accuracy_without"), shares, strict=True))


def _repeats(
    test: Compared, known: Compared | None, most: int, seed: int
) -> tuple[Tensor, Repeats]:
    """Which test samples `(N,)` repeat a known one, or an earlier test sample; and in words."""
    own = test.hashes()
    theirs = own if known is None else known.hashes()
    exact = _exact(own, None if known is None else theirs)
    looked = _drawn((_exact(own) < 0).nonzero()[:, 0], most, seed)
    among = (
        looked
        if known is None
        else _drawn((_exact(theirs) < 0).nonzero()[:, 0], min(TRAINING, 10 * most), seed)
    )
    near, skipped = torch.full_like(exact, -1), None
    try:
        near[looked] = _near(test, known, looked, among)
    except NescioError as error:
        skipped = str(error)
    near[exact >= 0] = -1
    other = torch.maximum(exact, near)
    rows = (other >= 0).nonzero()[:, 0]
    pairs = _pairs(test, known or test, other, exact)
    return other >= 0, Repeats(
        exact=int((exact >= 0).sum()),
        near=None if skipped else int((near >= 0).sum()),
        rows=tuple(rows[:ROWS].tolist()),
        pairs=pairs,
        conflicts=_conflicts(test, known or test, other),
        by_chance=None if known is None else _repeated(theirs),
        looked_at=len(looked),
        among=len(among),
        skipped=skipped,
    )


def _repeated(hashes: Tensor) -> float:
    """The share of samples that equal another one."""
    count = hashes.unique(return_counts=True)[1]
    return float(count[count > 1].sum()) / max(1, len(hashes))


def _drawn(rows: Tensor, most: int, seed: int) -> Tensor:
    """Some of the rows, at random, in their order."""
    if len(rows) <= most:
        return rows
    order = torch.randperm(len(rows), generator=generator(seed, "duplicates"))
    return rows[order[:most].sort().values]


def _exact(own: Tensor, known: Tensor | None = None) -> Tensor:
    """For each hash the index of the first equal one, among the known or before it; else -1."""
    ordered, place = (own if known is None else known).sort(stable=True)
    if not len(ordered):
        return torch.full_like(own, -1)
    at = torch.searchsorted(ordered, own).clamp_max(len(ordered) - 1)
    first = torch.where(ordered[at] == own, place[at], -1)
    if known is None:
        first[first == torch.arange(len(own))] = -1
    return first


def _near(test: Compared, known: Compared | None, looked: Tensor, among: Tensor) -> Tensor:
    """For each sample looked at, the other one that it nearly repeats, or -1."""
    rows, others = _rows(test, known, looked, among)
    found = near_duplicates(rows, others)
    where = torch.where(found >= 0, among[found.clamp_min(0)], -1)
    if known is None:  # of two the later one repeats the earlier
        where[where > looked] = -1
    return where


def _rows(
    test: Compared, known: Compared | None, looked: Tensor, among: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Rows to compare: of the inputs where these have distances, else of the features."""
    try:
        if test.x is None or (known is not None and known.x is None):
            raise NescioError("there are neither inputs nor features to compare")
        others = None if known is None else comparable_rows(known.x[among])  # type: ignore[index]
        like = None if known is None else known.x[among]  # type: ignore[index]
        return comparable_rows(test.x[looked], like), others
    except NescioError:
        if test.features is None or (known is not None and known.features is None):
            raise
        others = None if known is None else known.features[among].float()  # type: ignore[index]
        return test.features[looked].float(), others


def _pairs(test: Compared, known: Compared, other: Tensor, exact: Tensor) -> tuple[Duplicate, ...]:
    """The first pairs of both kinds."""
    near = ((other >= 0) & (exact < 0)).nonzero()[:LISTED, 0]
    first = (exact >= 0).nonzero()[:LISTED, 0]
    return tuple(
        Duplicate(
            sample=row,
            other=int(other[row]),
            exact=bool(exact[row] >= 0),
            label=test.label(row),
            other_label=known.label(int(other[row])),
        )
        for row in torch.cat([first, near]).tolist()
    )


def _conflicts(test: Compared, known: Compared, other: Tensor) -> int | None:
    """Pairs whose labels differ."""
    ours, theirs = test.labels, known.labels
    if ours is None or theirs is None or ours.is_floating_point() or theirs.is_floating_point():
        return None
    rows = (other >= 0).nonzero()[:, 0]
    return int((ours.cpu()[rows] != theirs.cpu()[other[rows]]).sum())
