"""The largest of several: maxima of tensors, along axes, and over windows."""

# ruff: noqa: ARG001 (every operation is called with the function and the arguments it stands for)

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.tracing.arithmetic import alike, scaled
from nescio.geometry.tracing.bends import clamp
from nescio.geometry.tracing.shapes import mapped, pair
from nescio.geometry.tracing.traced import Traced, apparent, handles


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
