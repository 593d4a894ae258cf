"""Activations that bend, and the largest of several: of tensors, along axes, over windows."""

# ruff: noqa: ARG001 (every operation is called with the function and the arguments it stands for)

from collections.abc import Sequence
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.tracing.arithmetic import alike, as_constant, beside, scaled
from nescio.geometry.tracing.domain import Bend
from nescio.geometry.tracing.traced import Traced, apparent, handles, mapped, pair


def _bend(
    x: Traced, points: Sequence[Any], slopes: Sequence[Any], offsets: Sequence[Any]
) -> Traced:
    """An activation; tensors become nested lists, which compare with numbers."""
    given = (points, slopes, offsets)
    listed = (tuple(v.tolist() if isinstance(v, Tensor) else v for v in vs) for vs in given)
    return Traced.of(x.domain.bend(x.part, Bend(*listed)), x.domain)


@handles("relu", "relu_")
def _relu(func: Any, x: Traced) -> Traced:
    return _bend(x, [0.0], [0.0, 1.0], [0.0, 0.0])


@handles("leaky_relu", "leaky_relu_")
def _leaky(func: Any, x: Traced, negative_slope: float = 0.01) -> Traced:
    return _bend(x, [0.0], [negative_slope, 1.0], [0.0, 0.0])


@handles("prelu")
def _prelu(func: Any, x: Traced, weight: Tensor) -> Traced:
    w = as_constant(weight)
    w = w.reshape(-1, *(1 for _ in x.shape[2:])) if w.numel() > 1 else w.reshape(())
    return _bend(x, [0.0], [w, 1.0], [0.0, 0.0])


@handles("hardtanh", "hardtanh_")
def _hardtanh(func: Any, x: Traced, min_val: float = -1.0, max_val: float = 1.0) -> Traced:
    return clamp(func, x, float(min_val), float(max_val))


@handles("relu6")
def _relu6(func: Any, x: Traced) -> Traced:
    return clamp(func, x, 0.0, 6.0)


@handles("hardsigmoid")
def _hardsigmoid(func: Any, x: Traced) -> Traced:
    return _bend(x, [-3.0, 3.0], [0.0, 1 / 6, 0.0], [0.0, 0.5, 1.0])


@handles("softshrink")
def _softshrink(func: Any, x: Traced, lambd: float = 0.5) -> Traced:
    return _bend(x, [-lambd, lambd], [1.0, 0.0, 1.0], [lambd, 0.0, -lambd])


@handles("rrelu")
def _rrelu(
    func: Any, x: Traced, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Traced:
    if training:
        raise NescioError("slopes that are drawn again at each call")
    return _leaky(func, x, (lower + upper) / 2)


@handles("clamp", "clamp_", "clip")
def clamp(func: Any, x: Traced, min: Any = None, max: Any = None) -> Traced:
    if isinstance(min, Traced) or isinstance(max, Traced):
        raise NescioError("bounds that depend on the input; use torch.maximum and torch.minimum")
    low, high = (_bound(x, bound, away) for bound, away in ((min, -inf), (max, inf)))
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


def _bound(x: Traced, bound: Any, away: float) -> Tensor | None:
    """A bound, or None where there is none: infinite ones bound nothing."""
    if bound is None:
        return None
    given = beside(x, bound)
    if (given == away).all():
        return None
    if not given.isfinite().all():
        raise NescioError("bounds of which some are infinite, or not numbers")
    return given


@handles("clamp_min", "clamp_min_")
def _clamp_min(func: Any, x: Traced, min: Any) -> Traced:
    return clamp(func, x, min=min)


@handles("clamp_max", "clamp_max_")
def _clamp_max(func: Any, x: Traced, max: Any) -> Traced:
    return clamp(func, x, max=max)


@handles("abs", "__abs__", "absolute")
def _absolute(func: Any, x: Traced) -> Traced:
    return _bend(x, [0.0], [-1.0, 1.0], [0.0, 0.0])


@handles("threshold", "_threshold", "threshold_")
def _threshold(func: Any, x: Traced, threshold: float, value: float) -> Traced:
    if threshold != value:
        raise NescioError("a threshold that jumps is not continuous")
    return _bend(x, [value], [0.0, 1.0], [value, 0.0])


DROPOUTS = {
    "dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
    "feature_alpha_dropout",
}  # fmt: skip


@handles(*DROPOUTS)
def _dropout(func: Any, x: Traced, p: float = 0.5, training: bool = True, **_: Any) -> Traced:
    if training and p > 0:
        raise NescioError("dropout that draws again at each call; use models.mc_dropout")
    return x


def _largest(parts: Sequence[Traced]) -> Traced:
    domain = parts[0].domain
    return Traced.of(domain.largest([p.part for p in alike(*parts)]), domain)


@handles("maximum")
def _maximum(func: Any, x: Any, other: Any) -> Traced:
    if isinstance(x, Traced) and isinstance(other, Traced):
        return _largest([x, other])
    x, other = (x, other) if isinstance(x, Traced) else (other, x)
    return clamp(func, x, min=other)


@handles("minimum")
def _minimum(func: Any, x: Any, other: Any) -> Traced:
    if isinstance(x, Traced) and isinstance(other, Traced):
        return scaled(_largest([scaled(x, -1.0), scaled(other, -1.0)]), -1.0)
    x, other = (x, other) if isinstance(x, Traced) else (other, x)
    return clamp(func, x, max=other)


@handles("amax")
def _amax(func: Any, x: Traced, dim: int | Sequence[int] = (), keepdim: bool = False) -> Traced:
    dims = {d % x.ndim for d in ((dim,) if isinstance(dim, int) else dim)}
    if not dims or 0 in dims:
        raise NescioError("the largest over samples; the first axis must stay that of the samples")
    for axis in sorted(dims, reverse=True):
        x = _largest([x.narrow(axis, i, 1) for i in range(x.shape[axis])])  # type: ignore[misc]
        x = x if keepdim else x.squeeze(axis)  # type: ignore[assignment]
    return x


@handles("amin")
def _amin(func: Any, x: Traced, dim: int | Sequence[int] = (), keepdim: bool = False) -> Traced:
    return scaled(_amax(func, scaled(x, -1.0), dim, keepdim), -1.0)


@handles("max", "min")
def _max(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Of two tensors, or the values of the largest along an axis; places are not known."""
    given = args[0] if args else kwargs.get("other", kwargs.get("dim"))
    least = func.__name__ == "min"
    if isinstance(given, Tensor):
        return (_minimum if least else _maximum)(func, x, given)
    if not isinstance(given, int):
        raise NescioError("the largest over samples; the first axis must stay that of the samples")
    keepdim = args[1] if len(args) > 1 else kwargs.get("keepdim", False)
    return Extreme((_amin if least else _amax)(func, x, given, keepdim))


class Extreme(NamedTuple):
    """What max and min along an axis give: values, and no places to look up."""

    values: Traced

    @property
    def indices(self) -> Tensor:
        raise NescioError("the place of the largest value")


@handles("max_pool1d", "max_pool2d")
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
    kernel, padding, dilation = (pair(v, axes) for v in (kernel_size, padding, dilation))
    stride = kernel if stride is None or stride == [] else pair(stride, axes)
    out = func(apparent(x), kernel, stride, padding, dilation, ceil_mode).shape[-axes:]
    places = _windows(tuple(x.shape[-axes:]), kernel, stride, padding, dilation, tuple(out))
    if isinstance(places, Tensor):  # some windows reach over the edge
        return _largest_of_places(x, places, out)
    return _largest([_window(x, window) for window in places])


def _largest_of_places(x: Traced, places: Tensor, out: Sequence[int]) -> Traced:
    """The largest over W windows, given flat places `(W, prod(out))` in the last axes."""
    axes, shape = len(out), tuple(out)
    flat = mapped(x, lambda f: f.flatten(-axes))
    windows = [_window(flat, (row,)) for row in places]
    return _largest([mapped(w, lambda f: f.unflatten(-1, shape)) for w in windows])


def _window(x: Traced, places: tuple[slice | Tensor, ...]) -> Traced:
    return mapped(x, lambda f: f[(..., *places)])


@handles("adaptive_max_pool1d", "adaptive_max_pool2d")
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


@lru_cache(maxsize=256)
def _windows(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    out: tuple[int, ...],
) -> list[tuple[slice, ...]] | Tensor:
    """Where the members of each window lie: slices, or at edges flat places, each within."""
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
