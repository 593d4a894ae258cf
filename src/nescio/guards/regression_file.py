"""The guard of a regression in one file, of the same kind as that of classes."""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from nescio.conformal import Intervals
from nescio.core import Head, Saved, head_from_file, head_to_file, save_tensors
from nescio.guards.file_parts import (
    shared_fields,
    shared_manifest,
    shared_tensors,
    with_weights,
)
from nescio.guards.regression_guard import RegressionGuard

TASK, REGRESSION = "task", "regression"  # of a manifest; that of classes has none
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
        TASK: REGRESSION,
        **shared_manifest(guard, weights=weights),
        "intervals": guard.intervals.manifest(),
        "heads": [said for said, _ in _heads(guard)],
        **{name: getattr(guard, name) for name in PLAIN},
    }


def regression_tensors(guard: RegressionGuard) -> dict[str, Tensor]:
    """What the file holds, without the weights."""
    state = {f"intervals/{key}": tensor for key, tensor in guard.intervals.state.items()}
    probes = {
        f"head/{member}/{name}": answer
        for member, (_, answers) in enumerate(_heads(guard))
        for name, answer in answers.items()
    }
    return {**shared_tensors(guard), **state, **probes, "unit": guard.unit}


def _heads(guard: RegressionGuard) -> list[tuple[dict[str, Any], dict[str, Tensor]]]:
    pairs = zip(guard.heads, guard.nets, strict=True)
    return [head_to_file(head, net=net) for head, net in pairs]


def read_regression(
    saved: Saved, nets: tuple[nn.Module, ...], head: Head | None
) -> RegressionGuard:
    """The guard of a file, with its networks; head: of all of them, where nescio has it not."""
    manifest = saved.manifest
    plain = {name: manifest[name] for name in PLAIN}
    widest = plain.pop("max_width")
    return RegressionGuard(
        **shared_fields(saved),
        **plain,
        max_width=None if widest is None else tuple(widest),
        intervals=Intervals.from_manifest(manifest["intervals"], saved.under("intervals/")),
        heads=tuple(
            head_from_file(said, saved.under(f"head/{member}/"), head, saved.path)
            for member, said in enumerate(manifest["heads"])
        ),
        unit=saved.tensors["unit"],
        nets=nets,
    )
