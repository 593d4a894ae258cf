"""What prediction sets and intervals share: options, limits, a file, and the guarantee in words."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from nescio.conformal.exact_quantiles import State, needed
from nescio.core import DamagedError, NescioError, Registry, Saved, readers, save_tensors

ASSUMES = (
    "This holds if the calibration samples and the new sample are exchangeable, for example drawn "
    "independently from one distribution, and nothing (network, temperature, options) was fitted "
    "or chosen on the calibration samples. It is an average over calibration draws and samples, "
    "not a guarantee for one sample, and it says nothing under shift."
)


@dataclass(frozen=True, eq=False)
class Fitted(ABC):
    """A calibrated value that can be saved."""

    name: str  # of the function that calibrated it
    options: Mapping[str, Any]  # JSON
    state: State = field(repr=False)  # limits of each cell, float64

    kind: ClassVar[str]
    known: ClassVar[Registry]  # names

    def __init_subclass__(cls) -> None:
        def read(saved: Saved) -> Fitted:
            return cls.from_manifest(saved.manifest, saved.tensors)

        readers.named(cls.kind)(read)

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """The guarantee in words, with its assumption."""

    def __str__(self) -> str:
        head = f"{type(self).__name__}({self.name}, miscoverage={self.options['miscoverage']:g})"
        return f"{head}\n- {self.guarantee}"

    def check_by(self, groups: Any, what: str) -> None:
        """Refuse groups where none were calibrated, and their absence where some were."""
        by = self.options["by"]
        if (groups is not None) != (by == "group"):
            wanted = "need groups=, one number per sample" if by == "group" else "take no groups="
            raise NescioError(f"{what} calibrated by {by or 'all samples together'} {wanted}")

    def manifest(self) -> dict[str, Any]:
        """All but the tensors, as JSON."""
        return {
            "kind": self.kind,
            "name": self.name,
            "options": dict(self.options),
            "guarantee": self.guarantee,
        }

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any], state: State) -> Self:
        """The value again from `manifest()` and `state`."""
        if manifest.get("kind") != cls.kind:
            raise NescioError(f"expected the manifest of {cls.kind}, got {manifest.get('kind')!r}")
        parts, tensors = {"name", "options"}, {"low", "high", "steps", "sizes"}
        missing = parts - set(manifest) or tensors - set(state)
        if missing or not isinstance(manifest["options"], Mapping):
            lost = ", ".join(sorted(missing)) or "options"
            raise DamagedError(f"damaged {cls.kind}: {lost} missing")
        cls.known[manifest["name"]]
        return cls(manifest["name"], dict(manifest["options"]), dict(state))

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file, with a manifest inside."""
        save_tensors(Path(path), self.state, self.manifest())
        return Path(path)


def in_words(what: str, where: str, fitted: Fitted, *, exact: bool) -> str:
    """The guarantee as sentences: of a `label` in its `set`, or a `target` in its `interval`."""
    options, share = fitted.options, 100 * (1 - fitted.options["miscoverage"])
    bound = "exactly" if exact else "at least"
    each = {"class": ", for each class by itself", "group": ", for each group by itself"}
    first = (
        f"The {where} of a new sample holds its true {what} with probability {bound} {share:.10g} %"
        f"{each.get(options['by'], '')} (calibrated on {options['samples']} samples)."
    )
    return " ".join(filter(None, [first, unlimited(fitted.state, options), ASSUMES]))


def unlimited(state: Mapping[str, Tensor], options: Mapping[str, Any]) -> str:
    """Which classes or groups had too few samples for a limit; nothing where all had enough."""
    least, by = needed(options["miscoverage"]), options["by"]
    sizes = state["sizes"][:: options.get("targets", 1)]  # the same for all targets
    few = (sizes < least).nonzero()[:, 0]
    if not len(few) or by is None:
        return ""
    names = state.get("groups", torch.arange(len(sizes)))
    listed = ", ".join(f"{int(names[index])} ({int(sizes[index])})" for index in few[:10])
    then = {"class": "these classes are in every set", "group": "they get everything"}[by]
    more = ", ..." if len(few) > 10 else ""
    plural = "classes" if by == "class" else "groups"
    return (
        f"{len(few)} of {len(sizes)} {plural} have fewer than the {least} calibration "
        f"samples needed, so {then}: {listed}{more}."
    )


def too_few(options: Mapping[str, Any], most: int) -> str:
    """The message where no limit is finite."""
    share, by = options["miscoverage"], options["by"]
    each = f" in any {by}" if by else ""
    return (
        f"{most} calibration samples{each} are too few for a miscoverage of {share:g}: only the "
        f"set of everything could guarantee it. Give at least {needed(share)} samples"
        f"{f' for each {by}' if by else ''}, or raise miscoverage"
    )
