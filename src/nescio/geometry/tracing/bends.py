"""Activations that bend: ReLU and its kin."""

# ruff: noqa: ARG001 (every operation is called with the function and the arguments it stands for)

from collections.abc import Sequence
from math import inf
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.tracing.arithmetic import as_constant, beside
from nescio.geometry.tracing.domain import Bend
from nescio.geometry.tracing.traced import Traced, handles, overwrite


def _bend(
    x: Traced, points: Sequence[Any], slopes: Sequence[Any], offsets: Sequence[Any]
) -> Traced:
    """An activation; tensors become nested lists, which compare with numbers."""
    given = (points, slopes, offsets)
    listed = (tuple(v.tolist() if isinstance(v, Tensor) else v for v in vs) for vs in given)
    return Traced.of(x.domain.bend(x.part, Bend(*listed)), x.domain)


def _maybe_in_place(x: Traced, result: Traced, inplace: bool) -> Traced:
    return overwrite(x, result) if inplace else result


@handles("relu", "relu_")
def _relu(func: Any, x: Traced, inplace: bool = False) -> Traced:
    return _maybe_in_place(x, _bend(x, [0.0], [0.0, 1.0], [0.0, 0.0]), inplace)


@handles("leaky_relu", "leaky_relu_")
def _leaky(func: Any, x: Traced, negative_slope: float = 0.01, inplace: bool = False) -> Traced:
    result = _bend(x, [0.0], [negative_slope, 1.0], [0.0, 0.0])
    return _maybe_in_place(x, result, inplace)


@handles("prelu")
def _prelu(func: Any, x: Traced, weight: Tensor) -> Traced:
    w = as_constant(weight)
    w = w.reshape(-1, *(1 for _ in x.shape[2:])) if w.numel() > 1 else w.reshape(())
    return _bend(x, [0.0], [w, 1.0], [0.0, 0.0])


@handles("hardtanh", "hardtanh_")
def _hardtanh(
    func: Any, x: Traced, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Traced:
    return _maybe_in_place(x, clamp(func, x, float(min_val), float(max_val)), inplace)


@handles("relu6")
def _relu6(func: Any, x: Traced, inplace: bool = False) -> Traced:
    return _hardtanh(func, x, 0.0, 6.0, inplace)


@handles("hardsigmoid")
def _hardsigmoid(func: Any, x: Traced, inplace: bool = False) -> Traced:
    result = _bend(x, [-3.0, 3.0], [0.0, 1 / 6, 0.0], [0.0, 0.5, 1.0])
    return _maybe_in_place(x, result, inplace)


@handles("softshrink")
def _softshrink(func: Any, x: Traced, lambd: float = 0.5) -> Traced:
    return _bend(x, [-lambd, lambd], [1.0, 0.0, 1.0], [lambd, 0.0, -lambd])


@handles("rrelu")
def _rrelu(
    func: Any,
    x: Traced,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Traced:
    if training:
        raise NescioError("slopes that are drawn again at each call")
    return _leaky(func, x, (lower + upper) / 2, inplace)


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
def _threshold(
    func: Any, x: Traced, threshold: float, value: float, inplace: bool = False
) -> Traced:
    if threshold != value:
        raise NescioError("a threshold that jumps is not continuous")
    return _maybe_in_place(x, _bend(x, [value], [0.0, 1.0], [value, 0.0]), inplace)


@handles(
    "dropout",
    "dropout_",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_alpha_dropout",
)
def _dropout(
    func: Any, x: Traced, p: float = 0.5, training: bool = True, inplace: bool = False, **_: Any
) -> Traced:
    if training and p > 0:
        raise NescioError("dropout that draws again at each call; use models.mc_dropout")
    return x
