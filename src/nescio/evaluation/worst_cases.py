"""Single samples for people to look at: as a picture, a row or tokens, with their neighbors."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.applications import active_learning
from nescio.core import Bundle, Inputs
from nescio.detectors import nearest_rows

NEIGHBORS = 3  # of each sample
SIDE = 48  # pixels of the longer side of a picture, at most
COLUMNS = 8  # numbers of a row that are written
TOKENS = 40  # that are written


@dataclass(frozen=True, kw_only=True)
class SampleView:
    """A sample as a person sees it: a small PNG as a data URL, or words."""

    picture: str | None = None
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class TrainingNeighbor:
    """A training sample near another one.

    sample: index in the training data.
    distance: its distance.
    label: its label, or true value.
    view: the sample as a person sees it.
    """

    sample: int
    distance: float
    label: float | None = None
    view: SampleView


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """A sample, what was answered, and the training samples that are nearest to it.

    data: `"test"`, or the name of an OOD set.
    sample: its row there.
    answer: a class, or the predicted mean.
    label: a class, or the true value.
    confidence: confidence of a classifier.
    deviation: predicted deviation, of a regression.
    decision: decision of the guard.
    view: the sample as a person sees it.
    neighbors: the training samples nearest to it.
    """

    data: str
    sample: int
    answer: float
    label: float | None = None
    confidence: float | None = None
    deviation: float | None = None
    decision: str | None = None
    view: SampleView
    neighbors: tuple[TrainingNeighbor, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Viewer:
    """Shows samples: images of all inputs in one range, numbers by the names of their columns."""

    low: float = 0.0
    high: float = 1.0
    columns: Sequence[str] | None = None
    center: Tensor | None = None  # (F,) of a table
    width: Tensor | None = None  # (F,)

    @classmethod
    def of(cls, x: Inputs | None, columns: Sequence[str] | None = None) -> "Viewer":
        """A viewer for inputs like these."""
        if not isinstance(x, Tensor) or not x.is_floating_point() or not x.numel():
            return cls(columns=columns)
        if x.ndim == 2:
            center, width = x.double().mean(0), x.double().std(0, correction=0)
            return cls(columns=columns, center=center, width=width)
        low, high = (float(end) for end in x.aminmax())
        return cls(low=min(low, 0.0), high=max(high, 1.0) if low >= 0 else high)

    def __call__(self, x: Inputs | None, row: int) -> SampleView:
        """One sample; nothing where there are no inputs."""
        if x is None or isinstance(x, Bundle):
            return SampleView(words="" if x is None else f"{len(x.parts)} inputs")
        one = x[row]
        if one.ndim == 3:
            return SampleView(picture=self._picture(one))
        if not one.is_floating_point() and one.dtype != torch.uint8:
            return SampleView(words=_cut([str(int(t)) for t in one.flatten()[: TOKENS + 1]], " "))
        return SampleView(words=self._row(one.flatten().double()))

    def _picture(self, image: Tensor) -> str:
        if image.is_floating_point():
            image = (image.double().nan_to_num() - self.low) / ((self.high - self.low) or 1.0)
            image = image.clamp(0, 1)
        png: bytes = active_learning.thumbnail(image, side=1, largest=SIDE)
        url: str = active_learning.data_url(png)
        return url

    def _row(self, numbers: Tensor) -> str:
        """Of a table, the numbers that are least usual first."""
        order = torch.arange(len(numbers))
        if self.center is not None and self.width is not None:
            unusual = ((numbers - self.center) / self.width.clamp_min(1e-300)).abs()
            order = unusual.nan_to_num().argsort(descending=True, stable=True)
        said = []
        for index in order[:COLUMNS].tolist():
            known = self.columns is not None and index < len(self.columns)
            name = self.columns[index] if known and self.columns is not None else f"number {index}"
            said.append(f"{name} = {float(numbers[index]):.4g}")
        return ", ".join(said) + (", ..." if len(numbers) > COLUMNS else "")


def _cut(words: Sequence[str], between: str) -> str:
    return between.join(words[:TOKENS]) + (f"{between}..." if len(words) > TOKENS else "")


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingBank:
    """Training samples among which neighbors are looked for."""

    features: Tensor  # (n, F)
    rows: Tensor  # (n,) which training samples
    x: Inputs | None = None  # all training inputs
    labels: Tensor | None = None
    view: Viewer

    def near(self, features: Tensor) -> list[tuple[TrainingNeighbor, ...]]:
        """The nearest training samples of each row of features `(m, F)`."""
        count = min(NEIGHBORS, len(self.features))
        far, index = nearest_rows(features, self.features, count)
        return [
            tuple(self._one(int(self.rows[i]), float(d)) for d, i in zip(*pair, strict=True))
            for pair in zip(far, index, strict=True)
        ]

    def _one(self, row: int, distance: float) -> TrainingNeighbor:
        label = None if self.labels is None else value_of(self.labels[row])
        return TrainingNeighbor(
            sample=row, distance=distance, label=label, view=self.view(self.x, row)
        )


def value_of(label: Tensor) -> float:
    """A class as a whole number, a target as it is; of several targets the first."""
    first = label.flatten()[0]
    return float(first) if label.is_floating_point() else int(first)
