"""Inputs of a guard: their range at calibration, and what the networks give for them, in parts."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from nescio.core import (
    Bundle,
    Inputs,
    NescioError,
    NotFiniteWarning,
    RangeWarning,
    Shape,
    as_batch,
    as_tensor,
    joined,
    layout_hint,
    shape_of,
    spans,
    warn,
)
from nescio.data import Columns, door, is_frame, read_table
from nescio.detectors import Activations, Detector, LostScoresError
from nescio.detectors.observe.network import Network

Found = TypeVar("Found")
PART = 1 << 22  # numbers of the inputs that are decided at a time
BATCH = 1 << 16  # numbers of the inputs of a batch, at least: calling a network is not free
FEW = 1 << 12  # numbers that are compared at once
ROWS = 1 << 13  # samples of both, at most: of narrow inputs, activations take most of the memory
SLACK = 0.1  # of the width of the range, on both sides
TAIL = 0.5  # of that of a column of a table, which may have tails
NOT_READ = torch.zeros(0, dtype=torch.int64)  # of inputs that nobody compares by their hashes


@dataclass(frozen=True, eq=False)
class Range:
    """The shape of inputs and the numbers they held at calibration."""

    shape: Shape  # of one input
    low: Tensor  # of a table (F,), one per column; of several tensors all, by name; or (1,)
    high: Tensor
    kinds: Mapping[str, str] = field(default_factory=dict)  # number types of several tensors

    def in_dist(self, x: Inputs) -> Tensor:
        """Whether all numbers of each input are in the range, `(N,)`."""
        flat = x.rows() if isinstance(x, Bundle) else as_batch(x).flatten(1)
        low, high = self.low.to(x.device), self.high.to(x.device)
        if flat.numel() <= FEW:  # a few operations on all of them
            return ((flat >= low) & (flat <= high)).all(1)
        odd = ~((flat.amin(0) >= low) & (flat.amax(0) <= high))  # columns to look at, often few
        numbers = flat[:, odd].double()
        low, high = (end.expand(len(odd))[odd] for end in (low, high))
        return ((numbers >= low) & (numbers <= high)).all(1)


def learn_range(x: Inputs) -> Range:
    """The range of inputs `(N, ...)`, with a little room."""
    if isinstance(x, Bundle):
        parts = [p.reshape(len(p), -1) if p.ndim < 3 else p for _, p in sorted(x.parts.items())]
        each = [(learn_range(part), part[0].numel()) for part in parts]
        low = torch.cat([known.low.expand(size) for known, size in each])
        high = torch.cat([known.high.expand(size) for known, size in each])
        kinds = {n: str(p.dtype).removeprefix("torch.") for n, p in x.parts.items()}
        return Range(shape_of(x), low, high, kinds)
    table = x.ndim == 2 and x.is_floating_point()  # tokens have one range, whatever their position
    ends = [x.amin(0), x.amax(0)] if table else [x.min()[None], x.max()[None]]
    low, high = (as_batch(end, torch.float64) for end in ends)
    room = (TAIL if table else SLACK) * (high - low)
    return Range(tuple(x.shape[1:]), low - room, high + room)


@dataclass(frozen=True, eq=False)
class Watched:
    """A part of the inputs: which samples can be read, and what the networks give for them.

    In place of a sample that is not finite stands a copy of one that is: the numbers of a sample
    do not depend on how many others are left out.
    """

    rows: slice  # among the inputs, n of them
    finite: Tensor | None  # (n,); None: all
    in_range: Tensor  # (n,)
    activations: Activations | None  # of n samples; None: none is finite


def read_inputs(
    x: Any,
    known: Range | None,
    *,
    tokens: bool,
    columns: Columns | None = None,
    names: Sequence[str] = (),
) -> Iterator[Inputs]:
    """Inputs `(N, ...)` of the shape of calibration, whole or as a loader gives them; NaN stays.

    columns: the encoding of tables. names: of the columns of a guard fitted on a table of numbers;
    another table gives them by name, in any order.
    """
    if names and columns is None and is_frame(x):
        x = read_table(x).only(*names)
    given = x[0] if isinstance(x, list) and x else x
    if getattr(given, "dtype", None) in (torch.bool, np.bool_):
        raise NescioError("inputs must be real numbers, got truth values; pass x.float()")
    given = tuple(x.shape) if isinstance(x, Tensor | np.ndarray) else None
    if given is not None and known is not None and given[1:] != known.shape:
        hint = "; one input needs an axis: x[None]" if given == known.shape else ""
        _refuse_shape(given[1:], known, hint or layout_hint(as_tensor(x, "inputs")))
    if isinstance(x, Tensor) and x.is_floating_point() and known is not None and len(x):
        yield as_tensor(x, "inputs")  # as they are wanted
        return
    options: dict[str, Any] = {"tokens": tokens, "finite": False, "fixed": known is None}
    options["columns"] = columns
    options["shape"] = known.shape if known is not None and isinstance(known.shape, tuple) else None
    for batch in door.input_batches(x, batch_size=1 << 62, **options):
        if known is not None and shape_of(batch) != known.shape:
            _refuse_shape(shape_of(batch), known, layout_hint(batch))
        yield batch


def _refuse_shape(shape: Shape, known: Range, hint: str) -> None:
    raise NescioError(
        f"inputs have shape {shape} per sample, the guard was calibrated on {known.shape}{hint}"
    )


def watch(
    x: Inputs,
    nets: Sequence[Network],
    detector: Detector,
    known: Range | None,
    batch_size: int,
) -> Iterator[Watched]:
    """What the networks give for inputs, in parts of bounded size."""
    numbers = max(1, x[:1].numel())
    sizes = (min(ROWS, most // numbers) for most in (PART, BATCH))
    size, batch = (max(batch_size, most) for most in sizes)
    for rows in spans(len(x), size):
        part = x if rows == slice(0, len(x)) else x[rows]
        if known is None:
            in_range = torch.ones(len(part), dtype=torch.bool, device=x.device)
            finite: Tensor | None = finite_samples(part)
        else:
            in_range = known.in_dist(part)
            finite = None if in_range.all() else finite_samples(part)  # what is in range is finite
        if finite is not None and not finite.any():
            yield Watched(rows, finite, in_range & finite, None)
            continue
        read = part if finite is None or finite.all() else part[stand_ins(finite)]
        found, good = _activations(nets, detector, read, batch)
        if good is not None:
            finite = good if finite is None else finite & good
        yield Watched(rows, finite, in_range if finite is None else in_range & finite, found)


def stand_ins(good: Tensor) -> Tensor:
    """Indices `(n,)` of samples: each good one itself, in place of the others the first good."""
    own = torch.arange(len(good), device=good.device)
    return torch.where(good, own, good.int().argmax())


def without_lost(
    part: Watched, decide: Callable[[Activations], Found]
) -> tuple[Found | None, Tensor | None]:
    """What is decided about a part, and for which samples; None: for none, and for all.

    A sample whose numbers are so large that a score of it is NaN counts as not finite: one of them
    leaves the decisions about others alone.
    """
    finite, activations = part.finite, part.activations
    while activations is not None:
        try:
            return decide(activations), finite
        except LostScoresError as error:
            good = ~error.rows.to(part.in_range.device)
            finite = good if finite is None else finite & good
            unread = NOT_READ.new_zeros(len(good))
            chosen = stand_ins(good)
            activations = replace(activations, hashes=unread)[chosen] if good.any() else None
    return None, finite


def warn_about_inputs(in_range: Tensor, lost: Tensor) -> None:
    """Warn about inputs out of the range of calibration, and about those that are not finite."""
    if bool(in_range.all()):  # then all are finite
        return
    beyond = (
        "hold numbers outside the range of the calibration data (column in_range): are they "
        "scaled as those were?"
    )
    for which, kind, text in (
        (~in_range & ~lost, RangeWarning, beyond),
        (lost, NotFiniteWarning, "are, or lead to, NaN or infinite numbers: OOD"),
    ):
        if count := int(which.sum()):
            warn(f"{count} of {len(in_range)} inputs {text}", kind, stacklevel=3)


@torch.no_grad()
def _activations(
    watching: Sequence[Network], detector: Detector, x: Inputs, batch_size: int
) -> tuple[Activations | None, Tensor | None]:
    """What the networks give, and for which inputs it is finite (None: all); see `stand_ins`."""
    logits, features = [], []
    cuts = spans(len(x), batch_size)
    for net in watching:
        parts = [net(batch) for batch in ((x[cut] for cut in cuts) if len(cuts) > 1 else (x,))]
        logits.append(joined([answer for answer, _ in parts]).to(x.device))
        names = parts[0][1]
        rows = {n: joined([found[n] for _, found in parts]).to(x.device) for n in names}
        features.append(rows)
    values = [*logits, *(row for rows in features for row in rows.values())]
    good = None
    if not all(math.isfinite(value.sum()) for value in values):  # where the sums are, all are
        good = torch.stack([finite_samples(value) for value in values]).all(0)
        if not good.any():
            return None, good
        chosen = stand_ins(good)
        logits = [rows[chosen] for rows in logits]
        features = [{name: rows[chosen] for name, rows in each.items()} for each in features]
        x = x[chosen]
    linear = detector.about.get("linear")
    ends = [net.linear(linear, logits[0], net.head) for net in watching] if linear else []
    return Activations(
        logits=stacked(logits),
        features={name: stacked([each[name] for each in features]) for name in features[0]},
        inputs=x,
        weight=stacked([weight for weight, _ in ends]) if ends else None,
        bias=stacked([bias for _, bias in ends]) if ends else None,
        last=None,
        answers=[net.answer for net in watching],
        about={name: detector.about[name] for name in ("pool",) if name in detector.about},
        hashes=NOT_READ,
        checked=True,
    ), good


def finite_samples(x: Inputs) -> Tensor:
    """Which samples are finite, `(N,)`; where their sum is, all are, in a tenth of the time."""
    if isinstance(x, Bundle):
        return torch.stack([finite_samples(part) for part in x.parts.values()]).all(0)
    if not x.is_floating_point() or math.isfinite(x.sum()):
        return torch.ones(len(x), dtype=torch.bool, device=x.device)
    return x.reshape(len(x), -1).isfinite().all(1)


def stacked(parts: list[Tensor]) -> Tensor:
    """Tensors of the members with a member axis; no copy of the only one."""
    return parts[0][None] if len(parts) == 1 else torch.stack(parts)
