"""Failure scores on the samples that fitted nothing, and on OOD data, as the guard reads them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError
from nescio.evaluation.audit.sections import CLASSES, Material
from nescio.guards import DECISIONS, RULES

OOD, TIE = DECISIONS.index("ood"), list(RULES).index("tie")
LOG_ODDS = "log-odds of the label"
WIDTH = "width of the prediction interval"
Array = NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class OodScores:
    """Of the inputs of one OOD set."""

    score: Array
    never: Array  # called OOD: not answered, whatever the threshold
    answered: Array | None  # by the guard


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredScores:
    """One failure score per sample; without a guard it is that of the network alone."""

    name: str
    score: Array
    wrong: Array  # the label is, or of a regression: the interval misses the target
    never: Array
    answered: Array | None
    own: float | None  # the threshold of the guard
    ood: Mapping[str, OodScores]


def measured_scores(material: Material) -> MeasuredScores:
    """Those of the guard's failure score, or where there is no guard, of the log-odds."""
    if material.guard is None or material.decisions is None:
        return _without_guard(material)
    guard, decisions = material.guard, material.decisions
    y = material.held.measured[1].cpu()
    (rule,) = guard.rules
    if material.task == CLASSES:
        name = LOG_ODDS if guard.failure is None else f"{guard.failure.name} failure score"
        wrong = decisions.label.cpu() != y
    else:
        name, wrong = WIDTH, decisions.missed(y).cpu()
    own = _read(guard, decisions)
    ood = {one: _read(guard, each) for one, each in material.decisions_ood.items()}
    return MeasuredScores(
        name=name,
        score=own.score,
        wrong=wrong.numpy(),
        never=own.never,
        answered=own.answered,
        own=rule.coverage.threshold,
        ood=ood,
    )


def _without_guard(material: Material) -> MeasuredScores:
    """All test samples: no guard was fitted on any of them."""
    if material.task != CLASSES:
        raise NescioError("it reads the decisions of the guard, and there is no guard here")
    seen = material.answers()
    score = np.asarray(seen.scores["log_odds"])
    ood = {name: np.asarray(one.scores["log_odds"]) for name, one in material.seen_ood.items()}
    return MeasuredScores(
        name=LOG_ODDS,
        score=score,
        wrong=(seen.labels != material.y).numpy(),
        never=np.zeros(len(score), bool),
        answered=None,
        own=None,
        ood={
            name: OodScores(score=one, never=np.zeros(len(one), bool), answered=None)
            for name, one in ood.items()
        },
    )


def _read(guard: Any, decisions: Any) -> OodScores:
    if hasattr(decisions, "failure_score"):
        score = decisions.failure_score
    else:
        score = guard.widths(decisions.low, decisions.high)
    never = (decisions.decision == OOD) | (decisions.rule == TIE)
    return OodScores(
        score=score.cpu().numpy(),
        never=never.cpu().numpy(),
        answered=decisions.answered.cpu().numpy(),
    )
