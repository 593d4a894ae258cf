"""Servers that `benchmarks.serving` starts, and the load that it puts on them."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.serving_networks import Served
from benchmarks.timing import ROOT

LITSERVE = Path(os.environ.get("LITSERVE_VENV", "/tmp/litserve-venv"))
TORCH = "torch==2.13.0"
OTHERS = ("litserve", "numpy", "scipy", "scikit-learn", "threadpoolctl", "safetensors", "pillow")
JSON = {"Content-Type": "application/json"}
LUA = """
local bodies, made, at = {}, {}, 0
for line in io.lines(os.getenv("BODIES")) do bodies[#bodies + 1] = line end
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
function init()
  for i, body in ipairs(bodies) do made[i] = wrk.format(nil, nil, nil, body) end
end
function request()
  at = at % #made + 1
  return made[at]
end
function done(summary, latency)
  local e = summary.errors
  io.write(string.format('{"answers": %d, "seconds": %f, "p50": %f, "p99": %f, "failed": %d}\\n',
    summary.requests - e.status, summary.duration / 1e6, latency:percentile(50) / 1e6,
    latency:percentile(99) / 1e6, e.connect + e.read + e.write + e.status + e.timeout))
end
"""


@dataclass(frozen=True, kw_only=True)
class Side:
    """A server: its command, and how its requests look.

    label: for tables. words: the command; {port}, {guard}, {net} and {folder} are filled in.
    path: that requests go to. key: of the rows in a body. settings: of the environment.
    """

    label: str
    words: Sequence[str]
    path: str = "/predict"
    key: str = "x"
    settings: Mapping[str, str] = field(default_factory=dict)


NESCIO = (
    *(sys.executable, "-m", "nescio", "serve", "{guard}", "--net", "{net}"),
    *("--port", "{port}"),
)


def nescio_side(label: str, *more: str, log: str = "{folder}/decisions.db") -> Side:
    """`nescio serve` with further options."""
    words = (*NESCIO, "--log", log, *more)
    return Side(label=label, words=words, path="/v1/predict", key="inputs")


PLAIN = Side(
    label="one at a time",
    words=(
        *(sys.executable, "-m", "uvicorn", "benchmarks.serving_plain:app", "--port", "{port}"),
        *("--no-access-log", "--log-level", "error"),
    ),
    settings={"GUARD": "{guard}", "NET": "{net}"},
)


def litserve_side(what: str) -> Side:
    """LitServe with the bare network, or with the same guard."""
    python = str(LITSERVE / "bin" / "python")
    script = str(ROOT / "benchmarks" / "serving_litserve.py")
    return Side(
        label=f"LitServe, {what}", words=(python, script, "{port}", what, "{guard}", "{net}")
    )


def install_litserve() -> str:
    """Make the environment of LitServe where it is missing; gives its version."""
    pip = LITSERVE / "bin" / "pip"
    if not pip.exists():
        subprocess.run([sys.executable, "-m", "venv", str(LITSERVE)], check=True)
    python = str(LITSERVE / "bin" / "python")
    asked = [python, "-c", "import litserve, sklearn; print(litserve.__version__)"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        subprocess.run([str(pip), "install", "--quiet", TORCH], check=True)
        subprocess.run([str(pip), "install", "--quiet", *OTHERS], check=True)
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


class Running:
    """A server that was started.

    side: what it is. served: the network. folder: of its files. port: where it listens.
    """

    def __init__(self, side: Side, served: Served, folder: Path, port: int | None = None) -> None:
        self.side, self.served, self.folder = side, served, folder
        self.port = free_port() if port is None else port
        names = {"port": self.port, "guard": served.guard, "net": served.factory, "folder": folder}
        words = [word.format(**names) for word in side.words]
        settings = {name: text.format(**names) for name, text in side.settings.items()}
        paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        settings |= {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        self.output = folder / f"server-{self.port}.txt"
        self.began = time.perf_counter()
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                words,
                cwd=folder,
                env={**os.environ, **settings},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        body = served.rows[:1].tolist()
        self.first = json.dumps({side.key: body}).encode()

    def wait(self, seconds: float = 120) -> float:
        """Wait until the first prediction; gives the seconds since the start."""
        url = f"http://127.0.0.1:{self.port}{self.side.path}"
        while time.perf_counter() - self.began < seconds:
            if self.process.poll() is not None:
                break
            try:
                urllib.request.urlopen(urllib.request.Request(url, self.first, JSON), timeout=5)
            except (urllib.error.URLError, OSError):
                time.sleep(0.02)
            else:
                return time.perf_counter() - self.began
        said = self.output.read_text()[-2000:]
        raise RuntimeError(f"{self.side.label} did not start:\n{said}")

    def memory(self) -> int:
        """Bytes of the process in memory."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", text)
        return 1024 * int(found[1]) if found else 0

    def end(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to the server and its processes, and wait for their end."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        with suppress(ProcessLookupError):  # what is left of it: workers of LitServe
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(side: Side, served: Served, folder: Path) -> Iterator[Running]:
    """A server that answers, until the end of the block."""
    server = Running(side, served, folder)
    try:
        server.wait()
        yield server
    finally:
        server.end()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


@cache
def load_program() -> str:
    """The load generator, compiled once."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        sys.exit("the load generator is in C: install gcc")
    program = Path(tempfile.mkdtemp(prefix="nescio-load-")) / "load"
    source = ROOT / "benchmarks" / "load.c"
    subprocess.run([compiler, "-O2", "-o", str(program), str(source)], check=True)
    return str(program)


def start_load(
    server: Running,
    *,
    rate: float,
    seconds: float,
    connections: int = 64,
    timeout: float = 2.0,
    answers: Path | None = None,
) -> "subprocess.Popen[str]":
    """Start a constant rate of requests; 0: as fast as `connections` allow."""
    bodies = bodies_of(server)
    words = [load_program(), str(server.port), server.side.path, str(bodies), str(rate)]
    words += [str(seconds), str(connections), str(timeout), str(answers or "-")]
    words += [f"{name}: {text}" for name, text in JSON.items()]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def load(server: Running, **options: Any) -> dict[str, Any]:
    """What came of a constant rate of requests."""
    process = start_load(server, **options)
    text, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the load generator ended with {process.returncode}")
    found: dict[str, Any] = json.loads(text)
    return found


def bodies_of(server: Running) -> Path:
    """The file of bodies for a server, one row each."""
    side, served = server.side, server.served
    file = server.folder / f"{served.name}-{side.key}.txt"
    return file if file.exists() else served.bodies(file, side.key)


def wrk(server: Running, *, seconds: float, connections: int = 64) -> dict[str, float]:
    """Requests as fast as they are answered, by wrk."""
    script = server.folder / "post.lua"
    script.write_text(LUA)
    url = f"http://127.0.0.1:{server.port}{server.side.path}"
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--timeout", "10s"]
    settings = {**os.environ, "BODIES": str(bodies_of(server))}
    done = subprocess.run(
        [*words, "-s", str(script), url], env=settings, capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "per_second": found["answers"] / found["seconds"]}
