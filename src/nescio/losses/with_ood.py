"""Losses with OOD inputs beside the training batch: what CEDA, ACET and outlier exposure share."""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor

from nescio.attacks import Ascent
from nescio.core import Head, NescioError, Rng, derive, generator, is_real, is_whole
from nescio.data import OODSource
from nescio.losses.divergences import differentiable, from_flat
from nescio.losses.loss import Batch, Loss
from nescio.nets.stack import Forward

ADVICE = "give the attack the range of valid inputs: attack=Ascent(..., low=..., high=...)"


NO_LABEL = -1  # of inputs that show no class


def top_odds(outputs: Tensor, shown: Tensor | None = None) -> Tensor:
    """Log-odds of the most probable class, `(M, B)`; they rise where probabilities round to 1.

    shown: for each input the class it shows, which does not count, or NO_LABEL, `(M, B)`.
    """
    wrong = outputs
    if shown is not None:
        right = torch.arange(outputs.shape[-1], device=outputs.device) == shown[..., None]
        wrong = outputs.masked_fill(right, -math.inf)
    label = wrong.argmax(-1, keepdim=True)
    others = outputs.scatter(-1, label, -math.inf).logsumexp(-1)
    odds = outputs.gather(-1, label)[..., 0] - others
    return odds.flatten(2).mean(2) if odds.ndim > 2 else odds


def label_odds(outputs: Tensor, labels: Tensor, weight: Tensor | None = None) -> Tensor:
    """Log-odds against the labels, `(M, B)`; of label maps the mean over those with a weight."""
    label = labels[..., None]
    others = outputs.scatter(-1, label, -math.inf).logsumexp(-1)
    odds = others - outputs.gather(-1, label)[..., 0]
    if odds.ndim == 2:
        return odds
    if weight is not None and weight.shape == odds.shape:
        odds = odds * weight
    return odds.flatten(2).mean(2)


def random_start(ascent: Ascent, center: Tensor, rng: Rng, scale: float = 1.0) -> Tensor:
    """Points `(M, B, ...)` of the balls, each member's from its own generator."""
    samples, features = center[0].flatten(1).shape
    draws = [torch.rand(samples, 1 + features, generator=g) for g in rng.generators("attack")]
    return ascent.start(center, torch.cat(draws).to(center), scale=scale)


Form = Literal["max", "uniform", "flat"]
APART = 1 << 40  # numbers of an endless OOD source between two members
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Beside(Forward):
    """Runs other inputs in one batch with those of the first call, so that BatchNorm sees both."""

    inner: Forward = field(kw_only=True)
    others: Tensor = field(kw_only=True)  # (M, B', ...)
    outputs: list[Tensor] = field(default_factory=list, kw_only=True)  # of all in that call

    def __call__(self, x: Tensor) -> Tensor:
        if self.outputs or not torch.is_grad_enabled():
            return self.inner(x)
        both = self.inner(torch.cat([x, self.others], 1))
        self.outputs.append(both)
        return both[:, : x.shape[1]]

    def again(self, name: str) -> Forward:
        """The networks with other masks, without the other inputs."""
        return self.inner.again(name)

    def frozen(self) -> Forward:
        return self.inner.frozen()


def with_others(
    base: Loss, forward: Forward, batch: Batch, rng: Rng, others: Tensor
) -> tuple[Tensor, Tensor]:
    """The base loss `(M,)`, and the outputs on `others` from the same pass."""
    joined = Beside(
        forward.architecture,
        forward.tensors,
        forward.rng,
        averaged=forward.averaged,
        inner=forward,
        others=others,
    )
    in_dist, count = base(joined, batch, rng), others.shape[1]
    return in_dist, joined.outputs[0][:, -count:] if joined.outputs else forward(others)


@dataclass(frozen=True, eq=False, kw_only=True)
class Turns:
    """The OOD inputs of a step, all `(M, B')`.

    index: the numbers of the inputs in their source.
    slot: their positions in the pool.
    fresh: whether an input is in its position for the first time.
    """

    index: Tensor
    slot: Tensor
    fresh: Tensor


def turns(
    ood: OODSource,
    batch: Batch,
    rng: Rng,
    share: float,
    pool: int | None,
    renew: int | None = None,
) -> Turns:
    """Which OOD inputs a step takes: `share` of its samples, at least one.

    A function of (seed, member, step). An endless OOD source gives each member its own
    inputs, none of them among the first 2^40. A finite one is walked through in even strides.
    After `renew` visits an input gives way to the next one, each position in another step.
    """
    epoch, done = divmod(batch.step, batch.steps)
    samples = batch.x.shape[1]
    before = batch.size - samples if done == batch.steps - 1 else done * samples
    first = round(share * (epoch * batch.size + before))
    position = first + torch.arange(max(1, round(share * samples)))
    size = pool or ood.size
    if size is None:  # endless, and no input comes back
        index = torch.stack([position + APART * (1 + member) for member in rng.members])
        return Turns(index=index, slot=index, fresh=torch.ones_like(index, dtype=torch.bool))
    if ood.size is None:
        slot = (position % size).expand(len(rng.members), -1)
    else:
        starts = [derive(rng.seed, "ood", member) % size for member in rng.members]
        slot = (torch.tensor(starts)[:, None] + position * _stride(size)) % size
    visit = position // size
    age, fresh = torch.zeros_like(slot), (visit == 0).expand_as(slot)
    if renew:
        late = visit + slot % renew  # not all of them at once
        age = late // renew
        fresh = fresh | (late % renew == 0)
    if ood.size is None:
        own = APART * (1 + torch.tensor(rng.members)[:, None])
        return Turns(index=slot + size * age + own, slot=slot, fresh=fresh)
    # a pool is spread evenly over all of the set
    return Turns(index=(slot * ood.size // size + age) % ood.size, slot=slot, fresh=fresh)


def _stride(size: int) -> int:
    """A step that meets every number below `size` once, and is soon everywhere near."""
    step = max(1, round(GOLDEN * size))
    while math.gcd(step, size) > 1:
        step += 1
    return step


def draw(ood: OODSource, index: Tensor, batch: Batch) -> Tensor:
    """Inputs `(M, B', ...)` by number."""
    if tuple(ood.shape) != tuple(batch.x.shape[2:]):
        raise NescioError(
            f"the OOD source {ood.name!r} gives inputs of shape {tuple(ood.shape)}, "
            f"the training inputs have {tuple(batch.x.shape[2:])}; they must agree"
        )
    return ood(index.flatten()).view(*index.shape, *ood.shape).to(batch.numbers)


def confidence_term(head: Head, outputs: Tensor, form: Form, shown: Tensor | None = None) -> Tensor:
    """The confidence of outputs `(M, B', ..., C)`, `(M,)`: see `ceda` for its forms.

    shown: as in `top_odds`; inputs that are given the class they show add nothing.
    """
    logits = head.logits(outputs)
    if form == "flat":
        each = differentiable(from_flat)(logits)
    else:
        total = logits.logsumexp(-1)
        each = logits.amax(-1) - total if form == "max" else total - logits.mean(-1)
    if shown is not None:
        each = each.masked_fill(logits.argmax(-1) == shown, 0.0)
    return each.flatten(1).mean(1)


def check(
    base: Loss, ood: object, weight: float, form: str, share: float, pool: int | None
) -> None:
    """Refuse options that make no sense together."""
    if not isinstance(base, Loss):
        raise NescioError(
            f"the first argument is the loss on the data, such as losses.nll(), got "
            f"{type(base).__name__}"
        )
    if not isinstance(ood, OODSource):
        raise NescioError(
            "ood must be an OOD source, such as data.ood.paper_noise(x), got "
            f"{type(ood).__name__}; data.ood.another(z, name) makes one of inputs"
        )
    check_logits_head(base)
    if not is_real(weight, 0):
        raise NescioError(f"weight must be a number from 0 up, got {weight!r}")
    if not is_real(share, 0) or not share:
        raise NescioError(f"share must be a positive number, got {share!r}")
    if form not in get_args(Form):
        raise NescioError(f"form must be one of {', '.join(get_args(Form))}, got {form!r}")
    if form == "flat" and base.head.log_concentrations is None:
        raise NescioError(
            f"the flat form reads concentrations, and the {base.head.name} head gives none; use a "
            "loss with heads.dirichlet(), such as losses.reverse_kl()"
        )
    if pool is not None and not is_whole(pool, 1):
        raise NescioError(f"pool must be a whole number from 1 up, or None, got {pool!r}")
    if pool is not None and ood.size is not None and pool > ood.size:
        raise NescioError(f"pool is {pool}, but {ood.name!r} has only {ood.size} inputs")


def check_logits_head(base: Loss) -> None:
    """Refuse a loss whose outputs are neither class logits nor concentrations."""
    if base.head.name != "categorical" and base.head.log_concentrations is None:
        raise NescioError(f"this loss reads class logits; the {base.head.name} head has none")


LEVELS = 127  # from 0 to the radius
BYTES = 4 << 30  # at most


@dataclass(frozen=True, eq=False)
class Perturbations:
    """What a loss stores of a pool of inputs between steps, in multiples of radius / 127."""

    levels: Tensor  # (M, P, ...) int8
    radius: float

    def recall(self, position: Tensor) -> Tensor:
        """The perturbations of the inputs at `position` (M, B) in the pool."""
        return self.levels[self._rows(position)] * (self.radius / LEVELS)

    def store(self, position: Tensor, moves: Tensor) -> None:
        """Keep the perturbations of the inputs at `position` (M, B), rounded."""
        levels = (moves * (LEVELS / self.radius)).round_().clamp_(-LEVELS, LEVELS)
        self.levels[self._rows(position)] = levels.to(torch.int8)

    def _rows(self, position: Tensor) -> tuple[Tensor, Tensor]:
        position = position.to(self.levels.device)
        return torch.arange(len(position), device=position.device)[:, None], position


def perturbations(batch: Batch, rng: Rng, name: str, size: int, radius: float) -> Perturbations:
    """What the run stores under `name` for `size` inputs; random in the cube at first."""
    if name not in batch.memory:
        shape = (size, *batch.x.shape[2:])
        needed = len(rng.members) * math.prod(shape)
        if needed > BYTES:
            raise NescioError(
                f"the stored perturbations need {needed / 2**30:.1f} GB; use a smaller pool, fewer "
                "members at a time, or keep=False"
            )
        batch.memory[name] = torch.empty(
            len(rng.members), *shape, dtype=torch.int8, device=batch.x.device
        )
        for member, own in zip(rng.members, batch.memory[name], strict=True):
            source = generator(rng.seed, "kept", member)
            own.copy_(torch.randint(-LEVELS, LEVELS + 1, shape, generator=source, dtype=torch.int8))
    return Perturbations(batch.memory[name], radius)
