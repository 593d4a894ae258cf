"""Two networks under the same deformations of the same digits: differences, digit by digit."""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import to_json
from nescio.metrics import bootstrap_mean

PIECE = 64  # images at once


@torch.no_grad()
def outputs_of(net: nn.Module, x: Tensor) -> Tensor:
    """The outputs of all images, as vectors `(N, D)`."""
    found: Tensor = torch.cat([net(part).flatten(1) for part in x.split(PIECE)])
    return found


def changed(before: Tensor, after: Tensor) -> Tensor:
    """How far each output moves `(N,)`; 1 is the distance of the outputs of two images."""
    apart = sqrt(2 * float((before - before.mean(0)).square().sum(1).mean()))
    moved: Tensor = (after - before).norm(dim=1).double() / (apart or 1.0)
    return moved


def differences(
    nets: Mapping[str, nn.Module],
    x: Tensor,
    moved: Sequence[Callable[[], Tensor]],
    pairs: Mapping[str, tuple[str, str]],
    labels: Sequence[str],
) -> dict[str, Any]:
    """By pair, the change of the first less that of the second: mean over sizes, and at each.

    nets: networks, or parts of them, by name.
    x: the images.
    moved: functions that deform them, one for each size.
    pairs: the names of the two sides, by a name of the pair.
    labels: the pairs whose labels are compared, too, under the name of the pair and ", labels".
    """
    before = {name: outputs_of(net, x) for name, net in nets.items()}
    moves: dict[str, list[Tensor]] = {name: [] for name in nets}
    flips: dict[str, list[Tensor]] = {name: [] for name in nets}
    for move in moved:
        images = move()
        for name, net in nets.items():
            after = outputs_of(net, images)
            moves[name].append(changed(before[name], after))
            flips[name].append((after.argmax(1) != before[name].argmax(1)).double())
    found = {pair: _paired(moves, *names) for pair, names in pairs.items()}
    return found | {f"{pair}, labels": _paired(flips, *pairs[pair]) for pair in labels}


def _paired(values: Mapping[str, Sequence[Tensor]], first: str, second: str) -> dict[str, Any]:
    gaps = torch.stack([a - b for a, b in zip(values[first], values[second], strict=True)])
    return {
        "mean": to_json(bootstrap_mean(gaps.mean(0))),
        "by_size": [to_json(bootstrap_mean(gap)) for gap in gaps],
    }
