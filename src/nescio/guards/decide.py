"""The guard: a network, a detector, a calibration and rules that carry a guarantee."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.calibration import Map
from nescio.conformal import Sets, check_groups
from nescio.core import (
    Categorical,
    Classification,
    Head,
    Inputs,
    NescioError,
    log_odds,
)
from nescio.detectors import Activations, Detector
from nescio.detectors.observe.layers import placed_in
from nescio.detectors.observe.network import Network, reader
from nescio.guards.decisions import CODES, Decisions, decided
from nescio.guards.guarantees import guarantees, table, why_not
from nescio.guards.rules import Rule, Scored
from nescio.guards.watching import (
    Range,
    Watched,
    read_inputs,
    warn_about_inputs,
    watch,
    without_lost,
)
from nescio.models import Member
from nescio.nets import Output, copied, is_scripted

CLASS = "class"
NUMBERS = ("probability", "p_value", "score", "failure_score")


@dataclass(frozen=True, eq=False, repr=False)
class Guard:
    """Decides for every input: answer, or abstain as unsure or OOD; made by `nescio.guard`.

    detector: its score says what is OOD.
    failure: its score says what is unsure; None: the log-odds against the label do.
    map: calibration of the probabilities; None: they are as the network gives them.
    rules: thresholds and guarantees, one rule per group.
    groups: the number of each group; 0 where one rule is for all.
    head: how the outputs of the networks are read.
    nets: the networks; none: the guard reads activations only.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    false_alarm: the largest share of inputs like the calibration data that may be called OOD.
    risk: the largest share of answers that may be wrong.
    confidence: the probability with which the calibration data must show the risk.
    sets: the prediction sets; None: there are none.
    by: "class" or "groups", for which the guarantees hold; None: for all inputs together.
    names: names of the classes; None: they are numbers.
    range: range of the inputs at calibration; None: unknown, nothing is checked.
    hashes: hashes of the calibration inputs, `(n,)` of int64, ascending.
    notes: how it was made; JSON.
    batch_size: number of samples that the networks read at a time.
    """

    detector: Detector
    failure: Detector | None
    map: Map | None
    rules: tuple[Rule, ...]
    groups: tuple[int, ...]
    head: Head
    nets: tuple[nn.Module, ...] = ()
    output: Output = None
    false_alarm: float = 0.01
    risk: float = 0.02
    confidence: float = 0.95
    sets: Sets | None = None
    by: str | None = None
    names: tuple[str, ...] | None = None
    range: Range | None = None
    hashes: Tensor | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 256

    def __call__(
        self, x: Any, *, groups: Any = None, batch_level: float | None = None
    ) -> Decisions:
        """Decide for inputs `(N, ...)`, in parts of bounded memory.

        x: inputs as the network reads them: an array, a tuple or mapping of arrays, or a loader of
          such batches, whose labels are left out; or what it gave, as for `decide`.
        groups: group numbers `(N,)`, for a guard made with groups.
        batch_level: decide *ood* for all of them together, at this level: see `Decisions.batch`;
          None: for each input by itself.
        """
        if isinstance(x, Activations):
            found = self.decide(x, groups=groups)
            return found if batch_level is None else found.batch(batch_level)
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
            for part in watch(batch, self._watching, self.detector, self.range, self.batch_size):
                group = None if belongs is None else belongs[start:][part.rows]
                parts.append(self._part(part, group))
            start += len(batch)
        found = Decisions.join(parts)
        warn_about_inputs(found.in_range, found.rule == CODES["not finite"])
        return found if batch_level is None else found.batch(batch_level)

    def decide(self, activations: Activations, *, groups: Any = None) -> Decisions:
        """Decide from what the network gave.

        activations: activations with the layers that the detector reads.
        groups: group numbers `(N,)`, for a guard made with groups.
        """
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
        """The prediction from `activations` that decides, and the calibrated one, in float64.

        A temperature is fitted on the samples behind the guarantees, so it only gives probabilities
        and decides nothing. Another map, which may change labels, was fitted on other samples.
        """
        logits = activations.logits.double()
        raw = self.head(logits) if self.head.gives_logits else Categorical(logits)
        assert isinstance(raw, Classification)
        calibrated = raw if self.map is None else self.map(raw)
        return (raw if describes(self.map) else calibrated), calibrated

    def scores(self, activations: Activations, deciding: Classification) -> tuple[Tensor, Tensor]:
        """The detector's score and the failure score of each input, `(N,)` each in float64.

        activations: what the network gave.
        deciding: the prediction that decides, the first of `predictions`.
        """
        score = scores_of(self.detector, activations)
        if self.failure is None:
            return score, log_odds(deciding)
        return score, scores_of(self.failure, activations)

    def __getstate__(self) -> dict[str, Any]:
        if any(map(is_scripted, self.nets)):
            raise NescioError("TorchScript cannot be pickled; guard the nn.Module it was made from")
        return vars(self)

    def to(self, device: torch.device | str) -> "Guard":
        """The same guard with its networks and detectors on `device`; its decisions are the same.

        Inputs may be on any device, and decisions are on theirs.
        """
        failure = None if self.failure is None else self.failure.to(device)
        nets = tuple(copied(net).to(device) for net in self.nets)
        return replace(self, nets=nets, detector=self.detector.to(device), failure=failure)

    def save(self, path: str | Path, *, weights: bool = False) -> Path:
        """Write one safetensors file with a manifest.

        `nescio.load(path)` reads a guard with weights of one of nescio's networks, and
        `nescio.load(path, net=net)` any other: its weights and its answers to a probe must be as
        they were. `net=make_net`, a function that makes the network, gets the weights of the file.

        path: the file.
        weights: whether to write the weights of the networks, too.
        """
        from nescio.guards.guard_file import save

        return save(self, Path(path), weights=weights)

    @property
    def guarantees(self) -> tuple[str, ...]:
        """What is guaranteed, each with what it assumes, and what is not."""
        return guarantees(self)

    @property
    def withheld(self) -> list[str]:
        """Of each group in which nothing is answered, why."""
        return [why_not(self, rule) for rule in self.rules if not rule.coverage.holds]

    def table(self) -> str:
        """The groups with their samples, thresholds, coverage and bounds, as text."""
        return table(self)

    def __str__(self) -> str:
        return "\n".join([repr(self), self.table(), *(f"- {line}" for line in self.guarantees)])

    def _repr_html_(self) -> str:
        from nescio.report import guard_html

        return guard_html(self)

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

    def _part(self, part: Watched, groups: Tensor | None) -> Decisions:
        """Decisions for a part of raw inputs; those that are not finite are OOD."""
        found, finite = without_lost(part, lambda own: self._decide(own, groups, part.in_range))
        if found is not None and (finite is None or finite.all()):
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
            in_range=part.in_range & finite,
            sets=sets,
            names=self.names,
            false_alarm=self.false_alarm,
            **{name: nothing.clone() for name in NUMBERS},
        )
        for name, column in vars(found).items() if found is not None else ():
            if isinstance(column, Tensor) and name != "in_range":
                getattr(whole, name)[finite] = column[finite]
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


def read_samples(guard: Guard, activations: Activations, labels: Tensor) -> Scored:
    """Samples with known labels as the rules read them."""
    deciding, _ = guard.predictions(activations)
    score, failure_score = guard.scores(activations, deciding)
    return Scored(score, failure_score, deciding.labels != labels)


def describes(calibration_map: Map | str | None) -> bool:
    """Whether a calibration map only gives probabilities, and leaves the decisions alone."""
    name = calibration_map.name if isinstance(calibration_map, Map) else calibration_map
    return name in (None, "temperature")


def scores_of(detector: Detector, activations: Activations) -> Tensor:
    mean = detector.about.get("mean") and activations.members > 1
    return detector(activations.mean() if mean else activations).double()
