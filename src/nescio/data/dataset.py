"""A data set is a value: named parts of inputs and targets that fit together."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError, check_ignore_index, without_ignored

if TYPE_CHECKING:
    from nescio.data.encoding import Columns

Part: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Inputs x (N, ...) float32 with labels (N,) int64, or targets (N, D) float32.

    Images (N, C, H, W) may be uint8, with 255 = 1; tokens are int64. Labels may have gaps, and more
    axes, (N, H, W); these may be uint8. A set that is only for testing has a train part of no
    samples.

    name: name of the data set.
    train, validation, test: the parts, each a pair (x, y); None: there is none.
    classes: number of classes; None: a regression.
    columns: how the rows of a table became x; None: they are not of a table.
    ignore_index: label of what is left out, not one of the classes; None: nothing is.
    """

    name: str
    train: Part
    validation: Part | None
    test: Part | None
    classes: int | None
    columns: "Columns | None" = None
    ignore_index: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._check_part("train", self.train, empty=self.test is not None)
        for part, pair in (("validation", self.validation), ("test", self.test)):
            if pair is not None:
                self._check_part(part, pair)
                self._check_like_train(part, pair)
        y = self.train[1]
        if self.classes is None or not len(y):
            return
        _, counts = without_ignored(y, self.ignore_index)
        own = y if counts is None else y[counts]
        if own.min() == own.max():
            raise NescioError(
                f"the train part of {self.name!r} has one label only, "
                f"{int(own.min())}; a classifier needs at least two"
            )

    def __repr__(self) -> str:
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        sizes = ", ".join(f"{len(part[0])} {name}" for name, part in parts.items() if part)
        kind = "regression" if self.classes is None else f"{self.classes} classes"
        return f"Dataset({self.name}: {sizes}; inputs {self.features}, {kind})"

    @property
    def features(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.train[0].shape[1:])

    @property
    def task(self) -> Literal["classification", "regression"]:
        """What the targets ask for."""
        return "regression" if self.classes is None else "classification"

    def _check_part(self, part: str, pair: Part, *, empty: bool = False) -> None:
        where = f"the {part} part of {self.name!r}"
        x, y = pair
        images = x.dtype == torch.uint8 and x.ndim == 4
        if not images and (x.dtype not in (torch.float32, torch.int64) or x.ndim < 2):
            raise NescioError(
                f"x in {where} must be float32 of shape (N, ...), or uint8 of shape (N, C, H, W), "
                f"or int64 tokens, got {_what(x)}; convert it with .float(), one row per sample"
            )
        if len(x) != len(y):
            raise NescioError(f"{where} has {len(x)} inputs but {len(y)} targets; expected pairs")
        if empty and len(x) == 0 and all(x.shape[1:]):
            return
        if x.numel() == 0:
            raise NescioError(f"{where} is empty, x has shape {tuple(x.shape)}; give some samples")
        if not images and not x.isfinite().all():
            raise NescioError(f"x in {where} holds NaN or infinity; repair or drop those samples")
        if self.classes is None:
            _check_targets(where, y)
        else:
            _check_labels(where, y, self.classes, self.ignore_index)

    def _check_like_train(self, part: str, pair: Part) -> None:
        for letter, values, trained in zip("xy", pair, self.train, strict=True):
            if values.shape[1:] != trained.shape[1:]:
                raise NescioError(
                    f"{letter} in the {part} part of {self.name!r} has shape "
                    f"{tuple(values.shape)}, train has {tuple(trained.shape)}; "
                    "all but the first number must agree"
                )


def hold_out(train: Part, validation: int, seed: int) -> tuple[Part, Part | None]:
    """The training part without `validation` samples chosen by `seed`, and those samples."""
    x, y = train
    if not 0 <= validation < len(x):
        raise NescioError(f"`validation` must be in 0..{len(x) - 1}, got {validation}")
    order = torch.from_numpy(_order(len(x), seed))
    if not validation:
        return train, None
    chosen, rest = order[:validation].sort().values, order[validation:].sort().values
    return (x[rest], y[rest]), (x[chosen], y[chosen])


def split(whole: Part, seed: int) -> tuple[Part, Part | None, Part | None]:
    """Train, validation and test parts, 80 / 10 / 10, in an order given by `seed`."""
    x, y = whole
    tenth = len(x) // 10
    rows = np.split(_order(len(x), seed), [len(x) - 2 * tenth, len(x) - tenth])
    train, *rest = [(x[chosen], y[chosen]) for chosen in rows]
    validation, test = (part if len(part[0]) else None for part in rest)
    return train, validation, test


def only_tests(name: str, test: Part, classes: int) -> Dataset:
    """A data set to test on: its train part has no samples."""
    x, y = test
    return Dataset(name=name, train=(x[:0], y[:0]), validation=None, test=test, classes=classes)


def from_parts(
    name: str, train: Part | None, test: Part, *, classes: int, validation: int, seed: int
) -> Dataset:
    """A data set of two parts, the first less `validation` samples; without it, only to test on."""
    if train is None:
        return only_tests(name, test, classes)
    train, held_out = hold_out(train, validation, seed)
    return Dataset(name=name, train=train, validation=held_out, test=test, classes=classes)


def _order(count: int, seed: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    if seed < 0:
        raise NescioError(f"`seed` must be 0 or more, got {seed}")
    return np.random.default_rng(seed).permutation(count)


def _check_targets(where: str, y: Tensor) -> None:
    if y.dtype != torch.float32 or y.ndim != 2 or y.shape[1] == 0:
        raise NescioError(
            f"y in {where} must be float32 of shape (N, D) for regression, got {_what(y)}; "
            "convert it, or give `classes` for classification"
        )
    if not y.isfinite().all():
        raise NescioError(f"y in {where} holds NaN or infinity; repair or drop those samples")


def _check_labels(where: str, y: Tensor, classes: int, ignore_index: int | None) -> None:
    if classes < 2:
        raise NescioError(f"`classes` must be 2 or more, or None for regression, got {classes}")
    maps = y.dtype == torch.uint8 and y.ndim > 1
    if not maps and y.dtype != torch.int64:
        raise NescioError(
            f"y in {where} must be int64 of shape (N,), got {_what(y)}; convert it with .long(), "
            "or give classes=None for regression; maps (N, H, W) may be uint8"
        )
    index = check_ignore_index(ignore_index, classes)
    own = y if index is None else y[without_ignored(y, index)[1]]
    if not own.numel():
        raise NescioError(f"all labels in {where} are ignored: each is {index}; give some labels")
    least, most = int(own.min()), int(own.max())  # as integers: bytes would wrap `classes`
    if least < 0 or most >= classes:
        raise NescioError(
            f"labels in {where} must be in 0..{classes - 1}, got {least}..{most}; renumber them or "
            "raise `classes`"
        )


def _what(values: Tensor) -> str:
    return f"{str(values.dtype).removeprefix('torch.')} of shape {tuple(values.shape)}"
