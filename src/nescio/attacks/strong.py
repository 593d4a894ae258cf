"""The judges by name: the strongest of several attacks on noise, and on labeled samples."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nescio.attacks.ascent import Ascent
from nescio.attacks.balls import Norm, linf
from nescio.attacks.halving import higher, wide
from nescio.attacks.judge import ENOUGH, Judged, Near, Search, judge, valued
from nescio.attacks.named import Attacked, pgd
from nescio.attacks.objectives import (
    FAR,
    Objective,
    answer_of,
    class_confidence,
    confidence,
    label_loss,
    leaking,
    margin,
    misread,
    wrong_confidence,
)
from nescio.core import NescioError, as_inputs, as_tensor, derive, is_real, is_whole
from nescio.core.registry import attacks
from nescio.data import ood

PLAIN, HALVING, LEAKING = "plain steps", "halving", "halving, leaking gradients"
FROM_DATA, CLASSES = "halving from data", "halving, class by class"
LABELS = "label loss, "  # begins the name of an attack on samples
POOL = 500  # inputs of the data that are looked at, at even distances
CANDIDATES = 10  # of the pool for each input: half of them the nearest, half at random
TRIED, TRIAL = 10, 3  # classes that are tried for each input, and the steps of a trial


@attacks.register
@torch.inference_mode(False)  # whatever the caller is in
def strong_noise(
    source: object,
    x: Any,
    *,
    starts: Any = None,
    radius: float | None = 0.3,
    steps: int = 200,
    step: float | None = 0.0075,
    halving_steps: int = 20,
    restarts: int = 2,
    data_starts: int = 2,
    classes: int = 2,
    enough: float = ENOUGH,
    norm: str | Norm = linf,
    low: float = 0.0,
    high: float = 1.0,
    mask: Any = None,
    batch_size: int = 128,
    seed: int = 0,
    progress: bool | None = False,
) -> Judged:
    """Raise the confidence, whatever the class, by several attacks: the best counts.

    For each input: the steps of `adversarial_noise`; from random points steps that are halved, and
    the same with leaking gradients; from inputs of the data that are moved into its ball; and
    towards one class after another. The value is always the confidence of the network as it is.
    By default an input of ten classes takes 370 passes forward and backward, and 41 forward; each
    start with a label takes one forward.

    source: an `nn.Module`, a model, or another predictor.
    x: inputs to begin with, such as noise, `(N, ...)`.
    starts: inputs of the data with their labels, such as test images `(x, y)`; None: without that
      attack. A ball around noise can hold readable data, whose own label is a right answer: from
      there only the other classes are raised, and only a wrong answer counts. What the network
      misreads as it is, is an error on the data, and no start. Inputs alone: all of them are
      starts, and any class counts.
    radius: radius of the ball; None: the whole box.
    steps: number of gradient steps of the plain attack.
    step: length of such a step; None: 2.5 * radius / steps.
    halving_steps: number of gradient steps of each of the others.
    restarts: number of random starts.
    data_starts: for each input, the number of starts in the data: of ten candidates, five of them
      the nearest to its ball, the most confident, with labels in a wrong class.
    classes: for each input, the number of classes that are raised to the end, of at most ten that
      are tried for three steps.
    enough: inputs whose log-odds have reached this are settled, and left out by the attacks that
      follow; by default a confidence of 0.999.
    norm: norm of the ball, "linf", "l2" or "l1".
    low, high: the box, the range of valid inputs.
    mask: 1 where an input may change, of the shape of one input; None: everywhere.
    batch_size: number of samples that the networks read at a time.
    seed: seed of the random draws.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    _check(enough, seed, restarts=restarts, data_starts=data_starts, classes=classes,
           halving_steps=halving_steps, batch_size=batch_size)  # fmt: skip
    inputs, ball = _inputs(x), {"radius": radius, "norm": norm, "low": low, "high": high}
    ways = _ways(inputs, ball, seed, mask=mask, batch_size=batch_size)
    sure = confidence(source)
    halved: dict[str, Any] = {"steps": halving_steps, "halving": True}
    searches: dict[str, Search] = {
        PLAIN: partial(ways.random, sure, steps=steps, step=step, turns=range(1)),
        HALVING: partial(ways.random, sure, turns=range(1, 1 + restarts), **halved),
        LEAKING: partial(ways.random, leaking(sure), turns=range(-1, 0), **halved),
    }
    if starts is not None:
        data, labels = _pool(starts, inputs)
        ways.ascent.check(data, what="starts")
        if labels is not None:
            read = valued(margin(source), data, (labels,), batch_size) < 0
            data, labels = data[read], labels[read]
        if len(data):
            searches[FROM_DATA] = partial(
                ways.from_data, source, data, labels, count=data_starts, **halved
            )
    searches[CLASSES] = partial(ways.class_by_class, source, count=classes, **halved)
    options: dict[str, Any] = {"batch_size": batch_size, "progress": progress}
    return judge(sure, inputs, (), searches, enough=enough, **options)


@attacks.register
@torch.inference_mode(False)  # whatever the caller is in
def strong_samples(
    source: object,
    x: Any,
    y: Any,
    *,
    radius: float | None = 0.3,
    steps: int = 80,
    step: float | None = 0.0075,
    halving_steps: int = 20,
    classes: int = 2,
    enough: float = ENOUGH,
    norm: str | Norm = linf,
    low: float = 0.0,
    high: float = 1.0,
    mask: Any = None,
    batch_size: int = 128,
    seed: int = 0,
    progress: bool | None = False,
) -> Judged:
    """Raise the confidence in a wrong class by several attacks: the best counts.

    For each input: the steps of `adversarial_samples`, which lower the label whatever takes its
    place; the same by halved steps, and with leaking gradients; the confidence in the best wrong
    class by both; and towards one wrong class after another. The value is the log-odds of the most
    probable wrong class. By default an input of ten classes takes 227 passes forward and backward.

    source: an `nn.Module`, a model, or another predictor.
    x, y: inputs and their labels.
    radius: radius of the ball; None: the whole box.
    steps: number of gradient steps of the plain attack.
    step: length of such a step; None: 2.5 * radius / steps.
    halving_steps: number of gradient steps of each of the others.
    classes: for each input, the number of wrong classes that are raised to the end, of at most ten
      that are tried for three steps.
    enough: inputs whose log-odds have reached this are settled, and left out by the attacks that
      follow; by default a confidence of 0.999.
    norm: norm of the ball, "linf", "l2" or "l1".
    low, high: the box, the range of valid inputs.
    mask: 1 where an input may change, of the shape of one input; None: everywhere.
    batch_size: number of samples that the networks read at a time.
    seed: seed of the random draws.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    inputs, labels = _inputs(x), as_tensor(y, "targets")
    if labels.shape != inputs.shape[:1]:
        shape = tuple(labels.shape)
        raise NescioError(f"{len(inputs)} inputs but labels of shape {shape}; one per sample")
    _check(enough, seed, classes=classes, halving_steps=halving_steps, batch_size=batch_size)
    ball = {"radius": radius, "norm": norm, "low": low, "high": high}
    ways = _ways(inputs, ball, seed, mask=mask, batch_size=batch_size)
    lost, wrong = label_loss(source), wrong_confidence(source)
    halved: dict[str, Any] = {"steps": halving_steps, "halving": True}
    searches: dict[str, Search] = {
        LABELS + PLAIN: partial(ways.random, lost, steps=steps, step=step, turns=range(1)),
        LABELS + HALVING: partial(ways.at_inputs, lost, **halved),
        LABELS + LEAKING: partial(ways.random, leaking(lost), turns=range(1, 2), **halved),
        HALVING: partial(ways.at_inputs, wrong, **halved),
        LEAKING: partial(ways.random, leaking(wrong), turns=range(2, 3), **halved),
        CLASSES: partial(ways.class_by_class, source, count=classes, **halved),
    }
    options: dict[str, Any] = {"batch_size": batch_size, "progress": progress}
    return judge(wrong, inputs, (labels.to(inputs.device),), searches, enough=enough, **options)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Ways:
    """The attacks of a judge: where they start, and in which ball and box they stay."""

    ascent: Ascent  # for its ball and box
    options: dict[str, Any]  # of `pgd`
    seed: int

    def at_inputs(self, objective: Objective, near: Near, **how: Any) -> Attacked:
        """From the inputs themselves."""
        return self._climb(objective, near, "input", **how)

    def random(self, objective: Objective, near: Near, *, turns: range, **how: Any) -> Attacked:
        """From random points; start 0 is where `pgd` starts, in l2 and l1 the input."""
        found = []
        for turn in turns:
            begin: Any = None
            if turn or self.ascent.radius is None or self.ascent.norm is linf:
                shape = (1 + near.x[0].numel(),)
                draw = ood.uniform(shape, seed=derive(self.seed, "start", turn))
                begin = self.ascent.start(near.x, draw(near.index).to(near.x))
            found.append(self._climb(objective, near, begin, **how))
        return _best(found)

    def from_data(
        self,
        source: object,
        data: Tensor,
        labels: Tensor | None,
        near: Near,
        *,
        count: int,
        **how: Any,
    ) -> Attacked:
        """From inputs of the data, in the ball: of some candidates those of the highest value."""
        objective = confidence(source) if labels is None else misread(source)
        project, size = self.ascent.projection(near.x), self.options["batch_size"]
        chosen = self._candidates(data, near, project)
        shown = None if labels is None else labels[chosen]
        begun = torch.stack([project(data[column]) for column in chosen])
        values = [valued(objective, x, _row(shown, k), size) for k, x in enumerate(begun)]
        order = torch.stack(values, 1).argsort(dim=1, descending=True, stable=True)[:, :count]
        rows, found = torch.arange(len(near.x), device=order.device), []
        for one in order.T:
            targets = _row(shown, (one, rows))
            found.append(self._climb(objective, near, begun[one, rows], targets, **how))
        best = _best(found)
        wrong = wide(best.value > -FAR, near.x)
        return best if labels is None else replace(best, x=torch.where(wrong, best.x, near.x))

    def class_by_class(self, source: object, near: Near, *, count: int, **how: Any) -> Attacked:
        """Towards single classes, from the input: those that rise most in a few steps."""
        objective = class_confidence(source)
        tried = self._classes(source, near)
        trials = [
            self._climb(objective, near, "input", (column,), steps=TRIAL) for column in tried.T
        ]
        order = torch.stack([one.value for one in trials], 1).argsort(1, descending=True)
        columns = tried.gather(1, order[:, :count]).T
        ends = [self._climb(objective, near, "input", (column,), **how) for column in columns]
        return _best([*trials, *ends])

    def _climb(
        self,
        objective: Objective,
        near: Near,
        start: Any,
        targets: tuple[Tensor, ...] | None = None,
        **how: Any,
    ) -> Attacked:
        given = near.targets if targets is None else targets
        labels = given[0] if given else None
        return pgd(objective, near.x, labels, start=start, **self.options, **how)

    def _candidates(self, data: Tensor, near: Near, project: Callable[[Tensor], Tensor]) -> Tensor:
        """Indices of inputs of the data, `(CANDIDATES, K)`: the nearest, and random ones."""
        half = CANDIDATES // 2
        far = [
            (project(one.expand_as(near.x).clone()) - one).abs().flatten(1).sum(1) for one in data
        ]
        order = torch.stack(far, 1).argsort(dim=1, stable=True)
        draw = ood.uniform((half,), seed=derive(self.seed, "data"))(near.index).to(order.device)
        return torch.cat([order[:, :half], (draw * len(data)).long()], 1).T

    @torch.no_grad()
    def _classes(self, source: object, near: Near) -> Tensor:
        """The most probable classes of each input, without its label if there is one."""
        answered, size = answer_of(source), self.options["batch_size"]
        logs = torch.cat([answered(part).log_probs for part in near.x.split(size)])
        logs = logs if logs.ndim == 2 else logs.flatten(1, -2).mean(1)  # of maps, over the pixels
        for labels in near.targets:
            logs = logs.scatter(1, labels[:, None].to(logs.device), -torch.inf)
        count = min(TRIED, logs.shape[1] - len(near.targets))
        order = logs.argsort(dim=1, descending=True, stable=True)
        return order[:, :count].to(near.x.device)


def _ways(inputs: Tensor, ball: dict[str, Any], seed: int, **options: Any) -> _Ways:
    """The attacks in a ball and a box, in which the inputs must be."""
    ascent = Ascent(**ball)
    ascent.check(inputs)
    return _Ways(ascent=ascent, options={**ball, **options}, seed=seed)


def _best(found: list[Attacked]) -> Attacked:
    """The best of several attacks on the same inputs; blind where all of them are."""
    top, blind = (found[0].x, found[0].value), found[0].blind
    for one in found[1:]:
        top, blind = higher(top, one.x, one.value), blind & one.blind
    return Attacked(*top, blind)


def _row(labels: Tensor | None, index: Any) -> tuple[Tensor, ...]:
    """Labels at an index, as the targets of an objective; none where there are no labels."""
    return () if labels is None else (labels[index],)


def _check(enough: float, seed: int, **counts: int) -> None:
    """Refuse what would leave inputs alone and make a network look safe."""
    for name, count in counts.items():
        if not is_whole(count, 1):
            raise NescioError(f"{name} must be a whole number, at least 1, got {count!r}")
    if not is_whole(seed, 0):
        raise NescioError(f"seed must be a whole number from 0 up, got {seed!r}")
    if not is_real(enough, -math.inf, math.inf):
        raise NescioError(
            f"enough must be the log-odds of a confidence, such as {ENOUGH:.1f} for 0.999, got "
            f"{enough!r}"
        )


def _inputs(x: Any) -> Tensor:
    given = as_tensor(x, "inputs")
    kind = torch.float64 if given.dtype == torch.float64 else torch.float32
    return as_inputs(given, dtype=kind)


def _pool(starts: Any, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """Some inputs of the data, at even distances, and their labels if they came along."""
    pair = isinstance(starts, tuple) and len(starts) == 2
    given, labels = starts if pair else (starts, None)
    data = as_inputs(given, "starts", dtype=x.dtype, keep_bytes=True)
    if data.shape[1:] != x.shape[1:]:
        shapes = f"{tuple(x.shape[1:])}, got {tuple(data.shape[1:])}"
        raise NescioError(f"starts must be inputs of the same shape, {shapes}")
    count = min(POOL, len(data))
    even = torch.arange(count) * len(data) // count
    pool = as_inputs(data[even.to(data.device)], "starts", dtype=x.dtype).to(x.device)
    if labels is None:
        return pool, None
    named = as_tensor(labels, "labels of the starts")
    if named.shape != data.shape[:1] or named.is_floating_point():
        kind = f"{named.dtype} of shape {tuple(named.shape)}"
        raise NescioError(f"{len(data)} starts but labels are {kind}; give one class each")
    return pool, named[even.to(named.device)].to(x.device)
