"""How small a change of an input flips the answer, and examples that are confidently wrong."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nescio.attacks import margin, norm_named, pgd, wrong_confidence
from nescio.conformal import binomial_interval
from nescio.core import Head, NescioError, as_batch, as_inputs, as_targets, generator, is_whole
from nescio.data import ranges
from nescio.evaluation.answers import see
from nescio.metrics import Interval
from nescio.models import Predictor, plain, with_head
from nescio.nets import Output

SMALLEST = 1e-4  # of the largest change that the range of the data allows
ROUNDS = 8  # of bisection of the size, on a log scale: to about 4 %
HALVINGS = 10  # of the way from the input to a changed one
REACHED = 1e-4  # a margin that the attack need not raise
CONFIDENT = 2.0  # times the smallest change: how far an example may go


@dataclass(frozen=True, kw_only=True)
class SmallestChanges:
    """For samples with correct answers, the smallest change found that flips the answer.

    A size is that of a flip that was found and checked; a smaller one may exist. None: none was
    found.

    norm: norm of the changes.
    tried: number of samples that were looked at to find correct answers.
    sample: indices in the data.
    label: their labels.
    flipped_to: the answers to the changed inputs.
    confidence: confidence before the change.
    size: size of the change, as a share of the range of the data.
    x: inputs before the change, `(N, ...)`.
    changed: inputs after the change, `(N, ...)`.
    """

    norm: str
    tried: int
    sample: tuple[int, ...]
    label: tuple[int, ...]
    flipped_to: tuple[int | None, ...]
    confidence: tuple[float, ...]
    size: tuple[float | None, ...]
    x: Tensor | None = field(default=None, repr=False, compare=False)
    changed: Tensor | None = field(default=None, repr=False, compare=False)

    @property
    def sizes(self) -> Tensor:
        """The sizes, infinite where no change was found."""
        found = [math.inf if size is None else size for size in self.size]
        return torch.tensor(found, dtype=torch.float64)

    @property
    def median(self) -> Interval:
        """The median size with its exact interval of 95 %, from order statistics.

        Of fewer than six samples it is everything from 0 up.
        """
        from scipy.stats import binom

        ordered = self.sizes.sort().values
        count = len(ordered)
        low = int(binom.ppf(0.025, count, 0.5))
        middle = float((ordered[(count - 1) // 2] + ordered[count // 2]) / 2)
        if low == 0:
            return Interval(middle, 0.0, math.inf)
        return Interval(middle, float(ordered[low - 1]), float(ordered[count - low]))

    def within(self, size: float) -> Interval:
        """The share of samples that a change of at most `size` flips, with its exact interval."""
        return binomial_interval(int((self.sizes <= size).sum()), len(self.size))


@dataclass(frozen=True, kw_only=True)
class AdversarialExample:
    """An input that is answered correctly, and a small change of it that is confidently wrong.

    sample: index in the data.
    label: its label.
    confidence: confidence in the label before the change.
    wrong: the answer to the changed input.
    wrong_confidence: confidence in that answer.
    size: size of the change, as a share of the range of the data.
    x: the input before the change.
    changed: the input after the change.
    """

    sample: int
    label: int
    confidence: float
    wrong: int
    wrong_confidence: float
    size: float
    x: Tensor | None = field(default=None, repr=False, compare=False)
    changed: Tensor | None = field(default=None, repr=False, compare=False)


@torch.inference_mode(False)  # whatever the caller is in: attacks need gradients
def smallest_changes(
    source: nn.Module | Predictor,
    data: tuple[Any, Any],
    *,
    norm: str = "linf",
    samples: int = 100,
    steps: int = 20,
    head: Head | str | None = None,
    output: Output = None,
    seed: int = 0,
) -> SmallestChanges:
    """The smallest change of each input, found by attacks, that flips a correct answer.

    `smallest_changes(net, (x, y)).median`. The size is bisected for each sample by itself; the
    changed input is then brought back as near to the input as it stays flipped.

    source: a network or a predictor.
    data: inputs and labels, `(x, y)`.
    norm: `"linf"` (the largest change of a feature), `"l2"` or `"l1"`, in units of the range of the
      data: for images of all pixels, for tables of each feature.
    samples: number of samples, drawn from those that are answered correctly.
    steps: gradient steps of each attack.
    head: how the outputs of modules are read, as for `nescio.observe`.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    seed: seed of the random draws.
    """
    balls, rows, tried = _drawn(source, data, norm, samples, seed, head, output)
    near, size = balls.smallest(steps)
    seen = see(balls.predictor, balls.inputs(balls.center))
    after = see(balls.predictor, balls.inputs(near)).labels
    found = size.isfinite()
    return SmallestChanges(
        norm=norm,
        tried=tried,
        sample=tuple(rows.tolist()),
        label=tuple(balls.labels.tolist()),
        flipped_to=_where(found, after.tolist()),
        confidence=tuple(seen.confidence.tolist()),
        size=_where(found, size.tolist()),
        x=balls.inputs(balls.center),
        changed=balls.inputs(near),
    )


@torch.inference_mode(False)
def adversarial_examples(
    source: nn.Module | Predictor,
    data: tuple[Any, Any],
    *,
    norm: str = "linf",
    radius: float | None = None,
    count: int = 5,
    steps: int = 40,
    head: Head | str | None = None,
    output: Output = None,
    seed: int = 0,
) -> tuple[AdversarialExample, ...]:
    """Inputs that are answered correctly, each changed until the answer is confidently wrong.

    An input that cannot be flipped is left out.

    source: a network or a predictor.
    data: inputs and labels, `(x, y)`.
    norm: `"linf"` (the largest change of a feature), `"l2"` or `"l1"`, in units of the range of the
      data: for images of all pixels, for tables of each feature.
    radius: largest change, as a share of the range of the data; None: twice the smallest change of
      each input that flips its answer.
    count: number of inputs, drawn from those that are answered correctly.
    steps: gradient steps of each attack.
    head: how the outputs of modules are read, as for `nescio.observe`.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    seed: seed of the random draws.
    """
    if radius is not None and not radius > 0:
        raise NescioError(f"radius is a share of the range of the data, above 0, got {radius}")
    balls, rows, _ = _drawn(source, data, norm, count, seed, head, output)
    if radius is None:
        size = balls.smallest(steps)[1]
        radii = (CONFIDENT * size).clamp(max=balls.largest)
        radii = radii.where(size.isfinite(), balls.largest)
    else:
        radii = torch.full((len(rows),), min(radius, balls.largest), dtype=torch.float64)
    near = balls.attacked(wrong_confidence(balls.predictor), radii, steps)
    before = see(balls.predictor, balls.inputs(balls.center))
    after = see(balls.predictor, balls.inputs(near))
    kept = (after.labels != balls.labels).nonzero()[:, 0].tolist()
    x, changed, size = balls.inputs(balls.center), balls.inputs(near), balls.sizes(near)
    return tuple(
        AdversarialExample(
            sample=int(rows[i]),
            label=int(balls.labels[i]),
            confidence=float(before.confidence[i]),
            wrong=int(after.labels[i]),
            wrong_confidence=float(after.confidence[i]),
            size=float(size[i]),
            x=x[i],
            changed=changed[i],
        )
        for i in kept
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Balls:
    """Inputs in units of their range, each with a separate ball, and who answers."""

    predictor: Predictor
    center: Tensor  # (N, ...) in [0, 1]
    labels: Tensor  # (N,)
    units: ranges.Units
    norm: str

    @property
    def largest(self) -> float:
        """The largest change within the range of the data."""
        corner = torch.ones(1, self.center[0].numel(), dtype=torch.float64)
        return float(norm_named(self.norm).size(corner))

    def inputs(self, shares: Tensor) -> Tensor:
        """What shares of the range are as inputs."""
        return self.units.inputs(shares)

    def sizes(self, shares: Tensor) -> Tensor:
        """The sizes of the changes, `(N,)`."""
        moved = (shares - self.center).flatten(1).double()
        return norm_named(self.norm).size(moved)

    def flipped(self, shares: Tensor) -> Tensor:
        """Whether the answer is no longer the label."""
        return see(self.predictor, self.inputs(shares)).labels != self.labels

    def attacked(self, objective: Any, radii: Tensor, steps: int) -> Tensor:
        """The points in balls of these radii where an objective is highest.

        All balls are searched as one ball of radius 1, which each sample scales by its own.
        """
        wide = radii.to(self.center).view(-1, *(1 for _ in self.center.shape[1:]))

        def moved(move: Tensor, rows: Tensor) -> Tensor:
            return (self.center[rows] + wide[rows] * move).clamp(0, 1)

        def value(move: Tensor, rows: Tensor) -> Tensor:
            found: Tensor = objective(self.inputs(moved(move, rows)), self.labels[rows])
            return found

        rows = torch.arange(len(self.center))
        options: dict[str, Any] = {"radius": 1.0, "norm": self.norm, "low": -1.0, "high": 1.0}
        still = torch.zeros_like(self.center)
        found = pgd(value, still, rows, steps=steps, start="input", **options)
        return moved(found.x, rows)

    def smallest(self, steps: int) -> tuple[Tensor, Tensor]:
        """The nearest points found with another answer, and their sizes; infinite: none."""
        aim = margin(self.predictor)
        best, upper = self.center, torch.full((len(self.center),), math.inf, dtype=torch.float64)
        lower = torch.full_like(upper, SMALLEST * self.largest)
        for _ in range(ROUNDS):
            radii = (lower * upper.clamp(max=self.largest)).sqrt()
            near = self._nearest(self.attacked(aim, radii, steps))
            size = self.sizes(near).where(self.flipped(near), math.inf)
            better = size < upper
            best = near.where(better.view(-1, *(1 for _ in near.shape[1:])), best)
            lower = radii.where(size.isinf(), lower)
            upper = torch.where(better, size, upper)
            lower = torch.minimum(lower, upper)
        return best, upper

    def _nearest(self, shares: Tensor) -> Tensor:
        """The same as near to the centers, on straight lines, as they stay flipped."""
        far = torch.ones(len(shares), *(1 for _ in shares.shape[1:])).to(shares)
        close = torch.zeros_like(far)
        for _ in range(HALVINGS):
            middle = (close + far) / 2
            flipped = self.flipped(self.center + middle * (shares - self.center)).view_as(far)
            far, close = torch.where(flipped, middle, far), torch.where(flipped, close, middle)
        return self.center + far * (shares - self.center)


def _drawn(
    source: Any,
    data: tuple[Any, Any],
    norm: str,
    samples: int,
    seed: int,
    head: Head | str | None,
    output: Output,
) -> tuple[_Balls, Tensor, int]:
    """Samples that are answered correctly, drawn; their indices, and how many were looked at."""
    norm_named(norm)
    if not is_whole(samples, 1):
        raise NescioError(f"the number of samples must be whole, at least 1, got {samples!r}")
    x = as_inputs(data[0], keep_bytes=True)
    y = as_targets(data[1], len(x), task="classification").cpu()
    read = with_head(source, data, head=head, output=output)
    predictor: Predictor = plain(read) if isinstance(read, nn.Module) else read
    order = torch.randperm(len(x), generator=generator(seed, "stability"))
    right, tried = order[:0], 0
    while tried < len(x) and len(right) < samples:
        some = order[tried : tried + 2 * samples]
        tried += len(some)
        found = see(predictor, as_batch(x[some])).labels == y[some]
        right = torch.cat([right, some[found]])
    chosen = right[:samples].sort().values
    if not len(chosen):
        raise NescioError(f"none of the {len(x)} samples is answered correctly: nothing to flip")
    units = ranges.units_of(x)
    center = units.shares(as_batch(x[chosen]))
    balls = _Balls(predictor=predictor, center=center, labels=y[chosen], units=units, norm=norm)
    return balls, chosen, tried


def _where(found: Tensor, values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(v if there else None for there, v in zip(found.tolist(), values, strict=True))
