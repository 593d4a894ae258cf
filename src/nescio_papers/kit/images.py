"""Image data that experiments train on and test with: what is at hand, and as much as wanted."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio import data
from nescio.core import NescioError
from nescio.data import Dataset
from nescio.data.dataset import Part
from nescio.data.sets.catalogue import home, how_to_get, root
from nescio.evaluation.compare import Absent

WHOLE = {"validation": 0}  # no training images set apart
UNSEEN = 1000  # added to the seed: noise that nothing was trained on


@dataclass(frozen=True, eq=False)
class InData:
    """The images that a run trains on and tests with."""

    train: Part
    test: Part
    classes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one image."""
        return tuple(self.train[0].shape[1:])


def all_images(name: str) -> InData | Absent:
    """All training and test images of a data set, or what is missing."""
    found = loaded(name, **WHOLE)
    if isinstance(found, Absent):
        return found
    if not len(found.train[0]):
        return Absent(f"training images are missing; {how_to_get(name)}")
    assert found.test is not None
    assert found.classes is not None
    return InData(found.train, found.test, found.classes)


def loaded(name: str, **options: Any) -> Dataset | Absent:
    """A data set, read once, or what is missing."""
    return _loaded(root(), name, **options)


@cache
def _loaded(where: Path | None, name: str, **options: Any) -> Dataset | Absent:
    del where  # what the setting says now, so that the cache follows it
    try:
        return data.load(name, **options)
    except NescioError as error:
        return Absent(how_to_get(name) if home(name) is None else str(error))


def spread(part: Part, most: int) -> Part:
    """At most so many samples, at even distances."""
    x, y = part
    return evenly(x, most), evenly(y, most)


def evenly(x: Tensor, most: int) -> Tensor:
    """At most so many rows, at even distances."""
    count = min(most, len(x))
    return x[torch.arange(count) * len(x) // count]
