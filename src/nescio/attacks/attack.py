"""An attack on a whole data set: batches, restarts, random starts by seed and index."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.attacks.ascent import Ascent, Value, higher
from nescio.checks import as_batch, as_inputs, as_tensor
from nescio.data import uniform_noise
from nescio.errors import NescioError
from nescio.progress import progress
from nescio.randomness import derive, generator

Objective = Callable[..., Tensor]  # inputs (N, ...), or inputs and targets, -> (N,)
Transform = Callable[[Tensor, torch.Generator], Tensor]
Pair = tuple[Tensor, Tensor]
Place = tuple[int, int, int]  # seed, restart, index of the first input
STARTS = ("random", "input")


@dataclass(frozen=True, eq=False)
class Attacked:
    """The inputs an attack arrived at, and the value of its objective there.

    Where an input is `blind`, no step had a gradient to follow: its value is no evidence.
    """

    x: Tensor  # (N, ...)
    value: Tensor  # (N,)
    blind: Tensor  # (N,) bool

    def __len__(self) -> int:
        return len(self.x)


@torch.inference_mode(False)  # whatever the caller is in
def attack(
    objective: Objective,
    x: Any,
    y: Any = None,
    *,
    ascent: Ascent,
    start: str = "random",
    restarts: int = 1,
    mask: Any = None,
    transform: Transform | None = None,
    draws: int = 1,
    batch_size: int = 128,
    seed: int = 0,
    show: bool | None = False,
) -> Attacked:
    """Raise `objective(x)`, or `objective(x, y)`, from every input; the best of all restarts."""
    given = as_tensor(x, "inputs")
    kind = torch.float64 if given.dtype == torch.float64 else torch.float32
    inputs = as_inputs(given, dtype=kind, keep_bytes=True)
    targets = () if y is None else (as_tensor(y, "targets"),)
    _check(objective, inputs, targets, start)
    for name, count in (("restarts", restarts), ("draws", draws), ("batch_size", batch_size)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise NescioError(f"{name} must be a whole number, at least 1, got {count!r}")
    ascent.check(inputs)
    allowed = None if mask is None else _mask(mask, inputs).to(inputs.device, kind)

    def near(first: int, advance: Callable[..., None]) -> tuple[Tensor, Tensor, Tensor]:
        """The attack on one batch."""
        part = slice(first, first + batch_size)
        centre, rest = as_batch(inputs[part], kind), tuple(t[part] for t in targets)
        blind = torch.ones(len(centre), dtype=torch.bool, device=centre.device)
        best: Pair | None = None
        for turn in range(restarts):
            source = generator(seed, "transform", turn, first)
            value = _value(objective, rest, transform, draws, source, first)
            random = start == "random" or turn > 0
            begin = _start(centre, ascent, allowed, (seed, turn, first)) if random else centre
            if best is None and random and ascent.best:
                best = _valued(value, centre)  # an attack does not end below its input
            seeing = _watched(value, blind, allowed)
            moved, values = ascent(seeing, centre, start=begin, mask=allowed)
            found = _valued(value, moved) if values is None else (moved, values)
            best = higher(best, *found)
            advance(1, str)
        assert best is not None
        return *best, blind

    starts = range(0, len(inputs), batch_size)
    with (
        torch.enable_grad(),
        progress(len(starts) * restarts, "attacking", show=show) as advance,
    ):
        results = [near(first, advance) for first in starts]
    return Attacked(*(torch.cat(parts) for parts in zip(*results, strict=True)))


def _check(objective: Objective, x: Tensor, targets: tuple[Tensor, ...], start: str) -> None:
    if start not in STARTS:
        raise NescioError(f"start must be 'random' or 'input', got {start!r}")
    for target in targets:
        if target.ndim == 0 or len(target) != len(x):
            shape = tuple(target.shape)
            raise NescioError(f"{len(x)} inputs but targets of shape {shape}; one a case")
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


def _start(centre: Tensor, ascent: Ascent, mask: Tensor | None, place: Place) -> Tensor:
    """A random point of each ball: a function of seed, turn and index."""
    seed, turn, first = place
    numbers = uniform_noise(
        len(centre), (1 + centre[0].numel(),), seed=derive(seed, "start", turn), start=first
    )
    moved = ascent.start(centre, numbers.to(centre))
    return moved if mask is None else torch.where(mask > 0, moved, centre)


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
            found = objective(x, *rest)
        else:
            drawn = [objective(transform(x, source), *rest) for _ in range(draws)]
            found = torch.stack(drawn).mean(0)
        if not isinstance(found, Tensor) or found.shape != x.shape[:1]:
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise NescioError(f"the objective must give one value a case, ({len(x)},), got {shape}")
        if torch.is_grad_enabled() and not found.requires_grad:
            raise NescioError(
                "the objective has no gradient with respect to its inputs; a function under "
                "torch.no_grad, or one that counts or rounds, cannot be attacked by gradients"
            )
        if not found.isfinite().all():
            case = first + int((~found.isfinite()).nonzero()[0])
            raise NescioError(
                f"the objective is NaN or infinite near case {case}; attack log-odds or logits, "
                "not probabilities that round to 0 or 1"
            )
        return found.to(x.device)

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
