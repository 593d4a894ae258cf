"""A guard in one file: tensors and a manifest, atomic, checked when it is read."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.calibration import Map
from nescio.conformal import Sets
from nescio.core import (
    Bundle,
    DamagedError,
    Inputs,
    NescioError,
    Saved,
    digest,
    generator,
    head_from,
    load_manifest,
    readers,
    save_tensors,
)
from nescio.detectors import Detector
from nescio.detectors.detector import FITTED_ON, check_parts, from_manifest
from nescio.detectors.observe.layers import named
from nescio.detectors.observe.network import Network, kept, networks, reader
from nescio.guards.decide import Guard, Range
from nescio.guards.largest_coverage import Coverage
from nescio.guards.rules import Rule
from nescio.models.model import Made, describe, rebuilt, with_encoding
from nescio.nets import Output, copied

KIND = "guard"
COUNTS = ("samples", "answered", "errors", "needed", "at_risks")
PLAIN = ("false_alarm", "risk", "confidence", "by", "notes", "batch_size")
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
    fitted: dict[str, Detector | Map | Sets | None] = {
        name: getattr(guard, name) for name in ("detector", "failure", "map", "sets")
    }
    manifest = {
        "kind": KIND,
        "torch": torch.__version__,
        **{name: None if one is None else one.manifest() for name, one in fitted.items()},
        "head": {"name": guard.head.name, "options": dict(guard.head.options)},
        "rules": [
            {"group": rule.group, **{name: getattr(rule.coverage, name) for name in COUNTS}}
            for rule in guard.rules
        ],
        "groups": list(guard.groups),
        **{name: getattr(guard, name) for name in PLAIN},
        "names": None if guard.names is None else list(guard.names),
        "shape": None if guard.range is None else _written_shape(guard.range),
        "networks": [{**describe(net), "digest": weights_digest(net)} for net in guard.nets],
        "weights": weights,
        **({} if guard.output is None else {"output": named(guard.output)}),
        "guarantees": list(guard.guarantees),
    }
    save_tensors(path, tensors, manifest)
    return path


@readers.named(KIND)
def _read(saved: Saved, *, net: Any = None, output: Output = None) -> Guard:
    """A guard, whose network is checked against the one it was fitted with.

    output: where the logits are in what it returns, where that was a function, which no file holds.
    """
    guard = _guard(saved, tuple(_networks(saved, net)))
    written = kept(saved.manifest, "output", None) if output is None else output
    guard = replace(guard, output=written)
    if "probe/logits" in saved.tensors:
        several = saved.under(f"{PROBE}/")
        probe = Bundle(several) if several else saved.tensors[PROBE]
        _check_probe(guard, probe, saved.tensors["probe/logits"])
    return guard


def described(guard: Guard) -> dict[str, Any]:
    """What a guard guarantees and how it was made, for people and other programs; JSON."""
    groups = [
        {
            "group": rule.group,
            "samples": len(rule.scores),
            "ood_above": rule.limit,
            "answered": rule.coverage.answered,
            "errors": rule.coverage.errors,
            "risk_at_most": rule.coverage.bound,
            "failure_score_at_most": rule.coverage.threshold,
            "coverage_at_risk": dict(rule.at_risks()),
        }
        for rule in guard.rules
    ]
    return {"guarantees": list(guard.guarantees), "groups": groups, **dict(guard.notes)}


def about(path: str | Path) -> dict[str, Any]:
    """What a guard file says about itself: guarantees, thresholds, layers; no network is needed."""
    return load_manifest(Path(path), KIND)


def _tensors(guard: Guard) -> dict[str, Tensor]:
    parts: dict[str, Tensor] = {}
    fitted = {"detector": guard.detector, "failure": guard.failure}
    for name, detector in fitted.items():
        for member, state in enumerate(() if detector is None else detector.states):
            parts |= {f"{name}/{member}/{key}": tensor for key, tensor in state.items()}
        if detector is not None and detector.fitted_on is not None:
            parts[f"{name}/{FITTED_ON}"] = detector.fitted_on
    for name, one in {"map": guard.map, "sets": guard.sets}.items():
        state = {} if one is None else one.state
        parts |= {f"{name}/{key}": tensor for key, tensor in state.items()}
    for index, rule in enumerate(guard.rules):
        limits = [rule.limit, rule.coverage.threshold, rule.coverage.bound]
        parts[f"rules/{index}/scores"] = rule.scores
        parts[f"rules/{index}/limits"] = torch.tensor(limits, dtype=torch.float64)
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


def _guard(saved: Saved, nets: tuple[nn.Module, ...]) -> Guard:
    manifest, tensors = saved.manifest, saved.tensors
    shape, failure, names = manifest["shape"], manifest["failure"], manifest["names"]
    sets, head, given = manifest["sets"], manifest["head"], manifest["map"]
    rules = enumerate(manifest["rules"])
    return Guard(
        detector=_detector(saved, "detector"),
        failure=None if failure is None else _detector(saved, "failure"),
        map=None if given is None else Map.from_manifest(given, saved.under("map/")),
        rules=tuple(_rule(rule, saved.under(f"rules/{index}/")) for index, rule in rules),
        groups=tuple(manifest["groups"]),
        head=head_from(head["name"], head["options"]),
        nets=nets,
        sets=None if sets is None else Sets.from_manifest(sets, saved.under("sets/")),
        names=None if names is None else tuple(names),
        range=shape and _range(shape, tensors["range/low"], tensors["range/high"]),
        hashes=tensors.get("hashes"),
        **{name: manifest[name] for name in PLAIN},
    )


def _networks(saved: Saved, net: Any) -> list[nn.Module]:
    """The networks given, which must be those of the guard; or, with the file's weights, others.

    net: modules or a model, whose weights must be those that were guarded; a function that makes a
    network, into which the weights of the file go; None for one of nescio's networks.
    """
    path, manifest = saved.path, saved.manifest
    wanted: list[Mapping[str, Any]] = manifest["networks"]
    if not wanted:
        return []
    if net is None and not manifest["weights"]:
        raise NescioError(
            f"{path} holds no weights: give the network, nescio.load(path, net=net), or save "
            "the guard with weights=True"
        )
    if net is None or _makes_networks(net):
        return [_filled(saved, member, net) for member in range(len(wanted))]
    given = [member.net for member in networks(net)]
    if len(given) != len(wanted):
        raise NescioError(f"{path} is a guard of {len(wanted)} network(s), {len(given)} were given")
    found = (with_encoding(one, own) for one, own in zip(wanted, given, strict=True))
    copies = [copied(one).eval() for one in found]
    for member, (copy, one) in enumerate(zip(copies, wanted, strict=True)):
        if weights_digest(copy) != one["digest"]:
            held = "; or give a function that makes it, net=make_net, and the weights of the file "
            raise NescioError(
                f"the weights of network {member} are not those that {path} was made with; use the "
                "same network, or make a new guard: its guarantees are about that one"
                f"{held + 'are used' if manifest['weights'] else ''}"
            )
    return copies


def _makes_networks(net: Any) -> bool:
    """Whether this is a function or a class that makes a network, rather than one."""
    others = isinstance(net, nn.Module) or hasattr(net, "networks")
    return isinstance(net, type) or (callable(net) and not others)


def _filled(saved: Saved, member: int, made: Made) -> nn.Module:
    """A network with the weights of the file."""
    path, wanted = saved.path, saved.manifest["networks"][member]
    if not saved.manifest["weights"]:
        raise NescioError(
            f"{path} holds no weights: give the network with its weights, not a function"
        )
    try:
        net = rebuilt(wanted, made).eval()
        net.load_state_dict(saved.under(f"weights/{member}/"))
    except RuntimeError as error:
        raise NescioError(
            f"the network given is not the one that {path} guards: "
            f"{' '.join(str(error).split())}; give the same one"
        ) from None
    if weights_digest(net) != wanted["digest"]:
        raise DamagedError(f"{path} is damaged: its weights are not those it was made with")
    return net


def weights_digest(net: nn.Module) -> str:
    """A fingerprint of parameters and buffers, by name."""
    state = sorted(net.state_dict().items())
    return digest(*(name for name, _ in state), *(tensor for _, tensor in state))


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
    if not isinstance(known.shape, dict):
        return probe.long() if Network(net).reads_tokens else probe.float()
    shapes, parts = dict(sorted(known.shape.items())), {}
    columns = probe.split([math.prod(one) for one in shapes.values()], 1)
    for (name, one), part in zip(shapes.items(), columns, strict=True):
        kind: torch.dtype = getattr(torch, known.kinds[name])
        numbers = part if kind.is_floating_point else part.round()
        parts[name] = numbers.reshape(PROBES, *one).to(kind)
    return Bundle(parts)


@torch.no_grad()
def _answers(guard: Guard, probe: Inputs) -> Tensor:
    return torch.stack(
        [reader(member, guard.output).answer(probe).cpu() for member in guard.members]
    )


def _check_probe(guard: Guard, probe: Inputs, wanted: Tensor) -> None:
    found = _answers(guard, probe)
    gap = float((found - wanted).abs().max()) if found.shape == wanted.shape else float("inf")
    if not gap <= NEAR * max(1.0, float(wanted.abs().max())):
        raise NescioError(
            f"the network has the right weights but answers a probe differently (logits are off by "
            f"{gap:.3g}): was a layer or a scaling changed? Use the network as it was, or make a "
            "new guard"
        )


def _detector(saved: Saved, name: str) -> Detector:
    about = saved.manifest[name]
    states = tuple(saved.under(f"{name}/{member}/") for member in range(about["networks"]))
    found = from_manifest(about, states, saved.tensors.get(f"{name}/{FITTED_ON}"))
    return check_parts(found, saved.path)


def _rule(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Rule:
    limit, threshold, bound = tensors["limits"].tolist()
    counts = {name: about[name] for name in COUNTS}
    counts["at_risks"] = tuple((risk, share) for risk, share in counts["at_risks"])
    coverage = Coverage(threshold=threshold, bound=bound, **counts)
    return Rule(about["group"], tensors["scores"], limit, coverage)
