"""A guard in one file: tensors and a manifest, atomic, checked when it is read."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from nescio.calibration import Map
from nescio.conformal import Sets
from nescio.core import (
    Head,
    NescioError,
    Saved,
    head_to_file,
    load_manifest,
    readers,
    save_tensors,
)
from nescio.detectors.observe.network import kept
from nescio.guards.decide import Guard
from nescio.guards.file_parts import (
    AnyGuard,
    check_probe,
    detector_of,
    detector_tensors,
    networks_of,
    shared_fields,
    shared_manifest,
    shared_tensors,
    with_weights,
)
from nescio.guards.map_guard import MapGuard
from nescio.guards.map_guard_file import MAPS, read_maps
from nescio.guards.regression_file import REGRESSION, TASK, read_regression
from nescio.guards.regression_guard import RegressionGuard
from nescio.guards.rules import Rule
from nescio.models import Model, saved_head
from nescio.nets import Output

KIND = "guard"
PLAIN = ("false_alarm", "risk", "confidence", "by", "notes", "batch_size")


def save(guard: Guard, path: Path, *, weights: bool) -> Path:
    """Write the guard; without `weights` the network must be given when it is read."""
    if weights and not guard.nets:
        raise NescioError("this guard was made from activations: there are no weights to save")
    tensors = _tensors(guard)
    head, probe = head_to_file(guard.head, net=guard.nets[0] if guard.nets else None)
    tensors |= {f"head/{name}": answer for name, answer in probe.items()}
    fitted: dict[str, Any] = {name: getattr(guard, name) for name in ("failure", "map", "sets")}
    manifest = {
        "kind": KIND,
        **shared_manifest(guard, weights=weights),
        **{name: None if one is None else one.manifest() for name, one in fitted.items()},
        "head": head,
        "groups": list(guard.groups),
        **{name: getattr(guard, name) for name in PLAIN},
    }
    save_tensors(path, with_weights(tensors, guard) if weights else tensors, manifest)
    return path


@readers.named(KIND)
def _read(
    saved: Saved, *, net: Any = None, output: Output = None, head: Head | None = None
) -> AnyGuard:
    """A guard, whose network is checked against the one it was fitted with.

    output: where the logits are in what it returns, where that was a function, which no file holds.
    head: how they are read, where that is a head that nescio does not have; a model brings its own.
    """
    nets = tuple(networks_of(saved, net))
    build = BUILDERS[saved.manifest.get(TASK)]
    guard = build(saved, nets, head or _own_head(net, saved))
    written = kept(saved.manifest, "output", None) if output is None else output
    guard = replace(guard, output=written)
    check_probe(guard, saved)
    return guard


def _own_head(net: Any, saved: Saved) -> Head | None:
    """That of a model which is given as the network, where nescio cannot build the file's."""
    said = saved.manifest.get("heads") or [saved.manifest["head"]]
    model = net if isinstance(net, Model) and said[0].get("given") else None
    return None if model is None else model.head


def described(guard: AnyGuard) -> dict[str, Any]:
    """What `guard` guarantees and how it was made, for people and other programs; JSON."""
    if isinstance(guard, MapGuard):
        control = {"measure": guard.measure, **vars(guard.control)}
        return {"guarantees": list(guard.guarantees), **control, **dict(guard.notes)}
    numbers = isinstance(guard, RegressionGuard)
    errors = "misses" if numbers else "errors"
    groups = [
        {
            "group": rule.group,
            "samples": len(rule.scores),
            "ood_above": rule.limit,
            "answered": rule.coverage.answered,
            errors: rule.coverage.errors,
            "risk_at_most": rule.coverage.bound,
            **_limits(guard, rule),
            "coverage_at_risk": dict(rule.at_risks()),
        }
        for rule in guard.rules
    ]
    return {"guarantees": list(guard.guarantees), "groups": groups, **dict(guard.notes)}


def _limits(guard: Guard | RegressionGuard, rule: Rule) -> dict[str, Any]:
    if not isinstance(guard, RegressionGuard):
        return {"failure_score_at_most": rule.coverage.threshold}
    widths = guard.answered_widths
    return {"width_at_most": widths[0] if len(widths) == 1 else list(widths)}


def about(path: str | Path) -> dict[str, Any]:
    """What the guard file `path` says about itself: guarantees, thresholds, layers; JSON.

    No network is needed.
    """
    return load_manifest(Path(path), KIND)


def _tensors(guard: Guard) -> dict[str, Tensor]:
    parts = shared_tensors(guard)
    if guard.failure is not None:
        parts |= detector_tensors("failure", guard.failure)
    for name, one in {"map": guard.map, "sets": guard.sets}.items():
        state = {} if one is None else one.state
        parts |= {f"{name}/{key}": tensor for key, tensor in state.items()}
    return parts


def _guard(saved: Saved, nets: tuple[nn.Module, ...], head: Head | None) -> Guard:
    manifest = saved.manifest
    failure, sets = manifest["failure"], manifest["sets"]
    given = manifest["map"]
    return Guard(
        **shared_fields(saved),
        failure=None if failure is None else detector_of(saved, "failure"),
        map=None if given is None else Map.from_manifest(given, saved.under("map/")),
        groups=tuple(manifest["groups"]),
        head=saved_head(saved, head),
        nets=nets,
        sets=None if sets is None else Sets.from_manifest(sets, saved.under("sets/")),
        **{name: manifest[name] for name in PLAIN},
    )


BUILDERS: dict[str | None, Callable[..., AnyGuard]] = {  # by the task that a manifest says
    None: _guard,
    REGRESSION: read_regression,
    MAPS: read_maps,
}
