"""Prediction sets by split conformal prediction: by a threshold, adaptive, without a long tail."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.conformal import score_limits
from nescio.conformal.score_limits import CALIBRATION, CALLS, Fitted, in_words
from nescio.core import (
    Array,
    Categorical,
    Classification,
    NescioError,
    Prediction,
    Registry,
    as_tensor,
    check_labels,
    two_logits,
)
from nescio.core.registry import conformal_methods

LOGARITHMS = ("threshold",)  # scores that rounding moves as it moves logits
CHUNK = 1 << 20  # numbers of a chunk in float64

# how badly each class fits, larger is worse: (log_probs (n, C), u (n,) or None) -> (n, C)
scores = Registry("kind of prediction set")


@dataclass(frozen=True, eq=False)
class Sets(Fitted):
    """Prediction sets that can be called; calibrated by a function of `nescio.conformal`.

    A set holds the classes whose score is at or below a limit. It may be empty: no class fits as
    well as the calibration labels did. `never_empty` adds the most probable class to every set.
    Where rounding may decide (of `threshold`, unless randomized), a class belongs to the set.
    """

    kind = "prediction sets"
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
        highest, closed = score_limits.limits(
            self.state, cells, None if ties is None else ties[:, None].expand(cells.shape)
        )
        rounded = self.name in LOGARITHMS and not self.options["randomize"]
        last = highest + score_limits.rounding(highest) if rounded else highest
        in_dist: Tensor = (score < highest) | (closed & (score <= last))
        if self.options["never_empty"]:
            in_dist.scatter_(1, logs.argmax(1, keepdim=True), True)
        return in_dist

    def _cells(self, prediction: Classification, groups: Any) -> Tensor:
        """The cell of each sample and class, `(N, C)`, or `(N, 1)` where all classes share one."""
        cells = self.group_cells(groups, "sets", len(prediction), prediction.device)
        if self.options["by"] != "class":
            return cells
        return torch.arange(prediction.classes, device=cells.device).expand(len(cells), -1)

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
    if isinstance(by, str) and by != "class":
        raise NescioError(f"by must be None, 'class' or group numbers (N,), got {by!r}")
    if not len(labels) or (labels == labels[0]).all():
        only = f"are all of class {int(labels[0])}" if len(labels) else "are none"
        raise NescioError(
            f"the calibration labels {only}, which says nothing about other classes; calibrate on "
            "a random sample of labeled samples"
        )
    options: dict[str, Any] = {
        "classes": prediction.classes,
        "samples": len(labels),
        "miscoverage": score_limits.check_miscoverage(miscoverage),
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
    cells, known = score_limits.calibration_cells(None if isinstance(by, str) else by, len(labels))
    if options["by"] == "class":
        cells, known = labels.cpu(), torch.arange(prediction.classes)
    return Sets(name, options, score_limits.calibrated(torch.cat(values), cells, known, options))


def as_classification(value: Classification | Array) -> Classification:
    """A classification of N samples; logits `(N, C)` or `(M, N, C)` are taken as one.

    One logit a sample, `(N,)` or `(N, 1)`, is of class 1 of two.
    """
    if isinstance(value, Prediction) and not isinstance(value, Classification):
        raise NescioError(
            f"prediction sets are of classes, got a {type(value).__name__}; label_sets are of "
            "several labels, and residual, normalized and quantile give intervals of numbers"
        )
    if not isinstance(value, Classification):
        logits = as_tensor(value, "logits")
        logits = logits[:, None] if logits.ndim == 1 else logits
        logits = two_logits(logits) if logits.shape[-1] == 1 else logits
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
    pairs = score_limits.uniforms(options["seed"], stream, 2 * first, 2 * len(logs)).to(logs.device)
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


@conformal_methods.register
def threshold(
    prediction: Classification | Array,
    labels: Any,
    *,
    miscoverage: float = 0.1,
    by: Any = None,
    randomize: bool = False,
    never_empty: bool = False,
    seed: int = 0,
) -> Sets:
    """Classes whose probability is high enough; the smallest sets on average.

    Sadinle, Lei and Wasserman (2019).

    prediction, labels: of calibration data; a classification, or logits `(N, C)` or `(M, N, C)`.
    miscoverage: the share of new samples whose label may be missed.
    by: None for all samples together, "class" for each class, or group numbers `(N,)`.
    randomize: break ties at random, by `seed`, so that the share is met exactly.
    never_empty: add the most probable class to every set.

        threshold(logits, labels, miscoverage=0.05)(new_logits)  # (N, C) booleans
    """
    options = miscoverage, by, randomize, never_empty, seed
    return calibrate("threshold", prediction, labels, *options, {})


@scores.named("threshold")
def _threshold(log_probs: Tensor, _: Tensor | None) -> Tensor:
    """Log of (1 - p) / p: the order of 1 - p, also where p rounds to 1."""
    top = log_probs.argmax(-1, keepdim=True)
    others = log_probs.scatter(-1, top, -math.inf).logsumexp(-1, keepdim=True)
    rest = (-log_probs.exp().scatter(-1, top, 0.0)).log1p()  # at most 1/2 each, so accurate
    return rest.scatter(-1, top, others) - log_probs


@conformal_methods.register
def adaptive(
    prediction: Classification | Array,
    labels: Any,
    *,
    miscoverage: float = 0.1,
    by: Any = None,
    randomize: bool = False,
    never_empty: bool = False,
    seed: int = 0,
) -> Sets:
    """The most probable classes until their sum is enough (APS): larger sets for hard samples.

    Romano, Sesia and Candès (2020). Without `randomize` no set is empty, and coverage is at least
    the network's accuracy, however large `miscoverage`. With it, the last class is in by chance, so
    that the share is met exactly. The other options are those of `threshold`.

        adaptive(logits, labels)(new_logits)  # (N, C) booleans
    """
    options = miscoverage, by, randomize, never_empty, seed
    return calibrate("adaptive", prediction, labels, *options, {})


@scores.named("adaptive")
def _adaptive(log_probs: Tensor, u: Tensor | None) -> Tensor:
    return _ranked(log_probs, u)[0]


def _ranked(log_probs: Tensor, u: Tensor | None) -> tuple[Tensor, Tensor]:
    """The sum before each class (and a share u of its own), and its rank from 1."""
    probs, order = log_probs.exp().sort(dim=-1, descending=True, stable=True)
    before = torch.cat([torch.zeros_like(probs[:, :1]), probs.cumsum(-1)[:, :-1]], dim=-1)
    if u is not None:
        before = before + u[:, None] * probs
    rank = torch.arange(1, probs.shape[-1] + 1, device=order.device).expand_as(order)
    return before.scatter(-1, order, before), torch.empty_like(order).scatter(-1, order, rank)


@conformal_methods.register
def regularized_adaptive(
    prediction: Classification | Array,
    labels: Any,
    *,
    miscoverage: float = 0.1,
    by: Any = None,
    randomize: bool = False,
    never_empty: bool = False,
    seed: int = 0,
    penalty: float = 0.01,
    free: int = 5,
) -> Sets:
    """As `adaptive`, with a penalty for each rank beyond the first few (RAPS): no very large sets.

    Angelopoulos, Bates, Malik and Jordan (2021).

    penalty: what each rank beyond `free` adds to a class's score. Choose both without the
    calibration samples. The other options are those of `adaptive`.

        regularized_adaptive(logits, labels, penalty=0.1)(new_logits)  # (N, C) booleans
    """
    if not 0 <= penalty < float("inf") or free < 0:
        raise NescioError(
            f"penalty must be finite and free a number of ranks, both from 0 up, got {penalty} "
            f"and {free}"
        )
    name, options = "regularized_adaptive", (miscoverage, by, randomize, never_empty, seed)
    penalties = {"penalty": float(penalty), "free": int(free)}
    return calibrate(name, prediction, labels, *options, penalties)


@scores.named("regularized_adaptive")
def _regularized(log_probs: Tensor, u: Tensor | None, *, penalty: float, free: int) -> Tensor:
    before, rank = _ranked(log_probs, u)
    return before + penalty * (rank - free).clamp(min=0)
