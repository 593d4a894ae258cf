"""What `nescio monitor --log` does: the watch of a service, made from its log."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nescio.cli.networks import load_guard
from nescio.core import NescioError, write_json
from nescio.guards import MapGuard

if TYPE_CHECKING:
    from nescio.serving import DecisionLog, Watch

ALARM = 3  # exit code
NEEDED = "nescio monitor --log needs packages that are not installed: pip install 'nescio[serve]'"


def monitor_log(log: str, guard: str, net_name: str | None, weights: str | None) -> None:
    """Read the log of a service, say what it shows, and end with the status of the alarms."""
    try:
        from nescio.serving import open_log, version_of
    except ImportError as error:
        raise NescioError(f"{NEEDED} ({error})") from error
    made = load_guard(guard, net_name, weights)
    if isinstance(made, MapGuard):
        raise NescioError(f"{guard} guards label maps, which are not served")
    with open_log(log, create=False) as opened:
        watches = watches_of(opened, made, version_of(made))
        found = [one.status() for one in watches]
    for status in found:
        click.echo(f"{status['guard']}, version {status['version']}")
        for name in ("drift", "risk", "accuracy"):
            click.echo(f"  {name}: {status[name]['words']}")
        for one in status["alarms"]:
            click.echo(f"  alarm for {one['kind']}, recorded by replica {one['replica']}")
    if "://" not in log:
        write_json(Path(f"{log}.watch.json"), {"guards": found})
    if any(status["alarms"] or _alarmed(status) for status in found):
        click.get_current_context().exit(ALARM)


def watches_of(log: "DecisionLog", guard: Any, version: str) -> "list[Watch]":
    """A watch for each name under which the guard is served, joined over its replicas."""
    from nescio.serving import Watch, saved_settings

    found = []
    for name, replicas in saved_settings(log, version).items():
        used = [one for one in replicas if _decided(log, name, version, one.replica)]
        first, *others = [Watch(log, name, version, guard, own) for own in used or replicas[:1]]
        for one in (first, *others):
            one.follow()
        first.join(others)
        found.append(first)
    if not found:
        raise NescioError(
            f"the log has no decisions of this guard (version {version}); give the file that was "
            "served, and the same --net and --weights"
        )
    return found


def _decided(log: "DecisionLog", name: str, version: str, replica: str) -> bool:
    """Whether a replica has decided anything."""
    return any(log.counts(guard=name, version=version, replica=replica).values())


def _alarmed(status: dict[str, Any]) -> bool:
    risk = status["risk"]
    return bool(status["drift"]["alarm"] or risk["alarm"] or risk.get("not_merged_alarm"))
