"""What the files of all guards hold: networks, detector, rules, range, and a probe."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import (
    Bundle,
    DamagedError,
    Inputs,
    NescioError,
    Saved,
    digest,
    generator,
)
from nescio.detectors import Detector
from nescio.detectors.detector import FITTED_ON, check_parts, from_manifest
from nescio.detectors.observe.layers import named
from nescio.detectors.observe.network import Network, networks, reader
from nescio.guards.decide import Guard
from nescio.guards.largest_coverage import Coverage
from nescio.guards.map_guard import MapGuard
from nescio.guards.regression_guard import RAW, RegressionGuard
from nescio.guards.rules import Rule
from nescio.guards.watching import Range
from nescio.models.model import Made, describe, rebuilt, with_encoding
from nescio.nets import copied

COUNTS = ("samples", "answered", "errors", "needed", "at_risks")
PROBES = 4  # inputs, drawn from the range of calibration, that a network must answer as before
PROBE = "probe/inputs"  # their tensor, or where those of several begin
NEAR = 1e-3  # of the largest logit: machines differ in rounding, networks in more


AnyGuard = Guard | RegressionGuard | MapGuard


def shared_tensors(guard: Guard | RegressionGuard) -> dict[str, Tensor]:
    """The tensors of a guard with a detector: this, rules, range, a probe, hashes."""
    parts = detector_tensors("detector", guard.detector)
    for index, rule in enumerate(guard.rules):
        limits = [rule.limit, rule.coverage.threshold, rule.coverage.bound]
        parts[f"rules/{index}/scores"] = rule.scores
        parts[f"rules/{index}/limits"] = torch.tensor(limits, dtype=torch.float64)
    return parts | input_tensors(guard)


def input_tensors(guard: AnyGuard) -> dict[str, Tensor]:
    """What any guard keeps of the calibration inputs: range, a probe, hashes."""
    parts: dict[str, Tensor] = {}
    if guard.range is not None:
        parts |= {"range/low": guard.range.low, "range/high": guard.range.high}
        parts |= _probed(guard, guard.range) if guard.nets else {}
    if guard.hashes is not None:
        parts["hashes"] = guard.hashes
    return parts


def detector_tensors(name: str, detector: Detector) -> dict[str, Tensor]:
    """What a detector was fitted to, under its name."""
    parts = {
        f"{name}/{member}/{key}": tensor
        for member, state in enumerate(detector.states)
        for key, tensor in state.items()
    }
    fitted_on = detector.fitted_on
    return parts if fitted_on is None else {**parts, f"{name}/{FITTED_ON}": fitted_on}


def shared_manifest(guard: Guard | RegressionGuard, *, weights: bool) -> dict[str, Any]:
    """What the manifest of a guard with a detector says."""
    return {
        "detector": guard.detector.manifest(),
        "rules": [
            {"group": rule.group, **{name: getattr(rule.coverage, name) for name in COUNTS}}
            for rule in guard.rules
        ],
        **network_manifest(guard, weights=weights),
    }


def network_manifest(guard: AnyGuard, *, weights: bool) -> dict[str, Any]:
    """What the manifest of any guard says of its networks, and of what it guarantees."""
    return {
        "torch": torch.__version__,
        "names": None if guard.names is None else list(guard.names),
        "shape": None if guard.range is None else _written_shape(guard.range),
        "networks": [{**describe(net), "digest": weights_digest(net)} for net in guard.nets],
        "weights": weights,
        **({} if guard.output is None else {"output": named(guard.output)}),
        "guarantees": list(guard.guarantees),
    }


def with_weights(tensors: Mapping[str, Tensor], guard: AnyGuard) -> dict[str, Tensor]:
    """The tensors and those of the networks."""
    found = dict(tensors)
    for member, net in enumerate(guard.nets):
        found |= {f"weights/{member}/{name}": t for name, t in net.state_dict().items()}
    return found


def shared_fields(saved: Saved) -> dict[str, Any]:
    """The fields of a guard with a detector, from its file."""
    rules = enumerate(saved.manifest["rules"])
    return {
        "detector": detector_of(saved, "detector"),
        "rules": tuple(_rule(rule, saved.under(f"rules/{index}/")) for index, rule in rules),
        **input_fields(saved),
    }


def input_fields(saved: Saved) -> dict[str, Any]:
    """The fields of any guard about its inputs and classes; the networks come by `networks_of`."""
    tensors, shape, names = saved.tensors, saved.manifest["shape"], saved.manifest["names"]
    return {
        "names": None if names is None else tuple(names),
        "range": shape and _range(shape, tensors["range/low"], tensors["range/high"]),
        "hashes": tensors.get("hashes"),
    }


def check_probe(guard: AnyGuard, saved: Saved) -> None:
    """Refuse networks that answer a probe otherwise than when the guard was made."""
    if "probe/logits" not in saved.tensors:
        return
    several = saved.under(f"{PROBE}/")
    probe = Bundle(several) if several else saved.tensors[PROBE]
    _check_probe(guard, probe, saved.tensors["probe/logits"])


def _probed(guard: AnyGuard, known: Range) -> dict[str, Tensor]:
    """Inputs, and what the networks answer; none where tokens that are nobody's have no answer."""
    probe = random_inputs(guard.nets[0], known)
    answers = _answers(guard, probe)
    if not answers.isfinite().all():
        return {}
    several = probe.parts if isinstance(probe, Bundle) else {"": probe}
    parts = {f"{PROBE}/{name}".rstrip("/"): part for name, part in several.items()}
    return {**parts, "probe/logits": answers}


def networks_of(saved: Saved, net: Any) -> list[nn.Module]:
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
    """A fingerprint of the parameters and buffers of `net`, by name."""
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


def random_inputs(
    net: nn.Module, known: Range, *, count: int = PROBES, middle: float = 0.4
) -> Inputs:
    """Inputs in the range of calibration that are nobody's data; whole numbers where they were.

    net: the network that reads them.
    known: the range.
    count: number of inputs.
    middle: share of the range, around its middle, from which they are drawn.
    """
    shape = (len(known.low),) if isinstance(known.shape, dict) else known.shape
    draws = torch.rand(count, *shape, dtype=torch.float64, generator=generator(0, "probe"))
    low, high = (end if len(shape) == 1 else end[0] for end in (known.low, known.high))
    probe = low + ((1 - middle) / 2 + middle * draws) * (high - low)  # well inside
    if not isinstance(known.shape, dict):
        return probe.long() if Network(net).reads_tokens else probe.float()
    shapes, parts = dict(sorted(known.shape.items())), {}
    columns = probe.split([math.prod(one) for one in shapes.values()], 1)
    for (name, one), part in zip(shapes.items(), columns, strict=True):
        kind: torch.dtype = getattr(torch, known.kinds[name])
        numbers = part if kind.is_floating_point else part.round()
        parts[name] = numbers.reshape(count, *one).to(kind)
    return Bundle(parts)


@torch.no_grad()
def _answers(guard: AnyGuard, probe: Inputs) -> Tensor:
    if isinstance(guard, MapGuard):
        return guard.outputs(probe).cpu()
    members = guard.members
    if isinstance(guard, RegressionGuard):  # all that the networks give, not the means alone
        members = tuple(replace(member, head=RAW) for member in members)
    return torch.stack([reader(member, guard.output).answer(probe).cpu() for member in members])


def _check_probe(guard: AnyGuard, probe: Inputs, wanted: Tensor) -> None:
    found = _answers(guard, probe)
    gap = float((found - wanted).abs().max()) if found.shape == wanted.shape else float("inf")
    if not gap <= NEAR * max(1.0, float(wanted.abs().max())):
        raise NescioError(
            f"the network has the right weights but answers a probe differently (logits are off by "
            f"{gap:.3g}): was a layer or a scaling changed? Use the network as it was, or make a "
            "new guard"
        )


def detector_of(saved: Saved, name: str) -> Detector:
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
