"""What the metrics of a service show as it is now."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nescio.serving.service import Service

Values = dict[tuple[str, ...], float]


def add_gauges(service: "Service") -> None:
    """Let the metrics of `service` ask it."""
    gauge, guards = service.metrics.gauge, service.guards

    def in_use() -> Values:
        versions = map(guards.current, guards.names())
        return {(one.name, one.version): 1 for one in versions}

    def drift() -> Values:
        found: Values = {}
        for version in map(guards.current, guards.names()):
            if version.watch is not None:
                evidence = drift_of(version.watch.status())
                if evidence is not None:
                    found[(version.name,)] = evidence
        return found

    rows, connections = "Rows that wait or are decided.", "Open connections."
    ready = "Whether requests are accepted."
    gauge("nescio_queue_rows", rows, [], lambda: {(): service.batcher.rows})
    gauge("nescio_connections", connections, [], lambda: {(): service.connections})
    gauge("nescio_ready", ready, [], lambda: {(): int(service.ready)})
    gauge("nescio_guard_info", "Versions in use.", ["guard", "version"], in_use)
    gauge("nescio_drift", "Evidence for drift, log10.", ["guard"], drift)


def drift_of(status: Mapping[str, Any]) -> float | None:
    """The drift statistic in the `status` of a watch; None: it says none."""
    drift = status.get("drift")
    value = drift.get("log10_evidence") if isinstance(drift, Mapping) else drift
    return float(value) if isinstance(value, (int, float)) else None
