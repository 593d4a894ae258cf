"""The risk of a service's answers, followed through the log as their labels come.

Answers are counted in the order of the log, up to the first that was drawn for a label and has
none yet: a choice of those that are labeled soon would be a choice of easy ones. An answer that has
no label after `wait_days` counts as an error in the upper bound and as none in the lower. A label
is what reviewers first agree on in that time; what they say later, or correct, changes nothing, so
that the same log always gives the same state. "Not one of these classes" is an error of an answer.
A skip is not a label: the answer stays in the queue for others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nescio.monitoring import RiskMonitor
from nescio.serving.consensus import AGREED, NONE, standing
from nescio.serving.decision_log import DecisionLog, Label, Logged
from nescio.serving.watch_settings import DAY

PIECE = 4096  # answers in one go


@dataclass(eq=False, kw_only=True)
class LabeledStream:
    """The answers of one version of a guard in one replica.

    guard, version, replica: which answers.
    reviews: number of reviewers who must agree on a label.
    wait_days: days after which a label is missing.
    risk: the monitor after the answers so far.
    seq: number of the last of them in the log.
    waiting: the answer whose label is waited for, and until when; None: there is none.
    """

    guard: str
    version: str
    replica: str
    reviews: int
    wait_days: float
    risk: RiskMonitor
    seq: int
    waiting: Logged | None = None
    _labels: dict[str, list[Label]] = field(default_factory=dict)
    _label: int = 0  # number of the last label that was read

    def follow(self, log: DecisionLog, now: float) -> bool:
        """Count what can be counted, at most some thousand answers; whether there may be more.

        log: the decision log.
        now: seconds since 1970.
        """
        for number, label in log.labels(after=self._label):
            self._labels.setdefault(label.decision, []).append(label)
            self._label = number
        if self.waiting is not None and self._error(self.waiting, now) is None:
            return False
        read = log.decisions(
            guard=self.guard,
            version=self.version,
            replica=self.replica,
            after=self.seq,
            decision="answer",
            limit=PIECE,
        )
        ready: list[tuple[Logged, float]] = []
        self.waiting = None
        for one in read:
            error = self._error(one, now) if one.picked else 0.0
            if error is None:
                self.waiting = one
                break
            ready.append((one, error))
        if ready:
            self._count(ready)
        return self.waiting is None and len(ready) == PIECE

    def _count(self, ready: Sequence[tuple[Logged, float]]) -> None:
        answers = [one for one, _ in ready]
        said = [1 - one.probability if one.probability is not None else None for one in answers]
        self.risk = self.risk.update(
            np.array([error for _, error in ready]),
            np.array([one.picked for one in answers]),
            np.array([one.propensity for one in answers]),
            np.clip([self.risk.risk if one is None else one for one in said], 0.0, 1.0),
            missing="worst",
        )
        self.seq = answers[-1].seq
        for one in answers:
            self._labels.pop(one.id, None)

    def _error(self, one: Logged, now: float) -> float | None:
        """1 if the answer is wrong, 0 if right, NaN if it is not known, None if it may still be."""
        until = one.time + self.wait_days * DAY
        labels = self._labels.get(one.id, [])
        for count, last in enumerate(labels, 1):
            if last.time > until:
                break
            found = standing(one.id, labels[:count], reviews=self.reviews)
            if found.state == AGREED:
                return float(found.kind == NONE or found.label != one.label)
        return math.nan if now > until else None
