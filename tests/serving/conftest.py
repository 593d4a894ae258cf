"""Decision logs in SQLite and PostgreSQL, small guards of half-moons, and services of them."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
import torch
from torch import Tensor

import nescio
from nescio.serving import DecisionLog, Entry, ServiceSettings, open_log, run_in_thread
from nescio.serving.log_schema import SCHEMA, about, tables

PASSWORD = "not-for-messages"
SPECIMEN = Entry(
    id="a-0",
    time=1_700_000_000.0,
    replica="0",
    guard="digits",
    version="f00d",
    digest="00" * 16,
    decision="answer",
    label="seven",
    probability=0.9,
    p_value=0.4,
    score=1.25,
    failure_score=0.1,
    rule="threshold",
    in_range=True,
    set=None,
    more=None,
    picked=False,
    propensity=0.0,
)


def program(name: str) -> str | None:
    """A program of PostgreSQL, which Debian keeps from the path."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = (shutil.which(name, path=str(home)) for home in homes)
    return shutil.which(name) or next(filter(None, found), None)


@dataclass
class Server:
    """A PostgreSQL on a free port of this machine."""

    folder: Path
    port: int

    def control(self, *words: str) -> None:
        run_as_other(program("pg_ctl"), "-D", str(self.folder / "data"), "-w", *words)

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -c port={self.port} -k {self.folder}"
        self.control("-o", options, "-l", str(self.folder / "log"), "start")

    def stop(self) -> None:
        self.control("-m", "immediate", "stop")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://nescio:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def run(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)


def run_as_other(*words: str) -> None:
    """Run a program of PostgreSQL, which refuses to be root."""
    user = {"user": "postgres", "group": "postgres", "extra_groups": []}
    options = user if os.geteuid() == 0 else {}
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd="/", **options)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A server with passwords, and fsync as it is by default."""
    if program("initdb") is None:
        pytest.skip("PostgreSQL is not installed: there is no initdb")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a short path, for the socket
    secret = folder / "password"
    secret.write_text(PASSWORD)
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
        shutil.chown(secret, "postgres")
    options = ("-U", "nescio", "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = Server(folder, free.getsockname()[1])
    try:
        run_as_other(program("initdb"), "-D", str(folder / "data"), *options)
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


GONE = "DROP SCHEMA IF EXISTS nescio CASCADE"
EMPTY = f"""
SET search_path TO nescio;
SET session_replication_role TO replica;  -- without triggers
SELECT 1 / count(*) FROM about_log WHERE name = 'schema' AND value = '{SCHEMA}';
DELETE FROM about_log WHERE name IN ('clock', 'seen');
UPDATE about_log SET value = extract(epoch FROM now()) WHERE name = 'made';
{";".join(f"DELETE FROM {table.name}" for table in tables.sorted_tables if table is not about)}
"""


@pytest.fixture
def postgresql_url(postgresql: Server) -> str:
    """A database with an empty log, or without one: emptied, as making tables takes long."""
    try:
        postgresql.run(EMPTY)
    except psycopg.Error:
        postgresql.run(GONE)
    return postgresql.url()


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a log goes: a file, and a database."""
    if request.param == "sqlite":
        return str(tmp_path / "decisions.db")
    return str(request.getfixturevalue("postgresql_url"))


@pytest.fixture
def nowhere(where: str, request: pytest.FixtureRequest) -> str:
    """The same, where there is certainly no log yet."""
    if "://" in where:
        request.getfixturevalue("postgresql").run(GONE)
    return where


@pytest.fixture
def log(where: str) -> Iterator[DecisionLog]:
    """A new log, in SQLite and in PostgreSQL."""
    with open_log(where) as log:
        yield log


@pytest.fixture(scope="session")
def entry() -> Callable[..., Entry]:
    """A function that makes an entry, of a number and what is special about it."""

    def make(number: int = 0, **special: object) -> Entry:
        now = {"id": f"r{number:06d}-0", "time": time.time()}
        return replace(SPECIMEN, **{**now, **special})

    return make


def make_guard(seed: int) -> Any:
    moons = nescio.data.half_moons(seed=seed, train=300)
    torch.manual_seed(seed)
    net = nescio.nets.mlp(2, 2, widths=[16])
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(moons.train[0]), moons.train[1]).backward()
        optimizer.step()
    settings: dict[str, Any] = {"detector": "mahalanobis", "risk": 0.1}
    return nescio.guard(net, moons.test, train=moons.train, **settings)


@pytest.fixture(scope="session")
def moon_guards() -> list[Any]:
    """Two guards of the same shape."""
    return [make_guard(seed) for seed in (0, 1)]


@pytest.fixture(scope="session")
def moon_files(moon_guards: list[Any], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Their files."""
    home = tmp_path_factory.mktemp("guards")
    return [
        guard.save(home / f"{at}.safetensors", weights=True) for at, guard in enumerate(moon_guards)
    ]


@pytest.fixture(scope="session")
def moon_rows() -> Tensor:
    """Inputs: most like the data, some far away, one of them not finite."""
    x = nescio.data.half_moons(seed=5, train=60).train[0]
    return torch.cat([x, x[:3] + 50, torch.tensor([[float("nan"), 0.0]])])


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Start a service; it ends with the test."""
    monkeypatch.setattr("nescio.guards.steady.SIZES", (1, 2, 16, 255))  # the probe is fast

    with ExitStack() as stack:

        def start(guards: Any, *, log: Any = "here", **options: Any) -> Any:
            own = {
                n: options.pop(n)
                for n in ("keys", "readers", "tls_cert", "tls_key")
                if n in options
            }
            where = tmp_path / "log.db" if log == "here" else log
            settings = ServiceSettings(port=0, **options)
            return stack.enter_context(run_in_thread(guards, log=where, settings=settings, **own))

        yield start
