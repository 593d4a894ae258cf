"""Operations that move the numbers of a sample, copy them or average them."""

from math import prod
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.tracing.domain import Function
from nescio.geometry.tracing.traced import Traced, apparent, handles

SAME = {
    "contiguous", "clone", "detach", "double", "float", "half", "type", "type_as", "cpu", "to",
    "requires_grad_", "alias",
}  # fmt: skip

SHAPES = {  # of one sample: linear, with positive weights
    "flatten", "permute", "transpose", "swapaxes", "movedim", "moveaxis", "unsqueeze",
    "__getitem__", "narrow", "select", "flip", "roll", "unflatten", "tile", "repeat",
    "channel_shuffle", "pixel_shuffle", "pixel_unshuffle", "adaptive_avg_pool1d",
    "adaptive_avg_pool2d", "avg_pool1d", "avg_pool2d", "mean", "sum", "index_select", "cumsum",
}  # fmt: skip

CONSTANTS = {
    "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "new_tensor",
}  # fmt: skip


@handles(*SAME)
def _same(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(x, Traced):  # a constant, moved to where the traced tensor lives
        return x.double()
    kinds = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.dtype)]
    if any(not kind.is_floating_point for kind in kinds):
        raise NescioError(f"numbers that are rounded to {kinds[0]}")
    return Traced.of(x.part, x.domain) if func.__name__ == "clone" else x


@handles(*CONSTANTS)
def _made(func: Any, x: Traced, *args: Any, **kwargs: Any) -> Tensor:
    """A new tensor that only takes its shape from a traced one."""
    kwargs = {k: v for k, v in kwargs.items() if k not in ("dtype", "device")}
    like = torch.empty(tuple(x.shape), dtype=torch.float64)
    return func(like, *args, **kwargs)  # type: ignore[no-any-return]


def mapped(x: Traced, function: Function, *, terms: int = 1) -> Traced:
    """A linear function with positive weights that is known to keep samples apart."""
    return Traced.of(x.domain.map(x.part, function, terms=terms), x.domain)


def each(x: Traced, function: Function, *, terms: int = 1) -> Traced:
    """The same of a function that may mix samples: two of them must come out as each alone."""
    size = max(1, x.numel())
    probe = torch.arange(2.0 * size, dtype=torch.float64).reshape(2, *x.shape[1:])
    both, apart = function(probe), [function(probe[:1]), function(probe[1:])]
    if both.ndim == 0 or apart[0].ndim == 0:
        raise NescioError("one number of all samples; the first axis must stay that of the samples")
    if both.shape[:1] != (2,) or any(a.shape != (1, *both.shape[1:]) for a in apart):
        raise NescioError("the first axis must stay that of the samples")
    if not torch.allclose(both, torch.cat(apart)):
        raise NescioError(
            "an operation that mixes samples; the first axis must stay that of the samples"
        )
    return mapped(x, function, terms=terms)


@handles(*SHAPES)
def _shape(func: Any, x: Traced, *args: Any, **kwargs: Any) -> Traced:
    """An operation of one sample that is applied to every map as it is."""
    terms = _terms(func.__name__, x, func(apparent(x), *args, **kwargs), *args, **kwargs)
    return each(x, lambda flat: func(flat, *args, **kwargs), terms=terms)


def _terms(name: str, x: Traced, out: Tensor, *args: Any, **kwargs: Any) -> int:
    """How many numbers one output of a pooling or a sum adds up."""
    ratio = -(-x.numel() // max(out.numel(), 1))
    if name in ("avg_pool1d", "avg_pool2d"):
        axes = 1 if name == "avg_pool1d" else 2
        return prod(pair(args[0] if args else kwargs["kernel_size"], axes))
    if name.startswith("adaptive_avg_pool"):
        return 4 * ratio
    return ratio if name in ("mean", "sum") else x.numel() if name == "cumsum" else 1


def pair(value: Any, axes: int) -> tuple[int, ...]:
    values = (value,) * axes if isinstance(value, int) else tuple(value)
    return tuple(int(v) for v in (values * axes if len(values) == 1 else values))


@handles("view", "reshape", "view_as", "reshape_as")
def _view(func: Any, x: Traced, *args: Any, **kwargs: Any) -> Traced:
    if args and isinstance(args[0], torch.dtype):
        raise NescioError("numbers seen as those of another type")
    shape = tuple(func(apparent(x), *map(apparent, args), **kwargs).shape)
    if not shape or shape[0] != 1:
        raise NescioError("the first axis must stay that of the samples")
    return mapped(x, lambda flat: flat.reshape(-1, *shape[1:]))


@handles("expand", "expand_as")
def _expand_as_is(func: Any, x: Traced, *args: Any, **kwargs: Any) -> Traced:
    shape = tuple(func(apparent(x), *map(apparent, args), **kwargs).shape)
    if len(shape) != x.ndim or shape[0] != 1:
        raise NescioError("the first axis must stay that of the samples")
    return mapped(x, lambda flat: flat.expand(-1, *shape[1:]))


@handles("split", "chunk", "tensor_split", "unbind")
def _pieces_of(func: Any, x: Traced, *args: Any, **kwargs: Any) -> tuple[Traced, ...]:
    """split, chunk and unbind: several results, each by itself."""
    count = len(func(apparent(x), *args, **kwargs))

    def part(i: int) -> Traced:
        return each(x, lambda flat: func(flat, *args, **kwargs)[i])

    return tuple(part(i) for i in range(count))


@handles("squeeze")
def _squeeze(func: Any, x: Traced, *args: Any, **kwargs: Any) -> Traced:
    if args or kwargs:
        return _shape(func, x, *args, **kwargs)
    shape = [n for n in x.shape[1:] if n != 1]  # as in a batch of several samples
    return mapped(x, lambda flat: flat.reshape(-1, *shape))


@handles("interpolate")
def _interpolate(func: Any, x: Traced, *args: Any, **kwargs: Any) -> Traced:
    if "bicubic" in (*args, kwargs.get("mode")):
        raise NescioError("bicubic interpolation is not known here; use bilinear")
    return each(x, lambda flat: func(flat, *args, **kwargs), terms=8)
