"""A guard in one file: tensors and a manifest, atomic, checked when it is read."""

import json
import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.calibration import Map
from nescio.conformal import Sets
from nescio.core import (
    Bundle,
    Inputs,
    NescioError,
    categorical,
    digest,
    generator,
    load_manifest,
    load_tensors,
    save_tensors,
)
from nescio.core.registry import heads
from nescio.detectors import Detector
from nescio.detectors.detector import FITTED_ON, from_manifest
from nescio.detectors.observe.network import Network, networks
from nescio.guards.decide import Guard
from nescio.guards.inputs import Range
from nescio.guards.rules import Rule
from nescio.guards.selective_rule import Coverage
from nescio.models.model import rebuilt
from nescio.nets.factory import made_by
from nescio.nets.standardize import is_scaled
from nescio.version import VERSION

KIND = "guard"
CHANGED = "its contents are not what was written; copy it again"
FORMAT = 1  # of what is in the file of a guard
PROBES = 4  # inputs, drawn from the range of calibration, that a network must answer as before
PROBE = "probe/inputs"  # their tensor, or where those of several begin
NEAR = 1e-3  # of the largest logit: machines differ in rounding, networks in more


def save(guard: Guard, path: Path, *, weights: bool) -> Path:
    """Write the guard; without `weights` the network must be given when it is read."""
    if weights and not guard.nets:
        raise NescioError("this guard was made from activations: there are no weights to save")
    tensors = _tensors(guard)
    if weights:
        for member, net in enumerate(guard.nets):
            tensors |= {f"weights/{member}/{n}": t for n, t in net.state_dict().items()}
    manifest = {
        "kind": KIND,
        "guard_format": FORMAT,
        "nescio": VERSION,
        "torch": torch.__version__,
        "detector": guard.detector.manifest(),
        "failure": None if guard.failure is None else guard.failure.manifest(),
        "map": None if guard.map is None else guard.map.manifest(),
        "sets": None if guard.sets is None else guard.sets.manifest(),
        "head": {"name": guard.head.name, "options": dict(guard.head.options)},
        "rules": [_rule_manifest(rule) for rule in guard.rules],
        "groups": list(guard.groups),
        "false_alarm": guard.false_alarm,
        "risk": guard.risk,
        "confidence": guard.confidence,
        "by": guard.by,
        "names": None if guard.names is None else list(guard.names),
        "shape": None if guard.range is None else _written_shape(guard.range),
        "networks": [_net_manifest(net) for net in guard.nets],
        "weights": weights,
        "notes": dict(guard.notes),
        "batch_size": guard.batch_size,
        "guarantees": list(guard.guarantees),
        "contents": _digest(tensors),
    }
    save_tensors(path, tensors, {**manifest, "digest": _manifest_digest(manifest)})
    return path


def load(path: Path, *, net: Any = None) -> Guard:
    """Read a guard, and check the network against the one it was made with."""
    tensors, manifest = load_tensors(path, KIND)
    _check(path, manifest)
    if _digest(tensors) != manifest["contents"]:
        raise NescioError(f"{path} is damaged: {CHANGED}")
    try:
        guard = _guard(tensors, manifest, tuple(_networks(path, tensors, manifest, net)))
    except (KeyError, TypeError, IndexError, AttributeError, json.JSONDecodeError) as error:
        raise NescioError(f"{path} has a damaged manifest: {error!r}") from error
    if "probe/logits" in tensors:
        several = _under(f"{PROBE}/", tensors)
        probe = Bundle(several) if several else tensors[PROBE]
        _check_probe(guard, probe, tensors["probe/logits"])
    return guard


def about(path: str | Path) -> dict[str, Any]:
    """What a guard file says about itself: promises, thresholds, layers; no network is needed."""
    manifest = load_manifest(Path(path), KIND)
    _check(Path(path), manifest)
    return manifest


def _tensors(guard: Guard) -> dict[str, Tensor]:
    parts: dict[str, Tensor] = {}
    fitted = {"detector": guard.detector, "failure": guard.failure}
    for name, detector in fitted.items():
        for member, state in enumerate(() if detector is None else detector.states):
            parts |= {f"{name}/{member}/{key}": tensor for key, tensor in state.items()}
        if detector is not None and detector.fitted_on is not None:
            parts[f"{name}/{FITTED_ON}"] = detector.fitted_on
    if guard.map is not None:
        parts |= {f"map/{name}": tensor for name, tensor in guard.map.state.items()}
    if guard.sets is not None:
        parts |= {f"sets/{name}": tensor for name, tensor in guard.sets.state.items()}
    for place, rule in enumerate(guard.rules):
        limits = [rule.limit, rule.coverage.threshold, rule.coverage.bound]
        parts[f"rules/{place}/scores"] = rule.scores
        parts[f"rules/{place}/limits"] = torch.tensor(limits, dtype=torch.float64)
    if guard.range is not None:
        parts |= {"range/low": guard.range.low, "range/high": guard.range.high}
        if guard.nets:
            probe = _probe(guard.nets[0], guard.range)
            answers = _answers(guard, probe)
            if answers.isfinite().all():  # tokens that are nobody's data may have no answer
                several = probe.parts if isinstance(probe, Bundle) else {"": probe}
                parts |= {f"{PROBE}/{name}".rstrip("/"): part for name, part in several.items()}
                parts["probe/logits"] = answers
    if guard.hashes is not None:
        parts["hashes"] = guard.hashes
    return parts


def _guard(tensors: Mapping[str, Tensor], manifest: Mapping[str, Any], nets: Any) -> Guard:
    known, failure = manifest["shape"], manifest["failure"]
    rules = [
        _rule(about, _under(f"rules/{place}/", tensors))
        for place, about in enumerate(manifest["rules"])
    ]
    sets, head = manifest["sets"], manifest["head"]
    given = manifest["map"]
    return Guard(
        _detector(manifest["detector"], "detector", tensors),
        None if failure is None else _detector(failure, "failure", tensors),
        None if given is None else Map.from_manifest(given, _under("map/", tensors)),
        tuple(rules),
        tuple(manifest["groups"]),
        heads[head["name"]](**head["options"]) if head["name"] != "categorical" else categorical(),
        nets,
        manifest["false_alarm"],
        manifest["risk"],
        manifest["confidence"],
        None if sets is None else Sets.from_manifest(sets, _under("sets/", tensors)),
        manifest["by"],
        None if manifest["names"] is None else tuple(manifest["names"]),
        None if known is None else _range(known, tensors["range/low"], tensors["range/high"]),
        tensors.get("hashes"),
        manifest["notes"],
        manifest["batch_size"],
    )


def _networks(
    path: Path, tensors: Mapping[str, Tensor], manifest: Mapping[str, Any], net: Any
) -> list[nn.Module]:
    """The networks: those given, or rebuilt ones, with the weights of the file if it has any."""
    wanted: list[Mapping[str, Any]] = manifest["networks"]
    if not wanted:
        return []
    if net is None and not manifest["weights"]:
        raise NescioError(
            f"{path} holds no weights: give the network, Guard.load(path, net=net), or save the "
            "guard with weights=True"
        )
    found = [rebuilt(one) for one in wanted] if net is None else networks(net)
    if len(found) != len(wanted):
        raise NescioError(f"{path} is a guard of {len(wanted)} network(s), {len(found)} were given")
    copies = [deepcopy(one).eval() for one in found]
    for member, (copy, one) in enumerate(zip(copies, wanted, strict=True)):
        if manifest["weights"]:
            _fill(copy, _under(f"weights/{member}/", tensors), path)
        if weights_digest(copy) != one["digest"]:
            raise NescioError(
                f"the weights of network {member} are not those that {path} was made with; use the "
                "same network, or make a new guard: its promises are about that one"
            )
    return copies


def _fill(net: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    try:
        net.load_state_dict(weights)
    except RuntimeError as error:
        line = " ".join(str(error).split())
        raise NescioError(
            f"the network given is not the one that {path} guards: {line}; give the same one"
        ) from None


def weights_digest(net: nn.Module) -> str:
    """A fingerprint of parameters and buffers, by name."""
    state = sorted(net.state_dict().items())
    return digest(*(tensor for _, tensor in state)) + digest(*(_letters(name) for name, _ in state))


def _letters(name: str) -> Tensor:
    return torch.tensor(list(name.encode()), dtype=torch.uint8)


def _net_manifest(net: nn.Module) -> dict[str, Any]:
    standardized = is_scaled(net)
    inner = net[1] if standardized else net  # type: ignore[index]
    return {
        "net": made_by(inner),
        "layers": str(inner),
        "standardize": list(net[0].mean.shape) if standardized else None,  # type: ignore[index]
        "digest": weights_digest(net),
    }


def _written_shape(known: Range) -> Any:
    """The shape of an input as JSON; of several tensors, with their number types."""
    if isinstance(known.shape, dict):
        return {name: [known.kinds[name], *shape] for name, shape in known.shape.items()}
    return list(known.shape)


def _range(written: Any, low: Tensor, high: Tensor) -> Range:
    if not isinstance(written, Mapping):
        return Range(tuple(written), low, high)
    shape = {name: tuple(one[1:]) for name, one in written.items()}
    return Range(shape, low, high, {name: one[0] for name, one in written.items()})


def _probe(net: nn.Module, known: Range) -> Inputs:
    """Inputs in the range of calibration that are nobody's data; whole numbers where they were."""
    shape = (len(known.low),) if isinstance(known.shape, dict) else known.shape
    draws = torch.rand(PROBES, *shape, dtype=torch.float64, generator=generator(0, "probe"))
    low, high = (end if len(shape) == 1 else end[0] for end in (known.low, known.high))
    probe = low + (0.3 + 0.4 * draws) * (high - low)  # well inside
    if isinstance(known.shape, dict):
        return _several(probe, known.shape, known.kinds)
    return probe.long() if Network(net).reads_tokens else probe.float()


def _several(
    probe: Tensor, shapes: Mapping[str, tuple[int, ...]], kinds: Mapping[str, str]
) -> Bundle:
    """Rows of numbers as the tensors that they stand for."""
    ordered = sorted(shapes.items())
    columns = probe.split([math.prod(shape) for _, shape in ordered], 1)
    parts = {}
    for (name, shape), part in zip(ordered, columns, strict=True):
        kind: torch.dtype = getattr(torch, kinds[name])
        numbers = part if kind.is_floating_point else part.round()
        parts[name] = numbers.reshape(PROBES, *shape).to(kind)
    return Bundle(parts)


@torch.no_grad()
def _answers(guard: Guard, probe: Inputs) -> Tensor:
    output = guard.detector.about.get("output")
    return torch.stack([Network(net, output).answer(probe).cpu() for net in guard.nets])


def _check_probe(guard: Guard, probe: Inputs, wanted: Tensor) -> None:
    found = _answers(guard, probe)
    room = NEAR * max(1.0, float(wanted.abs().max()))
    gap = float((found - wanted).abs().max()) if found.shape == wanted.shape else float("inf")
    if not gap <= room:
        raise NescioError(
            f"the network has the right weights but answers a probe differently (logits are off by "
            f"{gap:.3g}): was a layer or a scaling changed? Use the network as it was, or make a "
            "new guard"
        )


def _detector(about: Mapping[str, Any], name: str, tensors: Mapping[str, Tensor]) -> Detector:
    states = tuple(_under(f"{name}/{member}/", tensors) for member in range(about["networks"]))
    return from_manifest(about, states, tensors.get(f"{name}/{FITTED_ON}"))


def _rule_manifest(rule: Rule) -> dict[str, Any]:
    counts = asdict(rule.coverage)
    return {"group": rule.group, **{name: counts[name] for name in COUNTS}}


COUNTS = ("samples", "answered", "errors", "needed")


def _rule(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Rule:
    limit, threshold, bound = tensors["limits"].tolist()
    samples, answered, errors, needed = (about[name] for name in COUNTS)
    coverage = Coverage(threshold, samples, answered, errors, bound, needed)
    return Rule(about["group"], tensors["scores"], limit, coverage)


def _check(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse the manifest of a newer format, and one that was changed."""
    written = manifest.get("guard_format")
    if isinstance(written, int) and written > FORMAT:
        raise NescioError(f"{path} was written by a newer nescio; upgrade to read it")
    if written != FORMAT or manifest.get("digest") != _manifest_digest(manifest):
        raise NescioError(f"{path} has a damaged manifest: {CHANGED}")


def _manifest_digest(manifest: Mapping[str, Any]) -> str:
    """A fingerprint of all that the manifest says, but this and the format of the file."""
    said = json.loads(json.dumps(dict(manifest)))
    kept = {name: value for name, value in said.items() if name not in ("digest", "format")}
    return digest(_letters(json.dumps(kept, sort_keys=True)))


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """A fingerprint of all that is in the file."""
    names: Sequence[str] = sorted(tensors)
    return digest(*(_letters(name) for name in names), *(tensors[name] for name in names))


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
