"""Projected gradient ascent: the one loop behind every attack, also inside losses.

The inputs have any number of leading axes, as many as the objective's values: `(N, ...)` for an
attack, `(M, B, ...)` for M members in training. Only the inputs get gradients.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.attacks.balls import Norm, linf, norm_named
from nescio.attacks.halving import climb, higher, wide
from nescio.core import (
    NescioError,
    Schedule,
    as_batch,
    constant,
    is_real,
    is_whole,
    schedule_named,
)

ROUNDING = 1e-6  # of the width of the box
ADVICE = "pass the range of valid inputs as low= and high="
Value = Callable[[Tensor], Tensor]  # inputs (*lead, ...) -> (*lead,), to be raised


@dataclass(frozen=True, kw_only=True)
class Ascent:
    """How an attack moves: steps of size `step` in a ball and a box.

    radius: radius of the ball; None for no ball, only the box.
    steps: number of gradient steps.
    step: length of a step; None: 2.5 * radius / steps, with halving the first: 2 * radius.
    norm: norm of the ball, "linf", "l2" or "l1".
    schedule: a factor for the step, by name or as a function (step, steps) -> factor.
    halving: halve the step of an input where it no longer rises, and go back to the best point.
    best: keep the best input met, which costs one more pass; False takes the last one.
    enough: leave an input where it is once its value has reached this.
    low, high: the box, the range of valid inputs.
    """

    radius: float | None
    steps: int = 40
    step: float | None = None
    norm: str | Norm = linf
    schedule: str | Schedule = constant
    halving: bool = False
    best: bool = True
    enough: float = math.inf
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", norm_named(self.norm))
        object.__setattr__(self, "schedule", schedule_named(self.schedule))
        ends = self.low, self.high
        if not all(is_real(end) for end in ends) or not self.low < self.high:
            raise NescioError(f"the box needs numbers low < high, got {self.low} and {self.high}")
        if self.radius is not None and not is_real(self.radius, 0):
            raise NescioError(f"radius must be a number from 0 up, or None, got {self.radius!r}")
        if not is_whole(self.steps, 0):
            raise NescioError(f"steps must be a whole number from 0 up, got {self.steps!r}")
        if self.step is not None and not (is_real(self.step, 0) and self.step):
            raise NescioError(f"step must be a positive number, or None, got {self.step!r}")
        if not is_real(self.enough, -math.inf, math.inf):
            raise NescioError(f"enough must be a number, or infinity, got {self.enough!r}")
        if self.radius is None and self.step is None and self.norm is not linf:
            raise NescioError(f"without a radius the {self.norm!r} norm needs a length: step=")
        if self.halving and (self.schedule is not constant or not self.best):
            raise NescioError("halving sets the steps and keeps the best: no schedule=, best=True")
        if self.norm is linf:
            self._check_radius(1)

    @property
    def reach(self) -> float:
        """The radius, or the width of the box where there is none."""
        return self.high - self.low if self.radius is None else self.radius

    @property
    def size(self) -> float:
        """The size of a step, before the schedule."""
        if self.step is not None:
            return self.step
        return 2.0 * self.reach if self.halving else 2.5 * self.reach / max(self.steps, 1)

    @property
    def description(self) -> str:
        """The options in words that tell two attacks apart."""
        rule = schedule_named(self.schedule)
        factors = [round(rule(k, self.steps), 6) for k in range(self.steps)]
        changing = "" if set(factors) <= {1.0} else f", schedule={factors}"
        changing += ", halving" if self.halving else ""
        return (
            f"ascent(radius={self.radius}, steps={self.steps}, step={self.size}, "
            f"norm={self.norm!r}, best={self.best}, enough={self.enough}, "
            f"box=[{self.low}, {self.high}]{changing})"
        )

    def check(
        self, x: Tensor, *, lead: int = 1, what: str = "inputs", advice: str = ADVICE
    ) -> None:
        """Refuse inputs, or images of bytes, outside the box, and a radius that reaches beyond.

        x: the inputs.
        lead: number of leading axes, those of the values.
        what: what they are, for messages.
        advice: what to do about it, for messages.
        """
        dtype = x.dtype if x.is_floating_point() else torch.float32
        lowest, highest = as_batch(torch.stack(x.aminmax()), dtype)
        slack = ROUNDING * (self.high - self.low)  # of a range that was computed in other units
        if lowest < self.low - slack or highest > self.high + slack:
            raise NescioError(
                f"the {what} range from {lowest:g} to {highest:g}, outside the box "
                f"[{self.low}, {self.high}]; {advice}"
            )
        self._check_radius(math.prod(x.shape[lead:]))

    def _check_radius(self, features: int) -> None:
        corner = torch.full((1, features), float(self.high - self.low), dtype=torch.float64)
        whole = norm_named(self.norm).size(corner).item()
        if self.radius is not None and self.radius > whole:
            raise NescioError(
                f"radius {self.radius} leaves the box [{self.low}, {self.high}]: all of it is "
                f"within {whole:g} in the {self.norm!r} norm; for the whole box say radius=None"
            )

    def start(self, center: Tensor, numbers: Tensor, *, scale: float = 1.0) -> Tensor:
        """Random inputs in the balls and the box.

        center: centers of the balls.
        numbers: uniform numbers in [0, 1], `(K, 1 + F)`.
        scale: factor on the radius.
        """
        if self.radius is None:
            box: Tensor = self.low + (self.high - self.low) * numbers[:, 1:]
            return box.reshape(center.shape)
        moves = norm_named(self.norm).inside(numbers, self.radius * scale)
        return (center + moves.view_as(center)).clamp_(self.low, self.high)

    def projection(
        self, center: Tensor, *, lead: int = 1, scale: float = 1.0
    ) -> Callable[[Tensor], Tensor]:
        """A function that moves inputs, in place, into the ball around `center` and the box.

        To the nearest point of the ball, then of the box. The center is in the box, so the second
        move brings no feature further away from it, and the result is in both.

        center: centers of the balls.
        lead: number of leading axes, those of the values.
        scale: factor on the radius.
        """
        low, high, norm = self.low, self.high, norm_named(self.norm)
        if self.radius is None:
            return lambda moved: moved.clamp_(low, high)
        radius = self.radius * scale
        if norm is linf:  # both are one box
            bottom, top = (center - radius).clamp_(min=low), (center + radius).clamp_(max=high)
            return lambda moved: moved.clamp_(bottom, top)

        def project(moved: Tensor) -> Tensor:
            nearest = norm.project(_rows(moved.sub_(center), lead), radius)
            return moved.copy_(nearest.view_as(center)).add_(center).clamp_(low, high)

        return project

    def __call__(
        self,
        value: Value,
        center: Tensor,
        *,
        start: Tensor | None = None,
        mask: Tensor | None = None,
        lead: int = 1,
        scale: float = 1.0,
    ) -> tuple[Tensor, Tensor | None]:
        """The best inputs met and their values; with best=False the last inputs, not valued.

        value: a function of inputs to one number each, to be raised.
        center: centers of the balls.
        start: where to begin; None: at the centers.
        mask: 1 where an input may change; None: everywhere.
        lead: number of leading axes, those of the values.
        scale: factor on the radius and the steps.
        """
        project = self.projection(center, lead=lead, scale=scale)
        x = center if start is None else start

        def steepest(slope: Tensor, x: Tensor) -> Tensor:
            return self._steepest(slope if mask is None else slope * mask, x, lead)

        if self.halving:
            size = self.size * scale
            return climb(value, x, self.steps, size, steepest, project, enough=self.enough)
        rule, top = schedule_named(self.schedule), None
        for k in range(self.steps):
            leaf = x.detach().requires_grad_()
            values = value(leaf)
            (slope,) = torch.autograd.grad(values.sum(), leaf)
            values = values.detach()
            if self.best:
                top = higher(top, x, values)
            move = steepest(slope, x) * (self.size * scale * rule(k, self.steps))
            if self.enough < math.inf:
                going = values < self.enough
                if not going.any():
                    return top or (x, values)
                move *= wide(going, move)
            x = project(move.add_(x))
        if not self.best:
            return x, None
        with torch.no_grad():
            return higher(top, x, value(x))

    def _steepest(self, slope: Tensor, x: Tensor, lead: int) -> Tensor:
        """A step of norm 1 for each input; features that would leave the box take no share."""
        norm = norm_named(self.norm)
        if norm is not linf:
            stuck = ((x >= self.high) & (slope > 0)) | ((x <= self.low) & (slope < 0))
            slope = slope.masked_fill(stuck, 0.0)
        return norm.steepest(_rows(slope, lead)).view_as(x)


def crossing_step(radius: float | None, steps: int, step: float | None) -> float | None:
    """The length of a step, or a longer one where `steps` of them could not cross the ball.

    radius: radius of the ball; None: the whole box, where the step stays.
    steps: number of steps.
    step: length of a step; None stays None, which crosses.
    """
    if radius is None or step is None or steps < 1:
        return step
    return max(step, 2 * radius / steps)


def _rows(x: Tensor, lead: int) -> Tensor:
    return x.flatten(lead).flatten(0, lead - 1)
