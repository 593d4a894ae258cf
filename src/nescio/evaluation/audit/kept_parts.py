"""Finished parts of an audit, kept in its folder: a killed audit resumes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from nescio.core import digest, from_json, to_json
from nescio.core.files import KEPT, DamagedError, kept, load_manifest, read_saved, save_tensors

FOLDER = ".audit"  # within the folder of an audit; removed when the audit is saved
MOVED = "moved inputs"
T = TypeVar("T")


@dataclass(frozen=True)
class KeptParts:
    """Parts by name, of one audit: `key` tells it from every other."""

    folder: Path
    key: str

    @classmethod
    def of(cls, folder: str | Path, *what: Any) -> "KeptParts":
        """The store in a folder, for what an audit depends on: text, tensors, mappings of these."""
        return cls(Path(folder) / FOLDER, digest(*_flat(what)))

    def kept(self, name: str, kind: Any, make: Callable[[], T]) -> T:
        """A part that was finished before, or what `make` returns, which is kept."""
        path = self.folder / f"{digest(name)}.json"
        key = {"audit": self.key, "part": name}
        if path.exists():
            try:
                load_manifest(path, KEPT)
            except DamagedError:
                path.unlink()  # it is made again
        found: T = from_json(kind, kept(path, key, lambda: to_json(make())), str(path))
        return found

    def inputs(self, name: str, make: Callable[[], tuple[Tensor, float]]) -> tuple[Tensor, float]:
        """Inputs that an attack moved and a number about them; made once."""
        path = self.folder / f"{digest(name)}.safetensors"
        if path.exists():
            try:
                saved = read_saved(path, MOVED)
                if saved.manifest["key"] == self.key:
                    return saved.tensors["x"], float(saved.manifest["number"])
            except DamagedError:
                pass  # it is made again
        x, number = make()
        save_tensors(path, {"x": x}, {"kind": MOVED, "key": self.key, "number": number})
        return x, number


def forget(folder: Path) -> None:
    """Remove the parts that are kept in the folder of an audit: it is saved as a whole."""
    place = folder / FOLDER
    for path in (*place.glob("*.json"), *place.glob("*.safetensors")):
        path.unlink(missing_ok=True)
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()


def _flat(what: Any) -> list[Any]:
    """Text and tensors, in an order that depends on nothing else."""
    if isinstance(what, Mapping):
        return [part for name in sorted(what) for part in (str(name), *_flat(what[name]))]
    if isinstance(what, (list, tuple)):
        return [f"{len(what)} parts", *(part for one in what for part in _flat(one))]
    return [what if isinstance(what, Tensor) else repr(what)]
