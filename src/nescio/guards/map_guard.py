"""The guard of label maps: it answers pixel by pixel, with a bound of the wrong answers per image.

The guarantee is that of `nescio.conformal.control_risk`: about the share of an image's labeled
pixels that are answered and wrong. It needs images that are exchangeable, not pixels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.conformal import RiskControl
from nescio.core import Head, Inputs, NescioError, NotFiniteError
from nescio.guards.decisions import text_table
from nescio.guards.guarantees import RATES, dropped_words, percent, repeated_words, rounded
from nescio.guards.map_decisions import MapDecisions
from nescio.guards.watching import Range, finite_samples, read_inputs, warn_about_inputs
from nescio.models import (
    Member,
    Model,
    Predictor,
    UncertaintyMaps,
    encoding_of,
    ensemble,
    mc_dropout,
    takes_tokens,
    uncertainty_maps,
)
from nescio.nets import Output, copied, is_scripted

MEASURES = ("least_confidence", "predictive_entropy", "expected_entropy", "mutual_information")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MapGuard:
    """Answers or abstains for every pixel or step; made by `nescio.guard` from label maps.

    control: the threshold, and what the calibration images say about it.
    measure: name of the measure of uncertainty that is the failure score.
    head: how the outputs of the networks are read.
    nets: the networks.
    classes: number of classes.
    passes: number of passes of MC dropout; None: the networks as they are.
    masks: seed of the dropout masks.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    ignore_index: label of pixels without a class; None: every pixel has one.
    names: names of the classes; None: they are numbers.
    range: range of the inputs at calibration; None: unknown, nothing is checked.
    hashes: hashes of the calibration inputs, `(n,)` of int64, ascending.
    notes: how it was made; JSON.
    """

    control: RiskControl
    measure: str
    head: Head
    nets: tuple[nn.Module, ...]
    classes: int
    passes: int | None = None
    masks: int = 0
    output: Output = None
    ignore_index: int | None = None
    names: tuple[str, ...] | None = None
    range: Range | None = None
    hashes: Tensor | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    by = None  # there are no groups

    def __call__(self, x: Any) -> MapDecisions:
        """Labels of the pixels of images `(N, ...)`, and which are answered; in bounded memory.

        x: images of the shape of calibration: an array, or a loader of batches.
        """
        net, names = self.nets[0], self.notes.get("columns", ())
        reads: Any = {"tokens": takes_tokens(net), "columns": encoding_of(net), "names": names}
        parts = [self._decide(batch) for batch in read_inputs(x, self.range, **reads)]
        found = MapDecisions.join(parts)
        lost = found.labels.flatten(1).amin(1) < 0
        warn_about_inputs(found.in_range, lost)
        return found

    @property
    def risk(self) -> float:
        """The largest expected share of an image's labeled pixels that are answered and wrong."""
        return self.control.risk

    @property
    def confidence(self) -> float | None:
        """The probability with which the risk was shown; None: it holds on average."""
        return self.control.confidence

    @property
    def threshold(self) -> float:
        """A pixel is answered where its failure score is below this."""
        return self.control.threshold

    @property
    def members(self) -> tuple[Member, ...]:
        """The networks, and how their outputs are read."""
        return tuple(Member(net=net, head=self.head) for net in self.nets)

    @cached_property
    def predictor(self) -> Predictor:
        """The networks, or the passes of dropout, whose answers are guarded."""
        options: Any = {"passes": self.passes, "masks": self.masks, "output": self.output}
        return predictor_of(self.nets, self.head, **options)

    def outputs(self, x: Inputs) -> Tensor:
        """Raw outputs of each network for inputs `x`, `(M, N, *axes, O)`."""
        found = ensemble(list(self.nets), head=self.head, output=self.output)
        parts = [found] if isinstance(found, Model) else list(found.predictors)
        return torch.cat([part.outputs(x) for part in parts])  # type: ignore[attr-defined]

    def failure_score(self, maps: UncertaintyMaps) -> Tensor:
        """The failure score of each pixel, `(N, H, W)`, from the uncertainty `maps`."""
        found: Tensor = getattr(maps, self.measure)
        return found

    def _decide(self, x: Inputs) -> MapDecisions:
        finite = finite_samples(x)
        in_range = torch.ones_like(finite) if self.range is None else self.range.in_dist(x)
        shape = (len(x), *self.notes["axes"])
        labels = torch.full(shape, -1, device=finite.device)
        score = torch.full(shape, torch.nan, device=finite.device)
        if finite.any():
            try:
                maps = uncertainty_maps(self.predictor, x if finite.all() else x[finite])
                labels[finite], score[finite] = maps.labels, self.failure_score(maps).float()
            except NotFiniteError:  # the logits of some finite image are not: it alone is lost
                if len(x) > 1:
                    halves = x[: len(x) // 2], x[len(x) // 2 :]
                    return MapDecisions.join([self._decide(half) for half in halves])
        return MapDecisions(
            labels=labels,
            answered=score < self.threshold,  # not where it is NaN
            failure_score=score,
            in_range=in_range & finite,
            ignore_index=self.ignore_index,
            names=self.names,
        )

    def __getstate__(self) -> dict[str, Any]:
        if any(map(is_scripted, self.nets)):
            raise NescioError("TorchScript cannot be pickled; guard the nn.Module it was made from")
        return {name: value for name, value in vars(self).items() if name != "predictor"}

    def to(self, device: torch.device | str) -> "MapGuard":
        """The same guard with its networks on `device`; its decisions are the same."""
        return replace(self, nets=tuple(copied(net).to(device) for net in self.nets))

    def save(self, path: str | Path, *, weights: bool = False) -> Path:
        """Write one safetensors file with a manifest, as `Guard.save` does.

        path: the file.
        weights: whether to write the weights of the networks, too.
        """
        from nescio.guards.map_guard_file import save

        return save(self, Path(path), weights=weights)

    @property
    def guarantees(self) -> tuple[str, ...]:
        """What is guaranteed, each with what it assumes, and what is not."""
        known = (*dropped_words(self), *repeated_words(self), *self._absent)
        return (self._bound, *known, NOT_AMONG, RATES)

    @property
    def _absent(self) -> list[str]:
        """What follows from classes that no calibration image has."""
        if not (absent := self.notes.get("absent")):
            return []
        words = [self.names[index] if self.names else str(index) for index in absent]
        return [
            f"No calibration image has a pixel of {', '.join(words)}: how often those are answered "
            "and wrong was not seen, and where they are frequent the images are not alike."
        ]

    @property
    def _bound(self) -> str:
        found = self.control
        said = (
            "Wrong answers: of the labeled pixels of an image, on average at most "
            f"{percent(found.risk)} are answered and wrong"
        )
        if found.confidence is None:
            how = (
                " (conformal risk control). The average is over images and over calibration sets, "
                "and holds if the image and the calibration images are exchangeable."
            )
        else:
            how = (
                ". The average is over images; the calibration images show it with a confidence "
                f"of {percent(found.confidence)} (Hoeffding's and Bentkus' inequalities): it fails "
                f"for at most {percent(1 - found.confidence)} of calibration sets. It holds if "
                "images are drawn independently from one distribution."
            )
        return (
            f"{said}{how} Of {found.images:,} calibration images, {found.coverage:.1%} of the "
            f"pixels are answered, and {rounded(found.mean_loss)} are answered and wrong; "
            f"{rounded(found.error)} would be wrong if all were answered."
        )

    def table(self) -> str:
        """Images, threshold, coverage and losses, as text."""
        found = self.control
        below = "any" if found.threshold == float("inf") else f"{found.threshold:.4g}"
        header = ("images", f"{self.measure} below", "answered", "answered and wrong", "at most")
        row = (f"{found.images:,}", below, f"{found.coverage:.1%}", rounded(found.mean_loss))
        return text_table(header, [(*row, percent(found.risk))])

    def __str__(self) -> str:
        return "\n".join([repr(self), self.table(), *(f"- {line}" for line in self.guarantees)])

    def _repr_html_(self) -> str:
        from nescio.report import guard_html

        return guard_html(self)

    def __repr__(self) -> str:
        sure = "" if self.confidence is None else f", confidence={self.confidence:g}"
        kind = type(self.nets[0]).__name__
        return f"MapGuard({self.measure} on {kind}, risk={self.risk:g}{sure})"


NOT_AMONG = (
    "The share of wrong ones among the answered pixels alone is not bounded: it may be larger than "
    "the risk where few pixels are answered. Nothing tells whether an image is OOD."
)


def predictor_of(
    nets: tuple[nn.Module, ...], head: Head, *, passes: int | None, masks: int, output: Output
) -> Predictor:
    """Networks as one predictor, or their passes of dropout."""
    model = ensemble(list(nets), head=head, output=output)
    return model if passes is None else mc_dropout(model, passes=passes, seed=masks)
