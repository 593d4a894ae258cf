"""The Rademacher complexity of a network on given inputs: how well it fits random signs.

R_n(H) = E_sigma sup_h 1/n sum_i sigma_i h(x_i), where h answers -1 or 1 (Zhang et al., 2017).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio.core import (
    Floats,
    Head,
    NescioError,
    as_inputs,
    check_level,
    from_json,
    generator,
    load_manifest,
    save_manifest,
    to_json,
)
from nescio.evaluation.generalization.fitting import Course, Fit
from nescio.metrics import Interval, t_interval

KIND = "rademacher complexity"


@dataclass(frozen=True, eq=False, kw_only=True)
class Rademacher:
    """The largest correlation with the signs of each draw; the complexity is their mean.

    samples: number n of inputs.
    values: the largest correlation of each draw, `(draws,)`.
    exact: whether each value is the largest there is, or the largest that training found.
    seed: seed of the random draws.
    signs: whether the functions answer -1 or 1; otherwise any number.
    """

    samples: int
    values: Floats
    exact: bool
    seed: int
    signs: bool = True

    @property
    def estimate(self) -> float:
        """The mean over the draws."""
        return float(self.values.mean())

    def interval(self, *, level: float = 0.95) -> Interval:
        """The mean over the draws, with an interval of the complexity.

        For answers of -1 or 1 it holds with probability `level` whatever the inputs: one of the n
        signs of a draw changes its value by at most 2 / n, so that the mean of the largest values
        is within sqrt(2 log(2 / (1 - level)) / (n draws)) of the complexity (McDiarmid, 1989).
        Where training need not have found the largest, only the lower end is known, and the upper
        one is 1. For other functions it is Student's interval over the draws.

        level: confidence level of the interval.
        """
        if not self.signs:
            return t_interval(self.values, level=level)
        check_level(level)
        half = math.sqrt(2 * math.log(2 / (1 - level)) / (self.samples * len(self.values)))
        high = min(1.0, self.estimate + half) if self.exact else 1.0
        return Interval(self.estimate, max(0.0, self.estimate - half), high)

    def bound(self, error: float, *, margin: float | None = None, level: float = 0.95) -> float:
        """What theory says of the error rate on new data, given that on the training data.

        error + R_n + 3 sqrt(log(2 / (1 - level)) / 2n), with probability `level` (Bartlett and
        Mendelson, 2002; for answers -1 and 1). It says nothing where it is 0.5 or more: guessing is
        as good. Where the values are not exact, the true bound is larger.

        error: error rate on the training data; with a margin, the share of the training data for
          which label times answer is at most the margin.
        margin: above 0, for functions with any numbers as answers, such as those of
          `linear_rademacher`, whose sign is the class; R_n then counts 2 / margin times. None: the
          functions answer -1 or 1.
        level: probability with which the bound holds.
        """
        check_level(level)
        if not 0 <= error <= 1:
            raise NescioError(f"error must be an error rate, from 0 to 1, got {error}")
        if self.signs != (margin is None) or (margin is not None and not 0 < margin < math.inf):
            raise NescioError(
                "functions that answer -1 or 1 have no margin, leave it out"
                if self.signs
                else "functions that answer any number need a positive margin, such as margin=1; "
                f"got {margin}"
            )
        spread = math.sqrt(math.log(2 / (1 - level)) / (2 * self.samples))
        times = 1 if margin is None else 2 / margin
        return error + times * self.estimate + 3 * spread

    def __str__(self) -> str:
        ends = self.interval()
        known = f"{ends.value:.3f} ({ends.low:.3f} to {ends.high:.3f}"
        found = f"at least {ends.low:.3f} (training found {ends.value:.3f}"
        bound = self.bound(0.0, margin=None if self.signs else 1.0)
        return (
            f"Rademacher complexity on {self.samples} inputs: {known if self.exact else found}, "
            f"{len(self.values)} draws of signs); theory bounds the error on new data by "
            f"{'the training error' if self.signs else 'the share of margins up to 1'} plus "
            f"{bound:.2f}{', which says nothing' if bound >= 0.5 else ''}"
        )

    def save(self, path: str | Path) -> Path:
        """Write a JSON file at `path`, and return the path."""
        save_manifest(Path(path), {"kind": KIND, **to_json(self)})
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> "Rademacher":
        """Read what `save` wrote at `path`."""
        return from_json(cls, load_manifest(Path(path), KIND), str(path))


def rademacher(
    make_net: Callable[[], nn.Module],
    x: Any,
    *,
    draws: int = 10,
    epochs: int = 200,
    patience: int = 50,
    batch_size: int | None = 100,
    optimizer: str = "adam",
    learning_rate: float = 1e-3,
    head: Head | str | None = None,
    seed: int = 0,
    run: str | Path | None = None,
    progress: bool | None = None,
) -> Rademacher:
    """How well networks of one architecture, trained with your options, fit random signs of inputs.

    `rademacher(lambda: nets.mlp(784, 2), x).estimate` is near 1 where they fit any labels. A
    network of more classes learns the signs as its first two, and others count as wrong. One output
    needs head="binary". Training need not find the largest correlation, so that the value is a
    lower bound of the complexity, and of a linear classifier often a loose one.

    make_net: a function without arguments that makes a network.
    x: inputs, `(N, *features)`.
    draws: number of draws of signs; all are fitted at once, as members of one stack.
    epochs: largest number of epochs; training ends when all signs are fitted.
    patience: training ends, too, when no draw was fitted better for this number of epochs.
    batch_size: samples per step; None: all samples at once.
    optimizer: name of the optimizer.
    learning_rate: its learning rate.
    head: how outputs are read, a head or its name; None: class logits.
    seed: seed of the random draws.
    run: a folder for checkpoints; the same call resumes there. None: none are written.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    if draws < 2:
        raise NescioError(f"draws must be at least 2, so that there is an interval, got {draws}")
    inputs = as_inputs(x, keep_bytes=True)
    signs = random_signs(len(inputs), draws, seed)

    def enough(course: Course) -> bool:
        best = np.maximum.accumulate(np.array(course.accuracy or [[0.0]]).clip(0), 0)
        stuck = len(best) > patience and (best[-1] <= best[-1 - patience]).all()
        return bool((best[-1] == 1).all() or stuck)

    fit = Fit(
        make_net=make_net,
        x=inputs,
        labels=(signs > 0).long(),
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        learning_rate=learning_rate,
        head=head,
        seed=seed,
        enough=enough,
    )
    _, course = fit.run(None if run is None else Path(run), progress)
    values = (2 * np.array(course.accuracy).max(0) - 1).clip(0)  # one class for all reaches 0
    return Rademacher(
        samples=len(inputs), values=values, exact=bool((values == 1).all()), seed=seed
    )


def linear_rademacher(x: Any, *, radius: float = 1.0, draws: int = 10, seed: int = 0) -> Rademacher:
    """The complexity of linear functions w.x with a norm of w up to `radius`, by its closed form.

    The largest correlation with signs is radius / n times the norm of their sum of inputs; it falls
    like 1 / sqrt(n). The signs are those of `rademacher` with the same seed. The answers are
    numbers, not classes: `bound` needs a margin.

    x: inputs, `(N, *features)`.
    radius: largest norm of w.
    draws: number of draws of signs.
    seed: seed of the random draws.
    """
    if not 0 < radius < math.inf:
        raise NescioError(f"radius must be positive, got {radius}")
    inputs = as_inputs(x).double().flatten(1)
    sums = random_signs(len(inputs), draws, seed).double() @ inputs.cpu()  # (draws, D)
    values = (radius / len(inputs) * sums.norm(dim=1)).numpy()
    return Rademacher(samples=len(inputs), values=values, exact=True, seed=seed, signs=False)


def random_signs(samples: int, draws: int, seed: int) -> Tensor:
    """-1 or 1 for every sample, `(draws, samples)`; a draw is the same among more draws."""
    if draws < 1:
        raise NescioError(f"draws must be positive, got {draws}")
    each = [
        torch.randint(2, (samples,), generator=generator(seed, "signs", draw))
        for draw in range(draws)
    ]
    return 2 * torch.stack(each) - 1
