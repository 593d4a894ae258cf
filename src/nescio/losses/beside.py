"""Inputs from outside beside the training batch: what the losses with an out-distribution share."""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from nescio.data.outside import Outside
from nescio.errors import NescioError
from nescio.losses.loss import Batch, Loss
from nescio.randomness import Rng, derive
from nescio.stacking import Forward

Form = Literal["max", "uniform"]
APART = 1 << 40  # numbers of an endless out-distribution between two members
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Beside(Forward):
    """Runs other inputs in one batch with those of the first call, so that BatchNorm sees both."""

    inner: Forward = field(kw_only=True)
    others: Tensor = field(kw_only=True)  # (M, B', ...)
    seen: list[Tensor] = field(default_factory=list, kw_only=True)

    def __call__(self, x: Tensor) -> Tensor:
        if self.seen or not torch.is_grad_enabled():
            return self.inner(x)
        both = self.inner(torch.cat([x, self.others], 1))
        self.seen.append(both[:, x.shape[1] :])
        return both[:, : x.shape[1]]


def with_others(
    base: Loss, forward: Forward, batch: Batch, rng: Rng, others: Tensor
) -> tuple[Tensor, Tensor]:
    """The base loss `(M,)`, and the outputs on `others` from the same pass."""
    joined = Beside(
        forward.architecture, forward.tensors, forward.rng, inner=forward, others=others
    )
    inside = base(joined, batch, rng)
    return inside, joined.seen[0] if joined.seen else forward(others)


def numbers(outside: Outside, batch: Batch, rng: Rng, share: float, pool: int | None) -> Tensor:
    """Which inputs from outside a step takes, `(M, B')`: `share` of its cases, at least one.

    A function of (seed, member, step). An endless out-distribution gives each member its own
    inputs, none of them among the first 2^40. A finite one is walked through in even strides.
    """
    epoch, done = divmod(batch.step, batch.steps)
    cases = batch.x.shape[1]
    before = batch.points - cases if done == batch.steps - 1 else done * cases
    first = round(share * (epoch * batch.points + before))
    place = first + torch.arange(max(1, round(share * cases)))
    if outside.size is None:
        own = place if pool is None else place % pool
        return torch.stack([own + APART * (1 + member) for member in rng.members])
    size = pool or outside.size
    starts = [derive(rng.seed, "outside", member) % size for member in rng.members]
    own = (torch.tensor(starts)[:, None] + place * _stride(size)) % size
    return own * outside.size // size  # a pool is spread evenly over all of the set


def places(outside: Outside, index: Tensor, pool: int) -> Tensor:
    """Where in the pool the inputs with these numbers are."""
    return index % APART if outside.size is None else -(-index * pool // outside.size)


def _stride(size: int) -> int:
    """A step that meets every number below `size` once, and is soon everywhere near."""
    step = max(1, round(GOLDEN * size))
    while math.gcd(step, size) > 1:
        step += 1
    return step


def draw(outside: Outside, index: Tensor, batch: Batch) -> Tensor:
    """Inputs `(M, B', ...)` by number."""
    if tuple(outside.shape) != tuple(batch.x.shape[2:]):
        raise NescioError(
            f"the out-distribution {outside.name!r} gives inputs of shape {tuple(outside.shape)}, "
            f"the training inputs have {tuple(batch.x.shape[2:])}; they must agree"
        )
    return outside(index.flatten()).view(*index.shape, *outside.shape).to(batch.x)


def sureness(outputs: Tensor, form: Form) -> Tensor:
    """How sure outputs `(M, B', C)` are, `(M,)`: largest log-probability, or cross-entropy."""
    total = outputs.logsumexp(-1)
    if form == "max":
        return (outputs.amax(-1) - total).mean(1)
    return (total - outputs.mean(-1)).mean(1)


def check(
    base: Loss, outside: object, weight: float, form: str, share: float, pool: int | None
) -> None:
    """Refuse options that make no sense together."""
    if not isinstance(outside, Outside):
        raise NescioError(
            "outside must be an out-distribution, such as data.outside.paper_noise(x), got "
            f"{type(outside).__name__}; data.outside.another(z, name) makes one of inputs"
        )
    check_logits_head(base)
    if not 0 <= weight < math.inf:
        raise NescioError(f"weight must be a number from 0 up, got {weight}")
    if not 0 < share < math.inf:
        raise NescioError(f"share must be positive, got {share}")
    if form not in ("max", "uniform"):
        raise NescioError(f"form must be 'max' or 'uniform', got {form!r}")
    if pool is not None and (isinstance(pool, bool) or not isinstance(pool, int) or pool < 1):
        raise NescioError(f"pool must be a whole number from 1 up, or None, got {pool!r}")
    if pool is not None and outside.size is not None and pool > outside.size:
        raise NescioError(f"pool is {pool}, but {outside.name!r} has only {outside.size} inputs")


def check_logits_head(base: Loss) -> None:
    """Refuse a loss whose outputs are not class logits."""
    if base.head.name != "categorical":
        raise NescioError(f"this loss reads class logits; the {base.head.name} head has none")
