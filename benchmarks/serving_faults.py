"""What `benchmarks.serving` does to a service: kills, and a disk that fills up."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.serving_networks import Served
from benchmarks.serving_sides import JSON, Running, free_port, load, nescio_side, start_load

Found = dict[str, Any]
SMALL = "24m"  # of the disk that fills up
BINARIES = Path("/usr/lib/postgresql")


def kills(served: Served, folder: Path, *, count: int, only: str | None) -> Found:
    """kill -9 under load `count` times with each database; what the log has afterwards."""
    found: Found = {}
    for database in ("sqlite", "postgresql"):
        if only in (None, database):
            own = folder / database
            own.mkdir()
            with log_of(database, own) as log:
                found[database] = _kill_again(served, own, log, count)
            one = found[database]
            print(
                f"{database}: {count} kills, {one['received']} decisions received, "
                f"{one['missing']} missing, {one['twice']} twice, {one['in_log']} in the log, "
                f"integrity {one['integrity']}, restart at most {one['slowest_restart']:.2f} s"
            )
    return found


def _kill_again(served: Served, folder: Path, log: str, count: int) -> Found:
    side, port, draw = nescio_side("nescio serve", log=log), free_port(), random.Random(0)
    answers, restarts, requests = folder / "answers.txt", [], Counter[str]()
    for number in range(count):
        server = Running(side, served, folder, port)
        restarts.append(_ready(server))
        seconds = draw.uniform(0.5, 2)
        process = start_load(
            server, rate=0, seconds=seconds + 1, connections=32, timeout=2, answers=answers
        )
        time.sleep(seconds)
        server.end(signal.SIGKILL)
        text, _ = process.communicate()
        requests.update(json.loads(text)["status"])
        print(f"kill {number + 1}: ready after {restarts[-1]:.2f} s", file=sys.stderr, flush=True)
    server = Running(side, served, folder, port)
    restarts.append(_ready(server))
    server.wait()
    server.end()
    received = list(ids_of(answers))
    logged = Counter(_logged(log))
    return {
        "kills": count,
        "requests": dict(requests),
        "received": len(received),
        "missing": sum(logged[one] == 0 for one in received),
        "twice": sum(n > 1 for n in logged.values()) + len(received) - len(set(received)),
        "in_log": sum(logged.values()),
        "integrity": _integrity(log),
        "slowest_restart": max(restarts),
        "restarts": restarts,
    }


def ids_of(answers: Path) -> Iterator[str]:
    """The ids of the decisions that a client received; a last line by halves is none."""
    with answers.open() as lines:
        for line in lines:
            yield from (one["id"] for one in json.loads(line)["decisions"])


def _ready(server: Running, most: float = 60) -> float:
    """Seconds from the start until /ready says yes."""
    while time.perf_counter() - server.began < most:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/ready", timeout=2)
        except (urllib.error.URLError, OSError):
            if server.process.poll() is not None:
                break
            time.sleep(0.01)
        else:
            return time.perf_counter() - server.began
    raise RuntimeError(f"not ready:\n{server.output.read_text()[-2000:]}")


def _logged(log: str) -> list[str]:
    from nescio.serving.decision_log import open_log

    with open_log(log, create=False) as opened:
        return [one.id for one in opened.decisions()]


def _integrity(log: str) -> str:
    """What the database says about itself."""
    if "postgresql" in log:
        from nescio.serving.decision_log import open_log

        with open_log(log, create=False) as opened:  # reads each row; PostgreSQL checks its pages
            return "ok" if sum(1 for _ in opened.decisions()) else "empty"
    with sqlite3.connect(log) as database:
        return str(database.execute("PRAGMA integrity_check").fetchone()[0])


@contextmanager
def log_of(database: str, folder: Path) -> Iterator[str]:
    """The address of a log: a file, or a database of a PostgreSQL server that is started for it."""
    if database == "sqlite":
        yield str(folder / "decisions.db")
        return
    binaries = max(BINARIES.glob("*/bin"), default=None)
    if binaries is None:
        sys.exit("PostgreSQL is not installed")
    data, port = folder / "data", free_port()
    data.mkdir()
    user = "postgres" if os.getuid() == 0 else None
    if user:
        shutil.chown(data, user)
        for place in (folder, *folder.parents):
            if place.stat().st_uid == 0 and place.stat().st_mode & 0o5 != 0o5:
                place.chmod(place.stat().st_mode | 0o755)
    words = ["--auth", "trust", "--username", "nescio", "--data-checksums"]
    subprocess.run(
        [str(binaries / "initdb"), "-D", str(data), *words],
        user=user,
        check=True,
        capture_output=True,
        cwd="/",
    )
    server = subprocess.Popen(
        [str(binaries / "postgres"), "-D", str(data), "-p", str(port), "-k", str(data)],
        user=user,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
    try:
        ready = [str(binaries / "pg_isready"), "-h", "127.0.0.1", "-p", str(port)]
        for _ in range(100):
            if subprocess.run(ready, capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.1)
        yield f"postgresql+psycopg://nescio@127.0.0.1:{port}/postgres"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


def disk_full(served: Served, folder: Path) -> Found:
    """A log on a small disk: what happens when it is full, and when there is room again."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False).returncode:
        sys.exit("a small disk is mounted for this: run it as root, on Linux")
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    log = str(disk / "decisions.db")
    server = Running(nescio_side("nescio serve", log=log), served, folder)
    try:
        server.wait()
        answers = folder / "answers.txt"
        options: Found = {"connections": 32, "timeout": 5, "answers": answers}
        full = _until_full(server, options)
        refused = _status(server)
        ready = _get(server, "/ready")
        ballast.unlink()
        time.sleep(1.5)
        again = load(server, rate=200, seconds=3, **options)
        after = _get(server, "/ready")
        server.end()
        received, logged = list(ids_of(answers)), Counter(_logged(log))
        found = {
            "while_full": full["status"],
            "status_when_full": refused,
            "ready_when_full": ready,
            "after_room": again["status"],
            "failed": {key: full["failed"][key] + again["failed"][key] for key in full["failed"]},
            "ready_after": after,
            "received": len(received),
            "missing": sum(logged[one] == 0 for one in received),
            "twice": sum(n > 1 for n in logged.values()),
            "in_log": sum(logged.values()),
            "not_received": sum(logged.values()) - len(received),
            "integrity": _integrity(log),
        }
    finally:
        server.end()
        subprocess.run(["umount", "-l", str(disk)], check=False)
    print(
        f"full: {found['while_full']}, then {refused}; after room: {found['after_room']}; "
        f"{found['received']} received, {found['missing']} missing, {found['twice']} twice, "
        f"{found['not_received']} in the log that nobody received; integrity {found['integrity']}"
    )
    return found


def _until_full(server: Running, options: Found) -> Found:
    """Load until requests are refused; the counts of all of it."""
    total: Found = {"status": Counter(), "failed": Counter()}
    for _ in range(60):
        found = load(server, rate=0, seconds=2, **options)
        total["status"].update(found["status"])
        total["failed"].update(found["failed"])
        if found["status"].keys() - {"200"}:
            break
    return {"status": dict(total["status"]), "failed": total["failed"]}


def _status(server: Running) -> int:
    url = f"http://127.0.0.1:{server.port}{server.side.path}"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, server.first, JSON)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _get(server: Running, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}") as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
