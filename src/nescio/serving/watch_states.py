"""States of monitors as bytes, and their names in the decision log."""

import base64
import json
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from nescio.core import NescioError, load
from nescio.monitoring import AccuracyEstimate, Monitor, RiskMonitor
from nescio.serving.decision_log import DecisionLog
from nescio.serving.watch_settings import WatchSettings

FORMAT = 1
KNOWN = 32  # states of replicas that are read again every second, and change every ten
STREAM, RISK = "stream", "risk"
KEPT = ("risk", "confidence", "budget", "false_alarm", "reviews", "wait_days", "replica")


def state_name(guard: str, version: str, what: str, replica: str = "") -> str:
    """The name of a state in the log; without a replica, the beginning of all of them.

    guard, version: what is watched. what: which state.
    """
    return f"watch/{guard}/{version}/{what}/{replica}"


def stream_bytes(
    drift: Monitor | None, accuracy: AccuracyEstimate, settings: WatchSettings
) -> bytes:
    """The state of what needs no labels, and the settings, which whoever reads the log needs.

    drift: None where it is not watched. settings: without where alarms are sent.
    """
    said: dict[str, Any] = {"format": FORMAT, "accuracy": _packed(accuracy)}
    said["drift"] = None if drift is None else _packed(drift)
    said["settings"] = {name: getattr(settings, name) for name in KEPT}
    return json.dumps(said).encode()


@lru_cache(maxsize=KNOWN)
def stream_from(body: bytes) -> tuple[Monitor | None, AccuracyEstimate]:
    """What `stream_bytes` made."""
    said = _read(body)
    drift = None if said["drift"] is None else _unpacked(said["drift"], "monitor")
    return drift, _unpacked(said["accuracy"], "accuracy estimate")


@lru_cache(maxsize=KNOWN)
def settings_from(body: bytes) -> WatchSettings:
    """The settings in what `stream_bytes` made."""
    return WatchSettings(**_read(body)["settings"])


def saved_settings(log: DecisionLog, version: str) -> dict[str, list[WatchSettings]]:
    """How each guard of this `version` is watched in each replica, by the name of the guard.

    log: that holds the states.
    """
    found: dict[str, list[WatchSettings]] = {}
    for name, (_, body) in sorted(log.states("watch/").items()):
        guard, its, what = name.split("/")[1:4]
        if its == version and what == STREAM:
            found.setdefault(guard, []).append(settings_from(body))
    return found


def risk_bytes(risk: RiskMonitor) -> bytes:
    """The state of what needs labels."""
    return json.dumps({"format": FORMAT, "risk": _packed(risk)}).encode()


@lru_cache(maxsize=KNOWN)
def risk_from(body: bytes) -> RiskMonitor:
    """What `risk_bytes` made."""
    found: RiskMonitor = _unpacked(_read(body)["risk"], "risk monitor")
    return found


def _read(body: bytes) -> dict[str, Any]:
    try:
        said: dict[str, Any] = json.loads(body)
        known = said["format"] == FORMAT
    except (ValueError, KeyError, TypeError) as error:
        raise NescioError(f"a state in the log is damaged: {error!r}") from None
    if not known:
        raise NescioError("a state in the log is of another nescio; serve with that one")
    return said


def _packed(monitor: Monitor | RiskMonitor | AccuracyEstimate) -> str:
    with tempfile.TemporaryDirectory() as folder:
        content = monitor.save(Path(folder) / "state.safetensors").read_bytes()
    return base64.b64encode(content).decode()


def _unpacked(text: str, kind: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        path.write_bytes(base64.b64decode(text))
        return load(path, kind=kind)
