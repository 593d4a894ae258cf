"""What prediction sets and intervals share: a name, options and limits, kept in one file."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from nescio.conformal.exact_quantiles import State
from nescio.core import DamagedError, NescioError, Registry, Saved, readers, save_tensors


@dataclass(frozen=True, eq=False)
class Fitted(ABC):
    """A calibrated value that can be saved."""

    name: str  # of the function that made it
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
        """What is promised, in words, with what it rests on."""

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
