"""Fitting random labels: learning curves, the slow-down, and what is left on new data.

Zhang et al. (2017), figure 1: networks fit labels that say nothing about the inputs, a little more
slowly, and the error on new data grows with the share of such labels.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio import metrics
from nescio.core import (
    Counts,
    Floats,
    Head,
    NescioError,
    Results,
    Row,
    as_inputs,
    as_targets,
    check_labels,
    digest,
    from_json,
    generator,
    load_manifest,
    save_manifest,
    to_json,
    unknown,
)
from nescio.data import door
from nescio.evaluation.answers import as_classification
from nescio.evaluation.generalization.fitting import Course, Fit
from nescio.geometry import far_field, first_confident, through_origin
from nescio.metrics import Interval, t_interval
from nescio.models import Model
from nescio.training import Stepper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KIND = "random labels"
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
LOOKS = ("test", "ece", "confidence", "far_field", "far_factor")
MEASURED = (
    "train", "epochs_to_fit", "slow_down", "test", "generalization_error", "ece", "confidence",
    "far_field", "far_factor",
)  # fmt: skip
RAYS = 20  # test inputs that are followed to infinity


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RandomLabels:
    """Networks trained on labels of which a share is random: S shares, R seeds, E epochs.

    samples: number of training samples.
    shares: shares of labels that are drawn at random, `(S,)`.
    goal: training accuracy at which labels count as fitted.
    loss: mean training loss in each epoch, `(S, R, E)`.
    train: training accuracy after each epoch, on the labels as they are taught, `(S, R, E)`.
    epochs: epochs after which the test data were looked at, `(L,)`.
    test: accuracy on test data, whose labels are all right, `(S, R, L)`.
    ece: expected calibration error on test data, `(S, R, L)`.
    confidence: mean confidence on test data, `(S, R, L)`.
    far_field: mean limit of the confidence on rays through test inputs, or NaN, `(S, R, L)`.
    far_factor: median factor to a confidence of 99.9 %, `(S, R, L)`; NaN: never, or unknown.
    model: the networks, share by share; None where they were not stored.
    """

    samples: int
    shares: tuple[float, ...]
    goal: float
    loss: Floats
    train: Floats
    epochs: Counts
    test: Floats
    ece: Floats
    confidence: Floats
    far_field: Floats
    far_factor: Floats
    model: Model | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        _, seeds, epochs = self.train.shape
        return (
            f"RandomLabels({self.samples} samples, {self.shares}, {seeds} seeds, {epochs} epochs)"
        )

    @property
    def epochs_to_fit(self) -> Floats:
        """The first epoch after which each network has fitted its labels (S, R), or infinity."""
        reached = self.train >= self.goal
        return np.where(reached.any(-1), 1.0 + reached.argmax(-1), np.inf)

    @property
    def slow_down(self) -> Floats:
        """Epochs to fit, over those that the first share took with the same seed, (S, R)."""
        needed = self.epochs_to_fit
        with np.errstate(invalid="ignore"):
            return np.asarray(needed / needed[:1])

    @property
    def generalization_error(self) -> Floats:
        """Accuracy on the training labels less that on test data, (S, R), in the end."""
        return np.asarray(self.train[..., -1] - self.test[..., -1])

    def interval(self, name: str, *, level: float = 0.95) -> list[Interval]:
        """The mean over seeds with Student's interval, one per share; infinite ones have none.

        name: `"train"`, `"test"`, `"ece"`, `"confidence"`, `"far_field"` or `"far_factor"` in the
          end, `"epochs_to_fit"`, `"slow_down"` or `"generalization_error"`.
        level: confidence level of the interval.
        """
        if name not in MEASURED:
            raise NescioError(unknown("number", name, MEASURED))
        found = getattr(self, name)
        last = found[..., -1] if found.ndim == 3 else found
        return [
            t_interval(row, level=level)
            if np.isfinite(row).all()
            else Interval(float(row.mean()), math.nan, math.nan)
            for row in last
        ]

    @property
    def results(self) -> Results:
        """The numbers in the end as rows, for selection, frames and other tables."""
        rows = [
            Row(subject=f"{100 * share:g} % random", data="end", metric=name, value=ends.value,
                low=_finite(ends.low), high=_finite(ends.high))
            for name in MEASURED
            for share, ends in zip(self.shares, self.interval(name), strict=True)
            if not math.isnan(ends.value)
        ]  # fmt: skip
        return Results(tuple(rows), (), {"kind": KIND, "samples": self.samples})

    def __str__(self) -> str:
        from nescio.report.render import Page

        return Page(tables=(self.results.table("subject", "metric"),)).text()

    def plot(self) -> "Figure":
        """Learning curves, epochs to fit, errors, calibration and far field, by share."""
        from nescio.report.plots.random_labels_plot import random_labels_plot

        figure: Figure = random_labels_plot(self)
        return figure

    def save(self, path: str | Path) -> Path:
        """Write the numbers as JSON at `path`, and return the path."""
        save_manifest(Path(path), {"kind": KIND, **to_json(self)})
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> "RandomLabels":
        """Read what `save` wrote at `path`; the networks are not among it."""
        return from_json(cls, load_manifest(Path(path), KIND), str(path))


def fit_random_labels(
    make_net: Callable[[], nn.Module],
    data: tuple[Any, Any],
    test: tuple[Any, Any],
    *,
    shares: Sequence[float] = SHARES,
    seeds: int = 5,
    goal: float = 1.0,
    epochs: int = 200,
    batch_size: int | None = 100,
    optimizer: str = "adam",
    learning_rate: float = 1e-3,
    head: Head | str | None = None,
    looks: int = 8,
    seed: int = 0,
    run: str | Path | None = None,
    progress: bool | None = None,
) -> RandomLabels:
    """Train networks on labels of which a share is random, and look at what they know then.

    `fit_random_labels(lambda: nets.mlp(784, 10), train, test).slow_down` says how much longer
    random labels take; all shares and seeds train at once, as members of one stack.

    make_net: a function without arguments that makes a network.
    data: training inputs and labels, `(x, y)`.
    test: test inputs and labels, `(x, y)`; these labels stay as they are.
    shares: shares of the training labels that are replaced by random ones, each class alike. With a
      seed, the samples of a smaller share are among those of a larger one. The first share is what
      `slow_down` divides by.
    seeds: number of networks for each share.
    goal: accuracy on the training labels at which they count as fitted. All go on until the last
      one has it, for at most `epochs`.
    epochs: largest number of epochs.
    batch_size: samples per step; None: all samples at once.
    optimizer: name of the optimizer.
    learning_rate: its learning rate.
    head: how outputs are read, a head or its name; None: class logits.
    looks: how often the test data are looked at, after 1, 2, 4, ... epochs and in the end:
      accuracy, expected calibration error, mean confidence; and far away, on rays through test
      inputs, the limit of the confidence (`geometry.far_field`) and the factor at which it is 99.9
      % (`geometry.first_confident`). Both are NaN for networks that are not piecewise affine.
    seed: seed of the random draws.
    run: a folder for checkpoints; the same call resumes there. None: none are written.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    x, y = _pair(data, "training data")
    held = _pair(test, "test data")
    _check(shares, seeds, goal, looks)
    classes = int(max(y.max(), held[1].max())) + 1
    each = [(share, one) for share in shares for one in range(seeds)]
    fit = Fit(
        make_net=make_net,
        x=x,
        labels=torch.stack([noisy_labels(y, share, classes, seed + one) for share, one in each]),
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        learning_rate=learning_rate,
        head=head,
        seed=seed,
        look=lambda state, epoch: _look(state, held) if _is_due(epoch, epochs, looks) else None,
        looked_at=(digest(*held), looks),
        enough=lambda course: bool(course.accuracy) and min(course.accuracy[-1]) >= goal,
    )
    state, course = fit.run(None if run is None else Path(run), progress)
    if (last := str(state.rounds)) not in course.looks:
        course.looks[last] = _look(state, held)
    return _collected(state, course, len(x), tuple(shares), seeds, goal)


def noisy_labels(y: Tensor, share: float, classes: int, seed: int) -> Tensor:
    """Labels of which a share, rounded to whole samples, is drawn again from all classes."""
    draws = generator(seed, "random labels")
    order = torch.randperm(len(y), generator=draws)
    drawn = torch.randint(classes, (len(y),), generator=draws)
    rows = order[: round(share * len(y))]
    return y.index_put((rows,), drawn[rows])


def _is_due(epoch: int, epochs: int, looks: int) -> bool:
    """Whether test data are looked at: after 1, 2, 4, ... epochs, as many as there are looks."""
    return epoch == epochs or (epoch & (epoch - 1) == 0 and epoch < 2 ** (looks - 1))


@torch.no_grad()
def _look(state: Stepper, held: tuple[Tensor, Tensor]) -> list[list[float]]:
    """What each network does on test data, `(M, 5)`."""
    probs = as_classification(state(held[0])).member_probs  # (M, N, C)
    confidence, labels = probs.max(-1)
    right = labels == held[1]
    errors = [metrics.ece(sure, hit) for sure, hit in zip(confidence, right, strict=True)]
    near = right.double().mean(1), torch.tensor(errors), confidence.mean(1)
    columns = [column.double() for column in (*near, *_far(state, held[0]))]
    return torch.stack(columns, 1).tolist()


def _far(state: Stepper, x: Tensor) -> tuple[Tensor, Tensor]:
    """On rays through inputs: the mean limit of the confidence of each network, and the factor."""
    try:
        rays = through_origin(as_inputs(x[:RAYS]).double())
        limit = far_field(state.live, *rays).confidence.mean(-1)
        factor = first_confident(state.live, *rays).factor.quantile(0.5, dim=-1)
        return limit, torch.where(factor.isfinite(), factor, torch.nan)
    except NescioError:  # not piecewise affine
        unknown = torch.full((len(state.members),), torch.nan)
        return unknown, unknown


def _collected(
    state: Stepper, course: Course, samples: int, shares: tuple[float, ...], seeds: int, goal: float
) -> RandomLabels:
    def shaped(values: Any) -> Floats:
        """Of each epoch or look one per member, as `(S, R, ...)`."""
        found = np.array(values, dtype=np.float64).reshape(-1, len(shares), seeds)
        return np.moveaxis(found, 0, -1)

    order = sorted(course.looks, key=int)
    looks = np.array([course.looks[epoch] for epoch in order], dtype=np.float64)  # (L, M, 5)
    seen = [shaped(looks[..., place]) for place in range(5)]
    return RandomLabels(
        samples=samples,
        shares=shares,
        goal=goal,
        loss=shaped(course.loss),
        train=shaped(course.accuracy),
        epochs=np.array([int(epoch) for epoch in order]),
        **dict(zip(LOOKS, seen, strict=True)),
        model=state.model(),
    )


def _pair(given: Any, name: str) -> tuple[Tensor, Tensor]:
    x, y = door.read(given, name=name)
    labels = as_targets(y, len(x), task="classification")
    return x, check_labels(labels, int(labels.max()) + 1, (len(x),))


def _check(shares: Sequence[float], seeds: int, goal: float, looks: int) -> None:
    if not len(shares) or not all(0 <= share <= 1 for share in shares):
        raise NescioError(f"shares must be one or more numbers from 0 to 1, got {shares}")
    if not 0 < goal <= 1:
        raise NescioError(f"goal must be an accuracy above 0 and up to 1, got {goal}")
    if min(seeds, looks) < 1:
        raise NescioError(f"seeds and looks must be positive, got {seeds} and {looks}")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
