"""The guard of a regression: a prediction interval for every input, and answer or abstain.

An input is answered if it is not OOD and its interval is not wider than a threshold. Two guarantees
are about separate things, and are shown on separate samples:

The intervals are calibrated on one part of the samples: each misses its target with probability at
most `miscoverage`, over all inputs like the calibration data (split conformal prediction). That
says nothing about those that are answered: narrow intervals may miss more often than wide ones.

So the answers are tested on the rest. Given the first part, the intervals are a fixed function of
the input; whether a sample's interval misses its target is a coin of its own, and its width a score
that was not fitted on it. That is the situation of `largest_coverage` with the width as the failure
score and a miss as the error, and its proof holds word for word: with probability at least
`confidence` over these samples, at most the share `risk` of the answered inputs is missed, whatever
the relation of widths and misses. As widths often say little about misses, the answer to all inputs
is tested first, and the probability 1 - `confidence` of a wrong bound is shared by the two tests.
The limit of the detector's score comes from the same samples, which `rules` shows to be allowed; a
limit of the width, `max_width`, is fixed beforehand.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.conformal import Intervals
from nescio.core import (
    Head,
    Inputs,
    NescioError,
    Prediction,
    Regression,
    fixed_variance,
)
from nescio.detectors import Activations, Detector
from nescio.detectors.observe.layers import placed_in
from nescio.detectors.observe.network import Network, reader
from nescio.guards.decide import scores_of
from nescio.guards.decisions import CODES, decided, text_table
from nescio.guards.regression_decisions import RegressionDecisions, unknown
from nescio.guards.regression_words import regression_guarantees, regression_table, why_none
from nescio.guards.rules import Rule
from nescio.guards.watching import (
    Range,
    Watched,
    read_inputs,
    warn_about_inputs,
    watch,
    without_lost,
)
from nescio.models import Member, mc_dropout
from nescio.nets import Output, copied, is_scripted

RAW = fixed_variance()  # gives the outputs as they are: what the networks' own heads read


def predicted(
    activations: Activations,
    *,
    nets: Sequence[nn.Module],
    heads: Sequence[Head],
    passes: int | None,
    masks: int,
    output: Output,
) -> Regression:
    """What networks, or their passes of dropout, predict where they gave these raw outputs."""
    if passes is None:
        pairs = zip(heads, activations.logits.double(), strict=True)
        parts = [head(outputs[None]) for head, outputs in pairs]
    else:
        options: Any = {"passes": passes, "seed": masks, "output": output}
        drawn = (mc_dropout(n, head=h, **options) for n, h in zip(nets, heads, strict=True))
        parts = [one(activations.inputs) for one in drawn]
    found = Prediction.pool(parts).to(torch.float64)
    assert isinstance(found, Regression)
    return found.to(activations.logits.device)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RegressionGuard:
    """Gives every input an interval, and answers or abstains; made by `nescio.guard`.

    detector: its score says what is OOD.
    intervals: the calibrated prediction intervals.
    rules: thresholds and guarantees; one rule.
    heads: how the outputs of each network are read.
    nets: the networks.
    passes: number of passes of MC dropout; None: the networks as they are.
    masks: seed of the dropout masks.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    false_alarm: the largest share of inputs like the calibration data that may be called OOD.
    risk: the largest share of answers whose interval may miss.
    confidence: the probability with which the calibration data must show the risk.
    miscoverage: the largest share of inputs with a target outside its interval.
    max_width: the width of an interval above which nothing is answered, by target; None: any.
    unit: units in which the widths of the targets are compared, `(D,)`.
    names: names of the targets; None: they are numbers.
    range: range of the inputs at calibration; None: unknown, nothing is checked.
    hashes: hashes of the calibration inputs, `(n,)` of int64, ascending.
    notes: how it was made; JSON.
    batch_size: number of samples that the networks read at a time.
    """

    detector: Detector
    intervals: Intervals
    rules: tuple[Rule, ...]
    heads: tuple[Head, ...]
    nets: tuple[nn.Module, ...]
    passes: int | None = None
    masks: int = 0
    output: Output = None
    false_alarm: float = 0.01
    risk: float = 0.1
    confidence: float = 0.95
    miscoverage: float = 0.05
    max_width: tuple[float, ...] | None = None
    unit: Tensor
    names: tuple[str, ...] | None = None
    range: Range | None = None
    hashes: Tensor | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 256

    by = None  # there are no groups

    def __call__(self, x: Any, *, batch_level: float | None = None) -> RegressionDecisions:
        """Decide for inputs `(N, ...)`, in parts of bounded memory.

        x: inputs as the network reads them: an array, a tuple or mapping of arrays, or a loader of
          such batches, whose targets are left out.
        batch_level: decide *ood* for all of them together, at this level: see `Decisions.batch`;
          None: for each input by itself.
        """
        first = self._watching[0]
        batches: Iterable[Inputs] = read_inputs(
            x,
            self.range,
            tokens=first.reads_tokens,
            columns=first.columns,
            names=self.notes.get("columns", ()),
        )
        found = RegressionDecisions.join(
            [
                self._part(part)
                for batch in batches
                for part in watch(batch, self._watching, self.detector, self.range, self.batch_size)
            ]
        )
        warn_about_inputs(found.in_range, found.rule == CODES["not finite"])
        return found if batch_level is None else found.batch(batch_level)

    @property
    def targets(self) -> int:
        """D, the number of targets."""
        return len(self.unit)

    @property
    def layers(self) -> list[str]:
        """The layers that are read."""
        return list(self.detector.layers)

    @property
    def members(self) -> tuple[Member, ...]:
        """The networks, and how their outputs are read."""
        pairs = zip(self.nets, self.heads, strict=True)
        return tuple(Member(net=net, head=head) for net, head in pairs)

    def prediction(self, activations: Activations) -> Regression:
        """What the networks, or the passes of dropout, predict from `activations`; in float64."""
        how = {name: getattr(self, name) for name in ("nets", "heads", "passes", "masks", "output")}
        return predicted(activations, **how)

    def widths(self, low: Tensor, high: Tensor) -> Tensor:
        """One width per input, `(N,)`: the largest of its targets, each in its unit.

        low, high: the ends of the intervals, `(N, D)`.
        """
        return ((high - low) / self.unit.to(low.device)).amax(1)

    @property
    def widest(self) -> float:
        """The largest width of `widths` that may be answered, by `max_width`, which is the unit."""
        return float("inf") if self.max_width is None else 1.0

    @property
    def answered_widths(self) -> tuple[float, ...]:
        """The largest width of each target that is answered; infinite: any, minus: none."""
        (only,) = self.rules
        return tuple((only.coverage.threshold * self.unit).tolist())

    def _part(self, part: Watched) -> RegressionDecisions:
        """Decisions for a part of raw inputs; those that are not finite are OOD."""
        found, finite = without_lost(part, self._decide)
        in_range = part.in_range if finite is None else part.in_range & finite
        if found is None or (finite is not None and not finite.all()):
            assert finite is not None
            whole = unknown(len(finite), self.targets, finite.device)
            whole["rule"] = torch.full((len(finite),), CODES["not finite"], device=finite.device)
            for name, column in (found or {}).items():
                whole[name][finite] = column[finite]
            found = whole
        return RegressionDecisions(
            **found,
            decision=decided(found["rule"]),
            in_range=in_range,
            names=self.names,
            false_alarm=self.false_alarm,
        )

    def _decide(self, activations: Activations) -> dict[str, Tensor]:
        prediction = self.prediction(activations)
        low, high = self.intervals(prediction)
        score = scores_of(self.detector, activations)
        (only,) = self.rules
        p_value, rule = only.read(score, self.widths(low, high))
        rule = torch.where(rule == CODES["failure_score"], CODES["width"], rule)
        mean = prediction.mixture_mean
        columns = {"mean": mean, "low": low, "high": high, "p_value": p_value, "score": score}
        return columns | {"rule": rule}

    def __getstate__(self) -> dict[str, Any]:
        if any(map(is_scripted, self.nets)):
            raise NescioError("TorchScript cannot be pickled; guard the nn.Module it was made from")
        return vars(self)

    def to(self, device: torch.device | str) -> "RegressionGuard":
        """The same guard with its networks and detector on `device`; its decisions are the same."""
        nets = tuple(copied(net).to(device) for net in self.nets)
        return replace(self, nets=nets, detector=self.detector.to(device))

    def save(self, path: str | Path, *, weights: bool = False) -> Path:
        """Write one safetensors file with a manifest, as `Guard.save` does.

        path: the file.
        weights: whether to write the weights of the networks, too.
        """
        from nescio.guards.regression_file import save

        return save(self, Path(path), weights=weights)

    @property
    def guarantees(self) -> tuple[str, ...]:
        """What is guaranteed, each with what it assumes, and what is not."""
        return regression_guarantees(self)

    @property
    def withheld(self) -> list[str]:
        """Why nothing is answered, where that is so."""
        return [why_none(self, rule) for rule in self.rules if not rule.coverage.holds]

    def table(self) -> str:
        """Samples, thresholds, coverage and bounds, as text."""
        return text_table(*regression_table(self))

    def __str__(self) -> str:
        return "\n".join([repr(self), self.table(), *(f"- {line}" for line in self.guarantees)])

    def _repr_html_(self) -> str:
        from nescio.report import guard_html

        return guard_html(self)

    def __repr__(self) -> str:
        kind = type(self.nets[0]).__name__
        return (
            f"RegressionGuard({self.intervals.name} intervals and {self.detector.name} on {kind}, "
            f"miscoverage={self.miscoverage:g}, false_alarm={self.false_alarm:g}, "
            f"risk={self.risk:g}, confidence={self.confidence:g})"
        )

    @cached_property
    def _watching(self) -> list[Network]:
        """The networks and what is read in them; pooled as for the detector."""
        pool = self.detector.about.get("pool", "mean")
        nets = (reader(replace(m, head=RAW), self.output, pool) for m in self.members)
        return [
            replace(net, places=placed_in(net.net, self.layers), fixed=True)  # they are copies
            for net in nets
        ]
