"""How a stepper reads its batches: `(N, ...)` for all members or `(M, N, ...)`, checked quickly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import (
    NescioError,
    as_image_bytes,
    as_labels,
    as_targets,
    as_tensor,
    check_counted,
    check_labels,
)
from nescio.losses import Loss
from nescio.nets import entering, reads_tokens, refusing_shapes, selected, sharing
from nescio.training.options import as_rows

Samples = tuple[Tensor, Tensor, Tensor | None, Tensor | None]  # x, y, weights, rows; (M, ...) each


@dataclass(kw_only=True, eq=False)
class StepInputs:
    """The shapes of inputs and targets, and the range of all inputs so far."""

    loss: Loss
    members: int
    shape: tuple[int, ...]  # of one input
    axes: tuple[int, ...]  # of the labels of one sample, () of one label
    outputs: int  # classes, labels or targets
    low: Tensor  # (M, 1, *shape), the smallest and the largest input of each member
    high: Tensor
    tokens: bool = False  # whether whole numbers enter as they are

    @classmethod
    def of(cls, net: nn.Module, loss: Loss, x: Any, members: int, like: Tensor) -> "StepInputs":
        """From the first inputs: the network tells whether the first axis is that of members."""
        given = as_tensor(x, "inputs").to(like.device)
        own, outputs = _tried(net, given, members, like)
        shape = tuple(given.shape[1 + own :])
        head = loss.head
        if outputs.ndim != 2 and head.task != "classification":
            raise NescioError(
                f"the network must return (samples, outputs), it returned {tuple(outputs.shape)}"
            )
        width = outputs.shape[-1] // head.width
        if head.task == "classification":
            width = head.logits(outputs).shape[-1]
        elif outputs.shape[-1] % head.width:
            raise NescioError(
                f"the {head.name} head needs {head.width} network outputs for each target, got "
                f"{outputs.shape[-1]} outputs"
            )
        ends = [like.new_full((members, 1, *shape), end) for end in (torch.inf, -torch.inf)]
        return cls(
            loss=loss,
            members=members,
            shape=shape,
            axes=tuple(outputs.shape[1:-1]),
            outputs=width,
            low=ends[0],
            high=ends[1],
            tokens=reads_tokens(net),
        )

    def manifest(self) -> dict[str, Any]:
        """What a file says beside the range; JSON."""
        said = {"shape": list(self.shape), "axes": list(self.axes), "outputs": self.outputs}
        return {**said, "tokens": self.tokens}

    @classmethod
    def from_manifest(
        cls, said: Mapping[str, Any], loss: Loss, low: Tensor, high: Tensor
    ) -> "StepInputs":
        """The reading that a file describes."""
        shapes: dict[str, Any] = {name: tuple(said[name]) for name in ("shape", "axes")}
        ends: dict[str, Any] = {"low": low, "high": high, "members": len(low)}
        tokens = said.get("tokens", False)
        return cls(loss=loss, outputs=said["outputs"], tokens=tokens, **shapes, **ends)

    def batch(self, x: Any, y: Any, weight: Any, rows: Any = None) -> Samples:
        """Inputs, targets, weights and rows of all members, checked; the range grows by them."""
        inputs, low, high = self._inputs(x)
        targets = self._targets(y, inputs.shape[1])
        counts = _weights(weight, inputs, self.low)
        chosen = _rows(rows, inputs)
        if chosen is not None:
            pairs = zip(inputs, chosen, strict=True)
            ends = [own[index].aminmax(dim=0, keepdim=True) for own, index in pairs]
            low, high = (torch.stack(end) for end in zip(*ends, strict=True))
        torch.minimum(self.low, low, out=self.low)
        torch.maximum(self.high, high, out=self.high)
        return inputs, targets, counts, chosen

    def _inputs(self, value: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs `(M, N, ...)` as the networks read them, and their range."""
        given = as_tensor(value, "inputs")
        own = given.ndim == len(self.shape) + 2
        if (
            tuple(given.shape[1 + own :]) != self.shape
            or (own and len(given) != self.members)
            or not given.numel()
        ):
            sizes = ", ".join(map(str, self.shape))
            raise NescioError(
                f"inputs must have shape (N, {sizes}), or for {self.members} member(s) "
                f"({self.members}, N, {sizes}), got {tuple(given.shape)}"
            )
        if given.dtype == torch.uint8:
            as_image_bytes(given[0] if own else given, "inputs")
        x = entering(given, self.low.device, self.low.dtype, tokens=self.tokens)
        low, high = x.aminmax(dim=int(own), keepdim=True)
        if not (high - low).isfinite().all():  # one test for both ends; NaN spreads to them
            raise NescioError("inputs contain NaN or infinite values; remove or impute them")
        return x if own else x.expand(self.members, *x.shape), low, high

    def _targets(self, value: Any, samples: int) -> Tensor:
        """Labels `(M, N)`, `(M, N, *axes)`, or targets `(M, N, D)`."""
        y = as_tensor(value, "targets").to(self.low.device)
        head, both = self.loss.head, (self.members, samples)
        single = head.task == "regression" and self.outputs == 1 and y.ndim == 2
        inner = len(self.axes) if head.task == "classification" else 1
        own = tuple(y.shape[:2]) == both and (y.ndim == 2 + inner or single)
        flat = y.flatten(0, 1) if own else y
        flat = as_targets(flat, len(flat), task=head.task, dtype=self.low.dtype, maps=True)
        if len(flat) != samples * (self.members if own else 1):
            raise NescioError(
                f"{samples} inputs but targets of shape {tuple(y.shape)}; one per sample, "
                f"(N, ...) or ({self.members}, N, ...)"
            )
        self._check(flat)
        flat = as_labels(flat)
        return flat.unflatten(0, both) if own else flat.expand(self.members, *flat.shape)

    def _check(self, y: Tensor) -> None:
        if self.loss.head.task != "classification":
            if y.shape[1] != self.outputs:
                raise NescioError(
                    f"the network has outputs for {self.outputs} target(s), got {y.shape[1]}"
                )
        elif self.loss.ignore_index is None:
            check_labels(y, self.outputs, (len(y), *self.axes))
        else:
            check_counted(y, self.outputs, (len(y), *self.axes), self.loss.ignore_index)


@torch.no_grad()
def _tried(net: nn.Module, x: Tensor, members: int, like: Tensor) -> tuple[bool, Tensor]:
    """Whether inputs begin with the axis of members, and the outputs for two of them.

    Where a network takes both, a linear layer for example, outputs `(samples, outputs)` are right.
    """
    found: list[tuple[bool, Tensor]] = []
    refused: list[NescioError] = []
    forms = [(False, x), (True, x[0])] if x.ndim > 2 and len(x) == members else [(False, x)]
    for own, form in forms:
        if form.ndim < 2 or not form.numel():
            raise NescioError(
                f"inputs must have shape (N, ...) or (M, N, ...), got {tuple(x.shape)}; a single "
                "feature needs an axis: x[:, None]"
            )
        if form.dtype == torch.uint8 and form.ndim != 4:
            continue
        try:
            with refusing_shapes(form):
                given = entering(form[:2], like.device, like.dtype, tokens=reads_tokens(net))
                outputs = selected(sharing(net)(given), net=net)
        except NescioError as error:
            refused.append(error)
            continue
        if outputs.ndim > 1 and len(outputs) == len(form[:2]):
            found.append((own, outputs))
    if not found:
        raise (
            refused[0]
            if refused
            else NescioError(
                f"the network must return (samples, outputs); inputs were {tuple(x.shape)}"
            )
        )
    return min(found, key=lambda one: (one[1].ndim > 2, one[0]))


def _weights(weight: Any, x: Tensor, like: Tensor) -> Tensor | None:
    """Weights of samples `(M, N)`, 0 or more, for inputs `(M, N, ...)`."""
    if weight is None:
        return None
    given = as_tensor(weight, "weight").to(like)
    both: Sequence[int] = tuple(x.shape[:2])
    if tuple(given.shape) not in (both, both[1:]):
        raise NescioError(
            f"weight must have shape {both[1:]} or {both}, one for each sample, got "
            f"{tuple(given.shape)}"
        )
    if not (given >= 0).all() or not given.isfinite().all():
        raise NescioError("weights must be finite and 0 or more")
    return given.expand(both)


def _rows(rows: Any, x: Tensor) -> Tensor | None:
    """Rows `(M, n)` of samples x `(M, N, ...)`."""
    each = as_rows(rows, len(x), x[0])
    if each is not None and len({len(own) for own in each}) > 1:
        raise NescioError(
            "the members of a stepper have equally many rows; where they differ, give all rows and "
            "weight=(M, N) with zeros"
        )
    return None if each is None else torch.stack(each)
