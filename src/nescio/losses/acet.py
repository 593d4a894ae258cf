"""Unsure all around OOD inputs: ACET (Hein et al., 2019).

The paper attacks each noise image with 40 steps in each training step. Here an image comes back,
epoch after epoch, from a pool, and its perturbation is stored: a visit continues where the last one
ended, against a network that has changed little.

One step per visit is nearly free, since the training pass itself gives the gradient of the inputs,
and it is enough for networks without BatchNorm on digits. Residual networks learn to resist steps
of one length and nothing else: after steps of 0.02, those of 0.005 found a confidence of 1.0. They
need steps of many lengths, images that are renewed, so that the network cannot learn them by heart,
and starts at training images, cut into the ball: what an attack would have to make of noise. In
color such a cut leaves most photographs readable, and a network that names their class is right:
there only the other classes are raised, and only a wrong answer is taught to be unsure. Networks
know their training images better than others: of several (`candidates`), a search can start at the
one that they misread most confidently, which costs a forward pass on the new inputs of a step
alone. They are shown the most confident image of a search, not the last one: the steps leave a
texture that they learn to see. They also need a term whose gradient does not vanish where the
attack has won: the largest log-probability has 1 - p, the cross-entropy to the uniform distribution
p - 1/C.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nescio.attacks import Ascent, linf
from nescio.attacks import leaking as leaky
from nescio.core import Head, NescioError, Rng, derive, generator, is_real, is_whole
from nescio.core.registry import losses
from nescio.data import OODSource
from nescio.losses.loss import Batch, Loss
from nescio.losses.with_ood import (
    ADVICE,
    NO_LABEL,
    Form,
    Turns,
    check,
    confidence_term,
    draw,
    perturbations,
    random_start,
    top_odds,
    turns,
    with_others,
)
from nescio.nets.stack import Forward

POOL = 3000  # inputs that take turns
STEPS, RENEW, FROM_DATA = 8, 16, 0.5  # of networks with BatchNorm
LARGEST, FINER = 1 / 8, 20.0  # their longest step, as a share of the radius; the shortest
STEPPED = "an attack with steps, attack=Ascent(radius=0.3, steps=8), or -o steps=8 in the command"

Odds = Callable[[Tensor, Tensor | None], Tensor]  # of inputs, and the classes they show


@dataclass(frozen=True, kw_only=True)
class Hunt:
    """How the most confident inputs are searched, and what is made of them."""

    ascent: Ascent
    free: float
    ramp: float
    form: Form
    renew: int | None
    from_data: float
    candidates: int
    finer: float
    leaking: float

    def drawn(self, seed: int, step: int) -> Ascent:
        """The attack of one training step, with steps of the length drawn for it.

        It is the same for all members, however many there are.
        """
        if self.finer == 1:
            return self.ascent
        share = torch.rand((), generator=generator(seed, "length", step)).item()
        return replace(self.ascent, step=self.ascent.size * self.finer**-share)

    def leaks(self, seed: int, step: int) -> bool:
        """Whether the search of a training step follows leaking gradients."""
        if not self.leaking:
            return False
        return torch.rand((), generator=generator(seed, "leak", step)).item() < self.leaking

    @property
    def description(self) -> str:
        """The options in words that tell two searches apart."""
        return (
            f"{self.ascent.description}, free={self.free}, ramp={self.ramp}, form={self.form!r}, "
            f"renew={self.renew}, from_data={self.from_data}, candidates={self.candidates}, "
            f"finer={self.finer}" + f", leaking={self.leaking}" * bool(self.leaking)
        )


@losses.register
def acet(
    base: Loss,
    ood: OODSource,
    *,
    weight: float = 1.0,
    weight_ramp: float = 0.0,
    attack: Ascent | None = None,
    keep: bool = True,
    free: float | None = None,
    ramp: float | None = None,
    form: Form | None = None,
    share: float = 1.0,
    pool: int | None = None,
    renew: int | None = None,
    from_data: float | None = None,
    candidates: int = 1,
    finer: float | None = None,
    leaking: float = 0.0,
) -> Loss:
    """Add `weight` times the confidence term on the most confident inputs near OOD inputs.

    What is None is chosen by the network: with BatchNorm, 8 steps of an eighth of the radius or
    less, the uniform form, inputs renewed after 16 visits, half of them started at training inputs;
    start such a network from a trained one (`nescio.train(..., start=model)`), or give
    `weight_ramp`. Without BatchNorm, the free step alone and the form "max".

    The OOD inputs are not augmented. Where black edges come into the training images, the network
    learns that black edges are data: use `crops(4, edge="mirror")`.

    Where all units of a layer are dead the attack has no gradient: it is then `ceda` with jitter,
    unless `leaking` is set.

    base: the loss that the term is added to.
    ood: source of the OOD inputs, in the units of the training inputs.
    weight: factor on the term.
    weight_ramp: share of the training during which the weight grows from 0: a network that is not
      trained yet can answer the whole weight by being unsure everywhere.
    attack: how inputs are searched in each step, such as `Ascent(radius=0.3, steps=8, step=0.02)`;
      with steps=0 it says radius and box alone. None: a radius of 0.3. The paper's is
      `Ascent(radius=0.3, steps=40, step=0.0075)`, with keep=False. Training and OOD inputs must be
      in its box, [0, 1] by default; others need `Ascent(..., low=-1.0, high=1.0)`.
    keep: continue from where the last visit of an input ended; linf only.
    free: after the step, move stored inputs by this share of the radius along the gradient that the
      training pass gives; None: 0.5 where the attack has no step, 0 otherwise.
    ramp: share of the training during which the radius grows from 0; None: 0.3 where the attack has
      no step, 0 otherwise.
    form: the confidence term, as in `ceda`.
    share: number of OOD inputs per training sample.
    pool: number of OOD inputs that take turns; None: a tenth of the training samples, 3000 at most:
      an input that hardly ever comes back is hardly attacked.
    renew: number of visits after which an input of the pool gives way to another one; 0: never.
    from_data: share of the inputs whose search starts at a training input of the step, cut into the
      ball, and raises the classes it does not show; the others start anywhere and raise any class.
    candidates: number of training inputs of the step of which such a search starts at the one whose
      cut is most confident in a wrong class.
    finer: each training step draws the length of the attack's steps, from that of `attack` down to
      one `finer` times shorter; 1: always the same.
    leaking: share of the training steps whose search passes its gradients through dead ReLUs, as
      `attacks.leaking`: a network can hide a confident place behind them. Of other activations it
      changes nothing.
    """
    check(base, ood, weight, form or "uniform", share, pool)
    asked = (free, ramp, form, renew, from_data, candidates, finer, leaking)
    plain, deep = (_search(attack, keep, *asked, steps=steps) for steps in (0, STEPS))
    _check(plain, keep, weight_ramp)
    _check(deep, keep, weight_ramp)
    how = plain.description if plain == deep else f"{plain.description} or {deep.description}"
    ramped = f"{weight=}" + f", {weight_ramp=}" * bool(weight_ramp)
    what = f"{base.description}, {ood.description}, {ramped}"
    text = f"acet({what}, {how}, {keep=}, {share=}, {pool=})"
    name = f"acet {derive(text):x}"

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        search = _suited(forward, plain, deep)
        ascent, scale = search.drawn(rng.seed, batch.step), _ramped(search.ramp, batch)
        size = pool or _usual(batch, name, ood, share)
        turn = turns(ood, batch, rng, share, size if keep else pool, search.renew)
        if keep and turn.index.shape[1] > size:
            raise _too_few(turn.index.shape[1], size, ood)
        center = draw(ood, turn.index, batch)
        _check_box(ascent, batch, center, ood.name)
        odds = _odds(base.head, forward, leaks=search.leaks(rng.seed, batch.step))
        if keep:
            warm = perturbations(batch, rng, name, size, ascent.reach)
            nearest = ascent.projection(center, lead=2, scale=scale)
            moves, new = _begun(warm.recall(turn.slot), turn, center, search, odds, batch, rng)
            shown = None if new is None else _shown(batch, name, size, turn, new)
            start = nearest(center + moves)
        else:
            start, shown = random_start(ascent, center, rng, scale), None
        result = _searched(ascent, odds, center, start, scale, shown)
        if keep:
            warm.store(turn.slot, result - center)
        if search.free:
            length = search.free * ascent.reach * scale
            result = result.detach().requires_grad_()

            def move_on(slope: Tensor) -> None:
                warm.store(turn.slot, nearest(result.detach() + length * slope.sign()) - center)

            batch.wanted.append((result, move_on))
        in_dist, outputs = with_others(base, forward, batch, rng, result)
        term = confidence_term(base.head, outputs, search.form, shown)
        return in_dist + weight * _ramped(weight_ramp, batch) * term

    return base.with_step(text, step)


def _search(
    attack: Ascent | None,
    keep: bool,
    free: float | None,
    ramp: float | None,
    form: Form | None,
    renew: int | None,
    from_data: float | None,
    candidates: int,
    finer: float | None,
    leaking: float,
    *,
    steps: int,
) -> Hunt:
    """What was asked for; the rest as a network with or without BatchNorm needs it.

    steps: number of steps of the attack where it has none; 0: the free step is enough.
    """
    _check_kinds(attack, keep)
    ascent = attack or Ascent(radius=0.3, steps=0, best=False)
    own = bool(steps and keep and not ascent.steps and free is None)
    if own:
        ascent = replace(ascent, steps=steps, step=ascent.reach * LARGEST, best=True)
    alone, deep = keep and not ascent.steps, keep and steps > 0
    return Hunt(
        ascent=ascent,
        free=0.5 * alone if free is None else free,
        ramp=0.3 * alone if ramp is None else ramp,
        form=form or ("uniform" if steps else "max"),
        renew=(RENEW * deep if renew is None else renew) or None,
        from_data=FROM_DATA * (deep and not alone) if from_data is None else from_data,
        candidates=candidates,
        finer=(FINER if own else 1.0) if finer is None else finer,
        leaking=leaking,
    )


def _suited(forward: Forward, plain: Hunt, deep: Hunt) -> Hunt:
    """The search for these networks; one that its options mean nothing to is refused."""
    search = deep if forward.architecture.normalizes else plain
    if search.candidates > 1 and not search.from_data:
        raise NescioError(
            f"candidates={search.candidates} chooses among starts at training inputs, and no "
            f"search starts there; give from_data= and {STEPPED}, or leave it out"
        )
    for name, asked in (("leaking", search.leaking), ("finer", search.finer != 1)):
        if asked and not search.ascent.steps:
            raise NescioError(
                f"{name} is about the steps of a search, and this attack has no step; give "
                f"{STEPPED}"
            )
    return search


def _ramped(ramp: float, batch: Batch) -> float:
    """The factor at this step of what grows from 0 to 1 during a share of the training."""
    return min(1.0, (batch.step + 1) / (ramp * batch.total)) if ramp else 1.0


def _begun(
    moves: Tensor, turn: Turns, center: Tensor, search: Hunt, odds: Odds, batch: Batch, rng: Rng
) -> tuple[Tensor, Tensor | None]:
    """Perturbations and classes of new inputs, where they are new; otherwise the stored `moves`.

    They point at a training input with a label, whose class the input then shows, or anywhere.
    With label maps an input shows no single class: all of them point anywhere.
    """
    if not (search.renew or search.from_data):
        return moves, None
    radius = search.ascent.reach
    if search.from_data and not search.ascent.steps:
        raise NescioError(
            "from_data starts searches at the data, and this attack has no step to move them; give "
            f"{STEPPED}"
        )
    count, features = center[0].flatten(1).shape
    numbers = [torch.rand(1 + features, count, generator=g) for g in rng.generators("fresh")]
    drawn = torch.stack(numbers).to(center)
    anywhere = radius * (2 * drawn[:, 1:].transpose(1, 2).reshape(center.shape) - 1)
    wide = (*center.shape[:2], *(1 for _ in center.shape[2:]))
    fresh, member = turn.fresh.to(center.device), torch.arange(len(center), device=center.device)
    chosen, one = drawn[:, 0] < search.from_data, batch.y.ndim == 2
    sample = _misread(fresh & chosen & one, center, search, odds, batch)
    at = member[:, None], sample
    there = (batch.numbers[at] - center).clamp(-radius, radius)
    if batch.weight is not None and one:
        chosen &= batch.weight[at] > 0  # others have no label, or one that does not count
    begun = torch.where((chosen & one).view(wide), there, anywhere)
    shown = batch.y[at].long().where(chosen, NO_LABEL) if one else None
    return torch.where(fresh.view(wide), begun, moves), shown


def _misread(fresh: Tensor, center: Tensor, search: Hunt, odds: Odds, batch: Batch) -> Tensor:
    """The training sample that each search starts at, `(M, B)`.

    fresh: the inputs whose search begins, `(M, B)`: of `candidates` samples it starts at the one
      whose cut is most confident in a wrong class.
    """
    size, many, radius = batch.x.shape[1], search.candidates, search.ascent.reach
    first = (torch.arange(center.shape[1], device=center.device) % size).expand(len(center), -1)
    most = int(fresh.sum(1).max())
    if many == 1 or not most:
        return first
    member = torch.arange(len(center), device=center.device)[:, None]
    new = fresh.byte().argsort(dim=1, descending=True, stable=True)[:, :most]  # (M, K), then others
    tried = (many * new[..., None] + torch.arange(many, device=new.device)) % size  # (M, K, many)
    at = member, tried.flatten(1)
    middle = center[member, new].repeat_interleave(many, 1)
    with torch.no_grad():
        cut = middle + (batch.numbers[at] - middle).clamp(-radius, radius)
        value = odds(cut, batch.y[at].long())
    if batch.weight is not None:
        value = value.masked_fill(batch.weight[at] <= 0, -math.inf)
    best = value.unflatten(1, (most, many)).argmax(-1, keepdim=True)
    return first.scatter(1, new, tried.gather(-1, best)[..., 0])


def _shown(batch: Batch, name: str, size: int, turn: Turns, new: Tensor) -> Tensor:
    """The classes that the inputs of a step show, `(M, B)`, stored in the run.

    size: size of the pool.
    new: the classes of inputs that are new.
    """
    stored = f"{name} shown"
    if stored not in batch.memory:
        shape = len(batch.x), size
        batch.memory[stored] = torch.full(shape, NO_LABEL, device=batch.x.device)
    slot, fresh = turn.slot.to(new.device), turn.fresh.to(new.device)
    known = torch.where(fresh, new, batch.memory[stored].gather(1, slot))
    batch.memory[stored].scatter_(1, slot, known)
    return known


def _odds(head: Head, forward: Forward, *, leaks: bool) -> Odds:
    """Log-odds of the most probable class that an input does not show, in evaluation mode.

    leaks: whether their gradient passes dead ReLUs.
    """
    frozen = forward.frozen()

    def odds(x: Tensor, shown: Tensor | None) -> Tensor:
        return top_odds(head.logits(frozen(x)), shown)

    return leaky(odds) if leaks else odds


def _searched(
    ascent: Ascent, odds: Odds, center: Tensor, start: Tensor, scale: float, shown: Tensor | None
) -> Tensor:
    """The most confident points that the attack reaches from `start`; without steps, `start`."""
    if not ascent.steps:
        return start
    return ascent(lambda x: odds(x, shown), center, start=start, lead=2, scale=scale)[0]


def _usual(batch: Batch, name: str, ood: OODSource, share: float) -> int:
    """A tenth of the samples, at least what the largest batch takes; the same in all steps."""
    if name in batch.memory:
        return batch.memory[name].shape[1]
    least = math.ceil(share * (batch.x.shape[1] + 1))  # a single sample may join the last batch
    size = max(least, min(POOL, batch.size // 10))
    return size if ood.size is None else min(size, ood.size)


def _check_box(ascent: Ascent, batch: Batch, center: Tensor, name: str) -> None:
    """Refuse training inputs, and OOD inputs, outside the box of the attack."""
    ends = torch.stack([batch.low, batch.high])
    ascent.check(ends, what="training inputs", advice=ADVICE)
    advice = f"scale them, or {ADVICE}"
    ascent.check(center, lead=2, what=f"inputs of {name!r}", advice=advice)


def _too_few(step: int, size: int, ood: OODSource) -> NescioError:
    """More inputs in a step than take turns: one would be moved twice, and stored once."""
    there, more = f"of a pool of {size}", "a larger pool"
    if ood.size == size:
        there = f"and {ood.name!r} has {size}"
        more = "a larger OOD set, or keep=False with an attack of some steps"
    return NescioError(
        f"a step takes {step} OOD inputs, {there}; use a smaller batch or share, or {more}"
    )


def _check_kinds(attack: object, keep: object) -> None:
    if not isinstance(keep, bool):
        raise NescioError(f"keep is True or False, got {keep!r}")
    if attack is not None and not isinstance(attack, Ascent):
        raise NescioError(
            "attack says how inputs are searched, attacks.Ascent(radius=0.3, steps=8) for example, "
            f"got {attack!r}"
        )


def _check(search: Hunt, keep: bool, weight_ramp: float) -> None:
    ascent = search.ascent
    if keep and (ascent.norm is not linf or not ascent.radius):
        raise NescioError(
            "keep=True stores perturbations in a linf ball; give the attack that norm and a "
            "positive radius, or say keep=False"
        )
    shares = {
        "ramp": search.ramp,
        "weight_ramp": weight_ramp,
        "from_data": search.from_data,
        "leaking": search.leaking,
    }
    for name, share in shares.items():
        if not is_real(share, 0, 1):
            raise NescioError(f"{name} is a share, from 0 to 1, got {share!r}")
    if not is_real(search.free, 0):
        raise NescioError(f"free is a share of the radius, from 0 up, got {search.free!r}")
    if not is_real(search.finer, 1):
        raise NescioError(f"finer is a factor from 1 up, got {search.finer!r}")
    if not is_whole(search.candidates, 1):
        raise NescioError(f"candidates is a whole number from 1 up, got {search.candidates!r}")
    if search.renew is not None and not is_whole(search.renew, 1):
        raise NescioError(f"renew is a number of visits, or 0 for never, got {search.renew!r}")
    if not ascent.steps and not keep:
        raise NescioError(
            "keep=False starts each search anew, so it needs an attack with steps: "
            "attack=Ascent(radius=0.3, steps=40, step=0.0075) is the paper's"
        )
    if search.free and not keep:
        raise NescioError("a free step moves the stored inputs; it needs keep=True")
    if (search.renew or search.from_data) and not keep:
        raise NescioError("renew and from_data are about stored inputs; they need keep=True")
