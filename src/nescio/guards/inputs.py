"""Networks as a guard runs them: raw inputs to activations, a part at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import Bundle, Inputs, NescioError, Shape, as_batch, shape_of
from nescio.data import door
from nescio.detectors import Detector
from nescio.detectors.activations import Activations
from nescio.detectors.observe.layers import place
from nescio.detectors.observe.network import Network, linear_layer, reader
from nescio.models import Member

PART = 1 << 22  # numbers of the inputs that are decided at a time
BATCH = 1 << 16  # numbers of the inputs of a batch, at least: calling a network is not free


@dataclass(frozen=True, eq=False)
class Range:
    """The shape of inputs and the numbers they held at calibration."""

    shape: Shape  # of one input
    low: Tensor  # of a table (F,), one per column; of several tensors all, by name; otherwise (1,)
    high: Tensor
    kinds: Mapping[str, str] = field(default_factory=dict)  # number types of several tensors

    def in_dist(self, x: Inputs) -> Tensor:
        """Whether all numbers of each input are in the range, `(N,)`."""
        flat = x.rows() if isinstance(x, Bundle) else as_batch(x).flatten(1)
        low, high = self.low.to(x.device), self.high.to(x.device)
        in_dist = torch.ones(len(flat), dtype=torch.bool, device=x.device)
        if not len(flat):
            return in_dist
        odd = ~((flat.amin(0) >= low) & (flat.amax(0) <= high))  # columns to look at, often few
        if odd.any():
            own = flat[:, odd].double()
            ends = (end.expand(len(odd))[odd] for end in (low, high))
            in_dist = ((own >= next(ends)) & (own <= next(ends))).all(1)
        return in_dist


SLACK = 0.1  # of the width of the range, on both sides
TAIL = 0.5  # of that of a column of a table, which may have tails


def learn_range(x: Inputs) -> Range:
    """The range of inputs `(N, ...)`, with a little room."""
    if isinstance(x, Bundle):
        parts = [p.reshape(len(p), -1) if p.ndim < 3 else p for _, p in sorted(x.parts.items())]
        each = [(learn_range(part), part[0].numel()) for part in parts]
        low = torch.cat([own.low.expand(size) for own, size in each])
        high = torch.cat([own.high.expand(size) for own, size in each])
        kinds = {n: str(p.dtype).removeprefix("torch.") for n, p in x.parts.items()}
        return Range(shape_of(x), low, high, kinds)
    table = x.ndim == 2
    ends = [x.amin(0), x.amax(0)] if table else [x.min()[None], x.max()[None]]
    low, high = (as_batch(end, torch.float64) for end in ends)
    room = (TAIL if table else SLACK) * (high - low)
    return Range(tuple(x.shape[1:]), low - room, high + room)


@dataclass(frozen=True, eq=False)
class Watched:
    """A part of the inputs: which samples can be read, and what the networks give for those."""

    rows: Tensor  # indices among the inputs, (n,)
    finite: Tensor  # (n,)
    in_range: Tensor  # (n,)
    activations: Activations | None  # of the finite ones; None: there is none


def read_inputs(x: Any, known: Range | None, *, tokens: bool) -> Iterator[Inputs]:
    """Inputs `(N, ...)` of the shape of calibration, whole or as a loader gives them.

    NaN stays, to be decided sample by sample.
    """
    if getattr(x, "dtype", None) in (torch.bool, np.bool_):
        raise NescioError("inputs must be real numbers, got truth values; pass x.float()")
    if isinstance(x, Tensor | np.ndarray) and known is not None:
        _check_shape(tuple(x.shape[1:]), known, single=tuple(x.shape) == known.shape)
    options = {"tokens": tokens, "finite": False, "fixed": known is None}
    for batch in door.input_batches(x, batch_size=1 << 62, **options):
        if known is not None:
            _check_shape(shape_of(batch), known)
        yield batch


def _check_shape(shape: Shape, known: Range, *, single: bool = False) -> None:
    if shape != known.shape:
        hint = "; one input needs an axis: x[None]" if single else ""
        raise NescioError(
            f"inputs have shape {shape} per sample, the guard was calibrated on {known.shape}{hint}"
        )


def watch(
    members: tuple[Member, ...],
    detector: Detector,
    layers: Sequence[str],
    x: Inputs,
    *,
    known: Range | None,
    batch_size: int,
) -> Iterator[Watched]:
    """What the networks give for inputs, in parts of bounded size; pooled as for the detector."""
    made = detector.about
    options = made.get("output"), made.get("pool", "mean")
    watching = [
        replace(reader(member, *options), places=[place(name, member.net) for name in layers])
        for member in members
    ]
    size, batch = (max(batch_size, most // max(1, x[:1].numel())) for most in (PART, BATCH))
    for start in range(0, len(x), size):
        part = x[start : start + size]
        rows = torch.arange(start, start + len(part), device=x.device)
        finite = _finite(part)
        in_range = torch.ones_like(finite) if known is None else known.in_dist(part)
        found, good = _activations(watching, detector, _only(part, finite), batch)
        finite[finite.clone()] = good
        yield Watched(rows, finite, in_range & finite, found)


@torch.no_grad()
def _activations(
    watching: list[Network], detector: Detector, x: Inputs, batch_size: int
) -> tuple[Activations | None, Tensor]:
    """Of the inputs for which all is finite, and which these are."""
    good = torch.ones(len(x), dtype=torch.bool, device=x.device)
    if not len(x):
        return None, good
    logits, features = [], []
    for net in watching:
        parts = [net(batch) for batch in x.split(batch_size)]
        logits.append(torch.cat([answer for answer, _ in parts]).to(x.device))
        names = parts[0][1]
        rows = {n: torch.cat([found[n] for _, found in parts]).to(x.device) for n in names}
        features.append(rows)
    for value in (*logits, *(row for rows in features for row in rows.values())):
        good &= _finite(value)
    if not good.any():
        return None, good
    linear = detector.about.get("linear")
    ends = [linear_layer(linear, net.net, logits[0]) for net in watching] if linear else []
    return Activations(
        logits=torch.stack([_only(rows, good) for rows in logits]),
        features={n: torch.stack([_only(f[n], good) for f in features]) for n in features[0]},
        inputs=_only(x, good),
        weight=torch.stack([weight for weight, _ in ends]) if ends else None,
        bias=torch.stack([bias for _, bias in ends]) if ends else None,
        last=None,
        answers=[net.answer for net in watching],
        about={name: detector.about[name] for name in ("pool",) if name in detector.about},
        hashes=torch.zeros(int(good.sum()), dtype=torch.int64),  # not needed, and not free
        checked=True,
    ), good


def _finite(x: Inputs) -> Tensor:
    """Which samples are finite, `(N,)`; where their sum is, all are, in a tenth of the time."""
    if isinstance(x, Bundle):
        return torch.stack([_finite(part) for part in x.parts.values()]).all(0)
    if not x.is_floating_point() or bool(x.sum().isfinite()):
        return torch.ones(len(x), dtype=torch.bool, device=x.device)
    return x.reshape(len(x), -1).isfinite().all(1)


def _only(x: Any, chosen: Tensor) -> Any:
    """The chosen samples; no copy where these are all."""
    return x if bool(chosen.all()) else x[chosen]
