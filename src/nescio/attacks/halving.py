"""Steps that are halved where they no longer help, for each input by itself.

Croce and Hein (2020), Reliable evaluation of adversarial robustness with an ensemble of diverse
parameter-free attacks: large steps with momentum first. At checkpoints, which come ever closer, an
input that rose too rarely, or found nothing better since the last one, goes back to its best point
with half the step.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

MOMENTUM = 0.75  # the weight of a new step; the rest repeats the last move
RISES = 0.75  # of the steps between two checkpoints; with fewer the step is halved
FIRST, CLOSER, LEAST = 0.22, 0.03, 0.06  # of all steps: the first interval, its decrease, its end
Point = tuple[Tensor, Tensor]  # inputs and their values
Steepest = Callable[[Tensor, Tensor], Tensor]  # slopes and inputs -> steps of norm 1


def wide(flags: Tensor, like: Tensor) -> Tensor:
    """One number per sample, with an axis of 1 for each feature axis of `like`."""
    return flags.view(*flags.shape, *(1 for _ in range(like.ndim - flags.ndim)))


def higher(top: Point | None, x: Tensor, values: Tensor) -> Point:
    """The better of two points for each input; a value that is NaN never wins."""
    if top is None:
        return x, values
    better = (values > top[1]) | top[1].isnan()
    if better.all():
        return x, values
    return torch.where(wide(better, x), x, top[0]), torch.where(better, values, top[1])


def checkpoints(steps: int) -> list[int]:
    """The steps before which progress is looked at: 22, 41, 57, 70, 80, 87, 93, 99 of 100."""
    found, share, interval = [], FIRST, FIRST
    while math.ceil(share * steps) < steps:
        found.append(math.ceil(share * steps))
        interval = max(interval - CLOSER, LEAST)
        share = round(share + interval, 6)
    return sorted(set(found))


def climb(
    value: Callable[[Tensor], Tensor],
    x: Tensor,
    steps: int,
    size: float,
    steepest: Steepest,
    project: Callable[[Tensor], Tensor],
    *,
    enough: float = math.inf,
) -> Point:
    """The best inputs met from `x` on, and their values, by steps whose first has length `size`."""
    if not steps:
        with torch.no_grad():
            return x, value(x)
    marks, last_mark = set(checkpoints(steps)), 0
    values, slope = _sloped(value, x)
    top, top_slope, before, last, known = (x, values), slope, x, values, values
    lengths, rises = torch.full_like(values, size), torch.zeros_like(values)
    halved = torch.ones_like(values, dtype=torch.bool)
    for k in range(steps):
        if k:
            values, slope = _sloped(value, x)
            better = (values > top[1]) | top[1].isnan()
            top_slope = torch.where(wide(better, slope), slope, top_slope)
            top = higher(top, x, values)
            rises, last = rises + (values > last), values
        if k in marks:
            halved = (rises < RISES * (k - last_mark)) | (~halved & (top[1] <= known))
            back = wide(halved, x)
            lengths = torch.where(halved, lengths / 2, lengths)
            x, slope = torch.where(back, top[0], x), torch.where(back, top_slope, slope)
            before, last = torch.where(back, x, before), torch.where(halved, top[1], last)
            rises, known, last_mark = torch.zeros_like(rises), top[1], k
        going = top[1] < enough
        if not going.any():
            return top
        moved = project((steepest(slope, x) * wide(lengths, x)).add_(x))
        if k:
            moved = project(x + MOMENTUM * (moved - x) + (1 - MOMENTUM) * (x - before))
        before, x = x, torch.where(wide(going, x), moved, x)
    with torch.no_grad():
        return higher(top, x, value(x))


def _sloped(value: Callable[[Tensor], Tensor], x: Tensor) -> Point:
    """The values, and their gradients."""
    leaf = x.detach().requires_grad_()
    values = value(leaf)
    (slope,) = torch.autograd.grad(values.sum(), leaf)
    return values.detach(), slope
