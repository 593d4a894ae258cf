"""Networks as a guard runs them: raw inputs to activations, a part at a time; odd rows apart."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import NescioError, as_batch, as_tensor
from nescio.detectors import Detector
from nescio.detectors.activations import Activations
from nescio.detectors.observe.layers import place
from nescio.detectors.observe.network import Network, linear_layer

PART = 1 << 22  # numbers of the inputs that are decided at a time
BATCH = 1 << 16  # numbers of the inputs of a batch, at least: calling a network is not free


@dataclass(frozen=True, eq=False)
class Range:
    """The shape of inputs and the numbers they held at calibration."""

    shape: tuple[int, ...]  # of one input
    low: Tensor  # of a table (F,), a column each; of other inputs one number
    high: Tensor

    def in_dist(self, x: Tensor) -> Tensor:
        """Whether all numbers of each input are in the range, `(N,)`."""
        flat = as_batch(x).flatten(1)
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


def learn_range(x: Tensor) -> Range:
    """The range of inputs `(N, ...)`, with a little room."""
    table = x.ndim == 2
    ends = [x.amin(0), x.amax(0)] if table else [x.min()[None], x.max()[None]]
    low, high = (as_batch(end, torch.float64) for end in ends)
    room = (TAIL if table else SLACK) * (high - low)
    return Range(tuple(x.shape[1:]), low - room, high + room)


@dataclass(frozen=True, eq=False)
class Watched:
    """A part of the inputs: which rows can be read, and what the networks give for those."""

    rows: Tensor  # places among the inputs, (n,)
    finite: Tensor  # (n,)
    in_range: Tensor  # (n,)
    activations: Activations | None  # of the finite ones; None: there is none


def read_inputs(x: Any, known: Range | None, *, tokens: bool) -> Tensor:
    """Inputs `(N, ...)` of the shape of calibration; NaN stays, to be decided row by row."""
    given = as_tensor(x, "inputs")
    if given.is_complex() or given.dtype == torch.bool:
        raise NescioError(f"inputs must be real numbers, got {given.dtype}")
    if known is not None and tuple(given.shape[1:]) != known.shape:
        hint = "; one input needs an axis: x[None]" if tuple(given.shape) == known.shape else ""
        raise NescioError(
            f"inputs have shape {tuple(given.shape[1:])} per sample, the guard was calibrated on "
            f"{known.shape}{hint}"
        )
    if given.ndim < 2:
        raise NescioError(f"inputs must have shape (samples, ...), got {tuple(given.shape)}")
    whole = not given.is_floating_point() and given.dtype != torch.uint8
    if given.dtype == torch.uint8 and given.ndim != 4:
        raise NescioError("only images (N, C, H, W) may be uint8; scale others, then pass floats")
    return given.to(torch.float32) if whole and not tokens else given


def watch(
    nets: tuple[nn.Module, ...],
    detector: Detector,
    layers: Sequence[str],
    x: Tensor,
    *,
    known: Range | None,
    batch_size: int,
) -> Iterator[Watched]:
    """What the networks give for inputs, in parts of bounded size; pooled as for the detector."""
    made = detector.about
    options = made.get("output"), made.get("pool", "mean")
    watching = [Network(net, *options, [place(name, net) for name in layers]) for net in nets]
    size = max(batch_size, PART // max(1, x[0].numel()) if len(x) else 1)
    batch = max(batch_size, BATCH // max(1, x[0].numel()) if len(x) else 1)
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
    watching: list[Network], detector: Detector, x: Tensor, batch_size: int
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


def _finite(x: Tensor) -> Tensor:
    """Which rows are finite, `(N,)`; where their sum is, all are, in a tenth of the time."""
    if not x.is_floating_point() or bool(x.sum().isfinite()):
        return torch.ones(len(x), dtype=torch.bool, device=x.device)
    return x.flatten(1).isfinite().all(1)


def _only(x: Tensor, chosen: Tensor) -> Tensor:
    """The chosen rows; no copy where these are all."""
    return x if bool(chosen.all()) else x[chosen]
