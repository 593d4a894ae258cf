"""Affine layers, sums, products with constants, and what joins tensors."""

# ruff: noqa: ARG001 (every operation is called with the function and the arguments it stands for)

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import InputShapeError, NescioError
from nescio.geometry.tracing.operator_norms import convolution_norm, matrix_norm
from nescio.geometry.tracing.traced import Traced, each, handles, mapped, pair


def as_constant(value: Any) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64)  # a number is exact, not rounded to float32


@handles("linear")
def _linear(func: Any, x: Traced, weight: Tensor, bias: Tensor | None = None) -> Traced:
    if isinstance(weight, Traced) or not isinstance(x, Traced):
        raise NescioError("a product of two tensors that both depend on the input")
    w = as_constant(weight)
    return mapped(
        x,
        lambda flat: F.linear(flat, w),
        absolute=lambda flat: F.linear(flat, w.abs()),
        counts=lambda flat: F.linear(flat, (w != 0).float()),
        terms=w.shape[1],
        norm=lambda: matrix_norm(w),
        constant=None if bias is None else as_constant(bias),
    )


@handles("matmul", "__matmul__", "__rmatmul__", "mm")
def _matmul(func: Any, x: Any, other: Any) -> Traced:
    if isinstance(other, Traced) and isinstance(x, Traced):
        raise NescioError("a product of two tensors that both depend on the input")
    if not isinstance(x, Traced):
        if x.ndim != 2 or other.ndim < 3:
            raise NescioError("a product that mixes samples; write it as x @ w")
        turned: Traced = _linear(func, other.transpose(-1, -2), x).transpose(-1, -2)  # type: ignore[assignment]
        return turned
    if other.ndim != 2:
        raise NescioError(f"a product with weights of {other.ndim} axes; only matrices are known")
    return _linear(func, x, other.T)


@handles("addmm")
def _addmm(func: Any, bias: Tensor, x: Traced, weight: Tensor, **kwargs: Any) -> Traced:
    if kwargs:
        raise NescioError("addmm with factors; write the product and the sum apart")
    return _linear(func, x, weight.T, bias)


@handles("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d")
def _convolution(
    func: Any, x: Traced, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any
) -> Traced:
    if isinstance(weight, Traced) or not isinstance(x, Traced):
        raise NescioError("a product of two tensors that both depend on the input")
    w = as_constant(weight)
    if x.ndim != w.ndim:  # one sample without its axis, to torch
        raise InputShapeError(
            f"a convolution of {x.ndim} axes; the first axis must be that of the samples"
        )
    constant = None
    if bias is not None:
        constant = as_constant(bias).reshape(-1, *(1 for _ in range(w.ndim - 2)))
    return mapped(
        x,
        lambda flat: func(flat, w, None, *args, **kwargs),
        absolute=lambda flat: func(flat, w.abs(), None, *args, **kwargs),
        counts=lambda flat: _counted(func, flat, w != 0, *args, **kwargs),
        terms=w.numel() // min(w.shape[:2]),
        norm=lambda: _convolution_norm(func.__name__, x, w, *args, **kwargs),
        constant=constant,
    )


def _convolution_norm(
    name: str,
    x: Traced,
    w: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    *more: Any,
    **kwargs: Any,
) -> float:
    """A bound on the norm of a convolution, from its arguments in PyTorch's order."""
    back = "transpose" in name
    order = ("output_padding", "groups", "dilation") if back else ("dilation", "groups")
    options = {**dict(zip(order, more, strict=False)), **kwargs}
    axes = w.ndim - 2
    steps, spread = pair(stride, axes), pair(options.get("dilation", 1), axes)
    reach = [
        s * n + d * k for s, n, d, k in zip(steps, x.shape[2:], spread, w.shape[2:], strict=True)
    ]
    sizes = reach if back else x.shape[2:]
    groups = int(options.get("groups", 1))
    return convolution_norm(w, sizes, stride=steps, dilation=spread, groups=groups)


def _counted(func: Any, flat: Tensor, used: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """How many terms of each output are not 0; of all channels at once where all weights count."""
    groups = args[3] if len(args) > 3 else kwargs.get("groups", 1)
    if groups == 1 and used.all():
        flat, used = flat.amax(1, keepdim=True), used[:1, :1]
    return func(flat, used.float(), None, *args, **kwargs)  # type: ignore[no-any-return]


@handles("batch_norm")
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
        raise NescioError("batch normalization by the batch's own statistics is not affine")
    scale = (as_constant(running_var) + eps).rsqrt()
    scale = scale if weight is None else scale * as_constant(weight)
    shift = -as_constant(running_mean) * scale
    shift = shift if bias is None else shift + as_constant(bias)
    shape = (-1, *(1 for _ in x.shape[2:]))
    return scaled(x, scale.reshape(shape), shift.reshape(shape))


def beside(x: Traced, value: Any) -> Tensor:
    """A constant, broadcast to the features of one sample."""
    constant = as_constant(value)
    if constant.ndim >= x.ndim and constant.ndim:
        if constant.ndim > x.ndim or len(constant) != 1:
            raise NescioError(
                "a constant with its own axis of samples; only one sample can be traced"
            )
        return constant[0]
    return constant


def scaled(x: Traced, factor: Any, constant: Any = None) -> Traced:
    factor = beside(x, factor)
    size = factor.abs()
    return mapped(x, lambda f: f * factor, absolute=lambda f: f * size, constant=constant)


def _shifted(x: Traced, constant: Any) -> Traced:
    constant = beside(x, constant)
    shape = tuple(np.broadcast_shapes(x.shape[1:], constant.shape))
    return mapped(x, lambda f: _widened(f, shape), constant=constant)


def _widened(flat: Tensor, shape: Sequence[int]) -> Tensor:
    """Every sample of a batch broadcast to a shape."""
    new = (1 for _ in range(len(shape) - flat.ndim + 1))
    return flat.reshape(len(flat), *new, *flat.shape[1:]).expand(-1, *shape)


def alike(*tensors: Traced) -> list[Traced]:
    """Traced tensors of one shape, each broadcast to it."""
    shape = tuple(np.broadcast_shapes(*(t.shape[1:] for t in tensors)))
    return [t if t.shape[1:] == shape else mapped(t, lambda f: _widened(f, shape)) for t in tensors]


@handles("add", "add_", "__add__", "__radd__", "__iadd__")
def _add(func: Any, x: Any, other: Any, *, alpha: float = 1) -> Traced:
    if isinstance(x, Traced) and isinstance(other, Traced):
        first, second = alike(x, other if alpha == 1 else scaled(other, alpha))
        return Traced.of(x.domain.add(first.part, second.part), x.domain)
    if isinstance(x, Traced):
        return _shifted(x, alpha * as_constant(other))
    return _shifted(other if alpha == 1 else scaled(other, alpha), x)


@handles("sub", "sub_", "subtract", "__sub__", "__isub__")
def _subtract(func: Any, x: Any, other: Any, *, alpha: float = 1) -> Traced:
    return _add(func, x, other, alpha=-alpha)


@handles("__rsub__", "rsub")
def _subtract_from(func: Any, x: Any, other: Any, *, alpha: float = 1) -> Traced:
    return _add(func, other, x, alpha=-alpha)


@handles("neg", "neg_", "negative", "__neg__")
def _negative(func: Any, x: Traced) -> Traced:
    return scaled(x, -1.0)


@handles("mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__")
def _multiply(func: Any, x: Any, other: Any) -> Traced:
    if isinstance(x, Traced) and isinstance(other, Traced):
        raise NescioError("a product of two tensors that both depend on the input")
    return scaled(x, other) if isinstance(x, Traced) else scaled(other, x)


@handles("div", "div_", "divide", "__truediv__", "__itruediv__")
def _divide(func: Any, x: Any, other: Any, *, rounding_mode: None = None) -> Traced:
    if isinstance(other, Traced) or rounding_mode is not None:
        raise NescioError("a division by a tensor that depends on the input, or a rounded one")
    divisor = beside(x, other)
    if not (divisor != 0).all():
        raise NescioError("a division by zero")
    return mapped(x, lambda f: f / divisor, absolute=lambda f: f / divisor.abs())


@handles("cat", "concat", "concatenate")
def _cat(func: Any, tensors: Sequence[Any], dim: int = 0, **kwargs: Any) -> Traced:
    dim = kwargs.get("axis", dim)
    traced = [t for t in tensors if isinstance(t, Traced)]
    if dim in (0, -traced[0].ndim):
        raise NescioError("samples joined to samples; the first axis must stay that of the samples")
    domain = traced[0].domain
    parts = [(t if isinstance(t, Traced) else _constant(t, traced[0])).part for t in tensors]
    return Traced.of(domain.join(parts, dim), domain)


def _constant(value: Tensor, like: Traced) -> Traced:
    """A constant `(1, *features)` beside a traced tensor."""
    shape = tuple(value.shape)[1:]
    like = Traced.of(like.domain.current(like.part), like.domain)
    blank = mapped(like, lambda f: _widened(f.flatten(1)[:, 0].mul(0), shape))
    return mapped(blank, lambda f: f, constant=beside(like, value))


@handles("stack")
def _stack(func: Any, tensors: Sequence[Any], dim: int = 0) -> Traced:
    dim = dim % (tensors[0].ndim + 1)
    if dim == 0:
        raise NescioError("samples joined to samples; the first axis must stay that of the samples")
    return _cat(func, [t.unsqueeze(dim) for t in tensors], dim)


@handles("pad")
def _pad(
    func: Any, x: Traced, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Traced:
    padded = each(x, lambda f: F.pad(f, tuple(pad), mode))
    if mode == "constant" and value:
        blank = torch.zeros(tuple(x.shape[1:]), dtype=torch.float64)
        return _shifted(padded, F.pad(blank, tuple(pad), value=value))
    return padded
