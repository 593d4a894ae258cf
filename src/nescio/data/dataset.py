"""A data set is a value: named parts of inputs and targets that fit together."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from nescio.errors import NescioError

Part: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs x (N, ...) float32 with labels (N,) int64, or targets (N, D) float32.

    `classes` is the number of classes, or None for regression. Labels may have gaps.
    """

    name: str
    train: Part
    validation: Part | None
    test: Part | None
    classes: int | None

    def __post_init__(self) -> None:
        self._check_part("train", self.train)
        for part, given in (("validation", self.validation), ("test", self.test)):
            if given is not None:
                self._check_part(part, given)
                self._check_like_train(part, given)
        if self.classes is not None and self.train[1].min() == self.train[1].max():
            raise NescioError(
                f"the train part of {self.name!r} has one label only, "
                f"{int(self.train[1][0])}; a classifier needs at least two"
            )

    @property
    def features(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.train[0].shape[1:])

    @property
    def task(self) -> Literal["classification", "regression"]:
        """What the targets ask for."""
        return "regression" if self.classes is None else "classification"

    def _check_part(self, part: str, given: Part) -> None:
        where = f"the {part} part of {self.name!r}"
        x, y = given
        if x.dtype != torch.float32 or x.ndim < 2:
            raise NescioError(
                f"x in {where} must be float32 of shape (N, ...), got {_what(x)}; "
                "convert it with .float(), one row a case"
            )
        if len(x) != len(y):
            raise NescioError(f"{where} has {len(x)} inputs but {len(y)} targets; expected pairs")
        if x.numel() == 0:
            raise NescioError(f"{where} is empty, x has shape {tuple(x.shape)}; give some cases")
        if not x.isfinite().all():
            raise NescioError(f"x in {where} holds NaN or infinity; repair or drop those cases")
        if self.classes is None:
            _check_targets(where, y)
        else:
            _check_labels(where, y, self.classes)

    def _check_like_train(self, part: str, given: Part) -> None:
        for letter, ours, trained in zip("xy", given, self.train, strict=True):
            if ours.shape[1:] != trained.shape[1:]:
                raise NescioError(
                    f"{letter} in the {part} part of {self.name!r} has shape "
                    f"{tuple(ours.shape)}, train has {tuple(trained.shape)}; "
                    "all but the first number must agree"
                )


def _check_targets(where: str, y: Tensor) -> None:
    if y.dtype != torch.float32 or y.ndim != 2 or y.shape[1] == 0:
        raise NescioError(
            f"y in {where} must be float32 of shape (N, D) for regression, got {_what(y)}; "
            "convert it, or give `classes` for classification"
        )
    if not y.isfinite().all():
        raise NescioError(f"y in {where} holds NaN or infinity; repair or drop those cases")


def _check_labels(where: str, y: Tensor, classes: int) -> None:
    if classes < 2:
        raise NescioError(f"`classes` must be 2 or more, or None for regression, got {classes}")
    if y.dtype != torch.int64 or y.ndim != 1:
        raise NescioError(
            f"y in {where} must be int64 of shape (N,), got {_what(y)}; convert it with .long(), "
            "or give classes=None for regression"
        )
    if y.min() < 0 or y.max() >= classes:
        raise NescioError(
            f"labels in {where} must be in 0..{classes - 1}, got {int(y.min())}..{int(y.max())}; "
            "renumber them or raise `classes`"
        )


def _what(values: Tensor) -> str:
    return f"{str(values.dtype).removeprefix('torch.')} of shape {tuple(values.shape)}"
