"""A judge: several attacks on the same inputs, of which the best counts for each input.

One attack alone can be blind, stop in front of a narrow peak, or start in the wrong valley, and a
network that was trained against it looks safer than it is.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nescio.attacks.halving import wide
from nescio.attacks.named import Attacked
from nescio.attacks.objectives import Objective
from nescio.core import progress as progress_bar

ENOUGH = math.log(0.999 / 0.001)  # log-odds of a confidence of 0.999
INPUT = "input"  # where no attack raised the value


@dataclass(frozen=True, eq=False, repr=False)
class Judged(Attacked):
    """The inputs a judge arrived at: of all its attacks, the best for each.

    Where an input is `blind`, none of the attacks had a gradient to follow; one that had reached
    `enough` was not attacked, and is not blind.

    x: the inputs, `(N, ...)`.
    value: value of the objective that counts, `(N,)`.
    blind: whether no attack had a gradient to follow, `(N,)`.
    by: name of the attack that found each input; "input" where none raised its value.
    """

    by: tuple[str, ...] = field(kw_only=True)

    @property
    def wins(self) -> dict[str, int]:
        """How often each attack was the best; the most frequent first."""
        return dict(Counter(self.by).most_common())


@dataclass(frozen=True, eq=False, kw_only=True)
class Near:
    """Inputs that an attack of a judge gets.

    x: the inputs, `(K, ...)`.
    targets: their targets, `(K, ...)` each.
    index: their indices among all inputs, for random draws.
    """

    x: Tensor
    targets: tuple[Tensor, ...]
    index: Tensor


Search = Callable[[Near], Attacked]


def judge(
    counted: Objective,
    x: Tensor,
    targets: tuple[Tensor, ...],
    searches: Mapping[str, Search],
    *,
    enough: float = ENOUGH,
    batch_size: int = 128,
    progress: bool | None = False,
) -> Judged:
    """The best input of several attacks, by one objective, whatever each of them raises.

    counted: the objective that counts.
    x: inputs, floats.
    targets: what the objective reads beside the inputs.
    searches: the attacks by name; the first of two that are equally good is named.
    enough: inputs whose value has reached this are settled: the attacks that follow leave them out.
    batch_size: number of samples that the networks read at a time.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    best, value = x.clone(), valued(counted, x, targets, batch_size)
    blind = ~(value >= enough)  # what is settled needs no gradient
    by = [INPUT] * len(x)
    with progress_bar(len(searches), "judging", show=progress) as advance:
        for name, search in searches.items():
            left = (value < enough).nonzero()[:, 0]
            if len(left):
                near = Near(x=x[left], targets=tuple(t[left] for t in targets), index=left)
                found = search(near)
                reached = valued(counted, found.x, near.targets, batch_size)
                better = reached > value[left]
                best[left] = torch.where(wide(better, found.x), found.x, best[left])
                value[left] = torch.where(better, reached, value[left])
                blind[left] &= found.blind
                for number in left[better].tolist():
                    by[number] = name
            advance(1, str)
    return Judged(best, value, blind, by=tuple(by))


@torch.inference_mode(False)
@torch.no_grad()
def valued(objective: Objective, x: Tensor, targets: tuple[Tensor, ...], batch_size: int) -> Tensor:
    """The values of an objective, a batch at a time, without gradients."""
    parts = zip(*(given.split(batch_size) for given in (x, *targets)), strict=True)
    return torch.cat([objective(*part).to(x.device) for part in parts])
