"""Alarms of a watch: each kind is recorded once in the log, and sent once."""

import json
import time
from collections.abc import Mapping
from threading import Lock
from typing import Any

from nescio.serving.decision_log import Action, DecisionLog

ALARM, SENT, UNSENT = "alarm", "alarm sent", "alarm not sent"
WHO, ROLE = "watch", "service"


class Alarms:
    """The alarms of one version of a guard that are in the log.

    log: the decision log.
    guard: its name.
    version: of it.
    replica: of this process, which sends what it recorded.
    """

    def __init__(self, log: DecisionLog, guard: str, version: str, replica: str = "0") -> None:
        self.log, self.guard, self.version, self.replica = log, guard, version, replica
        self.about = f"{guard}/{version}"
        self._lock = Lock()
        self._last = 0  # action that was read
        self._known: dict[str, dict[str, Any]] = {}
        self._sent: set[str] = set()
        self.read()

    def read(self) -> None:
        """Read what other processes, or this one before, recorded."""
        with self._lock:
            for number, one in self.log.actions(self._last):
                self._last = number
                if one.about != self.about or one.what not in (ALARM, SENT, UNSENT):
                    continue
                details = json.loads(one.details)
                if one.what == ALARM:
                    self._known.setdefault(details["kind"], details)
                else:
                    self._sent.add(details["kind"])

    def known(self) -> list[dict[str, Any]]:
        """The alarms so far: kind, time, and what was known."""
        with self._lock:
            return [dict(one) for one in self._known.values()]

    def is_known(self, kind: str) -> bool:
        """Whether there was an alarm of this `kind`."""
        return kind in self._known

    def record(self, kind: str, status: Mapping[str, Any]) -> None:
        """Write an alarm down.

        kind: drift or risk.
        status: what is known about it.
        """
        now = time.time()
        details: dict[str, Any] = {
            "alarm": kind,
            "kind": kind,
            "guard": self.guard,
            "version": self.version,
        }
        details |= {
            "replica": self.replica,
            "time": now,
            "words": status["words"],
            "status": dict(status),
        }
        self._write(ALARM, details, now)
        self.read()

    def unsent(self) -> list[dict[str, Any]]:
        """Alarms of this replica that are yet to be sent, each once in this process."""
        with self._lock:
            mine = [one for one in self._known.values() if one["replica"] == self.replica]
            found = [one for one in mine if one["kind"] not in self._sent]
            self._sent |= {one["kind"] for one in found}
            return [dict(one) for one in found]

    def sent(self, alarm: Mapping[str, Any], arrived: bool) -> None:
        """Write down whether an `alarm` was sent, so that a restart does not send it again.

        arrived: whether it was taken.
        """
        self._write(SENT if arrived else UNSENT, {"kind": alarm["kind"]}, time.time())

    def _write(self, what: str, details: Mapping[str, Any], now: float) -> None:
        text = json.dumps(dict(details), sort_keys=True)
        self.log.record(
            Action(time=now, who=WHO, role=ROLE, what=what, about=self.about, details=text)
        )
