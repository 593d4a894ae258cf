"""What is not piecewise affine: only a domain that bounds slopes can take it."""

# ruff: noqa: ARG001 (every operation is called with the function and the arguments it stands for)

from functools import partial
from typing import Any

from nescio.geometry.tracing.domain import Curve
from nescio.geometry.tracing.traced import Traced, handles
from nescio.nets import Scattering

STEEPEST = {  # the largest slope of each, rounded up
    "tanh": 1.0,
    "tanh_": 1.0,
    "sigmoid": 0.25,
    "sigmoid_": 0.25,
    "logsigmoid": 1.0,
    "log_sigmoid": 1.0,
    "softsign": 1.0,
    "softplus": 1.0,
    "silu": 1.09984,
    "silu_": 1.09984,
    "gelu": 1.12917,
    "mish": 1.08850,
    "hardswish": 1.5,
    "selu": 1.75810,
    "selu_": 1.75810,
    "sin": 1.0,
    "cos": 1.0,
}


@handles(*STEEPEST)
def _curve(func: Any, x: Traced, *args: Any, **kwargs: Any) -> Traced:
    return _curved(x, lambda z: func(z, *args, **kwargs), func.__name__, STEEPEST[func.__name__])


@handles("elu", "elu_", "celu", "celu_")
def _elu(func: Any, x: Traced, alpha: float = 1.0, **kwargs: Any) -> Traced:
    steepest = 1.0 if func.__name__.startswith("celu") else max(1.0, abs(alpha))
    return _curved(x, partial(func, alpha=alpha, **kwargs), func.__name__, steepest)


@handles("scattering_coefficients")
def _scattering(func: Any, x: Traced, front: Scattering) -> Traced:
    shape = (x.shape[1] * front.paths, front.rows, front.columns)
    name, steepest = "a scattering transform", front.expansion
    return _curved(x, front, name, steepest, shape)


def _curved(x: Traced, function: Any, name: str, steepest: float, shape: Any = None) -> Traced:
    curve = Curve(name=name, function=function, steepest=steepest, shape=shape)
    return Traced.of(x.domain.curve(x.part, curve), x.domain)
