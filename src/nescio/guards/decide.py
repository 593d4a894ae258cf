"""The guard: a network, a detector, a calibration and rules that carry a guarantee."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.calibration import Map
from nescio.conformal import Sets
from nescio.conformal.score_limits import check_groups
from nescio.core import (
    Categorical,
    Classification,
    Head,
    Inputs,
    NescioError,
    NotFiniteWarning,
    RangeWarning,
    log_odds,
)
from nescio.detectors import Detector
from nescio.detectors.activations import Activations
from nescio.detectors.observe.network import Network
from nescio.guards.decisions import CODES, Decisions, decided
from nescio.guards.inputs import Range, Watched, read_inputs, watch
from nescio.guards.rules import Rule, Scored
from nescio.models import Member

CLASS = "class"
FILLED = ("decision", "label", "probability", "p_value", "score", "failure_score", "rule", "sets")


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
        tokens = Network(self.nets[0]).reads_tokens
        batches: Iterable[Inputs] = read_inputs(x, self.range, tokens=tokens)
        belongs = None
        if self.by == "groups" or groups is not None:
            batches = list(batches)
            belongs = self._groups(groups, sum(map(len, batches)))
        options: dict[str, Any] = {"known": self.range, "batch_size": self.batch_size}
        parts: list[Decisions] = []
        start = 0
        for batch in batches:
            for part in watch(self.members, self.detector, self.layers, batch, **options):
                group = None if belongs is None else belongs[start + part.rows]
                parts.append(self._part(part, group))
            start += len(batch)
        found = Decisions.join(parts)
        self._warn(found)
        return found if batch_level is None else found.batch(batch_level)

    def decide(self, activations: Activations, *, groups: Any = None) -> Decisions:
        """Decide from what the network gave: activations with the detector's layers."""
        return self._decide(activations, self._groups(groups, activations.samples))

    @property
    def layers(self) -> list[str]:
        """The layers that are read, each once."""
        both = [*self.detector.layers, *(self.failure.layers if self.failure else ())]
        return list(dict.fromkeys(both))

    @property
    def members(self) -> tuple[Member, ...]:
        """The networks, and how their outputs are read."""
        return tuple(Member(net=net, head=self.head) for net in self.nets)

    def prediction(self, activations: Activations) -> Classification:
        """The calibrated prediction, in float64."""
        logits = activations.logits.double()
        raw = self.head(logits) if self.head.gives_logits else Categorical(logits)
        assert isinstance(raw, Classification)
        return raw if self.map is None else self.map(raw)

    def scores(self, activations: Activations, calibrated: Classification) -> tuple[Tensor, Tensor]:
        """The detector's score and the failure score of each input, `(N,)` each in float64."""
        score = _scores(self.detector, activations)
        if self.failure is None:
            return score, log_odds(calibrated)
        return score, _scores(self.failure, activations)

    def save(self, path: str | Path, *, weights: bool = False) -> Path:
        """Write one safetensors file with a manifest; with `weights` also those of the network.

        `nescio.load(path)` reads a guard with weights of one of nescio's networks, and
        `nescio.load(path, net=net)` any other: its weights and its answers to a probe must be as
        they were.
        """
        from nescio.guards.guard_file import save

        return save(self, Path(path), weights=weights)

    @property
    def guarantees(self) -> tuple[str, ...]:
        """What is guaranteed, each with what it assumes, and what is not."""
        from nescio.guards.guarantees import guarantees

        return guarantees(self)

    def table(self) -> str:
        """The groups with their samples, thresholds, coverage and bounds, as text."""
        from nescio.guards.guarantees import table

        return table(self)

    def __str__(self) -> str:
        return "\n".join([repr(self), self.table(), *(f"- {line}" for line in self.guarantees)])

    def __repr__(self) -> str:
        kind = type(self.nets[0]).__name__ if self.nets else "activations"
        return (
            f"Guard({self.detector.name} on {kind}, false_alarm={self.false_alarm:g}, "
            f"risk={self.risk:g}, confidence={self.confidence:g})"
        )

    def _part(self, part: Watched, groups: Tensor | None) -> Decisions:
        """Decisions for a part of raw inputs; those that are not finite are OOD."""
        finite = part.finite
        if part.activations is not None and bool(finite.all()):
            return replace(
                self._decide(part.activations, groups, ranged=False), in_range=part.in_range
            )
        count, device = len(finite), finite.device
        nothing = torch.full((count,), torch.nan, dtype=torch.float64, device=device)
        rule = torch.full((count,), CODES["not finite"], device=device)
        sets = None
        if self.sets is not None:  # nothing is known, so every class may be
            classes = self.sets.options["classes"]
            sets = torch.ones(count, classes, dtype=torch.bool, device=device)
        numbers = ("probability", "p_value", "score", "failure_score")
        whole = Decisions(
            decision=decided(rule),
            label=torch.full_like(rule, -1),
            rule=rule,
            in_range=part.in_range,
            sets=sets,
            names=self.names,
            false_alarm=self.false_alarm,
            **{name: nothing.clone() for name in numbers},
        )
        if part.activations is None:
            return whole
        own = None if groups is None else groups[finite]
        found = self._decide(part.activations, own, ranged=False)
        for name in FILLED if sets is not None else FILLED[:-1]:
            getattr(whole, name)[finite] = getattr(found, name)
        return whole

    def _decide(
        self, activations: Activations, groups: Tensor | None, *, ranged: bool = True
    ) -> Decisions:
        prediction = self.prediction(activations)
        score, failure_score = self.scores(activations, prediction)
        label = prediction.labels
        belongs = label if self.by == CLASS else groups
        p_value = torch.full_like(score, torch.nan)
        rule = torch.full_like(label, CODES["unknown group"])
        if belongs is None:
            (only,) = self.rules
            p_value, rule = only.p_values(score), only.deciding(score, failure_score)
        for number, own in zip(self.groups, self.rules, strict=True) if belongs is not None else ():
            chosen = belongs == number
            p_value[chosen] = own.p_values(score[chosen])
            rule[chosen] = own.deciding(score[chosen], failure_score[chosen])
        in_range = torch.ones_like(label, dtype=torch.bool)
        if ranged and self.range is not None and activations.inputs is not None:
            in_range = self.range.in_dist(activations.inputs)
        return Decisions(
            decision=decided(rule),
            label=label,
            probability=prediction.log_probs.gather(1, label[:, None])[:, 0].exp(),
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
        odd = int((~found.in_range & (found.rule != CODES["not finite"])).sum())
        if odd:
            warnings.warn(
                f"{odd} of {len(found)} inputs hold numbers outside the range of the calibration "
                "data (column in_range): are they scaled as those were?",
                RangeWarning,
                stacklevel=3,
            )
        lost = int((found.rule == CODES["not finite"]).sum())
        if lost:
            warnings.warn(
                f"{lost} of {len(found)} inputs are, or lead to, NaN or infinite numbers: OOD",
                NotFiniteWarning,
                stacklevel=3,
            )


def read_samples(guard: Guard, activations: Activations, labels: Tensor) -> Scored:
    """Samples with known labels as the rules read them."""
    prediction = guard.prediction(activations)
    score, failure_score = guard.scores(activations, prediction)
    return Scored(score, failure_score, prediction.labels != labels)


def _scores(detector: Detector, activations: Activations) -> Tensor:
    mean = detector.about.get("mean") and activations.members > 1
    return detector(activations.mean() if mean else activations).double()
