"""Prediction sets by split conformal prediction: by a threshold, adaptive, without a long tail."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
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
    joined,
    two_logits,
)
from nescio.core.registry import conformal_methods

LOGARITHMS = ("threshold",)  # scores that rounding moves as it moves logits
CHUNK = 1 << 18  # numbers of a chunk: they stay in the cache
ROUNDED = {torch.float32: 1e-6, torch.float64: 1e-12}  # how far it moves sums of probabilities

# how badly each class fits, larger is worse: (log_probs (n, C), u (n,) or None) -> (n, C)
scores = Registry("kind of prediction set")
# the same of the label alone: (logits or log_probs (n, C), labels (n,)) -> (n,); in any precision
label_scores = Registry("kind of prediction set")
# which classes have a score up to a limit: (logits or log_probs (n, C), (n or 1, C or 1)) -> (n, C)
up_to = Registry("kind of prediction set")


@dataclass(frozen=True, eq=False)
class Sets(Fitted):
    """Prediction sets that can be called; calibrated by a function of `nescio.conformal`.

    A set holds the classes whose score is at or below a limit. It may be empty: no class fits as
    well as the calibration labels did. `never_empty` adds the most probable class to every set.
    Where rounding may decide (of `threshold`, unless randomized), a class belongs to the set.

    name: name of the function that calibrated them.
    options: their options, as JSON values.
    state: limits of each cell, in float64, by name.
    """

    kind = "prediction sets"
    known = scores

    @torch.no_grad()
    def __call__(
        self, prediction: Classification | Array, groups: Any = None, *, inputs: Array | None = None
    ) -> Tensor:
        """Sets `(N, C)`, True where a class is in the set.

        prediction: predictions on new data: a classification, or logits `(N, C)` or `(M, N, C)`.
        groups: group numbers `(N,)`, for sets that hold for each group.
        inputs: inputs of the network, `(N, ...)`. In randomized sets each sample draws its number
          by them, alone or in any batch; None: by its prediction, so that equal predictions draw
          alike.
        """
        prediction = as_classification(prediction)
        if prediction.classes != self.options["classes"]:
            raise NescioError(
                f"these sets were calibrated for {self.options['classes']} classes, the "
                f"prediction has {prediction.classes}; use the same network"
            )
        cells = self._cells(prediction, groups)
        keys = _keys(inputs, prediction) if self.options["randomize"] else None
        parts = []
        for start, logs in _chunks(prediction, exact=keys is not None):
            span = slice(start, start + len(logs))
            own = cells[span] if len(cells) > 1 else cells
            if keys is None:
                found = self._plain(logs, own)
            else:
                found = self._randomized(logs, own, keys[span])
            if self.options["never_empty"]:
                found.scatter_(1, logs.argmax(1, keepdim=True), True)
            parts.append(found)
        if not parts:
            return torch.ones(0, prediction.classes, dtype=torch.bool, device=prediction.device)
        result: Tensor = joined(parts)
        return result

    def _plain(self, logs: Tensor, cells: Tensor) -> Tensor:
        limit = self._highest[logs.dtype].to(logs.device)[cells]
        result: Tensor = up_to[self.name](logs, limit, **self.options["score"])
        return result

    @cached_property
    def _highest(self) -> dict[torch.dtype, Tensor]:
        """The largest score in each cell, with the room for rounding of either precision."""
        high = self.state["high"]
        if self.name in LOGARITHMS:
            return dict.fromkeys(ROUNDED, high + score_limits.rounding(high))
        return {dtype: high + room for dtype, room in ROUNDED.items()}

    def _randomized(self, logs: Tensor, cells: Tensor, keys: Tensor) -> Tensor:
        u, ties = _draws(self.options, CALLS, keys, logs.device)
        score = scores[self.name](logs, u, **self.options["score"])
        cells = cells.expand(len(logs), -1)
        highest, closed = score_limits.limits(self.state, cells, ties[:, None].expand(cells.shape))
        result: Tensor = (score < highest) | (closed & (score <= highest))
        return result

    def _cells(self, prediction: Classification, groups: Any) -> Tensor:
        """The cell of each sample and class, `(N or 1, C or 1)`: 1 where all share one."""
        if self.options["by"] == "class" and groups is None:
            return torch.arange(prediction.classes, device=prediction.device)[None]
        cells = self.group_cells(groups, "sets", len(prediction), prediction.device)
        return cells if self.options["by"] == "group" else cells[:1]

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
        "seed": score_limits.seed_of(seed, labels, prediction.log_probs) if randomize else seed,
        "score": score_options,
    }
    values = []
    for start, logs in _chunks(prediction, exact=bool(randomize)):
        own = labels[start : start + len(logs)].to(logs.device)
        if randomize:
            keys = torch.arange(start, start + len(logs))
            u, _ = _draws(options, CALIBRATION, keys, logs.device)
            score = scores[name](logs, u, **score_options).gather(1, own[:, None])[:, 0]
        else:
            score = label_scores[name](logs, own, **score_options)
        values.append(score.cpu().double())
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


def _keys(inputs: Array | None, prediction: Classification) -> Tensor:
    """A number for each sample by which it draws, whatever the batch; `(N,)` int64."""
    if inputs is None:
        logs = prediction.log_probs.double()  # what rounding may move counts as equal
        inputs = (logs / score_limits.TOLERANCE).clamp(min=-1e9).round()
    return score_limits.keys(inputs, len(prediction))


def _draws(
    options: Mapping[str, Any], stream: int, keys: Tensor, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Uniform numbers of each sample, for its score and for its ties."""
    pair = (score_limits.uniforms(options["seed"], s, keys) for s in (stream, -stream))
    first, second = (one.to(device) for one in pair)
    return first, second


def _chunks(prediction: Classification, *, exact: bool) -> Iterator[tuple[int, Tensor]]:
    """Starts and log probabilities (n, C), a bounded number at a time.

    Not exact: of one network logits in single precision will do, which cost no pass.
    """
    logits = None
    if isinstance(prediction, Categorical) and prediction.members == 1 and not exact:
        own = prediction.logits[0]
        logits = own.to(torch.promote_types(own.dtype, torch.float32))
    size = max(1, CHUNK // (prediction.members * prediction.classes))
    for start in range(0, len(prediction), size):
        span = slice(start, start + size)
        if logits is not None:
            yield start, logits if size >= len(logits) else logits[span]
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

        threshold(logits, labels, miscoverage=0.05)(new_logits)  # (N, C) booleans

    prediction: predictions on calibration data: a classification, or logits `(N, C)` or `(M, N,
      C)`.
    labels: true classes of the calibration data, `(N,)`.
    miscoverage: share of new samples whose label may be missed.
    by: None for all samples together, `"class"` for each class, or group numbers `(N,)` for each
      group.
    randomize: whether to break ties at random, so that the share is met exactly.
    never_empty: whether to add the most probable class to every set.
    seed: seed of the random draws; read with `randomize` only.
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


@label_scores.named("threshold")
def _label_threshold(logits: Tensor, labels: Tensor) -> Tensor:
    """The same of the label alone: the log of the sum of the others, minus its own."""
    index, highest = labels[:, None], logits.amax(1, keepdim=True)
    others = (logits - highest).exp_().scatter_(1, index, 0.0).sum(1, keepdim=True)
    lost = (others == 0)[:, 0]  # beyond the range of exp: again, with the others' own maximum
    score = others.log_() + (highest - logits.gather(1, index))
    if lost.any():
        rest = logits[lost].scatter(1, index[lost], -math.inf).logsumexp(1, keepdim=True)
        score[lost] = rest - logits[lost].gather(1, index[lost])
    return score[:, 0]


@up_to.named("threshold")
def _up_to_threshold(logits: Tensor, limit: Tensor) -> Tensor:
    """(1 - p) / p is at most exp(limit) where log p is at least -softplus(limit).

    Where p may be near 1, the most probable class is compared by the sum of the others.
    """
    lowest, highest = map(float, logits.amax(1).aminmax())
    if float(limit.min()) > -4 and max(-lowest, highest) < 64:  # single precision suffices
        log_odds = torch.nn.functional.softplus(limit).to(logits.dtype)
        plain: Tensor = logits.log_softmax(1) >= -log_odds
        return plain
    top = logits.argmax(1, keepdim=True)
    centered = logits - logits.gather(1, top)
    rest = centered.exp().scatter_(1, top, 0.0).sum(1, keepdim=True)
    least = rest.log1p() - torch.nn.functional.softplus(limit).to(logits.dtype)
    found = centered >= least
    own = limit if limit.shape[1] == 1 else limit.expand(len(logits), -1).gather(1, top)
    certain = rest == 0  # beyond the range of exp
    odds = rest.double().log()
    if certain.any():
        odds[certain] = _label_threshold(logits, top[:, 0])[:, None][certain].double()
    return found.scatter_(1, top, odds <= own)


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
    the network's accuracy, however large `miscoverage`.

        adaptive(logits, labels)(new_logits)  # (N, C) booleans

    prediction: predictions on calibration data: a classification, or logits `(N, C)` or `(M, N,
      C)`.
    labels: true classes of the calibration data, `(N,)`.
    miscoverage: share of new samples whose label may be missed.
    by: None for all samples together, `"class"` for each class, or group numbers `(N,)` for each
      group.
    randomize: whether the last class is in the set by chance, so that the share is met exactly.
    never_empty: whether to add the most probable class to every set.
    seed: seed of the random draws; read with `randomize` only.
    """
    options = miscoverage, by, randomize, never_empty, seed
    return calibrate("adaptive", prediction, labels, *options, {})


@scores.named("adaptive")
def _adaptive(log_probs: Tensor, u: Tensor | None) -> Tensor:
    return _ranked(log_probs, u)[0]


@label_scores.named("adaptive")
def _label_adaptive(logits: Tensor, labels: Tensor) -> Tensor:
    """The sum of the probabilities before the label's; of equal ones the first class is first."""
    return _label_ranked(logits, labels)[0]


def _label_ranked(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The sum before the label, and its rank from 1."""
    own = logits.gather(1, labels[:, None])
    before, same = logits > own, logits == own
    ties = same.sum(1) > 1
    if ties.any():
        first = torch.arange(logits.shape[1], device=logits.device) < labels[ties, None]
        before[ties] |= same[ties] & first
    weights = (logits - logits.amax(1, keepdim=True)).exp_()
    total = weights.sum(1)
    return weights.mul_(before).sum(1) / total, before.sum(1) + 1


@up_to.named("adaptive")
def _up_to_adaptive(logits: Tensor, limit: Tensor) -> Tensor:
    return _up_to_ranked(logits, limit, penalty=0.0, free=0)


@up_to.named("regularized_adaptive")
def _up_to_ranked(logits: Tensor, limit: Tensor, *, penalty: float, free: int) -> Tensor:
    """The score rises with the rank, so the classes up to some logit are in the set."""
    if limit.shape[1] > 1 or logits.device.type != "cpu":
        return _each_up_to(logits, limit, penalty, free)
    minus = torch.from_numpy(np.sort(-logits.numpy(), axis=1))  # much faster than with indices
    weights = (minus[:, :1] - minus).exp_()
    total = weights.cumsum(1)
    before = torch.cat([torch.zeros_like(total[:, :1]), total[:, :-1] / total[:, -1:]], 1)
    extra = penalty * (torch.arange(1, logits.shape[1] + 1) - free).clamp(min=0)
    count = (before <= limit - extra).sum(1, keepdim=True)
    last = minus.gather(1, (count - 1).clamp(min=0))
    last[count == 0] = -math.inf
    found: Tensor = -logits <= last
    tied = ((found.sum(1, keepdim=True) != count) & (count > 0))[:, 0]
    if tied.any():  # of equal logits some are in, by their indices
        own = limit[tied] if len(limit) > 1 else limit
        found[tied] = _each_up_to(logits[tied], own, penalty, free)
    return found


def _each_up_to(logits: Tensor, limit: Tensor, penalty: float, free: int) -> Tensor:
    before, rank = _ranked(logits.log_softmax(1), None)
    result: Tensor = before + penalty * (rank - free).clamp(min=0) <= limit
    return result


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

    Angelopoulos, Bates, Malik and Jordan (2021). Choose `penalty` and `free` without the
    calibration samples.

        regularized_adaptive(logits, labels, penalty=0.1)(new_logits)  # (N, C) booleans

    prediction: predictions on calibration data: a classification, or logits `(N, C)` or `(M, N,
      C)`.
    labels: true classes of the calibration data, `(N,)`.
    miscoverage: share of new samples whose label may be missed.
    by: None for all samples together, `"class"` for each class, or group numbers `(N,)` for each
      group.
    randomize: whether the last class is in the set by chance, so that the share is met exactly.
    never_empty: whether to add the most probable class to every set.
    seed: seed of the random draws; read with `randomize` only.
    penalty: what each rank beyond `free` adds to the score of a class.
    free: number of ranks without a penalty.
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


@label_scores.named("regularized_adaptive")
def _label_regularized(logits: Tensor, labels: Tensor, *, penalty: float, free: int) -> Tensor:
    before, rank = _label_ranked(logits, labels)
    return before.double() + penalty * (rank - free).clamp(min=0)
