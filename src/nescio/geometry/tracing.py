"""A tensor that runs through a user's own `forward` and keeps what it is as a function.

`Traced` looks to the network like a batch of one case. Each operation on it is handed to a domain,
which knows how the affine maps behind the tensor change. Whatever is not piecewise affine is
refused by name. Nothing of the network is replaced.
"""

# ruff: noqa: ARG001 (every operation is called with the function and the arguments it stands for)

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.errors import NescioError
from nescio.geometry.domain import Bend, Domain, Function, Part

READS = {  # properties and questions that the stand-in answers itself
    "__get__", "size", "dim", "numel", "nelement", "__len__", "is_floating_point", "is_complex",
    "ndimension", "stride", "is_contiguous", "element_size",
}  # fmt: skip
SAME = {
    "contiguous", "clone", "detach", "double", "float", "half", "type", "type_as", "cpu", "to",
    "requires_grad_", "alias",
}  # fmt: skip
SHAPES = {  # of one case: linear, with positive weights
    "flatten", "permute", "transpose", "swapaxes", "movedim", "moveaxis", "unsqueeze",
    "__getitem__", "narrow", "select", "flip", "roll", "unflatten", "tile", "repeat",
    "channel_shuffle", "pixel_shuffle", "pixel_unshuffle", "adaptive_avg_pool1d",
    "adaptive_avg_pool2d", "avg_pool1d", "avg_pool2d", "mean", "sum", "index_select", "cumsum",
}  # fmt: skip
NUMBERS = {  # what a network asks to decide its way
    "bool", "item", "tolist", "float", "int", "index", "any", "all", "gt", "ge", "lt", "le", "eq",
    "ne", "greater", "less", "isfinite", "isnan", "equal", "allclose", "numpy",
}  # fmt: skip
CONSTANTS = {
    "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "new_tensor",
}  # fmt: skip


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
        if name.endswith("_") and not name.startswith("__"):
            return _overwrite(args[0], handler(func, *args, **kwargs))
        if name.startswith("__i") and name.endswith("__"):
            return _overwrite(args[0], handler(func, *args, **kwargs))
        return handler(func, *args, **kwargs)


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


def _overwrite(target: Any, result: Traced) -> Traced:
    """An in-place operation: the tensor itself becomes the result."""
    if not isinstance(target, Traced) or target.shape != result.shape:
        raise NescioError("an in-place operation that changes a tensor's shape")
    target.part = result.part
    return target


# -- operations; each gets the function itself and the arguments of the call


def _apparent(x: Any) -> Any:
    """A stand-in without numbers for a traced tensor, to see what shapes an operation gives."""
    if not isinstance(x, Traced):
        return x
    return torch.empty(tuple(x.shape), dtype=torch.float64, device="meta")


def _same(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(x, Traced):  # a constant, moved to where the traced tensor lives
        return x.double()
    kinds = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.dtype)]
    if any(not kind.is_floating_point for kind in kinds):
        raise NescioError(f"numbers that are rounded to {kinds[0]}")
    return Traced.of(x.part, x.domain) if func.__name__ == "clone" else x


def _made(func: Any, x: Traced, *args: Any, **kwargs: Any) -> Tensor:
    """A new tensor that only takes its shape from a traced one."""
    kwargs = {k: v for k, v in kwargs.items() if k not in ("dtype", "device")}
    like = torch.empty(tuple(x.shape), dtype=torch.float64)
    return func(like, *args, **kwargs)  # type: ignore[no-any-return]


def _map(x: Traced, function: Function, *, terms: int = 1) -> Traced:
    """A linear function with positive weights that is known to keep cases apart."""
    return Traced.of(x.domain.map(x.part, function, terms=terms), x.domain)


def _each(x: Traced, function: Function, *, terms: int = 1) -> Traced:
    """The same of a function that may mix cases: two of them must come out as each alone."""
    size = max(1, x.numel())
    probe = torch.arange(2.0 * size, dtype=torch.float64).reshape(2, *x.shape[1:])
    both, apart = function(probe), [function(probe[:1]), function(probe[1:])]
    if both.ndim == 0 or apart[0].ndim == 0:
        raise NescioError("one number of all cases; the first axis must stay that of the cases")
    if both.shape[:1] != (2,) or any(a.shape != (1, *both.shape[1:]) for a in apart):
        raise NescioError("the first axis must stay that of the cases")
    if not torch.allclose(both, torch.cat(apart)):
        raise NescioError(
            "an operation that mixes cases; the first axis must stay that of the cases"
        )
    return _map(x, function, terms=terms)


def _shape(func: Any, x: Traced, *args: Any, **kwargs: Any) -> Traced:
    """An operation of one case that is applied to every map as it is."""
    terms = _terms(func.__name__, x, func(_apparent(x), *args, **kwargs), *args, **kwargs)
    return _each(x, lambda flat: func(flat, *args, **kwargs), terms=terms)


def _terms(name: str, x: Traced, out: Tensor, *args: Any, **kwargs: Any) -> int:
    """How many numbers one output of a pooling or a sum adds up."""
    ratio = -(-x.numel() // max(out.numel(), 1))
    if name in ("avg_pool1d", "avg_pool2d"):
        axes = 1 if name == "avg_pool1d" else 2
        return prod(_pair(args[0] if args else kwargs["kernel_size"], axes))
    if name.startswith("adaptive_avg_pool"):
        return 4 * ratio
    return ratio if name in ("mean", "sum") else x.numel() if name == "cumsum" else 1


def _view(func: Any, x: Traced, *args: Any, **kwargs: Any) -> Traced:
    if args and isinstance(args[0], torch.dtype):
        raise NescioError("numbers seen as those of another type")
    shape = tuple(func(_apparent(x), *map(_apparent, args), **kwargs).shape)
    if not shape or shape[0] != 1:
        raise NescioError("the first axis must stay that of the cases")
    return _map(x, lambda flat: flat.reshape(-1, *shape[1:]))


def _expand_as_is(func: Any, x: Traced, *args: Any, **kwargs: Any) -> Traced:
    shape = tuple(func(_apparent(x), *map(_apparent, args), **kwargs).shape)
    if len(shape) != x.ndim or shape[0] != 1:
        raise NescioError("the first axis must stay that of the cases")
    return _map(x, lambda flat: flat.expand(-1, *shape[1:]))


def _pieces_of(func: Any, x: Traced, *args: Any, **kwargs: Any) -> tuple[Traced, ...]:
    """split, chunk and unbind: several results, each by itself."""
    count = len(func(_apparent(x), *args, **kwargs))

    def piece(i: int) -> Traced:
        return _each(x, lambda flat: func(flat, *args, **kwargs)[i])

    return tuple(piece(i) for i in range(count))


def _squeeze(func: Any, x: Traced, *args: Any, **kwargs: Any) -> Traced:
    if args or kwargs:
        return _shape(func, x, *args, **kwargs)
    shape = [n for n in x.shape[1:] if n != 1]  # as in a batch of several cases
    return _map(x, lambda flat: flat.reshape(-1, *shape))


def _interpolate(func: Any, x: Traced, *args: Any, **kwargs: Any) -> Traced:
    if "bicubic" in (*args, kwargs.get("mode")):
        raise NescioError("bicubic interpolation is not known here; use bilinear")
    return _each(x, lambda flat: func(flat, *args, **kwargs), terms=8)


def _constant(value: Any) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64)  # a number is exact, not rounded to float32


def _linear(func: Any, x: Traced, weight: Tensor, bias: Tensor | None = None) -> Traced:
    if isinstance(weight, Traced) or not isinstance(x, Traced):
        raise NescioError("a product of two tensors that both depend on the input")
    w = _constant(weight)
    part = x.domain.map(
        x.part,
        lambda flat: F.linear(flat, w),
        absolute=lambda flat: F.linear(flat, w.abs()),
        terms=w.shape[1],
        constant=None if bias is None else _constant(bias),
    )
    return Traced.of(part, x.domain)


def _matmul(func: Any, x: Any, other: Any) -> Traced:
    if isinstance(other, Traced) and isinstance(x, Traced):
        raise NescioError("a product of two tensors that both depend on the input")
    if not isinstance(x, Traced):
        if x.ndim != 2 or other.ndim < 3:
            raise NescioError("a product that mixes cases; write it as x @ w")
        turned: Traced = _linear(func, other.transpose(-1, -2), x).transpose(-1, -2)  # type: ignore[assignment]
        return turned
    if other.ndim != 2:
        raise NescioError(f"a product with weights of {other.ndim} axes; only matrices are known")
    return _linear(func, x, other.T)


def _addmm(func: Any, bias: Tensor, x: Traced, weight: Tensor, **kwargs: Any) -> Traced:
    if kwargs:
        raise NescioError("addmm with factors; write the product and the sum apart")
    return _linear(func, x, weight.T, bias)


def _convolution(
    func: Any, x: Traced, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any
) -> Traced:
    if isinstance(weight, Traced) or not isinstance(x, Traced):
        raise NescioError("a product of two tensors that both depend on the input")
    w = _constant(weight)
    if x.ndim != w.ndim:  # one case without its axis, to torch
        raise NescioError(
            f"a convolution of {x.ndim} axes; the first axis must be that of the cases"
        )
    constant = None
    if bias is not None:
        constant = _constant(bias).reshape(-1, *(1 for _ in range(w.ndim - 2)))
    part = x.domain.map(
        x.part,
        lambda flat: func(flat, w, None, *args, **kwargs),
        absolute=lambda flat: func(flat, w.abs(), None, *args, **kwargs),
        terms=w.numel() // min(w.shape[:2]),
        constant=constant,
    )
    return Traced.of(part, x.domain)


def _batch_norm(
    func: Any,
    x: Traced,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Traced:
    if training or running_mean is None or running_var is None:
        raise NescioError("batch normalisation by the batch's own statistics is not affine")
    scale = (_constant(running_var) + eps).rsqrt()
    scale = scale if weight is None else scale * _constant(weight)
    shift = -_constant(running_mean) * scale
    shift = shift if bias is None else shift + _constant(bias)
    shape = (-1, *(1 for _ in x.shape[2:]))
    return _scaled(x, scale.reshape(shape), shift.reshape(shape))


def _beside(x: Traced, value: Any) -> Tensor:
    """A constant as it stands beside the features of one case."""
    constant = _constant(value)
    if constant.ndim >= x.ndim and constant.ndim:
        if constant.ndim > x.ndim or len(constant) != 1:
            raise NescioError("a constant with its own axis of cases; only one case can be traced")
        return constant[0]
    return constant


def _scaled(x: Traced, factor: Any, constant: Any = None) -> Traced:
    factor = _beside(x, factor)
    part = x.domain.map(
        x.part, lambda f: f * factor, absolute=lambda f: f * factor.abs(), constant=constant
    )
    return Traced.of(part, x.domain)


def _shifted(x: Traced, constant: Any) -> Traced:
    constant = _beside(x, constant)
    shape = tuple(np.broadcast_shapes(x.shape[1:], constant.shape))
    wide = x.domain.map(x.part, lambda f: _widened(f, shape), constant=constant)
    return Traced.of(wide, x.domain)


def _widened(flat: Tensor, shape: Sequence[int]) -> Tensor:
    """Every case of a batch broadcast to a shape."""
    new = (1 for _ in range(len(shape) - flat.ndim + 1))
    return flat.reshape(len(flat), *new, *flat.shape[1:]).expand(-1, *shape)


def _alike(*tensors: Traced) -> list[Traced]:
    """Traced tensors of one shape, each broadcast to it."""
    shape = tuple(np.broadcast_shapes(*(t.shape[1:] for t in tensors)))
    return [t if t.shape[1:] == shape else _map(t, lambda f: _widened(f, shape)) for t in tensors]


def _add(func: Any, x: Any, other: Any, *, alpha: float = 1) -> Traced:
    if isinstance(x, Traced) and isinstance(other, Traced):
        first, second = _alike(x, other if alpha == 1 else _scaled(other, alpha))
        return Traced.of(x.domain.add(first.part, second.part), x.domain)
    if isinstance(x, Traced):
        return _shifted(x, alpha * _constant(other))
    return _shifted(other if alpha == 1 else _scaled(other, alpha), x)


def _subtract(func: Any, x: Any, other: Any, *, alpha: float = 1) -> Traced:
    return _add(func, x, other, alpha=-alpha)


def _subtract_from(func: Any, x: Any, other: Any, *, alpha: float = 1) -> Traced:
    return _add(func, other, x, alpha=-alpha)


def _negative(func: Any, x: Traced) -> Traced:
    return _scaled(x, -1.0)


def _multiply(func: Any, x: Any, other: Any) -> Traced:
    if isinstance(x, Traced) and isinstance(other, Traced):
        raise NescioError("a product of two tensors that both depend on the input")
    return _scaled(x, other) if isinstance(x, Traced) else _scaled(other, x)


def _divide(func: Any, x: Any, other: Any, *, rounding_mode: None = None) -> Traced:
    if isinstance(other, Traced) or rounding_mode is not None:
        raise NescioError("a division by a tensor that depends on the input, or a rounded one")
    divisor = _beside(x, other)
    if not (divisor != 0).all():
        raise NescioError("a division by zero")
    part = x.domain.map(x.part, lambda f: f / divisor, absolute=lambda f: f / divisor.abs())
    return Traced.of(part, x.domain)


def _cat(func: Any, tensors: Sequence[Any], dim: int = 0, **kwargs: Any) -> Traced:
    dim = kwargs.get("axis", dim)
    traced = [t for t in tensors if isinstance(t, Traced)]
    if dim in (0, -traced[0].ndim):
        raise NescioError("cases joined to cases; the first axis must stay that of the cases")
    domain = traced[0].domain
    parts = [t.part if isinstance(t, Traced) else _as_part(t, traced[0]) for t in tensors]
    return Traced.of(domain.join(parts, dim), domain)


def _as_part(constant: Tensor, like: Traced) -> Part:
    """A constant `(1, *features)` beside a traced tensor."""
    part = like.domain.current(like.part)
    shape = tuple(constant.shape)[1:]
    ones = (1 for _ in shape)
    blank = like.domain.map(
        part, lambda f: f.flatten(1)[:, :1].mul(0).reshape(-1, *ones).expand(-1, *shape)
    )
    return like.domain.map(blank, lambda f: f, constant=_beside(like, constant))


def _stack(func: Any, tensors: Sequence[Any], dim: int = 0) -> Traced:
    dim = dim % (tensors[0].ndim + 1)
    if dim == 0:
        raise NescioError("cases joined to cases; the first axis must stay that of the cases")
    return _cat(func, [t.unsqueeze(dim) for t in tensors], dim)


def _pad(
    func: Any, x: Traced, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Traced:
    padded = _each(x, lambda f: F.pad(f, tuple(pad), mode))
    if mode == "constant" and value:
        blank = torch.zeros(tuple(x.shape[1:]), dtype=torch.float64)
        return _shifted(padded, F.pad(blank, tuple(pad), value=value))
    return padded


# -- activations


def _bend(
    x: Traced, points: Sequence[Any], slopes: Sequence[Any], offsets: Sequence[Any]
) -> Traced:
    """An activation; tensors become nested lists, which compare with numbers."""
    given = (points, slopes, offsets)
    listed = (tuple(v.tolist() if isinstance(v, Tensor) else v for v in vs) for vs in given)
    return Traced.of(x.domain.bend(x.part, Bend(*listed)), x.domain)


def _maybe_in_place(x: Traced, result: Traced, inplace: bool) -> Traced:
    return _overwrite(x, result) if inplace else result


def _relu(func: Any, x: Traced, inplace: bool = False) -> Traced:
    return _maybe_in_place(x, _bend(x, [0.0], [0.0, 1.0], [0.0, 0.0]), inplace)


def _leaky(func: Any, x: Traced, negative_slope: float = 0.01, inplace: bool = False) -> Traced:
    result = _bend(x, [0.0], [negative_slope, 1.0], [0.0, 0.0])
    return _maybe_in_place(x, result, inplace)


def _prelu(func: Any, x: Traced, weight: Tensor) -> Traced:
    w = _constant(weight)
    w = w.reshape(-1, *(1 for _ in x.shape[2:])) if w.numel() > 1 else w.reshape(())
    return _bend(x, [0.0], [w, 1.0], [0.0, 0.0])


def _hardtanh(
    func: Any, x: Traced, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Traced:
    low, high = float(min_val), float(max_val)
    result = _bend(x, [low, high], [0.0, 1.0, 0.0], [low, 0.0, high])
    return _maybe_in_place(x, result, inplace)


def _relu6(func: Any, x: Traced, inplace: bool = False) -> Traced:
    return _hardtanh(func, x, 0.0, 6.0, inplace)


def _hardsigmoid(func: Any, x: Traced, inplace: bool = False) -> Traced:
    result = _bend(x, [-3.0, 3.0], [0.0, 1 / 6, 0.0], [0.0, 0.5, 1.0])
    return _maybe_in_place(x, result, inplace)


def _softshrink(func: Any, x: Traced, lambd: float = 0.5) -> Traced:
    return _bend(x, [-lambd, lambd], [1.0, 0.0, 1.0], [lambd, 0.0, -lambd])


def _rrelu(
    func: Any,
    x: Traced,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Traced:
    if training:
        raise NescioError("slopes that are drawn anew at each call")
    return _leaky(func, x, (lower + upper) / 2, inplace)


def _clamp(func: Any, x: Traced, min: Any = None, max: Any = None) -> Traced:
    if isinstance(min, Traced) or isinstance(max, Traced):
        raise NescioError("bounds that depend on the input; use torch.maximum and torch.minimum")
    low, high = (None if bound is None else _beside(x, bound) for bound in (min, max))
    if low is not None and high is not None and not (low <= high).all():
        raise NescioError("a lower bound above the upper one")
    if low is not None and high is not None:
        low, high = torch.broadcast_tensors(low, high)
        return _bend(x, [low, high], [0.0, 1.0, 0.0], [low, 0.0, high])
    if low is not None:
        return _bend(x, [low], [0.0, 1.0], [low, 0.0])
    if high is not None:
        return _bend(x, [high], [1.0, 0.0], [0.0, high])
    return x


def _clamp_min(func: Any, x: Traced, min: Any) -> Traced:
    return _clamp(func, x, min=min)


def _clamp_max(func: Any, x: Traced, max: Any) -> Traced:
    return _clamp(func, x, max=max)


def _absolute(func: Any, x: Traced) -> Traced:
    return _bend(x, [0.0], [-1.0, 1.0], [0.0, 0.0])


def _threshold(
    func: Any, x: Traced, threshold: float, value: float, inplace: bool = False
) -> Traced:
    if threshold != value:
        raise NescioError("a threshold that jumps is not continuous")
    return _maybe_in_place(x, _bend(x, [value], [0.0, 1.0], [value, 0.0]), inplace)


def _dropout(
    func: Any, x: Traced, p: float = 0.5, training: bool = True, inplace: bool = False, **_: Any
) -> Traced:
    if training and p > 0:
        raise NescioError("dropout that draws anew at each call; use predictors.mc_dropout")
    return x


# -- the largest of several


def _largest(parts: Sequence[Traced]) -> Traced:
    domain = parts[0].domain
    return Traced.of(domain.largest([p.part for p in _alike(*parts)]), domain)


def _maximum(func: Any, x: Any, other: Any) -> Traced:
    if isinstance(x, Traced) and isinstance(other, Traced):
        return _largest([x, other])
    x, other = (x, other) if isinstance(x, Traced) else (other, x)
    return _clamp(func, x, min=other)


def _minimum(func: Any, x: Any, other: Any) -> Traced:
    if isinstance(x, Traced) and isinstance(other, Traced):
        return _scaled(_largest([_scaled(x, -1.0), _scaled(other, -1.0)]), -1.0)
    x, other = (x, other) if isinstance(x, Traced) else (other, x)
    return _clamp(func, x, max=other)


def _amax(func: Any, x: Traced, dim: int | Sequence[int] = (), keepdim: bool = False) -> Traced:
    dims = {d % x.ndim for d in ((dim,) if isinstance(dim, int) else dim)}
    if not dims or 0 in dims:
        raise NescioError("the largest over cases; the first axis must stay that of the cases")
    for axis in sorted(dims, reverse=True):
        x = _largest([x.narrow(axis, i, 1) for i in range(x.shape[axis])])  # type: ignore[misc]
        x = x if keepdim else x.squeeze(axis)  # type: ignore[assignment]
    return x


def _amin(func: Any, x: Traced, dim: int | Sequence[int] = (), keepdim: bool = False) -> Traced:
    return _scaled(_amax(func, _scaled(x, -1.0), dim, keepdim), -1.0)


def _max(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Of two tensors, or the values of the largest along an axis; places are not known."""
    given = args[0] if args else kwargs.get("other", kwargs.get("dim"))
    least = func.__name__ == "min"
    if isinstance(given, Tensor):
        return (_minimum if least else _maximum)(func, x, given)
    if not isinstance(given, int):
        raise NescioError("the largest over cases; the first axis must stay that of the cases")
    keepdim = args[1] if len(args) > 1 else kwargs.get("keepdim", False)
    return Extreme((_amin if least else _amax)(func, x, given, keepdim))


class Extreme(NamedTuple):
    """What max and min along an axis give: values, and no places to look up."""

    values: Traced

    @property
    def indices(self) -> Tensor:
        raise NescioError("the place of the largest value")


def _max_pool(
    func: Any,
    x: Traced,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Traced:
    if return_indices:
        raise NescioError("max pooling that returns places")
    axes = 1 if func.__name__ == "max_pool1d" else 2
    kernel, padding, dilation = (_pair(v, axes) for v in (kernel_size, padding, dilation))
    stride = kernel if stride is None or stride == [] else _pair(stride, axes)
    out = func(_apparent(x), kernel, stride, padding, dilation, ceil_mode).shape[-axes:]
    places = _windows(tuple(x.shape[-axes:]), kernel, stride, padding, dilation, tuple(out))
    if isinstance(places, Tensor):  # some windows reach over the edge
        return _largest_of_places(x, places, out)
    return _largest([_window(x, window) for window in places])


def _largest_of_places(x: Traced, places: Tensor, out: Sequence[int]) -> Traced:
    """The largest over W windows, given flat places `(W, prod(out))` in the last axes."""
    axes, shape = len(out), tuple(out)
    flat = _map(x, lambda f: f.flatten(-axes))
    windows = [_window(flat, (row,)) for row in places]
    return _largest([_map(w, lambda f: f.unflatten(-1, shape)) for w in windows])


def _window(x: Traced, places: tuple[slice | Tensor, ...]) -> Traced:
    return _map(x, lambda f: f[(..., *places)])


def _adaptive_max_pool(
    func: Any, x: Traced, output_size: Any, return_indices: bool = False
) -> Traced:
    if return_indices:
        raise NescioError("max pooling that returns places")
    axes = 1 if func.__name__ == "adaptive_max_pool1d" else 2
    size = tuple(x.shape[-axes:])
    wanted = (output_size,) * axes if isinstance(output_size, int) else tuple(output_size)
    out = [n if w is None else int(w) for n, w in zip(size, wanted, strict=True)]
    rows = []  # by axis: the members (W, out) of each window, the last one repeated
    for n, o in zip(size, out, strict=True):
        first = torch.arange(o) * n // o
        last = -(-(torch.arange(o) + 1) * n // o) - 1
        rows.append([torch.minimum(first + i, last) for i in range(int((last - first).max()) + 1)])
    places = rows[0]
    if axes == 2:
        places = [(r[:, None] * size[1] + c).flatten() for r in rows[0] for c in rows[1]]
    return _largest_of_places(x, torch.stack(places), out)


def _pair(value: Any, axes: int) -> tuple[int, ...]:
    values = (value,) * axes if isinstance(value, int) else tuple(value)
    return tuple(int(v) for v in (values * axes if len(values) == 1 else values))


def _windows(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    out: tuple[int, ...],
) -> list[tuple[slice, ...]] | Tensor:
    """Where the members of every window lie: slices, or flat places `(W, *out)` at edges.

    A member beyond the edge is replaced by another of its window: it then never wins alone.
    """
    steps = torch.cartesian_prod(*(torch.arange(k) for k in kernel)).reshape(-1, len(kernel))
    starts = [torch.arange(o) * s - p for o, s, p in zip(out, stride, padding, strict=True)]
    rows = [
        [start + step * d for start, step, d in zip(starts, offsets, dilation, strict=True)]
        for offsets in steps.tolist()
    ]
    inside = all(
        int(axis.min()) >= 0 and int(axis.max()) < n
        for row in rows
        for axis, n in zip(row, size, strict=True)
    )
    if inside:
        return [
            tuple(
                slice(int(axis[0]), int(axis[-1]) + 1, s)
                for axis, s in zip(row, stride, strict=True)
            )
            for row in rows
        ]
    places, valid = [], []
    for row in rows:
        grids = torch.meshgrid(*row, indexing="ij")
        ok = torch.ones(out, dtype=torch.bool)
        place = torch.zeros(out, dtype=torch.long)
        for grid, n in zip(grids, size, strict=True):
            ok &= (grid >= 0) & (grid < n)
            place = place * n + grid
        places.append(place.flatten())
        valid.append(ok.flatten())
    table, known = torch.stack(places), torch.stack(valid)
    first = table.gather(0, known.int().argmax(0)[None])  # a member that is inside
    return torch.where(known, table, first)


Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(SAME, _same),
    **dict.fromkeys(CONSTANTS, _made),
    **dict.fromkeys(SHAPES, _shape),
    **dict.fromkeys(("view", "reshape", "view_as", "reshape_as"), _view),
    **dict.fromkeys(("expand", "expand_as"), _expand_as_is),
    **dict.fromkeys(("split", "chunk", "tensor_split", "unbind"), _pieces_of),
    "squeeze": _squeeze,
    "linear": _linear,
    **dict.fromkeys(("matmul", "__matmul__", "__rmatmul__", "mm"), _matmul),
    "addmm": _addmm,
    **dict.fromkeys(("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"), _convolution),
    "batch_norm": _batch_norm,
    **dict.fromkeys(("add", "add_", "__add__", "__radd__", "__iadd__"), _add),
    **dict.fromkeys(("sub", "sub_", "subtract", "__sub__", "__isub__"), _subtract),
    **dict.fromkeys(("__rsub__", "rsub"), _subtract_from),
    **dict.fromkeys(("neg", "neg_", "negative", "__neg__"), _negative),
    **dict.fromkeys(("mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"), _multiply),
    **dict.fromkeys(("div", "div_", "divide", "__truediv__", "__itruediv__"), _divide),
    **dict.fromkeys(("cat", "concat", "concatenate"), _cat),
    "stack": _stack,
    "pad": _pad,
    "interpolate": _interpolate,
    **dict.fromkeys(("relu", "relu_"), _relu),
    **dict.fromkeys(("leaky_relu", "leaky_relu_"), _leaky),
    "prelu": _prelu,
    **dict.fromkeys(("hardtanh", "hardtanh_"), _hardtanh),
    "relu6": _relu6,
    "hardsigmoid": _hardsigmoid,
    "softshrink": _softshrink,
    "rrelu": _rrelu,
    **dict.fromkeys(("clamp", "clamp_", "clip"), _clamp),
    **dict.fromkeys(("clamp_min", "clamp_min_"), _clamp_min),
    **dict.fromkeys(("clamp_max", "clamp_max_"), _clamp_max),
    **dict.fromkeys(("abs", "__abs__", "absolute"), _absolute),
    **dict.fromkeys(("threshold", "_threshold", "threshold_"), _threshold),
    **dict.fromkeys(
        ("dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
         "feature_alpha_dropout"),
        _dropout,
    ),
    "maximum": _maximum,
    "minimum": _minimum,
    "amax": _amax,
    "amin": _amin,
    **dict.fromkeys(("max", "min"), _max),
    **dict.fromkeys(("max_pool1d", "max_pool2d"), _max_pool),
    **dict.fromkeys(("adaptive_max_pool1d", "adaptive_max_pool2d"), _adaptive_max_pool),
}  # fmt: skip


def run(net: Callable[[Tensor], Any], names: Mapping[nn.Module, str], start: Traced) -> Part:
    """The outputs of a network `(K, R, C)` as a part; a layer that does not fit is named."""
    try:
        out = net(start)
    except NescioError as error:
        raise NescioError(f"{_place(error, names)}: {error}") from None
    except Exception as error:  # a user's forward may raise anything
        line = str(error).strip().split("\n")[0]
        raise NescioError(
            f"{_place(error, names)}: inputs of shape {tuple(start.shape[1:])} do not pass: {line}"
        ) from error
    if not isinstance(out, Traced):
        raise NescioError("the network must return one tensor that depends on its input")
    part = out.domain.current(out.part)
    if len(part.features) != 1:
        raise NescioError(f"a network must return (cases, outputs), a case gives {part.features}")
    return part


def _place(error: BaseException, names: Mapping[nn.Module, str]) -> str:
    """The innermost layer that was running, by its name in the network."""
    trace, found = error.__traceback__, None
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        if isinstance(owner, nn.Module) and owner in names:
            found = owner
        trace = trace.tb_next
    if found is None:
        return "the network cannot be analysed"
    where = f"layer {names[found]!r}" if names[found] else "the network's own forward"
    return f"the network cannot be analysed: {where} ({type(found).__name__})"
