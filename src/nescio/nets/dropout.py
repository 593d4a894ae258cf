"""Dropout under control: every mask comes from its generator, whatever the network looks like.

`torch.nn.functional.dropout` is where dropout layers and functional calls meet. A mode that stands
there draws the masks itself, so nothing of the user's network is replaced or changed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from nescio.core import NescioError, drawing_from, seeded

ELEMENTS = (F.dropout, torch.dropout)
CHANNELS = (F.dropout1d, F.dropout2d, F.dropout3d)
OTHERS = (F.alpha_dropout, F.feature_alpha_dropout)
Options = dict[str, Any]


def draw_mask(shape: Sequence[int], p: float, generator: torch.Generator, like: Tensor) -> Tensor:
    """Zeros with probability `p`, else 1 / (1 - p)."""
    mask = torch.empty(tuple(shape)).bernoulli_(1 - p, generator=generator)
    mask = mask.to(like)
    return mask.div_(1 - p) if p < 1 else mask


def mask_shape(function: Callable[..., Tensor], x: Tensor) -> list[int]:
    """Shape of the mask of one input: its features, or its channels for dropout of whole maps."""
    if function in OTHERS:
        raise NescioError("alpha dropout cannot be sampled here; use nn.Dropout or nn.Dropout2d")
    features = list(x.shape[1:])
    return [features[0], *(1 for _ in features[1:])] if function in CHANNELS else features


@contextmanager
def masks_from(generator: torch.Generator) -> Iterator[None]:
    """One training step of one member: a mask for every input; other draws are seeded too."""
    with seeded(generator.initial_seed()), drawing_from(generator), _MaskPerInput(generator):
        yield


class _MaskPerInput(TorchFunctionMode):
    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Options | None = None
    ) -> Any:
        if func not in ELEMENTS + CHANNELS:
            return func(*args, **(kwargs or {}))
        x, p, active, inplace = read_call(*args, **(kwargs or {}))
        if not (active and p > 0):
            return x
        mask = draw_mask([len(x), *mask_shape(func, x)], p, self.generator, x)
        return x.mul_(mask) if inplace else x * mask


def read_call(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, **other: Any
) -> tuple[Tensor, float, bool, bool]:
    """The arguments of a dropout call, however they are given."""
    return input, p, other.get("train", training), inplace


class MaskPerPass(TorchFunctionMode):
    """Dropout of T passes at once: a mask for every pass, shared by the inputs, always active.

    The batch stays as it is up to the first dropout; there it becomes T x N. What comes before is
    therefore computed once. A linear layer that follows directly takes the masks into its weights,
    one product for all passes. A single pass is plain: its masks are applied where they are drawn.
    """

    def __init__(self, generators: Sequence[torch.Generator], samples: int) -> None:
        super().__init__()
        self.generators, self.samples = generators, samples
        self.drawn = 0
        self.before = 1  # numbers per sample of the widest tensor before the first dropout
        self.widest = 1  # numbers per row (a sample in a pass) of the widest tensor after it
        self._waiting: dict[int, tuple[Tensor, Tensor]] = {}  # id: (unmasked batch, masks)

    @property
    def passes(self) -> int:
        return len(self.generators)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Options | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in ELEMENTS + CHANNELS + OTHERS:
            return self._dropout(func, *args, **kwargs)
        if func is F.scaled_dot_product_attention and kwargs.get("dropout_p", 0.0) > 0:
            raise NescioError("dropout inside attention cannot be sampled; use nn.Dropout after it")
        if not self._waiting:
            result = func(*args, **kwargs)
            if isinstance(result, Tensor):
                self.before = max(self.before, result.numel() // self.samples)
            return result
        if func is F.linear and id(args[0]) in self._waiting and args[0].ndim == 2:
            result = self._linear(*args, **kwargs)
        else:
            result = func(
                *(self.expanded(a) for a in args),
                **{k: self.expanded(v) for k, v in kwargs.items()},
            )
        if isinstance(result, Tensor) and result.ndim:
            self.widest = max(self.widest, result.numel() // (self.passes * self.samples))
        return result

    def expanded(self, value: Any) -> Any:
        """The T x N batch that `value` stands for, where it is a batch that waits for its masks."""
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(self.expanded(part) for part in value)
        if not isinstance(value, Tensor) or id(value) not in self._waiting:
            return value
        x, masks = self._waiting[id(value)]
        return (x * masks[:, None]).flatten(0, 1)

    def _dropout(self, function: Any, *args: Any, **kwargs: Any) -> Tensor:
        value, p, _, inplace = read_call(*args, **kwargs)
        if p == 0:
            return value
        x: Tensor = self.expanded(value)
        self.drawn += 1
        shape = mask_shape(function, x)
        masks = torch.stack([draw_mask(shape, p, g, x) for g in self.generators])  # (T, ...)
        if self.passes == 1:
            return x.mul_(masks[0]) if inplace else x * masks[0]
        self.widest = max(self.widest, x[0].numel())
        if self._waiting and len(x) == self.passes * self.samples:
            grouped: Tensor = x.unflatten(0, (self.passes, self.samples))
            return (grouped * masks[:, None]).flatten(0, 1)
        stand_in = x.view(x.shape)
        self._waiting[id(stand_in)] = (
            stand_in,
            masks,
        )  # stored, so that no other tensor gets its id
        return stand_in

    def _linear(self, stand_in: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        x, masks = self._waiting[id(stand_in)]
        outputs = len(weight)
        if outputs > len(x):  # the masked batch is smaller than the masked weights
            return F.linear(self.expanded(stand_in), weight, bias)
        masked = (masks[:, None] * weight).flatten(0, 1)  # (T x O, F)
        result: Tensor = F.linear(x, masked).unflatten(1, (self.passes, outputs))  # (N, T, O)
        result = result.transpose(0, 1) if bias is None else result.transpose(0, 1) + bias
        return result.flatten(0, 1)
