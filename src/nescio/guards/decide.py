"""The guard: a network, a detector, a calibration and rules that carry a guarantee."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio.calibration import Map
from nescio.conformal import Sets
from nescio.conformal.score_limits import check_groups
from nescio.core import (
    Bundle,
    Categorical,
    Classification,
    Head,
    Inputs,
    NescioError,
    NotFiniteWarning,
    RangeWarning,
    Shape,
    as_batch,
    as_tensor,
    joined,
    layout_hint,
    log_odds,
    shape_of,
    warn,
)
from nescio.data import Columns, door, is_frame, read_table
from nescio.detectors import Detector
from nescio.detectors.activations import Activations
from nescio.detectors.observe.layers import placed_in
from nescio.detectors.observe.network import Network, reader
from nescio.guards.decisions import CODES, Decisions, decided
from nescio.guards.guarantees import guarantees, table
from nescio.guards.rules import Rule, Scored
from nescio.models import Member
from nescio.nets import Output, copied, is_scripted

PART = 1 << 22  # numbers of the inputs that are decided at a time
BATCH = 1 << 16  # numbers of the inputs of a batch, at least: calling a network is not free
FEW = 1 << 12  # numbers that are compared at once
ROWS = 1 << 13  # samples of both, at most: of narrow inputs, activations take most of the memory
SLACK = 0.1  # of the width of the range, on both sides
TAIL = 0.5  # of that of a column of a table, which may have tails
CLASS = "class"
NOT_READ = torch.zeros(0, dtype=torch.int64)  # of inputs that nobody compares by their hashes
NUMBERS = ("probability", "p_value", "score", "failure_score")


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
    table = x.ndim == 2
    ends = [x.amin(0), x.amax(0)] if table else [x.min()[None], x.max()[None]]
    low, high = (as_batch(end, torch.float64) for end in ends)
    room = (TAIL if table else SLACK) * (high - low)
    return Range(tuple(x.shape[1:]), low - room, high + room)


@dataclass(frozen=True, eq=False)
class Watched:
    """A part of the inputs: which samples can be read, and what the networks give for those."""

    rows: slice  # among the inputs, n of them
    finite: Tensor | None  # (n,); None: all
    in_range: Tensor  # (n,)
    activations: Activations | None  # of the finite ones; None: there is none


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


@torch.no_grad()
def _activations(
    watching: list[Network], detector: Detector, x: Inputs, batch_size: int
) -> tuple[Activations | None, Tensor | None]:
    """Of the inputs for which all is finite, and which these are; None: all."""
    if not len(x):
        return None, None
    logits, features = [], []
    for net in watching:
        parts = [net(batch) for batch in (x.split(batch_size) if len(x) > batch_size else (x,))]
        logits.append(joined([answer for answer, _ in parts]).to(x.device))
        names = parts[0][1]
        rows = {n: joined([found[n] for _, found in parts]).to(x.device) for n in names}
        features.append(rows)
    values = [*logits, *(row for rows in features for row in rows.values())]
    good = None
    if not all(math.isfinite(value.sum()) for value in values):  # where the sums are, all are
        good = torch.stack([_finite(value) for value in values]).all(0)
        if not good.any():
            return None, good
        logits = [rows[good] for rows in logits]
        features = [{name: rows[good] for name, rows in each.items()} for each in features]
        x = x[good]
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


def _finite(x: Inputs) -> Tensor:
    """Which samples are finite, `(N,)`; where their sum is, all are, in a tenth of the time."""
    if isinstance(x, Bundle):
        return torch.stack([_finite(part) for part in x.parts.values()]).all(0)
    if not x.is_floating_point() or math.isfinite(x.sum()):
        return torch.ones(len(x), dtype=torch.bool, device=x.device)
    return x.reshape(len(x), -1).isfinite().all(1)


@dataclass(frozen=True, eq=False, repr=False)
class Guard:
    """Decides for every input: answer, or abstain as unsure or OOD; made by `nescio.guard`."""

    detector: Detector  # what is OOD
    failure: Detector | None  # what is unsure; None: the log-odds against the label
    map: Map | None  # None: the probabilities are as the network gives them
    rules: tuple[Rule, ...]  # one per group
    groups: tuple[int, ...]  # the number of each; of one rule for all, 0
    head: Head
    nets: tuple[nn.Module, ...] = ()  # none: it reads activations only
    output: Output = None  # where the logits are in what the networks return
    false_alarm: float = 0.01
    risk: float = 0.02
    confidence: float = 0.95
    sets: Sets | None = None  # the prediction sets
    by: str | None = None  # "class", "groups" or None
    names: tuple[str, ...] | None = None  # of the classes
    range: Range | None = None  # of the inputs at calibration
    hashes: Tensor | None = None  # (n,) int64 of the calibration inputs, ascending
    notes: Mapping[str, Any] = field(default_factory=dict)  # how it was made; JSON
    batch_size: int = 256

    def __call__(
        self, x: Any, *, groups: Any = None, batch_level: float | None = None
    ) -> Decisions:
        """Decide for inputs `(N, ...)`, in parts of bounded memory.

        x: inputs as the network reads them: an array, a tuple or mapping of arrays, or a loader of
        such batches, whose labels are left out.
        groups: one per sample, for a guard made with groups.
        batch_level: decide *ood* for all of them together: see `Decisions.batch`.
        """
        if not self.nets:
            raise NescioError(
                "this guard was made from activations and has no network; use guard.decide, or "
                "make it from the network: nescio.guard(net, ...)"
            )
        batches: Iterable[Inputs] = read_inputs(
            x,
            self.range,
            tokens=self._watching[0].reads_tokens,
            columns=self._watching[0].columns,
            names=self.notes.get("columns", ()),
        )
        belongs = None
        if self.by == "groups" or groups is not None:
            batches = list(batches)
            belongs = self._groups(groups, sum(map(len, batches)))
        parts: list[Decisions] = []
        start = 0
        for batch in batches:
            for part in self._watch(batch):
                group = None if belongs is None else belongs[start:][part.rows]
                parts.append(self._part(part, group))
            start += len(batch)
        found = Decisions.join(parts)
        self._warn(found)
        return found if batch_level is None else found.batch(batch_level)

    def decide(self, activations: Activations, *, groups: Any = None) -> Decisions:
        """Decide from what the network gave: activations with the detector's layers."""
        if self.range is None or activations.inputs is None:
            count, device = activations.samples, activations.logits.device
            in_range = torch.ones(count, dtype=torch.bool, device=device)
        else:
            in_range = self.range.in_dist(activations.inputs)
        return self._decide(activations, self._groups(groups, activations.samples), in_range)

    @property
    def layers(self) -> list[str]:
        """The layers that are read, each once."""
        both = [*self.detector.layers, *(self.failure.layers if self.failure else ())]
        return list(dict.fromkeys(both))

    @property
    def members(self) -> tuple[Member, ...]:
        """The networks, and how their outputs are read."""
        return tuple(Member(net=net, head=self.head) for net in self.nets)

    def predictions(self, activations: Activations) -> tuple[Classification, Classification]:
        """The prediction that decides, and the calibrated one, in float64.

        A temperature is fitted on the samples behind the guarantees, so it only gives probabilities
        and decides nothing. Another map, which may change labels, was fitted on other samples.
        """
        logits = activations.logits.double()
        raw = self.head(logits) if self.head.gives_logits else Categorical(logits)
        assert isinstance(raw, Classification)
        calibrated = raw if self.map is None else self.map(raw)
        return (raw if describes(self.map) else calibrated), calibrated

    def scores(self, activations: Activations, deciding: Classification) -> tuple[Tensor, Tensor]:
        """The detector's score and the failure score of each input, `(N,)` each in float64."""
        score = _scores(self.detector, activations)
        if self.failure is None:
            return score, log_odds(deciding)
        return score, _scores(self.failure, activations)

    def __getstate__(self) -> dict[str, Any]:
        if any(map(is_scripted, self.nets)):
            raise NescioError("TorchScript cannot be pickled; guard the nn.Module it was made from")
        return vars(self)

    def to(self, device: torch.device | str) -> "Guard":
        """The same guard with its networks and detectors on a device; its decisions are the same.

        Inputs may be on any device, and decisions are on theirs.
        """
        failure = None if self.failure is None else self.failure.to(device)
        nets = tuple(copied(net).to(device) for net in self.nets)
        return replace(self, nets=nets, detector=self.detector.to(device), failure=failure)

    def save(self, path: str | Path, *, weights: bool = False) -> Path:
        """Write one safetensors file with a manifest; with `weights` also those of the network.

        `nescio.load(path)` reads a guard with weights of one of nescio's networks, and
        `nescio.load(path, net=net)` any other: its weights and its answers to a probe must be as
        they were. `net=make_net`, a function that makes the network, gets the weights of the file.
        """
        from nescio.guards.guard_file import save

        return save(self, Path(path), weights=weights)

    @property
    def guarantees(self) -> tuple[str, ...]:
        """What is guaranteed, each with what it assumes, and what is not."""
        return guarantees(self)

    def table(self) -> str:
        """The groups with their samples, thresholds, coverage and bounds, as text."""
        return table(self)

    def __str__(self) -> str:
        return "\n".join([repr(self), self.table(), *(f"- {line}" for line in self.guarantees)])

    def __repr__(self) -> str:
        kind = type(self.nets[0]).__name__ if self.nets else "activations"
        return (
            f"Guard({self.detector.name} on {kind}, false_alarm={self.false_alarm:g}, "
            f"risk={self.risk:g}, confidence={self.confidence:g})"
        )

    @cached_property
    def _watching(self) -> list[Network]:
        """The networks and what is read in them; pooled as for the detector."""
        about = self.detector.about
        nets = (reader(m, self.output, about.get("pool", "mean")) for m in self.members)
        return [
            replace(net, places=placed_in(net.net, self.layers), fixed=True)  # they are copies
            for net in nets
        ]

    def _watch(self, x: Inputs) -> Iterator[Watched]:
        """What the networks give for inputs, in parts of bounded size."""
        numbers = max(1, x[:1].numel())
        sizes = (min(ROWS, most // numbers) for most in (PART, BATCH))
        size, batch = (max(self.batch_size, most) for most in sizes)
        for start in range(0, len(x), size):
            rows = slice(start, start + size)
            part = x if len(x) <= size else x[rows]
            if self.range is None:
                in_range = torch.ones(len(part), dtype=torch.bool, device=x.device)
                finite: Tensor | None = _finite(part)
            else:
                in_range = self.range.in_dist(part)
                finite = None if in_range.all() else _finite(part)  # what is in range is finite
            read = part if finite is None or finite.all() else part[finite]
            found, good = _activations(self._watching, self.detector, read, batch)
            if good is not None:
                finite = torch.ones_like(in_range) if finite is None else finite
                finite[finite.clone()] = good
            yield Watched(rows, finite, in_range if finite is None else in_range & finite, found)

    def _part(self, part: Watched, groups: Tensor | None) -> Decisions:
        """Decisions for a part of raw inputs; those that are not finite are OOD."""
        finite, found = part.finite, None
        if part.activations is not None:
            own = groups if groups is None or finite is None else groups[finite]
            found = self._decide(part.activations, own, part.in_range)
            if finite is None or finite.all():
                return found
        assert finite is not None
        count, device = len(finite), finite.device
        nothing = torch.full((count,), torch.nan, dtype=torch.float64, device=device)
        rule = torch.full((count,), CODES["not finite"], device=device)
        sets = None
        if self.sets is not None:  # nothing is known, so every class may be
            classes = self.sets.options["classes"]
            sets = torch.ones(count, classes, dtype=torch.bool, device=device)
        whole = Decisions(
            decision=decided(rule),
            label=torch.full_like(rule, -1),
            rule=rule,
            in_range=part.in_range,
            sets=sets,
            names=self.names,
            false_alarm=self.false_alarm,
            **{name: nothing.clone() for name in NUMBERS},
        )
        for name, column in vars(found).items() if found is not None else ():
            if isinstance(column, Tensor) and name != "in_range":
                getattr(whole, name)[finite] = column
        return whole

    def _decide(
        self, activations: Activations, groups: Tensor | None, in_range: Tensor
    ) -> Decisions:
        prediction, calibrated = self.predictions(activations)
        score, failure_score = self.scores(activations, prediction)
        label = prediction.labels
        belongs = label if self.by == CLASS else groups
        if belongs is None:
            (only,) = self.rules
            p_value, rule = only.read(score, failure_score)
        else:
            p_value = torch.full_like(score, torch.nan)
            rule = torch.full_like(label, CODES["unknown group"])
            for number, own in zip(self.groups, self.rules, strict=True):
                chosen = belongs == number
                p_value[chosen], rule[chosen] = own.read(score[chosen], failure_score[chosen])
        return Decisions(
            decision=decided(rule),
            label=label,
            probability=calibrated.log_probs.gather(1, label[:, None])[:, 0].exp(),
            p_value=p_value,
            score=score,
            failure_score=failure_score,
            rule=rule,
            in_range=in_range,
            sets=None if self.sets is None else self._sets(prediction, groups, rule),
            names=self.names,
            false_alarm=self.false_alarm,
        )

    def _sets(self, prediction: Classification, groups: Tensor | None, rule: Tensor) -> Tensor:
        """Prediction sets `(N, C)`; of an unknown group, all classes."""
        assert self.sets is not None
        if groups is None:
            return self.sets(prediction)
        known = rule != CODES["unknown group"]
        found = torch.ones_like(prediction.probs, dtype=torch.bool)
        if known.any():
            found[known] = self.sets(prediction[known], groups[known])
        return found

    def _groups(self, groups: Any, samples: int) -> Tensor | None:
        if self.by != "groups":
            if groups is not None:
                raise NescioError("this guard knows no groups; make it with by=groups")
            return None
        if groups is None:
            raise NescioError("this guard was made with groups; give groups=, one per sample")
        return check_groups(groups, samples)

    def _warn(self, found: Decisions) -> None:
        if bool(found.in_range.all()):  # then all are finite
            return
        lost = found.rule == CODES["not finite"]
        beyond = (
            "hold numbers outside the range of the calibration data (column in_range): are they "
            "scaled as those were?"
        )
        for which, kind, text in (
            (~found.in_range & ~lost, RangeWarning, beyond),
            (lost, NotFiniteWarning, "are, or lead to, NaN or infinite numbers: OOD"),
        ):
            if count := int(which.sum()):
                warn(f"{count} of {len(found)} inputs {text}", kind, stacklevel=3)


def read_samples(guard: Guard, activations: Activations, labels: Tensor) -> Scored:
    """Samples with known labels as the rules read them."""
    deciding, _ = guard.predictions(activations)
    score, failure_score = guard.scores(activations, deciding)
    return Scored(score, failure_score, deciding.labels != labels)


def describes(calibration_map: Map | str | None) -> bool:
    """Whether a calibration map only gives probabilities, and leaves the decisions alone."""
    name = calibration_map.name if isinstance(calibration_map, Map) else calibration_map
    return name in (None, "temperature")


def stacked(parts: list[Tensor]) -> Tensor:
    """Tensors of the members with a member axis; no copy of the only one."""
    return parts[0][None] if len(parts) == 1 else torch.stack(parts)


def _scores(detector: Detector, activations: Activations) -> Tensor:
    mean = detector.about.get("mean") and activations.members > 1
    return detector(activations.mean() if mean else activations).double()
