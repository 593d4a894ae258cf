"""What watches a served guard: drift, the risk of its answers, and their accuracy without labels.

A watch belongs to one version of a guard in one replica. Drift and the accuracy without labels
follow the decisions as they are committed; the risk follows the log as labels come. States are
saved in the log with the number of the last decision in them; after a restart the later decisions
are read from the log, and the monitors are the same as without it, to the last bit. Replicas share
the calibration scores among them (`--replica i/n`), and what they say is merged.
"""

import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError
from nescio.guards import Guard, RegressionGuard
from nescio.monitoring import (
    AccuracyEstimate,
    Merged,
    MergedRisk,
    Monitor,
    RiskMonitor,
    estimated_accuracy,
    merge,
    merge_risks,
    monitor,
)
from nescio.serving.alarm_webhook import Webhook
from nescio.serving.alarms import Alarms
from nescio.serving.decision_log import DecisionLog, Entry
from nescio.serving.labeled_stream import LabeledStream
from nescio.serving.watch_settings import WatchSettings
from nescio.serving.watch_states import (
    RISK,
    STREAM,
    risk_bytes,
    risk_from,
    settings_from,
    state_name,
    stream_bytes,
    stream_from,
)
from nescio.serving.watch_words import (
    Apart,
    accuracy_words,
    alarm_words,
    apart_words,
    drift_words,
    risk_words,
)

BATCH = 256  # decisions that wait for the drift monitor, at most
PIECE = 4096  # decisions that are read at a time
SECOND = 1.0  # between two looks at the log


class Watch:
    """What watches one version of a guard in one replica.

    log: the decision log.
    name: of the guard.
    version: of the guard.
    guard: whose calibration scores are the reference for drift.
    settings: how it is watched.
    draws: the random numbers that choose answers for labels; None: nobody can foresee them.
    fresh: follow the whole log instead of the saved state.
    """

    def __init__(
        self,
        log: DecisionLog,
        name: str,
        version: str,
        guard: Guard | RegressionGuard,
        settings: WatchSettings | None = None,
        *,
        draws: np.random.Generator | None = None,
        fresh: bool = False,
    ) -> None:
        self.log, self.name, self.version = log, name, version
        self.settings = settings or WatchSettings()
        self.classifies = isinstance(guard, Guard)  # then labels say what is wrong
        self.trouble: str | None = None
        self.alarms = Alarms(log, name, version, self.settings.replica)
        self._draws = draws or np.random.default_rng()
        self._budget = self.settings.new_budget()
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._scores: list[float] = []
        self._probabilities: list[float] = []
        self._last: str | None = None  # id of the last decision
        self._seq = 0  # its number, where it is known
        self._saved = time.monotonic()
        self._ended = threading.Event()
        self._others: dict[str, Monitor] = {}
        self._other_risks: dict[str, RiskMonitor] = {}  # by replica
        self._other_settings: dict[str, WatchSettings] = {}
        self.no_drift: str | None = None  # why drift is not watched
        self._drift: Monitor | None
        self._accuracy: AccuracyEstimate
        self.labeled: LabeledStream
        self._restore(guard, fresh=fresh)
        self._webhook = self._hook()

    @property
    def drift(self) -> Monitor | None:
        """The monitor of this replica for drift; None: it is not watched."""
        with self._lock:
            self._flush()
            return self._drift

    @property
    def risk(self) -> RiskMonitor:
        """The monitor of the risk of this replica."""
        return self.labeled.risk

    @property
    def merged_drift(self) -> Merged | None:
        """Drift in all replicas together; None: it is not watched."""
        own = self.drift
        return None if own is None else merge([own, *self._others.values()])

    @property
    def merged_risk(self) -> MergedRisk:
        """The risk in all replicas together, as far as their settings are alike."""
        own, others = self.risk, self._other_risks.values()
        return merge_risks([own, *(one for one in others if _same_risk(one, own))])

    @property
    def apart(self) -> list[Apart]:
        """The replicas with answers whose settings differ, so that they are not merged."""
        return [
            Apart(self._other_settings[name], one)
            for name, one in sorted(self._other_risks.items())
            if one.count and name in self._other_settings and not _same_risk(one, self.risk)
        ]

    def picks(
        self, columns: Mapping[str, NDArray[Any]]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Which decisions go to review, and the probability with which each was chosen.

        columns: of `Decisions.columns()`. Where the guard abstains, the probability is 1.
        """
        answered = np.asarray(columns["decision"]) == "answer"
        said = columns.get("probability")
        given = np.full(len(answered), np.nan) if said is None else np.asarray(said, np.float64)
        errors = 1 - given[answered]
        drawn, self._budget = self._budget.after(errors)
        propensity = np.ones(len(answered))
        propensity[answered] = drawn
        return self._draws.random(len(answered)) < propensity, propensity

    def add(self, entries: Sequence[Entry]) -> None:
        """Count decisions of this version that are in the log now.

        entries: in the order of the log.
        """
        with self._lock:
            for one in entries:
                self._scores.append(np.inf if one.score is None else one.score)
                if one.decision == "answer" and one.probability is not None:
                    self._probabilities.append(min(max(one.probability, 0.0), 1.0))  # rounded
            if entries:
                self._last = entries[-1].id
            if len(self._scores) >= BATCH:
                self._flush()

    def follow(self, now: float | None = None) -> None:
        """Read the log as far as its labels are there, and what other replicas saved.

        now: seconds since 1970; None: by the clock.
        """
        more = self.classifies
        while more:
            more = self.labeled.follow(self.log, time.time() if now is None else now)
        if self.settings.shard[1] > 1:
            self._read_others()

    def join(self, others: Sequence["Watch"]) -> None:
        """Merge with what `others`, of the other replicas, say now instead of what was saved."""
        found = {one.settings.replica: one.drift for one in others}
        self._others = {name: one for name, one in found.items() if one is not None}
        self._other_risks = {one.settings.replica: one.risk for one in others}
        self._other_settings = {one.settings.replica: one.settings for one in others}

    def tick(self, now: float | None = None) -> None:
        """Follow the log, record and send alarms, and save the states from time to time.

        now: seconds since 1970; None: by the clock.
        """
        with self._turn:
            self.follow(now)
            self._alarm()
            if time.monotonic() - self._saved >= self.settings.save_seconds:
                self.save()

    def save(self) -> None:
        """Save the states in the log."""
        with self._lock:
            self._flush()
            drift, accuracy, last = self._drift, self._accuracy, self._last
        if last is not None:
            found = self.log.decision(last)
            self._seq = self._seq if found is None else found.seq
        names = [state_name(self.name, self.version, one, self.settings.replica) for one in KINDS]
        self.log.save_state(names[0], self._seq, stream_bytes(drift, accuracy, self.settings))
        self.log.save_state(names[1], self.labeled.seq, risk_bytes(self.labeled.risk))
        self._saved = time.monotonic()

    def start(self) -> "Watch":
        """Look at the log every second, in a thread that ends with the watch; the watch itself."""
        self.save()
        whose = weakref.ref(self)
        thread = threading.Thread(
            target=_every_second, args=(whose, self._ended), name="nescio_watch", daemon=True
        )
        thread.start()
        return self

    def close(self) -> None:
        """Look a last time, save the states, and end."""
        self._ended.set()
        self.tick()
        self.save()
        if self._webhook is not None:
            self._webhook.close()

    def status(self) -> dict[str, Any]:
        """What is known now, with its words; JSON."""
        with self._lock:
            self._flush()
            accuracy = self._accuracy
        risk = risk_words(self.merged_risk, self.labeled, classifies=self.classifies)
        if self.classifies:
            risk |= apart_words(risk, self.settings, self.apart)
        drift = drift_words(self._drift, self._joined(), self.no_drift)
        alarms = self.alarms.known()
        watched = {"drift": drift, "risk": risk}
        for one in alarms:  # of another replica, or of an earlier time
            if not watched[one["kind"]]["alarm"]:
                watched[one["kind"]]["words"] += alarm_words(one)
        return {
            "guard": self.name,
            "version": self.version,
            "replica": self.settings.replica,
            **watched,
            "accuracy": accuracy_words(accuracy, self.merged_risk, drift, self.classifies),
            "alarms": alarms,
            "trouble": self.trouble,
        }

    def _joined(self) -> Merged | str | None:
        """Drift in all replicas, or why it is not known."""
        try:
            return self.merged_drift
        except NescioError as error:
            return str(error)

    def _restore(self, guard: Guard | RegressionGuard, *, fresh: bool) -> None:
        """The saved states, and what came after them."""
        settings = self.settings
        new = self._new_drift(guard)
        self._drift, self._accuracy = new, estimated_accuracy(confidence=settings.confidence)
        name = state_name(self.name, self.version, STREAM, settings.replica)
        found = None if fresh else self.log.state(name)
        if found is not None:
            drift, accuracy = stream_from(found[1])
            if _same_drift(drift, new) and accuracy.confidence == settings.confidence:
                self._drift, self._accuracy, self._seq = drift, accuracy, found[0]
        self._replay()
        self.labeled = self._labeled(fresh=fresh)

    def _labeled(self, *, fresh: bool) -> LabeledStream:
        """The answers and their labels, from the saved state on."""
        settings = self.settings
        labeled = LabeledStream(
            guard=self.name,
            version=self.version,
            replica=settings.replica,
            reviews=settings.reviews,
            wait_days=settings.wait_days,
            risk=settings.new_risk(),
            seq=0 if fresh else self._seq,
        )
        name = state_name(self.name, self.version, RISK, settings.replica)
        kept = None if fresh else self.log.state(name)
        if kept is not None:
            risk = risk_from(kept[1])
            if _same_risk(risk, labeled.risk):  # other settings begin with what comes
                labeled.risk, labeled.seq = risk, kept[0]
        return labeled

    def _new_drift(self, guard: Guard | RegressionGuard) -> Monitor | None:
        shard, shards = self.settings.shard
        try:
            return monitor(guard, false_alarm=self.settings.false_alarm, shard=shard, shards=shards)
        except NescioError as error:
            self.no_drift = str(error)
            return None

    def _replay(self) -> None:
        """Decisions of the log after the state."""
        replica = self.settings.replica
        for one in self.log.decisions(
            guard=self.name, version=self.version, replica=replica, after=self._seq
        ):
            self.add([one])
            self._seq = one.seq

    def _flush(self) -> None:
        """Update the monitors with what waits; the lock is held."""
        scores, probabilities = self._scores, self._probabilities
        self._scores, self._probabilities = [], []  # also after an error: they would pile up
        if scores and self._drift is not None:
            self._drift = self._drift.update(np.array(scores))
        if probabilities:
            self._accuracy = self._accuracy.update(np.array(probabilities))

    def _read_others(self) -> None:
        """The last saved states of the other replicas."""
        own = self.settings
        streams = self.log.states(state_name(self.name, self.version, STREAM))
        risks = self.log.states(state_name(self.name, self.version, RISK))
        begin, end = (len(state_name(self.name, self.version, one)) for one in KINDS)
        self._other_settings = {name[begin:]: settings_from(b) for name, (_, b) in streams.items()}
        drifts: dict[str, Monitor] = {}
        for name, (_, body) in streams.items():
            drift, _ = stream_from(body)
            other = not name.endswith(f"/{STREAM}/{own.replica}")
            if other and drift is not None and drift.shard[1] == own.shard[1]:
                drifts[name] = drift
        found = {name[end:]: risk_from(body) for name, (_, body) in risks.items()}
        self._others = drifts
        self._other_risks = {name: one for name, one in found.items() if name != own.replica}

    def _alarm(self) -> None:
        """Record alarms that are new, and send them."""
        status = self.status()
        self.alarms.read()
        for kind in ("drift", "risk"):
            if status[kind].get("alarm") and not self.alarms.is_known(kind):
                self.alarms.record(kind, status[kind])
        if self._webhook is not None:
            for one in self.alarms.unsent():
                self._webhook.send(one)

    def _hook(self) -> Webhook | None:
        own = self.settings
        if own.webhook is None:
            return None
        return Webhook(own.webhook, secret=own.webhook_secret, delivered=self.alarms.sent)


KINDS = (STREAM, RISK)


def _every_second(whose: "weakref.ref[Watch]", ended: threading.Event) -> None:
    """Look at the log until the watch is gone; errors are shown in its status."""
    while not ended.wait(SECOND):
        watch = whose()
        if watch is None:
            return
        try:
            watch.tick()
            watch.trouble = None
        except Exception as error:
            watch.trouble = f"watching is behind: {error}"[:300]
        del watch


def _same_drift(one: Monitor | None, other: Monitor | None) -> bool:
    if one is None or other is None:
        return one is other
    names = ("false_alarm", "seed", "shard", "source")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _same_risk(one: RiskMonitor, other: RiskMonitor) -> bool:
    return all(
        getattr(one, name) == getattr(other, name) for name in ("risk", "confidence", "least")
    )
