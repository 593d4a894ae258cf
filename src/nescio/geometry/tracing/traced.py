"""A tensor that runs through a user's own `forward` and keeps what it is as a function.

`Traced` looks to the network like a batch of one sample. Each operation on it goes to the function
that handles it, which tells the domain how the affine maps behind the tensor change. Whatever
nobody handles is refused by name.
"""

import re
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, TypeVar

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.tracing.domain import Domain, Function, Linear, Part

READS = {  # properties and questions that the stand-in answers itself
    "__get__", "size", "dim", "numel", "nelement", "__len__", "is_floating_point", "is_complex",
    "ndimension", "stride", "is_contiguous", "element_size",
}  # fmt: skip

NUMBERS = {  # what a network asks to decide its way
    "bool", "item", "tolist", "float", "int", "index", "any", "all", "gt", "ge", "lt", "le", "eq",
    "ne", "greater", "less", "isfinite", "isnan", "equal", "allclose", "numpy",
}  # fmt: skip

IN_PLACE = re.compile("(?!__).*_|__i.*__")  # relu_, __iadd__
H = TypeVar("H", bound=Callable[..., Any])
HANDLERS: dict[str, Callable[..., Any]] = {}


def handles(*names: str) -> Callable[[H], H]:
    """Register a function for operations of these names.

    It is called with the operation itself and the arguments of the call.
    """

    def register(handler: H) -> H:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


class Traced(Tensor):
    """A tensor `(1, *features)` without numbers; `part` holds the affine maps of all rows."""

    part: Part
    domain: Domain

    @classmethod
    def of(cls, part: Part, domain: Domain) -> "Traced":
        empty = torch.empty((1, *part.features), dtype=torch.float64, device="meta")
        traced = empty.as_subclass(cls)
        traced.part, traced.domain = part, domain
        return traced

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", str(func))
        if name in READS:
            return _read(func, args, kwargs)
        handler = HANDLERS.get(name)
        if handler is None:
            if name.strip("_") in NUMBERS:
                raise NescioError("the network's way depends on the numbers that run through it")
            raise NescioError(f"{name} is not piecewise affine, or not known to be")
        in_place = kwargs.pop("inplace", False) or IN_PLACE.fullmatch(name)
        result = handler(func, *args, **kwargs)
        return overwrite(args[0], result) if in_place else result


def _read(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    attribute = getattr(getattr(func, "__self__", None), "__name__", "")
    if attribute == "mT":
        return args[0].transpose(-1, -2)
    if attribute == "data":
        return args[0]
    with torch._C.DisableTorchFunctionSubclass():
        answer = func(*args, **kwargs)
    if isinstance(answer, torch.device):
        return args[0].part.coefs.device
    if isinstance(answer, Tensor):
        raise NescioError(f"the attribute {attribute} of a tensor is not known here")
    return answer


def overwrite(target: Any, result: Traced) -> Traced:
    """An in-place operation: the tensor itself becomes the result."""
    if not isinstance(target, Traced) or target.shape != result.shape:
        raise NescioError("an in-place operation that changes a tensor's shape")
    target.part = result.part
    return target


def apparent(x: Any) -> Any:
    """A stand-in without numbers for a traced tensor, to see what shapes an operation gives."""
    if not isinstance(x, Traced):
        return x
    return torch.empty(tuple(x.shape), dtype=torch.float64, device="meta")


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


def mapped(x: Traced, function: Function, **how: Any) -> Traced:
    """A linear function that is known to keep samples apart; how: as in `Linear`."""
    return Traced.of(x.domain.map(x.part, Linear(function, **how)), x.domain)


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
