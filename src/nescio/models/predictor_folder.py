"""Beside the model in a folder: how its members are sampled, and how they are calibrated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from nescio.core import DamagedError, load_manifest, save_tensors
from nescio.core.files import MODEL, PREDICTOR


def save_settings(
    folder: str | Path,
    *,
    sampler: str | None = None,
    sampling: Mapping[str, Any] | None = None,
    calibration: Mapping[str, Any] | None = None,
    state: Mapping[str, Tensor] | None = None,
) -> Path:
    """Describe the predictor of the model in a folder; `nescio.load(folder)` then reads both.

    sampler, sampling: the name of a predictor that draws members, and its options.
    calibration, state: the manifest and the tensors of a calibration map.
    """
    path = Path(folder) / PREDICTOR
    settings = {"sampler": sampler, "sampling": dict(sampling or {}), "calibration": calibration}
    model = load_manifest(path.with_name(MODEL), "model")["digest"]
    save_tensors(path, state or {}, {"kind": "predictor", "model": model, **settings})
    return path


def settings_of(folder: str | Path) -> dict[str, Any]:
    """The sampler in a folder and its options; none where the model itself is the predictor."""
    path = Path(folder) / PREDICTOR
    manifest = load_manifest(path, "predictor") if path.exists() else {}
    return {name: manifest[name] for name in ("sampler", "sampling") if name in manifest}


def check_model(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse settings that were saved for another model."""
    if manifest["model"] != load_manifest(path.with_name(MODEL), "model")["digest"]:
        raise DamagedError(
            f"{path} was saved with another {MODEL} than the one beside it; save the predictor "
            f"again, or delete {path.name} to read the model alone"
        )
