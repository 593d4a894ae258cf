"""Learning curves: the accuracy after each acquisition, of several seeds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from nescio.core import (
    Counts,
    Floats,
    NescioError,
    check_level,
    from_json,
    generator,
    load_manifest,
    save_manifest,
    to_json,
    unknown,
)
from nescio.metrics import t_interval

KIND, FILE = "learning curves", "curves.json"
WORK = ("train", "evaluate", "score")  # what the seconds of a step are of


@dataclass(frozen=True, eq=False)
class Band:
    """A number for each step with its interval.

    value: the numbers, `(S,)`.
    low, high: ends of the intervals, `(S,)`.
    """

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelsTo:
    """How many labels an accuracy takes: infinite where it was not reached.

    accuracy: the accuracy.
    by_seed: number of labels of each seed, `(R,)`.
    median: their median.
    low, high: interval of the median over the seeds, by the bootstrap.
    """

    accuracy: float
    by_seed: Floats
    median: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Curves:
    """Accuracy by number of labels, one curve per seed, and what was acquired on the way.

    labels: number of labels in each step, `(S,)`.
    accuracy: accuracy on the test data, of R seeds, `(R, S)`.
    acquired: indices of the pool in their order, `(R, L)`; the first are the start.
    scores: scores of what was acquired, by the acquisition, `(R, L)`; NaN for the start.
    seconds: seconds of the processor to train, evaluate and score, `(S, 3)`.
    seeds: numbers of the seeds.
    settings: how they were made, in JSON.
    """

    labels: Counts
    accuracy: Floats
    acquired: Counts
    scores: Floats
    seconds: Floats
    seeds: tuple[int, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        steps, last = len(self.labels), self.labels[-1] if len(self.labels) else 0
        return f"Curves({self.acquisition}, {len(self.seeds)} seeds, {steps} steps, {last} labels)"

    @property
    def acquisition(self) -> str:
        """By which acquisition the samples were chosen."""
        return str(self.settings.get("acquisition", ""))

    @property
    def error(self) -> Floats:
        """Error rates (R, S)."""
        return 1 - self.accuracy

    def error_at(self, labels: int) -> Floats:
        """The error rate of each seed, `(R,)`, at a number of `labels` that is a step."""
        at = np.flatnonzero(self.labels == labels)
        if not len(at):
            raise NescioError(f"no step has {labels} labels; there are {self._steps}")
        return np.asarray(self.error[:, at[0]])

    @property
    def _steps(self) -> str:
        shown = ", ".join(map(str, self.labels[:3]))
        return f"{shown}, ..., {self.labels[-1]}" if len(self.labels) > 3 else shown

    def interval(
        self, *, level: float = 0.95, method: Literal["t", "bootstrap"] = "t", resamples: int = 1000
    ) -> Band:
        """The mean accuracy of each step with its interval over the seeds.

        One seed has no interval.

        level: confidence level of the interval.
        method: `"t"` for Student's t, which takes the means of seeds for normal, or `"bootstrap"`
          for percentiles of means over seeds that were drawn again, which with few seeds are too
          narrow.
        resamples: number of bootstrap resamples.
        """
        if method == "bootstrap":
            mean, again = self.accuracy.mean(0), self.accuracy[_drawn(self.seeds, resamples)]
            return Band(mean, *_percentiles(again.mean(1), level))
        if method != "t":
            raise NescioError(unknown("method", method, ("t", "bootstrap")))
        steps = [t_interval(column, level=level) for column in self.accuracy.T]
        value, low, high = np.array([[one.value, one.low, one.high] for one in steps]).T
        return Band(value, np.maximum(0.0, low), np.minimum(1.0, high))

    def labels_to(
        self, accuracy: float = 0.95, *, level: float = 0.95, resamples: int = 1000
    ) -> LabelsTo:
        """How many labels each seed has in the first step with an accuracy or more.

        accuracy: the accuracy to reach, above 0 and at most 1.
        level: confidence level of the interval.
        resamples: number of bootstrap resamples.
        """
        if not 0 < accuracy <= 1:
            raise NescioError(f"accuracy must be a share above 0 and up to 1, got {accuracy}")
        check_level(level)
        reached = self.accuracy >= accuracy
        needed = np.where(reached.any(1), self.labels[reached.argmax(1)], np.inf)
        medians = np.median(needed[_drawn(self.seeds, resamples)], axis=1)
        low, high = _percentiles(medians, level)
        return LabelsTo(
            accuracy=accuracy,
            by_seed=needed,
            median=float(np.median(needed)),
            low=float(low),
            high=float(high),
        )

    def after(self, accuracy: Floats, index: Counts, scores: Floats, seconds: Floats) -> "Curves":
        """The curves with one more step.

        accuracy: accuracy with what was acquired so far, `(R,)`.
        index: indices of the pool that are acquired next, `(R, k)`.
        scores: their scores, `(R, k)`.
        seconds: seconds of the processor to train, evaluate and score, `(3,)`.
        """
        return replace(
            self,
            labels=np.append(self.labels, self.acquired.shape[1]),
            accuracy=np.column_stack([self.accuracy, accuracy]),
            acquired=np.concatenate([self.acquired, index], axis=1),
            scores=np.concatenate([self.scores, scores], axis=1),
            seconds=np.vstack([self.seconds, seconds]),
        )

    def first(self, steps: int, *, labels: int | None = None) -> "Curves":
        """The first steps alone, with what they had acquired.

        steps: number of steps.
        labels: number of acquired samples to keep; None: those of the last of these steps.
        """
        labels = int(self.labels[steps - 1]) if labels is None else labels
        return replace(
            self,
            labels=self.labels[:steps],
            accuracy=self.accuracy[:, :steps],
            acquired=self.acquired[:, :labels],
            scores=self.scores[:, :labels],
            seconds=self.seconds[:steps],
        )

    def save(self, path: str | Path) -> Path:
        """Write a JSON file at `path`; into a folder as `curves.json`."""
        path = _file(path)
        save_manifest(path, {"kind": KIND, **to_json(self)})
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Curves":
        """Read what `save` wrote, or what is there of a run.

        path: the file, or its folder.
        """
        return from_json(cls, load_manifest(_file(path), KIND), str(path))


def _drawn(seeds: tuple[int, ...], resamples: int) -> Counts:
    """Seeds drawn again with replacement, indices (B, R)."""
    count = len(seeds)
    draws = torch.randint(count, (resamples, count), generator=generator(0, "curves"))
    return np.asarray(draws.numpy())


def _percentiles(resampled: Floats, level: float) -> Floats:
    """The bounds that hold a share of the resamples (B, ...); each is one of them, (2, ...)."""
    check_level(level)
    ends = [(1 - level) / 2, (1 + level) / 2]
    return np.asarray(np.quantile(resampled, ends, axis=0, method="nearest"))


def _file(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix == ".json" else path / FILE
