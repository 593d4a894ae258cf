"""What a service is told: where it listens, how it batches, and its limits."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from nescio.core import NescioError


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """The settings of a service.

    host: the address that it listens on; others than loopback need keys.
    port: the port; 0: a free one.
    replica: which process this is, in the log.
    batch_ms: how long a request waits for others, in milliseconds, at most.
    max_batch: rows that are decided together, at most; a request of more is a separate batch.
    queue: rows that wait or are decided, at most; those above are refused with 503.
    timeout: seconds until a request that has no answer is refused, with 503 or 504.
    body_bytes: bytes of a body, at most.
    rows: rows of a request, at most.
    pixels: pixels of an image, at most.
    head_seconds: how long the head of a request may take to arrive, and an idle connection lives.
    body_seconds: how long its body may take.
    connections: connections at a time, at most.
    drain_seconds: how long a stopping service goes on accepting while /ready says no.
    sample: the share of answers that go to review, drawn at random; what is not answered goes there
      in any case.
    reviews: the number of reviewers who must agree on a label.
    webhook: where alarms are sent, http:// or https://; None: nowhere.
    webhook_secret: signs what is sent; None: it is not signed.
    keep_inputs: whether the inputs of what goes to review are kept in the log.
    all_inputs: whether the inputs of all other decisions are kept as well.
    input_days: days for which kept inputs stay in the log; None: as long as their decisions.
    decision_days: days for which decisions stay in it; None: forever.
    guards_folder: the folder from which admins may load guards; None: only the files at start.
    watch_files: seconds between looks at the files of guards and keys, which load those that
      changed; None: they are not watched.
    log_json: whether log lines are JSON.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    replica: str = "0"
    batch_ms: float = 2.0
    max_batch: int = 256
    queue: int = 1024
    timeout: float = 10.0
    body_bytes: int = 16 << 20
    rows: int = 4096
    pixels: int = 1 << 24
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    connections: int = 1000
    drain_seconds: float = 0.0
    sample: float = 0.05
    reviews: int = 1
    webhook: str | None = None
    webhook_secret: str | None = field(default=None, repr=False)
    keep_inputs: bool = True
    all_inputs: bool = False
    input_days: float | None = 30.0
    decision_days: float | None = None
    guards_folder: Path | None = None
    watch_files: float | None = None
    log_json: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name in (
            "max_batch",
            "queue",
            "body_bytes",
            "rows",
            "pixels",
            "connections",
            "reviews",
        ):
            if getattr(self, name) < 1:
                raise NescioError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("timeout", "head_seconds", "body_seconds"):
            if not getattr(self, name) > 0:
                raise NescioError(f"{name} must be above 0, got {getattr(self, name)}")
        for name in ("batch_ms", "drain_seconds"):
            if not getattr(self, name) >= 0:
                raise NescioError(f"{name} must not be below 0, got {getattr(self, name)}")
        if self.all_inputs and not self.keep_inputs:
            raise NescioError("keep all inputs, or none: leave out --all-inputs or --no-inputs")
        for name in ("input_days", "decision_days"):
            days = getattr(self, name)
            if days is not None and not 0 <= days < float("inf"):
                raise NescioError(f"{name} is a number of days, or None to keep all, got {days}")
        if not 0 < self.sample <= 1:
            raise NescioError(f"sample is a share above 0 and at most 1, got {self.sample}")
        if not 0 <= self.port < 1 << 16:
            raise NescioError(f"a port is a number from 0 to 65535, got {self.port}")
        if self.watch_files is not None and not self.watch_files > 0:
            raise NescioError(f"watch_files must be above 0, got {self.watch_files}")
        if not self.replica or not self.replica.isprintable() or len(self.replica) > 64:
            raise NescioError(f"a replica has a name of 1 to 64 characters, got {self.replica!r}")

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the service."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address, is this machine as it is seen from itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
