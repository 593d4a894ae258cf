"""What was audited, by digests: the weights, the data, and the versions that computed."""

import hashlib
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import Bundle
from nescio.evaluation.audit.sections import CLASSES, NUMBERS, Material, section
from nescio.guards import weights_digest
from nescio.models import innermost, networks
from nescio.version import VERSION

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn")  # whose versions may change a number
BLOCK = 1 << 24  # numbers at a time
MADE = ("adversarial", "far")  # kinds of sets that are made of the network, or of the test data


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """SHA-256 of contents as they were read, whatever file they came from.

    weights: digests of the networks of each predictor, by its name.
    guarded: digests of the networks of the first, as the file of a guard names them.
    data: digests of the test data, the training data, what fits, and every OOD set; inputs and
      labels together.
    versions: versions of Python and packages, by name.
    machine: architecture of the processor and its vector instructions.
    threads: number of threads of PyTorch.
    """

    weights: Mapping[str, tuple[str, ...]]
    guarded: tuple[str, ...]
    data: Mapping[str, str]
    versions: Mapping[str, str]
    machine: str
    threads: int


@section(
    "provenance",
    title="What was audited",
    place=910,
    budgets=("quick", "standard", "thorough"),
    tasks=(CLASSES, NUMBERS),
)
def provenance_section(material: Material) -> Provenance:
    """Digests of the weights and of all data, for `nescio card`."""
    read: Any = material.x if material.x is not None else material.answers().log_probs
    data = {"test data": sha256((read, material.y)), "fitting data": sha256(material.held.fitting)}
    if material.train is not None:
        data["training data"] = sha256(material.train)
    data |= {
        f"OOD: {name}": sha256((inputs,))
        for name, (about, inputs) in material.ood.items()
        if about.kind not in MADE
    }
    versions = {name: metadata.version(name) for name in PACKAGES}
    return Provenance(
        weights={name: _weights(one) for name, one in material.predictors.items()},
        guarded=_guarded(material),
        data=data,
        versions={"nescio": VERSION, "python": platform.python_version(), **versions},
        machine=f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        threads=torch.get_num_threads(),
    )


def _guarded(material: Material) -> tuple[str, ...]:
    source = innermost(material.predictor if material.net is None else material.net)
    shown = isinstance(source, nn.Module) or callable(getattr(source, "networks", None))
    return tuple(weights_digest(member.net) for member in networks(source)) if shown else ()


def _weights(predictor: Any) -> tuple[str, ...]:
    """A digest for each network; none where a predictor does not show its networks."""
    if not callable(getattr(predictor, "networks", None)):
        return ()
    nets = {id(member.net): member.net for member in networks(predictor)}
    states = (sorted(net.state_dict().items()) for net in nets.values())
    return tuple(sha256(part for pair in state for part in pair) for state in states)


def sha256(parts: Iterable[Any]) -> str:
    """A digest of tensors, bundles of them and names, in their order; None is left out."""
    total = hashlib.sha256()
    for part in parts:
        _feed(total, part)
    return total.hexdigest()


def _feed(total: Any, part: Any) -> None:
    if isinstance(part, Bundle):
        for name, tensor in sorted(part.parts.items()):
            _feed(total, name)
            _feed(total, tensor)
    elif isinstance(part, str):
        total.update(f"text {len(part.encode())}:{part}".encode())
    elif isinstance(part, Tensor):
        total.update(f"{part.dtype}{tuple(part.shape)}".encode())
        for block in part.detach().cpu().contiguous().view(-1).split(BLOCK) if part.numel() else ():
            total.update(block.view(torch.uint8).numpy().data)
    elif part is not None:
        total.update(f"value {part!r}".encode())
