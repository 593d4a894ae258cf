"""Learning curves: the accuracy after each acquisition, of several seeds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nescio.core import (
    Counts,
    Floats,
    from_json,
    load_manifest,
    save_manifest,
    to_json,
)

KIND, FILE = "learning curves", "curves.json"
WORK = ("train", "evaluate", "score")  # what the seconds of a step are of


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Curves:
    """Accuracy by number of labels, one curve per seed, and what was acquired on the way."""

    labels: Counts  # (S,) how many labels each step had
    accuracy: Floats  # (R, S) on the test data, of R seeds
    acquired: Counts  # (R, L) indices of the pool in their order; the first are the start
    scores: Floats  # (R, L) of what was acquired, by the acquisition; NaN for the start
    seconds: Floats  # (S, 3) of the processor: train, evaluate, score
    seeds: tuple[int, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)  # how, in JSON

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

    def after(self, accuracy: Floats, index: Counts, scores: Floats, seconds: Floats) -> "Curves":
        """One more step: the accuracy (R,) with what was acquired, and what is acquired next."""
        return replace(
            self,
            labels=np.append(self.labels, self.acquired.shape[1]),
            accuracy=np.column_stack([self.accuracy, accuracy]),
            acquired=np.concatenate([self.acquired, index], axis=1),
            scores=np.concatenate([self.scores, scores], axis=1),
            seconds=np.vstack([self.seconds, seconds]),
        )

    def first(self, steps: int, *, labels: int | None = None) -> "Curves":
        """The first steps alone, with what they had acquired, or with the first `labels` of it."""
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
        """Write a JSON file; into a folder as `curves.json`."""
        path = _file(path)
        save_manifest(path, {"kind": KIND, **to_json(self)})
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Curves":
        """Read what `save` wrote, or what is there of a run: a file or its folder."""
        return from_json(cls, load_manifest(_file(path), KIND), str(path))


def _file(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix == ".json" else path / FILE
