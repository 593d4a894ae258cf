"""Work on a Ray cluster: tasks of one thread, which are repeated where a worker died."""

import os
import platform
import socket
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from nescio.core.engines import RAY, Engine, WorkerPool, processors
from nescio.core.errors import NescioError, NescioWarning, warn
from nescio.version import VERSION

RETRIES = 10  # times that a task is begun again after its worker died
ATTEMPTS = 3  # to start a cluster of this machine
SECONDS = 10.0  # after which a cluster that does not answer is given up
QUIET = {  # what Ray would say or send otherwise; the user's own settings stay
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_connecting: list["RayEngine"] = []  # the engine that made the connection, if one did
ROUNDING = "MKL_CBWR"  # in which order MKL adds
OWN = ("nescio", "nescio_papers")  # packages that the workers have


class OtherProcessorsWarning(NescioWarning):
    """Workers have processors with other instructions, which round in another way."""


@dataclass(frozen=True)
class RayEngine(Engine):
    """The workers of a Ray cluster; a task whose worker dies is done again.

    workers: processors of the cluster that is started, where none is there; None: all of this
      machine's.
    address: of a cluster; None: the variable RAY_ADDRESS, without it a cluster of this machine.
    """

    address: str | None = field(default=None, kw_only=True)
    name = RAY

    @contextmanager
    def pool(self, work: Callable[[Any], Any], most: int | None) -> Iterator[WorkerPool]:
        """The workers of the cluster, to which `work` is sent once; most: not more of them."""
        ray = self.connected()
        send_own_modules()
        count = self.size() if most is None else min(self.size(), most)
        pool = _Tasks(ray=ray, work=ray.put(work), workers=count)
        try:
            yield pool
        finally:
            pool.cancel()

    def size(self) -> int:
        """The number of processors of the cluster."""
        return max(1, int(self.connected().cluster_resources().get("CPU", 1)))

    def connected(self) -> Any:
        """The package Ray, connected to the cluster; a connection that is there is used."""
        ray = package()
        if not ray.is_initialized():
            _connect(ray, self.address or os.environ.get("RAY_ADDRESS"), self.workers)
            _connecting[:] = [self]
        return ray

    def check(self) -> None:
        """Connect to the cluster that was named; one of this machine is not started for this."""
        if (self.address or os.environ.get("RAY_ADDRESS") or "local") == "local":
            package()
        else:
            self.connected()

    def close(self) -> None:
        """End the connection, and the cluster, if this engine made them."""
        if any(one is self for one in _connecting):
            _connecting.clear()
            package().shutdown()


def package() -> Any:
    """The package Ray, or an error that says how to get it."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise NescioError(
            'the engine ray needs Ray: pip install "nescio[scale]"; or use the engine local'
        ) from error
    return ray


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    if address is not None and address not in ("auto", "local"):
        _check_answers(address)
    own = {"num_cpus": workers or processors(), "include_dashboard": False}
    options: dict[str, Any] = own if address in (None, "local") else {}
    options |= {"address": address or "local", "log_to_driver": False, "logging_level": "ERROR"}
    try:
        _init(ray, options)
    except Exception as error:  # Ray raises many kinds, also plain ones
        why = " ".join(str(error).split())
        raise NescioError(
            f"cannot connect to the Ray cluster {address or 'of this machine'}: {why}. Its "
            "versions of Ray and Python must be those of this machine"
        ) from error


def _init(ray: Any, options: dict[str, Any], attempts: int = ATTEMPTS) -> None:
    """Connect; a cluster that a busy machine did not start in Ray's half minute is tried again."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(**options)
    except Exception as error:
        ray.shutdown()
        timed_out = type(error) is Exception  # the one that Ray gives no kind of its own
        if attempts == 1 or not (timed_out or options["address"] == "local"):
            raise
        _init(ray, options, attempts - 1)


def _check_answers(address: str) -> None:
    """Refuse an address at which nobody listens, where Ray would wait for a minute."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit() or not host:
        raise NescioError(
            "the address of a Ray cluster is HOST:PORT, such as 10.0.0.1:6379, or "
            f"ray://HOST:10001, got {address!r}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
    except (OSError, OverflowError) as error:
        raise NescioError(
            f"no Ray cluster answers at {address} ({error}); start one with: ray start --head, "
            "or leave the address out for a cluster of this machine"
        ) from error


def send_own_modules() -> None:
    """Let modules that are not installed, such as the user's, go to the workers by value."""
    from ray import cloudpickle as pickles

    for module in own_modules():
        pickles.register_pickle_by_value(module)


def own_modules() -> list[ModuleType]:
    """Modules that were imported from a folder of the user's."""
    installed = {Path(path).resolve() for path in sysconfig.get_paths().values()}
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None or name == "__main__" or name.split(".")[0] in OWN:
            continue
        path = Path(file).resolve()
        own = path.suffix == ".py" and not any(place in path.parents for place in installed)
        if own and path.is_file():
            found.append(module)
    return found


@dataclass(kw_only=True)
class _Tasks:
    """Tasks of a cluster."""

    ray: Any
    work: Any  # where it is stored
    workers: int
    pending: list[Any] = field(default_factory=list)
    warned: bool = False

    def submit(self, task: Any) -> Any:
        remote = self.ray.remote(num_cpus=1, max_retries=RETRIES)(_run)
        ticket = remote.remote(self.work, task, _versions(), os.environ.get(ROUNDING))
        self.pending.append(ticket)
        return ticket

    def first(self, tickets: list[Any]) -> Any:
        done, _ = self.ray.wait(tickets, num_returns=1)
        return done[0]

    def result(self, ticket: Any) -> Any:
        errors = self.ray.exceptions
        try:
            made, processor = self.ray.get(ticket)
        except errors.RayTaskError as error:
            cause = error.cause or error
            if isinstance(cause, ModuleNotFoundError):
                raise NescioError(
                    f"a worker of the cluster lacks a package: {cause}; install it there"
                ) from error
            raise cause from error
        except errors.RayError as error:
            why = str(error).strip().split("\n")[0]
            raise NescioError(
                f"a task was lost on the Ray cluster, after {RETRIES} attempts where its worker "
                f"died ({why}); is there enough memory? The same call goes on"
            ) from error
        finally:
            self.pending.remove(ticket)
        if processor != _processor() and not self.warned:
            self.warned = True
            warn(
                f"a worker has a processor with {processor}, this machine {_processor()}: the last "
                "bits of results may differ between them",
                OtherProcessorsWarning,
                stacklevel=4,
            )
        return made

    def cancel(self) -> None:
        """End what nobody waits for any more."""
        for ticket in self.pending:
            self.ray.cancel(ticket, force=True)


def _run(
    work: Callable[[Any], Any], task: Any, versions: dict[str, str], rounding: str | None
) -> tuple[Any, str]:
    """Do a task in a worker, on one thread; and which instructions its processor has.

    rounding: the variable for MKL of whoever asks, which MKL reads when it is first used.
    """
    if rounding is not None:
        os.environ[ROUNDING] = rounding
    mine = _versions()
    if mine != versions:
        differ = [f"{n} {mine[n]}, not {versions[n]}" for n in mine if mine[n] != versions[n]]
        raise NescioError(
            f"a worker of the cluster has {'; '.join(differ)}: install the same versions on all "
            "machines"
        )
    torch.set_num_threads(1)
    return work(task), _processor()


def _versions() -> dict[str, str]:
    return {"nescio": VERSION, "torch": torch.__version__, "Python": platform.python_version()}


def _processor() -> str:
    """The instructions that torch uses; they decide how it rounds."""
    return str(torch.backends.cpu.get_cpu_capability())
