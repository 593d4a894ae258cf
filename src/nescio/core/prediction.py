"""What a model says about its inputs: values with a member axis, `(M, *batch, C)`.

A plain network has M = 1; ensembles, MC dropout and weight samples differ only in where the members
come from. A prediction is the uniform mixture of its members: probabilities are averaged.
"""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import torch
from torch import Tensor

from nescio.core.errors import NescioError, NotFiniteError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Index = int | slice | Tensor | Sequence[int] | EllipsisType


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(ABC):
    """A uniform mixture of M member distributions for every sample of a batch."""

    def __post_init__(self) -> None:
        kind, tensors = type(self).__name__, self._tensors()
        first = tensors[0]
        for name, tensor in zip(self.__dataclass_fields__, tensors, strict=True):
            if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
                raise NescioError(f"{kind}: {name} must be a floating point tensor")
            if tensor.dtype in (torch.float16, torch.bfloat16):  # sums would overflow or saturate
                object.__setattr__(self, name, tensor.float())
            if tensor.ndim < 3 or 0 in (tensor.shape[0], tensor.shape[-1]):
                raise NescioError(
                    f"{kind}: {name} must have shape (members, *batch, {self._last}), "
                    f"got {tuple(tensor.shape)}; a single network needs a member axis: t[None]"
                )
            if tensor.shape != first.shape:
                raise NescioError(
                    f"{kind}: {name} has shape {tuple(tensor.shape)}, "
                    f"the first field {tuple(first.shape)}; they must agree"
                )
            if self._has_nan(tensor):
                raise NotFiniteError(f"{kind}: {name} contains NaN; check the network's inputs")
        self._check()

    _last = "D"

    def __repr__(self) -> str:
        first = self._tensors()[0]
        samples = " x ".join(map(str, self.batch_shape))
        return (
            f"{type(self).__name__}({self.members} member(s), {samples} samples, {first.shape[-1]})"
        )

    def _repr_html_(self) -> str:
        from nescio.report import prediction_html

        return prediction_html(self)

    def plot(self) -> "Figure":
        """The first 30 samples: the probability of each class, or means with two deviations."""
        from nescio.report import plots

        figure: Figure = plots.prediction_plot(self)
        return figure

    def _has_nan(self, tensor: Tensor) -> bool:
        return math.isnan(tensor.sum().item()) and bool(tensor.isnan().any())  # a tenth of the time

    @abstractmethod
    def _check(self) -> None:
        """Refuse values outside the range of the distribution."""

    @abstractmethod
    def log_prob(self, target: Tensor) -> Tensor:
        """Log probability or density of `target` under the mixture, shape `(*batch,)`, in nats."""

    def _tensors(self) -> tuple[Tensor, ...]:
        return tuple([getattr(self, name) for name in self.__dataclass_fields__])

    @property
    def _first(self) -> Tensor:
        return getattr(self, next(iter(self.__dataclass_fields__)))  # type: ignore[no-any-return]

    def _map(self, function: Any) -> Self:
        return self._of(function(tensor) for tensor in self._tensors())

    @classmethod
    def _of(cls, tensors: Iterable[Tensor]) -> Self:
        return cls(**dict(zip(cls.__dataclass_fields__, tensors, strict=True)))

    @property
    def members(self) -> int:
        """M, the number of member distributions."""
        return self._first.shape[0]

    @property
    def device(self) -> torch.device:
        """Where its numbers are."""
        return self._first.device

    @property
    def batch_shape(self) -> torch.Size:
        """The shape of the batch: `(N,)`, or `(N, H, W)` for maps."""
        return self._first.shape[1:-1]

    def __len__(self) -> int:
        return self._first.shape[1]

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Self:
        """Choose samples along the batch axes; an integer keeps its axis: a batch of one."""
        parts = index if isinstance(index, tuple) else (index,)
        shape = self.batch_shape
        if sum(part is not ... for part in parts) > len(shape):
            raise NescioError(
                f"{len(parts)} indices for a batch of shape {tuple(shape)}; "
                "members are chosen with `.choose(...)`, classes in `.probs`"
            )
        before_dots = parts.index(...) if any(part is ... for part in parts) else len(parts)
        axes = [k if k < before_dots else k - len(parts) for k in range(len(parts))]
        kept = tuple(_keep(i, shape[k]) for i, k in zip(parts, axes, strict=True))
        rest = (slice(None),) * 2 if before_dots < len(parts) else ()
        return self._map(lambda tensor: tensor.movedim(0, -2)[(*kept, *rest)].movedim(-2, 0))

    def choose(self, members: slice | Tensor | Sequence[int]) -> Self:
        """The mixture of some of the `members` only."""
        return self._map(lambda tensor: tensor[members])

    def to(self, *where: Any, **how: Any) -> Self:
        """Move or convert, as `Tensor.to`."""
        return self._map(lambda tensor: tensor.to(*where, **how))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """One prediction for the samples of all `parts`, along the first batch axis."""
        return _concatenate(parts, axis=1)

    @classmethod
    def pool(cls, parts: Sequence[Self]) -> Self:
        """One prediction with the members of all `parts`: an ensemble of predictors."""
        return _concatenate(parts, axis=0)


def _keep(index: Index, size: int) -> Any:
    """An index that keeps its axis: an integer becomes a slice of length one."""
    if not (isinstance(index, int) or getattr(index, "shape", None) == ()):
        return index
    place = operator.index(index)  # type: ignore[arg-type]
    if not -size <= place < size:
        raise IndexError(f"sample {place} of a batch of {size}")
    return slice(place, place + 1 or None)


P = TypeVar("P", bound=Prediction)


def _concatenate(parts: Sequence[P], axis: int) -> P:
    if not parts:
        raise NescioError("nothing to join: the list of predictions is empty")
    kinds = {type(part) for part in parts}
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise NescioError(f"predictions of different kinds cannot be joined: {names}")
    shapes = [part._tensors()[0].shape for part in parts]
    if len({shape[:axis] + shape[axis + 1 :] for shape in shapes}) > 1:
        raise NescioError(f"shapes do not fit together: {[tuple(shape) for shape in shapes]}")
    columns = zip(*(part._tensors() for part in parts), strict=True)
    return parts[0]._of(torch.cat(column, dim=axis) for column in columns)


class Classification(Prediction, ABC):
    """A prediction of one of C classes."""

    _last = "C"

    @cached_property
    @abstractmethod
    def member_log_probs(self) -> Tensor:
        """Log probabilities of each member, `(M, *batch, C)`."""

    @property
    def classes(self) -> int:
        """C, the number of classes."""
        return self._first.shape[-1]

    @cached_property
    def member_probs(self) -> Tensor:
        """Probabilities of each member, `(M, *batch, C)`."""
        return self.member_log_probs.exp()

    @cached_property
    def probs(self) -> Tensor:
        """Probabilities of the mixture, `(*batch, C)`."""
        return self.member_probs.mean(0) if self.members > 1 else self.member_probs[0]

    @cached_property
    def log_probs(self) -> Tensor:
        """Log probabilities of the mixture, `(*batch, C)`, accurate where `probs` underflows."""
        if self.members == 1:
            return self.member_log_probs[0]
        return self.member_log_probs.logsumexp(0) - math.log(self.members)

    @cached_property
    def labels(self) -> Tensor:
        """The most probable class of each sample, `(*batch,)`."""
        return self.log_probs.argmax(-1)

    def log_prob(self, target: Tensor) -> Tensor:
        """Log probability of the class labels `target`, `(*batch,)`, under the mixture."""
        target = check_labels(target, self.classes, self.batch_shape)
        return self.log_probs.gather(-1, target.to(self.device)[..., None])[..., 0]


def check_labels(labels: Tensor, classes: int, shape: Sequence[int]) -> Tensor:
    """Class labels as int64 of the given shape, or an error that says what is wrong."""
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise NescioError(
            f"class labels must be integers, got {labels.dtype}; convert with .long()"
        )
    if tuple(labels.shape) != tuple(shape):
        raise NescioError(f"labels have shape {tuple(labels.shape)}, expected {tuple(shape)}")
    labels = labels.long()
    if labels.numel() and (labels.min() < 0 or labels.max() >= classes):
        raise NescioError(
            f"labels must lie in 0..{classes - 1}, got {int(labels.min())}..{int(labels.max())}; "
            "renumber them, give the network more outputs, or name a label that is to be left out "
            "by ignore_index="
        )
    return labels


@dataclass(frozen=True, eq=False, repr=False)
class Categorical(Classification):
    """Class probabilities given by logits `(M, *batch, C)`.

    >>> p = Categorical(torch.tensor([[[2.0, 0.0]], [[0.0, 2.0]]]))   # two members disagree
    >>> p.probs
    tensor([[0.5000, 0.5000]])

    logits: logits of each member, `(M, *batch, C)`.
    """

    logits: Tensor

    def _check(self) -> None:
        least, most = self._ends
        if most == math.inf or (least == -math.inf and (self.logits.amax(-1) == least).any()):
            raise NotFiniteError(
                "Categorical: logits must be below +inf and not all -inf for a sample"
            )

    def _has_nan(self, _: Tensor) -> bool:
        return math.isnan(self._ends[0])  # as the ends are looked at anyway

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The least and the largest logit; NaN if one is."""
        least, most = self.logits.aminmax() if self.logits.numel() else torch.zeros(2)
        return least.item(), most.item()

    @classmethod
    def from_probs(cls, probs: Tensor) -> Self:
        """The same from probabilities `probs` `(M, *batch, C)` that sum to 1 over the last axis."""
        if not isinstance(probs, Tensor) or not probs.is_floating_point():
            raise NescioError("from_probs: probabilities must be a floating point tensor")
        if probs.isnan().any() or (probs < 0).any():
            raise NescioError("from_probs: probabilities must not be NaN or negative")
        gap = (probs.sum(-1) - 1).abs().max().item() if probs.numel() else 0.0
        if gap > min(0.02, max(1e-6, 1e3 * torch.finfo(probs.dtype).eps)):  # 1.2e-4 in float32
            raise NescioError(
                f"from_probs: probabilities must sum to 1 over the last axis, off by {gap:.3g}; "
                "for logits use Categorical(logits)"
            )
        return cls(probs.log())

    @cached_property
    def member_log_probs(self) -> Tensor:
        """Log probabilities of each member, `(M, *batch, C)`."""
        return self.logits.log_softmax(-1)


def answer(predictor: object, x: Tensor) -> Prediction:
    """The prediction with gradients with respect to the inputs, of a predictor that has them."""
    if not callable(getattr(predictor, "answer", None)):
        raise NescioError(
            f"a {type(predictor).__name__} has no method answer(x), so its answers have no "
            "gradients; use a network or one of nescio's predictors"
        )
    found = predictor.answer(x)  # type: ignore[attr-defined]
    if not isinstance(found, Prediction):
        raise NescioError(f"expected a prediction, got a {type(found).__name__}")
    return found
