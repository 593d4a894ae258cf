"""The guard of label maps in one file, of the same kind as that of classes."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.conformal import RiskControl
from nescio.core import Head, Saved, head_to_file, save_tensors
from nescio.guards.file_parts import (
    input_fields,
    input_tensors,
    network_manifest,
    with_weights,
)
from nescio.guards.map_guard import MapGuard
from nescio.guards.regression_file import TASK
from nescio.models import saved_head

MAPS = "label maps"
PLAIN = ("measure", "classes", "passes", "masks", "ignore_index", "notes")
CONTROL = "control"  # exact numbers; infinity is not JSON


def save(guard: MapGuard, path: Path, *, weights: bool) -> Path:
    """Write the guard; without `weights` the network must be given when it is read."""
    head, probe = head_to_file(guard.head, net=guard.nets[0])
    tensors = {f"head/{name}": answer for name, answer in probe.items()}
    tensors |= {**input_tensors(guard), CONTROL: _numbers(guard.control)}
    manifest = {
        "kind": "guard",
        TASK: MAPS,
        **network_manifest(guard, weights=weights),
        "head": head,
        "images": guard.control.images,
        "sure": guard.confidence is not None,
        **{name: getattr(guard, name) for name in PLAIN},
    }
    save_tensors(path, with_weights(tensors, guard) if weights else tensors, manifest)
    return path


def _numbers(control: RiskControl) -> Tensor:
    values = (control.confidence or 0.0, *(getattr(control, name) for name in NUMBERS))
    return torch.tensor(values, dtype=torch.float64)


NUMBERS = ("threshold", "risk", "mean_loss", "limit", "coverage", "error")


def read_maps(saved: Saved, nets: tuple[nn.Module, ...], head: Head | None) -> MapGuard:
    """The guard of a file, with its networks; head: where nescio has it not."""
    manifest = saved.manifest
    confidence, *numbers = saved.tensors[CONTROL].tolist()
    fields: dict[str, Any] = dict(zip(NUMBERS, numbers, strict=True))
    sure = confidence if manifest["sure"] else None
    return MapGuard(
        control=RiskControl(confidence=sure, images=manifest["images"], **fields),
        head=saved_head(saved, head),
        nets=nets,
        **input_fields(saved),
        **{name: manifest[name] for name in PLAIN},
    )
