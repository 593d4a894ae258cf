"""Attacks on a data set by name: PGD, FGSM, adversarial noise and adversarial samples."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.attacks.ascent import Ascent, Value
from nescio.attacks.balls import Norm, linf
from nescio.attacks.halving import higher
from nescio.attacks.objectives import Objective, confidence, label_loss
from nescio.core import (
    NescioError,
    Schedule,
    as_batch,
    as_inputs,
    as_tensor,
    constant,
    derive,
    generator,
    is_whole,
)
from nescio.core import progress as progress_bar
from nescio.core.registry import attacks
from nescio.data import uniform_noise

Transform = Callable[[Tensor, torch.Generator], Tensor]
Pair = tuple[Tensor, Tensor]
STARTS = ("random", "input")


@dataclass(frozen=True, eq=False)
class Attacked:
    """The inputs an attack arrived at, and the value of its objective there.

    Where an input is `blind`, no step had a gradient to follow: its value is no evidence.

    x: the inputs, `(N, ...)`.
    value: value of the objective, `(N,)`.
    blind: whether no step had a gradient to follow, `(N,)`.
    """

    x: Tensor
    value: Tensor
    blind: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        words = [f"{len(self)} inputs", f"{int(self.blind.sum())} blind"]
        if self.value.numel():
            low, middle, high = (f(self.value).item() for f in (torch.min, torch.median, torch.max))
            words.insert(1, f"median value {middle:.3g} ({low:.3g} to {high:.3g})")
        return f"{type(self).__name__}({', '.join(words)})"


@attacks.register
def pgd(
    objective: Objective,
    x: Any,
    y: Any = None,
    *,
    radius: float | None,
    steps: int = 40,
    step: float | None = None,
    norm: str | Norm = linf,
    schedule: str | Schedule = constant,
    halving: bool = False,
    start: Any = None,
    restarts: int = 1,
    best: bool = True,
    enough: float = math.inf,
    low: float = 0.0,
    high: float = 1.0,
    mask: Any = None,
    transform: Transform | None = None,
    draws: int = 1,
    batch_size: int = 128,
    seed: int = 0,
    progress: bool | None = False,
) -> Attacked:
    """Raise an objective by gradient steps of the inputs within a ball and a box.

    Madry et al. (2018).

    objective: `objective(x)`, or `objective(x, y)` where y is given, one value per sample:
      `attacks.confidence(net)`, `attacks.label_loss(net)`, `attacks.uncertainty(model,
      "log_odds")`, or any function of yours, such as minus a detector's score.
    x: floats, or images (N, C, H, W) of uint8, within [low, high].
    y: their labels, where the objective reads them.
    radius: radius of the ball; None: the whole box.
    steps: number of gradient steps.
    step: length of a step; None: 2.5 * radius / steps, with halving the first: 2 * radius.
    norm: norm of the ball, "linf", "l2" or "l1".
    schedule: a factor for the step, by name or as a function (step, steps) -> factor.
    halving: halve the step of an input where it no longer rises, and go back to its best point
      (Croce and Hein, 2020).
    start: "random" (a point of the ball by seed and index), "input", or an array of inputs, which
      are moved into the balls and the box; None: the input in l2 and l1, where random starts were
      weaker, otherwise random.
    restarts: number of starts, of which the best counts; random from the second on.
    best: the best input met, the first among them, instead of the last.
    enough: stop an input whose value has reached this.
    low, high: the box, the range of valid inputs.
    mask: 1 where an input may change, of the shape of one input: a patch. None: everywhere.
    transform: `transform(x, generator)`, drawn in each step and averaged over `draws`; these draws,
      and so the result, depend on the batch size. With best=True its value is too high, since the
      luckiest draw wins. All else is the same for every batch size, up to rounding. None: none.
    draws: number of draws of the transform in each step.
    batch_size: number of samples that the networks read at a time.
    seed: seed of the random draws.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    ascent = Ascent(
        radius=radius,
        steps=steps,
        step=step,
        norm=norm,
        schedule=schedule,
        halving=halving,
        best=best,
        enough=enough,
        low=low,
        high=high,
    )
    if start is None:
        start = "random" if radius is None or ascent.norm is linf else "input"
    return _attack(
        objective, x, y, ascent, start, restarts, mask, transform, draws, batch_size, seed, progress
    )


@attacks.register
def adversarial_noise(
    source: object,
    x: Any,
    *,
    radius: float | None = 0.3,
    steps: int = 200,
    step: float | None = 0.0075,
    **options: Any,
) -> Attacked:
    """Raise the confidence, whatever the class; the defaults are the paper's test attack.

    Hein et al. (2019).

    source: an `nn.Module`, a model, or another predictor.
    x: inputs to begin with, such as noise, `(N, ...)`.
    radius: radius of the ball; None: the whole box is searched, for fooling images.
    steps: number of gradient steps.
    step: length of a step; None: 2.5 * radius / steps.
    options: other options of `pgd`.
    """
    return pgd(confidence(source), x, radius=radius, steps=steps, step=step, **options)


@attacks.register
def adversarial_samples(
    source: object,
    x: Any,
    y: Any,
    *,
    radius: float | None = 0.3,
    steps: int = 80,
    step: float | None = 0.0075,
    **options: Any,
) -> Attacked:
    """Raise the odds against the label; the defaults are the paper's for MNIST.

    The value is positive where the label has less than half.

    source: an `nn.Module`, a model, or another predictor.
    x, y: inputs and their labels.
    radius: radius of the ball; None: the whole box.
    steps: number of gradient steps.
    step: length of a step; None: 2.5 * radius / steps.
    options: other options of `pgd`.
    """
    return pgd(label_loss(source), x, y, radius=radius, steps=steps, step=step, **options)


@attacks.register
def fgsm(
    objective: Objective,
    x: Any,
    y: Any = None,
    *,
    radius: float,
    norm: str | Norm = linf,
    low: float = 0.0,
    high: float = 1.0,
    mask: Any = None,
    batch_size: int = 128,
) -> Attacked:
    """One step of size `radius` along the steepest direction, cut to the box.

    The fast gradient sign method (Goodfellow et al., 2015). The input itself is the result where
    the step lowers the objective.

    objective: what is raised, as in `pgd`.
    x: floats, or images (N, C, H, W) of uint8, within [low, high].
    y: their labels, where the objective reads them.
    radius: length of the step.
    norm: norm of the step, "linf", "l2" or "l1".
    low, high: the box, the range of valid inputs.
    mask: 1 where an input may change, of the shape of one input; None: everywhere.
    batch_size: number of samples that the networks read at a time.
    """
    step: dict[str, Any] = {"steps": 1, "step": radius or None, "start": "input", "norm": norm}
    box: dict[str, Any] = {"low": low, "high": high, "mask": mask, "batch_size": batch_size}
    return pgd(objective, x, y, radius=radius, **step, **box)


@torch.inference_mode(False)  # whatever the caller is in
def _attack(
    objective: Objective,
    x: Any,
    y: Any,
    ascent: Ascent,
    start: Any,
    restarts: int,
    mask: Any,
    transform: Transform | None,
    draws: int,
    batch_size: int,
    seed: int,
    progress: bool | None,
) -> Attacked:
    """Raise `objective(x)`, or `objective(x, y)`, from every input; the best of all restarts."""
    inputs = as_tensor(x, "inputs")
    kind = torch.float64 if inputs.dtype == torch.float64 else torch.float32
    inputs = as_inputs(inputs, dtype=kind, keep_bytes=True)
    targets = () if y is None else (as_tensor(y, "targets"),)
    _check(objective, inputs, targets)
    given = _given(start, inputs, kind)
    for name, count in (("restarts", restarts), ("draws", draws), ("batch_size", batch_size)):
        if not is_whole(count, 1):
            raise NescioError(f"{name} must be a whole number, at least 1, got {count!r}")
    ascent.check(inputs)
    allowed = None if mask is None else _mask(mask, inputs).to(inputs.device, kind)

    def near(first: int, advance: Callable[..., None]) -> tuple[Tensor, Tensor, Tensor]:
        """The attack on one batch."""
        part = slice(first, first + batch_size)
        center, rest = as_batch(inputs[part], kind), tuple(t[part] for t in targets)
        blind = torch.ones(len(center), dtype=torch.bool, device=center.device)
        best: Pair | None = None
        for turn in range(restarts):
            source = generator(seed, "transform", turn, first)
            value = _value(objective, rest, transform, draws, source, first)
            begin = center
            if turn > 0 or (given is None and start == "random"):
                begin = _start(center, ascent, allowed, derive(seed, "start", turn), first)
            elif given is not None:
                begin = _moved(given[part].to(center), center, ascent, allowed)
            if best is None and begin is not center and ascent.best:
                best = _valued(value, center)  # an attack does not end below its input
            seeing = _watched(value, blind, allowed)
            moved, values = ascent(seeing, center, start=begin, mask=allowed)
            best = higher(best, *(_valued(value, moved) if values is None else (moved, values)))
            advance(1, str)
        assert best is not None
        return *best, blind

    starts = range(0, len(inputs), batch_size)
    with (
        torch.enable_grad(),
        progress_bar(len(starts) * restarts, "attacking", show=progress) as advance,
    ):
        results = [near(first, advance) for first in starts]
    return Attacked(*(torch.cat(parts) for parts in zip(*results, strict=True)))


def _given(start: Any, x: Tensor, kind: torch.dtype) -> Tensor | None:
    """Inputs to start from, if they are given; None: a start by its name."""
    if isinstance(start, str):
        if start not in STARTS:
            raise NescioError(f"start must be 'random', 'input' or inputs, got {start!r}")
        return None
    given = as_inputs(start, "starts", dtype=kind)
    if given.shape != x.shape:
        shapes = f"{tuple(x.shape)}, got {tuple(given.shape)}"
        raise NescioError(f"one start for each input: start must have the shape {shapes}")
    return given


def _moved(start: Tensor, center: Tensor, ascent: Ascent, mask: Tensor | None) -> Tensor:
    """Given starts within the balls and the box, and as the center where nothing may change."""
    moved = ascent.projection(center)(start.clone())
    return moved if mask is None else torch.where(mask > 0, moved, center)


def _check(objective: Objective, x: Tensor, targets: tuple[Tensor, ...]) -> None:
    for target in targets:
        if target.ndim == 0 or len(target) != len(x):
            shape = tuple(target.shape)
            raise NescioError(f"{len(x)} inputs but targets of shape {shape}; one per sample")
    try:
        inspect.signature(objective).bind(x, *targets)
    except TypeError as error:
        call = "objective(x, y)" if targets else "objective(x)"
        raise NescioError(
            f"{call} does not fit the objective: {error}; give y where it needs targets, only there"
        ) from error
    except ValueError:  # a built-in without a signature
        pass


def _mask(mask: Any, x: Tensor) -> Tensor:
    allowed = as_tensor(mask, "mask")
    try:
        wide = allowed.expand(x.shape[1:])
    except RuntimeError as error:
        raise NescioError(
            f"mask must have the shape {tuple(x.shape[1:])} of one input, got "
            f"{tuple(allowed.shape)}"
        ) from error
    if not ((wide == 0) | (wide == 1)).all() or not wide.any():
        raise NescioError("mask must hold 0 (fixed) and 1 (may change), with a 1 somewhere")
    return wide


def _start(center: Tensor, ascent: Ascent, mask: Tensor | None, seed: int, first: int) -> Tensor:
    """A random point of each ball: a function of seed and index."""
    numbers = uniform_noise(len(center), (1 + center[0].numel(),), seed=seed, start=first)
    moved = ascent.start(center, numbers.to(center))
    return moved if mask is None else torch.where(mask > 0, moved, center)


def _value(
    objective: Objective,
    rest: tuple[Tensor, ...],
    transform: Transform | None,
    draws: int,
    source: torch.Generator,
    first: int,
) -> Value:
    """The objective of a batch, averaged over random transforms of the inputs if there are any."""

    def value(x: Tensor) -> Tensor:
        if transform is None:
            values = objective(x, *rest)
        else:
            drawn = [objective(transform(x, source), *rest) for _ in range(draws)]
            values = torch.stack(drawn).mean(0)
        if not isinstance(values, Tensor) or values.shape != x.shape[:1]:
            shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise NescioError(
                f"the objective must give one value a sample, ({len(x)},), got {shape}"
            )
        if torch.is_grad_enabled() and not values.requires_grad:
            raise NescioError(
                "the objective has no gradient with respect to its inputs; a function under "
                "torch.no_grad, or one that counts or rounds, cannot be attacked by gradients"
            )
        if not values.isfinite().all():
            sample = first + int((~values.isfinite()).nonzero()[0])
            raise NescioError(
                f"the objective is NaN or infinite near sample {sample}; attack log-odds or "
                "logits, not probabilities that round to 0 or 1"
            )
        return values.to(x.device)

    return value


def _watched(value: Value, blind: Tensor, mask: Tensor | None) -> Value:
    """The same values; an input that has a gradient is no longer blind."""

    def note(slope: Tensor) -> None:
        if blind.any():
            free = slope if mask is None else slope * mask
            blind.logical_and_((free == 0).flatten(1).all(1))

    def watched(x: Tensor) -> Tensor:
        if x.requires_grad:
            x.register_hook(note)
        return value(x)

    return watched


@torch.no_grad()
def _valued(value: Value, x: Tensor) -> Pair:
    return x, value(x)
