"""Images that experiments train on and test with: those at hand, as many as wanted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nescio import data
from nescio.core import NescioError
from nescio.data import Dataset
from nescio.data.dataset import Part
from nescio.data.sets.catalogue import SETTING, entry, home, how_to_get, root

if TYPE_CHECKING:
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


@dataclass(frozen=True, kw_only=True)
class OODSet:
    """Where OOD images come from, and how they get the shape of the in-distribution data."""

    data: str  # name of the data set
    options: Mapping[str, Any] = field(default_factory=dict)
    change: Callable[[Tensor], Tensor] = lambda x: x
    near: bool = False  # to the in-distribution data


def all_images(
    name: str,
    *,
    train: int | None = None,
    test: int | None = None,
    options: Mapping[str, Any] = WHOLE,
) -> "InData | Absent":
    """The training and test images of a data set, at most as many as said, or what is missing.

    options: options of the data set; by default no training images are set apart.
    """
    from nescio.evaluation.compare import Absent

    dataset = loaded(name, **options)
    if isinstance(dataset, Absent):
        return dataset
    if not len(dataset.train[0]):
        return Absent(f"training images are missing; {how_to_get(name)}")
    assert dataset.test is not None
    assert dataset.classes is not None
    return InData(spread(dataset.train, train), spread(dataset.test, test), dataset.classes)


def ood_images(source: OODSet, most: int | None = None) -> "Tensor | Absent":
    """Test images of an OOD set in the shape of the data, at even distances, or what is missing.

    most: images at most; None: all.
    """
    from nescio.evaluation.compare import Absent

    dataset = loaded(source.data, **source.options)
    if isinstance(dataset, Absent):
        return dataset
    assert dataset.test is not None
    x = dataset.test[0]
    return source.change(x if most is None else evenly(x, most))


def loaded(name: str, **options: Any) -> "Dataset | Absent":
    """A data set, read once, or what is missing."""
    return _loaded(root(), name, **options)


@cache
def _loaded(where: Path | None, name: str, **options: Any) -> "Dataset | Absent":
    from nescio.evaluation.compare import Absent

    del where  # what the setting says now, so that the cache follows it
    try:
        return data.load(name, **options)
    except NescioError as error:
        if home(name) is not None:
            return Absent(str(error))
        return Absent(f"{_missing(entry(name).folders[0])}; {how_to_get(name)}")


def _missing(folder: str) -> str:
    """Why a folder of data is not there, without a path: it stands on pages that are published."""
    above = root()
    if above is None:
        return f"{SETTING}, which names the folder of all data, is not set"
    if not above.is_dir():
        return f"the folder that {SETTING} names is not there"
    return f"the folder that {SETTING} names has no folder {folder}"


def spread(part: Part, most: int | None) -> Part:
    """At most `most` samples, at even distances; all of them for None."""
    x, y = part
    return (x, y) if most is None else (evenly(x, most), evenly(y, most))


def evenly(x: Tensor, most: int) -> Tensor:
    """At most `most` rows, at even distances."""
    count = min(most, len(x))
    return x[torch.arange(count) * len(x) // count]
