"""Heads in files: by name and options; one that is not nescio's also by what it answered.

A file never holds the functions of a head. A head of the user is given again where it is read, and
must answer a few outputs, which are nobody's data, as it did when it was saved.
"""

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core.errors import NescioError
from nescio.core.head import UNITS, Head, head_from
from nescio.core.random import generator
from nescio.core.registry import heads

PROBES = 8  # outputs
WIDTHS = range(1, 33)  # numbers of outputs that are tried where the network does not tell
NEAR = 1e-6  # of the largest answer: machines differ in rounding
OUTPUTS = "outputs"
FAILURES = (NescioError, RuntimeError, ValueError, TypeError, IndexError, AttributeError)


def head_to_file(
    head: Head, *, members: int = 1, net: nn.Module | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a file says of a head, JSON; and of one of the user, its answers, by name.

    net: whose outputs it reads; as many as its last weights have are tried first.
    """
    weights = [] if net is None else [w for w in net.parameters() if w.ndim]
    widths = dict.fromkeys(len(weight) for weight in reversed(weights))
    said: dict[str, Any] = {"name": head.name, "options": dict(head.options)}
    try:
        json.dumps(said)
    except TypeError as error:
        raise NescioError(
            f"the options of the head {head.name} must be numbers, texts or lists of them, to be "
            f"written into a file: {error}"
        ) from None
    every = (_probe(members, width) for width in (*widths, *WIDTHS))
    found = next((seen for probe in every if (seen := _answers(head, probe))), {})
    if _is_known(head, found):
        return said, {}
    return {**said, "given": True}, found


def head_from_file(
    said: Mapping[str, Any], probe: Mapping[str, Tensor], given: Head | str | None, path: Any
) -> Head:
    """The head of a file: one of nescio's, or the one given, if it answers as the saved one."""
    head: Head | None = heads.built(given)() if isinstance(given, str) else given
    if not said.get("given") and head is None:
        return head_from(said["name"], said["options"])
    if head is None:
        raise NescioError(
            f"{path} was saved with the head {said['name']!r}, which is not one of nescio's and "
            "cannot be rebuilt from a file; give it: nescio.load(path, head=head)"
        )
    if not isinstance(head, Head):
        raise NescioError(f"head= takes a head or the name of one, got a {type(head).__name__}")
    there, here = (
        {k: v for k, v in o.items() if k != UNITS} for o in (said["options"], head.options)
    )
    if (said["name"], there) != (head.name, here):
        raise NescioError(
            f"{path} was saved with the head {said['name']} and the options {there}, got "
            f"{head.name} with {here}; give the same"
        )
    head = head_from(head.name, said["options"], head.standardized or head)
    _check(head, probe, path)
    return head


def _check(head: Head, probe: Mapping[str, Tensor], path: Any) -> None:
    found = _answers(head, probe[OUTPUTS]) if probe else {}
    if different := [name for name, value in probe.items() if not _same(value, found.get(name))]:
        raise NescioError(
            f"the head given has the name of the one in {path}, but reads outputs otherwise (its "
            f"{', '.join(different)} differ); give the head that the model was saved with"
        )


def _same(one: Tensor, two: Tensor | None) -> bool:
    if two is None or one.shape != two.shape:
        return False
    largest = float(one.abs().max()) if one.numel() else 0.0
    return torch.allclose(one.double(), two.double(), atol=NEAR * max(1.0, largest), rtol=NEAR)


def _probe(members: int, width: int) -> Tensor:
    """Outputs `(M, n, width)` in float64, always the same."""
    draws = generator(0, "head probe", members, width)
    return 2 * torch.randn(members, PROBES, width, dtype=torch.float64, generator=draws)


def _is_known(head: Head, answers: Mapping[str, Tensor]) -> bool:
    """Whether nescio has a head of this name and options that answers alike."""
    if head.name not in heads or not answers:
        return False
    try:
        made = head_from(head.name, head.options)
    except FAILURES:
        return False
    try:
        _check(made, answers, "")
    except NescioError:
        return False
    return True


@torch.no_grad()
def _answers(head: Head, outputs: Tensor) -> dict[str, Tensor]:
    """What a head makes of outputs: prediction, center and loss; nothing if they do not fit."""
    try:
        read = {f"read.{name}": t for name, t in vars(head(outputs)).items() if _numbers(t)}
        found = {OUTPUTS: outputs, "center": head.center(outputs), **read}
    except FAILURES:
        return {}
    shape = outputs.shape[:2]
    if head.task == "classification":
        target = torch.zeros(shape, dtype=torch.long)
    else:
        target = torch.zeros(*shape, outputs.shape[-1] // head.width, dtype=torch.float64)
    try:
        found["nll"] = head.nll(outputs, target)
    except FAILURES:
        return found
    return found


def _numbers(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
