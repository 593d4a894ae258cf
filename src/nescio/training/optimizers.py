"""Adam, SGD and L-BFGS on stacked weights.

`torch.optim.Adam` costs a second at its first use in a process, because it imports the compiler.
`torch._fused_adam_` does the same arithmetic without that; where it is missing, plain tensor
operations take its position. This is the only file that calls a private function of torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.core.registry import optimizers, parse
from nescio.training import lbfgs as limited_memory
from nescio.training.lbfgs import Evaluate

BETA1, BETA2, EPSILON, MOMENTUM = 0.9, 0.999, 1e-8, 0.9
FUSED: dict[str, Any] = {
    "beta1": BETA1, "beta2": BETA2, "eps": EPSILON, "weight_decay": 0.0, "amsgrad": False,
    "maximize": False,
}  # fmt: skip
STATES = {
    "adam": ("mean", "square"),
    "sgd": ("velocity",),
    "lbfgs": ("moves", "changes", "pairs", "norm", "stuck"),
}
Options = dict[str, float]
VECTOR = 64  # bytes; the last ones of a tensor, fewer than this, are rounded in another way


@optimizers.register
def adam() -> Options:
    """Adam with beta 0.9 and 0.999 (Kingma and Ba, 2015)."""
    return {}


@optimizers.register
def sgd() -> Options:
    """Gradient descent with momentum 0.9."""
    return {}


@optimizers.register
def lbfgs(*, tolerance: float = 1e-8, memory: int = 10) -> Options:
    """L-BFGS on all samples, until the norm of a member's gradient is at most `tolerance`.

    tolerance: the norm of the gradient at which a member is done.
    memory: how many past steps tell the curvature.
    """
    if not (tolerance > 0 and memory > 0):
        raise NescioError(
            f"tolerance and memory of lbfgs must be positive, got {tolerance} and {memory}"
        )
    return {"tolerance": tolerance, "memory": memory}


@dataclass(kw_only=True)
class Optimizer:
    """The state of an optimizer: running tensors by name, `(M, ...)` each, and a step count."""

    name: str  # with its options, as in "lbfgs,memory=20"
    state: dict[str, list[Tensor]]
    options: Options = field(default_factory=dict)
    steps: int = 0
    fused: bool = field(default=hasattr(torch, "_fused_adam_"))

    @property
    def is_exact(self) -> bool:
        """Whether it looks at the loss at several points before it moves: line searches."""
        return "tolerance" in self.options

    @property
    def norms(self) -> Tensor:
        """The norm of each member's gradient after the last step; of lbfgs."""
        return self.state["norm"][0]

    @property
    def finished(self) -> Tensor:
        """Which members are within the tolerance, or cannot come nearer; of lbfgs."""
        return self.state["stuck"][0] | (self.norms <= self.options["tolerance"])

    @torch.no_grad()
    def search(
        self, weights: Sequence[Tensor], losses: Tensor, slopes: Sequence[Tensor], look: Evaluate
    ) -> None:
        """A step of lbfgs; look: the losses and gradients wherever the weights are."""
        self.steps += 1
        limit = self.options["tolerance"]
        limited_memory.iterate(self.state, weights, losses, slopes, look, tolerance=limit)

    @torch.no_grad()
    def update(self, weights: Sequence[Tensor], slopes: Sequence[Tensor], rate: float) -> None:
        """Move the weights, in place, against their gradients; the order is always the same."""
        self.steps += 1
        if "velocity" in self.state:
            for w, slope, velocity in zip(weights, slopes, self.state["velocity"], strict=True):
                velocity.mul_(MOMENTUM).add_(slope)
                w.add_(velocity, alpha=-rate)
        elif self.fused and weights[0].device.type == "cpu":
            self._fused_adam(weights, slopes, rate)
        else:
            self._adam(weights, slopes, rate)

    def _fused_adam(self, weights: Sequence[Tensor], slopes: Sequence[Tensor], rate: float) -> None:
        ready = [slope.contiguous() for slope in slopes]  # it reads memory, not strides
        groups = (list(weights), ready, self.state["mean"], self.state["square"])
        if len(weights[0]) > 1:  # a member's rounding must not depend on how many there are
            odd = [weight[0].nbytes % VECTOR > 0 for weight in weights]
            groups = tuple(_apart(group, odd) for group in groups)  # type: ignore[assignment]
        steps = [torch.full((), float(self.steps))] * len(groups[0])
        torch._fused_adam_(*groups, [], steps, lr=rate, **FUSED)

    def _adam(self, weights: Sequence[Tensor], slopes: Sequence[Tensor], rate: float) -> None:
        correction1, correction2 = 1 - BETA1**self.steps, 1 - BETA2**self.steps
        state = zip(self.state["mean"], self.state["square"], strict=True)
        for weight, slope, (mean, square) in zip(weights, slopes, state, strict=True):
            mean.lerp_(slope, 1 - BETA1)
            square.mul_(BETA2).addcmul_(slope, slope, value=1 - BETA2)
            scale = (square / correction2).sqrt_().add_(EPSILON)
            weight.addcdiv_(mean, scale, value=-rate / correction1)

    def members(self, part: slice) -> "Optimizer":
        """The optimizer of some members; it changes this one's state, but not its count."""
        state = {key: [t[part] for t in parts] for key, parts in self.state.items()}
        return replace(self, state=state)

    def keep(self, members: Tensor) -> None:
        """Forget all members but these."""
        self.state = {key: [t[members] for t in parts] for key, parts in self.state.items()}

    def tensors(self) -> dict[str, Tensor]:
        """The state by name, for a checkpoint."""
        return {f"{key}.{i}": t for key, parts in self.state.items() for i, t in enumerate(parts)}


def _apart(group: Sequence[Tensor], odd: Sequence[bool]) -> list[Tensor]:
    """Tensors of stacked weights, the odd ones member by member."""
    parts = [t.unbind(0) if cut else (t,) for t, cut in zip(group, odd, strict=True)]
    return [part for one in parts for part in one]


def optimizer(name: str, weights: Sequence[Tensor]) -> Optimizer:
    """A fresh optimizer: "adam", "sgd" or "lbfgs", with options as in "lbfgs,tolerance=1e-10"."""
    kind, options = named_optimizer(name)
    if kind == "lbfgs":
        state = limited_memory.fresh(weights, int(options["memory"]))
    else:
        state = {key: [torch.zeros_like(w) for w in weights] for key in STATES[kind]}
    return Optimizer(name=name, state=state, options=options)


def restored(name: str, saved: Mapping[str, Tensor], steps: int) -> Optimizer:
    """An optimizer from the tensors of a checkpoint."""
    kind, options = named_optimizer(name)
    count = len(saved) // len(STATES[kind])
    state = {key: [saved[f"{key}.{i}"] for i in range(count)] for key in STATES[kind]}
    return Optimizer(name=name, state=state, options=options, steps=steps)


def named_optimizer(text: str) -> tuple[str, Options]:
    """The name and the options, checked, of a text such as "lbfgs,memory=20"."""
    if not isinstance(text, str):
        raise NescioError(
            f"optimizer= takes a name, one of {', '.join(optimizers)}, got a {type(text).__name__}"
        )
    return parse(text)[0], optimizers.built(text)()


def clip_members(slopes: Sequence[Tensor], limit: float) -> list[Tensor]:
    """Shorten each member's gradient over all its weights to norm `limit`, where it is longer."""
    # One after the other: how a sum over tensors is rounded would depend on how many members are.
    squares = reduce(torch.add, (slope.flatten(1).square().sum(1) for slope in slopes))
    factor = (limit / squares.sqrt()).clamp(max=1.0)  # (M,); a zero gradient gives inf -> 1
    return [slope * factor.view(-1, *(1 for _ in slope.shape[1:])) for slope in slopes]
