"""Prediction sets by split conformal prediction: a fitted value that can be called and saved."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.conformal import exact_quantiles
from nescio.conformal.exact_quantiles import CALIBRATION, CALLS, State
from nescio.conformal.fitted import Fitted, in_words, too_few, unlimited
from nescio.core import (
    Array,
    Categorical,
    Classification,
    FewSamplesWarning,
    NescioError,
    Registry,
    as_tensor,
    check_labels,
)

Score = Callable[..., Tensor]  # (log_probs (n, C), u (n,) or None, **options) -> (n, C)
KIND = "prediction sets"
LOGARITHMS = ("threshold",)  # scores that rounding moves as it moves logits
CHUNK = 1 << 20  # numbers of a chunk in float64

scores = Registry("kind of prediction set")  # how badly each class fits: larger is worse


@dataclass(frozen=True, eq=False)
class Sets(Fitted):
    """Prediction sets that can be called; calibrated by a function of `nescio.conformal`.

    A set holds the classes whose score is at or below a limit. It may be empty: no class fits as
    well as the calibration labels did. `never_empty` adds the most probable class to every set.
    Where rounding may decide (of `threshold`, unless randomized), a class belongs to the set.
    """

    kind = KIND
    known = scores

    @torch.no_grad()
    def __call__(
        self, prediction: Classification | Array, groups: Any = None, *, first: int = 0
    ) -> Tensor:
        """Sets `(N, C)`, True where a class is in the set.

        prediction: a classification, or logits `(N, C)` or `(M, N, C)`.
        groups: numbers `(N,)`, for sets that hold for each group.
        first: the number of the first sample, where randomized sets come in batches.
        """
        prediction = as_classification(prediction)
        if prediction.classes != self.options["classes"]:
            raise NescioError(
                f"these sets were calibrated for {self.options['classes']} classes, the "
                f"prediction has {prediction.classes}; use the same network"
            )
        cells = self._cells(prediction, groups)
        rows = [
            self._rows(logs, cells[start : start + len(logs)], first + start)
            for start, logs in _chunks(prediction)
        ]
        return torch.cat(rows) if rows else cells.new_zeros(0, prediction.classes).bool()

    def _rows(self, logs: Tensor, cells: Tensor, first: int) -> Tensor:
        u, ties = _draws(self.options, CALLS, first, logs)
        score = scores[self.name](logs, u, **self.options["score"])
        highest, closed = exact_quantiles.limits(
            self.state, cells, None if ties is None else ties[:, None].expand(cells.shape)
        )
        rounded = self.name in LOGARITHMS and not self.options["randomize"]
        last = highest + exact_quantiles.rounding(highest) if rounded else highest
        in_dist: Tensor = (score < highest) | (closed & (score <= last))
        if self.options["never_empty"]:
            in_dist.scatter_(1, logs.argmax(1, keepdim=True), True)
        return in_dist

    def _cells(self, prediction: Classification, groups: Any) -> Tensor:
        """The cell of each sample and class, `(N, C)`, or `(N, 1)` where all classes share one."""
        by, device = self.options["by"], prediction.device
        self.check_by(groups, "sets")
        if by == "group":
            numbers = exact_quantiles.check_groups(groups, len(prediction)).to(device)
            return exact_quantiles.cell_numbers(numbers, self.state["groups"])[:, None]
        columns = prediction.classes if by == "class" else 1
        return torch.arange(columns, device=device).expand(len(prediction), -1)

    @property
    def guarantee(self) -> str:
        """The guarantee in words, with its assumption."""
        exact = self.options["randomize"] and not self.options["never_empty"]
        return in_words("label", "set", self, exact=exact)


@torch.no_grad()
def calibrate(
    name: str,
    prediction: Classification | Array,
    labels: Any,
    miscoverage: float,
    by: Any,
    randomize: bool,
    never_empty: bool,
    seed: int,
    score_options: dict[str, Any],
) -> Sets:
    """Sets of a named score, from calibration samples with their labels."""
    prediction = as_classification(prediction)
    labels = check_labels(as_tensor(labels, "labels"), prediction.classes, (len(prediction),))
    if not len(labels) or (labels == labels[0]).all():
        only = f"are all of class {int(labels[0])}" if len(labels) else "are none"
        raise NescioError(
            f"the calibration labels {only}, which says nothing about other classes; calibrate on "
            "a random sample of labeled samples"
        )
    options: dict[str, Any] = {
        "classes": prediction.classes,
        "samples": len(labels),
        "miscoverage": exact_quantiles.check_miscoverage(miscoverage),
        "by": by if by is None or isinstance(by, str) else "group",
        "randomize": bool(randomize),
        "never_empty": bool(never_empty),
        "seed": seed,
        "score": score_options,
    }
    values = [
        scores[name](logs, _draws(options, CALIBRATION, start, logs)[0], **score_options)
        .gather(1, labels[start : start + len(logs), None].to(logs.device))[:, 0]
        .cpu()
        for start, logs in _chunks(prediction)
    ]
    cells, known = _calibration_cells(by, labels.cpu(), prediction.classes)
    state = exact_quantiles.fit(
        torch.cat(values).numpy(), cells, len(known), options["miscoverage"]
    )
    state = {**state, "groups": known} if options["by"] == "group" else state
    say_small(state, options)
    return Sets(name, options, state)


def _calibration_cells(
    by: Any, labels: Tensor, classes: int
) -> tuple["np.ndarray[Any, np.dtype[np.int64]]", Tensor]:
    """The cell of each calibration sample, and what the cells stand for."""
    if by is None:
        return torch.zeros_like(labels).numpy(), torch.zeros(1, dtype=torch.int64)
    if isinstance(by, str):
        if by != "class":
            raise NescioError(f"by must be None, 'class' or group numbers (N,), got {by!r}")
        return labels.numpy(), torch.arange(classes)
    known, cells = exact_quantiles.check_groups(by, len(labels)).cpu().unique(return_inverse=True)
    return cells.numpy(), known


def say_small(state: State, options: Mapping[str, Any]) -> None:
    """Refuse limits that are all infinite; warn of some that are."""
    if state["high"].isinf().all() and (state["steps"] == 0).all():
        raise NescioError(too_few(options, int(state["sizes"].max())))
    if message := unlimited(state, options):
        warnings.warn(message, FewSamplesWarning, stacklevel=5)


def as_classification(value: Classification | Array) -> Classification:
    """A classification of N samples; logits `(N, C)` or `(M, N, C)` are taken as one."""
    if not isinstance(value, Classification):
        logits = as_tensor(value, "logits")
        value = Categorical(logits[None] if logits.ndim == 2 else logits)
    if len(value.batch_shape) != 1 or value.classes < 2:
        raise NescioError(
            f"prediction sets need samples (N,) and two classes or more, got a batch of shape "
            f"{tuple(value.batch_shape)} and {value.classes} class(es); pixels of an image are not "
            "exchangeable with those of another: choose one per sample"
        )
    return value


def _draws(
    options: Mapping[str, Any], stream: int, first: int, logs: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Uniform numbers of each sample, for its score and for its ties; None where none are used."""
    if not options["randomize"]:
        return None, None
    pairs = exact_quantiles.uniforms(options["seed"], stream, 2 * first, 2 * len(logs)).to(
        logs.device
    )
    return pairs[0::2], pairs[1::2]


def _chunks(prediction: Classification) -> Iterator[tuple[int, Tensor]]:
    """Starts and log probabilities (n, C) in float64, a bounded number at a time."""
    size = max(1, CHUNK // (prediction.members * prediction.classes))
    whole = prediction.log_probs if prediction.members == 1 else None  # cached by the prediction
    for start in range(0, len(prediction), size):
        span = slice(start, start + size)
        if whole is not None and whole.dtype == torch.float64:
            yield start, whole[span]
        else:
            yield start, prediction[span].to(torch.float64).log_probs
