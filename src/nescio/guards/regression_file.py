"""The guard of a regression in one file, of the same kind as that of classes."""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from nescio.conformal import Intervals
from nescio.core import Saved, head_from, save_tensors
from nescio.guards.file_parts import (
    shared_fields,
    shared_manifest,
    shared_tensors,
    with_weights,
)
from nescio.guards.regression_guard import RegressionGuard

TASK = "task"  # of a manifest; that of classes has none
PLAIN = (
    "false_alarm",
    "risk",
    "confidence",
    "miscoverage",
    "max_width",
    "passes",
    "masks",
    "notes",
    "batch_size",
)


def save(guard: RegressionGuard, path: Path, *, weights: bool) -> Path:
    """Write the guard; without `weights` the network must be given when it is read."""
    tensors = regression_tensors(guard)
    tensors = with_weights(tensors, guard) if weights else tensors
    save_tensors(path, tensors, regression_manifest(guard, weights=weights))
    return path


def regression_manifest(guard: RegressionGuard, *, weights: bool) -> dict[str, Any]:
    """What the file says about the guard."""
    return {
        "kind": "guard",
        TASK: "regression",
        **shared_manifest(guard, weights=weights),
        "intervals": guard.intervals.manifest(),
        "heads": [{"name": head.name, "options": dict(head.options)} for head in guard.heads],
        **{name: getattr(guard, name) for name in PLAIN},
    }


def regression_tensors(guard: RegressionGuard) -> dict[str, Tensor]:
    """What the file holds, without the weights."""
    state = {f"intervals/{key}": tensor for key, tensor in guard.intervals.state.items()}
    return {**shared_tensors(guard), **state, "unit": guard.unit}


def read_regression(saved: Saved, nets: tuple[nn.Module, ...]) -> RegressionGuard:
    """The guard of a file, with its networks."""
    manifest = saved.manifest
    plain = {name: manifest[name] for name in PLAIN}
    widest = plain.pop("max_width")
    return RegressionGuard(
        **shared_fields(saved),
        **plain,
        max_width=None if widest is None else tuple(widest),
        intervals=Intervals.from_manifest(manifest["intervals"], saved.under("intervals/")),
        heads=tuple(head_from(head["name"], head["options"]) for head in manifest["heads"]),
        unit=saved.tensors["unit"],
        nets=nets,
    )
