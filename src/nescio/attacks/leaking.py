"""Gradients that leak through dead units: for networks that give an attack nothing to follow.

A network that was trained to be unsure on noise can have its last hidden layer dead there. Its
input gradient is then exactly zero, plain gradient steps never move, and a low confidence "under
attack" says nothing. Here the backward pass treats ReLU as leaky ReLU; values stay as they are.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from nescio.core import NescioError

IN_PLACE = (torch.relu_, Tensor.relu_)
RELUS = (torch.relu, Tensor.relu, F.relu, *IN_PLACE)


class _Leak(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, gradient, ctx.slope * gradient), None


class _Leaking(TorchFunctionMode):
    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        options = kwargs or {}
        if func not in RELUS:
            return func(*args, **options)
        x = args[0] if args else options["input"]
        written = func in IN_PLACE or (args[1:] or (options.get("inplace", False),))[0]
        leaked = _Leak.apply(x.clone() if written else x, self.slope)  # type: ignore[no-untyped-call]
        return x.copy_(leaked) if written else leaked


def leaking(objective: Callable[..., Tensor], *, slope: float = 0.1) -> Callable[..., Tensor]:
    """The same objective, whose gradient passes dead ReLUs with a factor `slope`.

    It sees ReLU layers and calls of relu, in a network or around one; no other activation.
    """
    if not 0 < slope <= 1:
        raise NescioError(f"slope must be above 0 and at most 1, got {slope}")

    @wraps(objective)
    def leaked(*inputs: Tensor) -> Tensor:
        with _Leaking(slope):
            return objective(*inputs)

    return leaked
