"""Kill -9 while a process writes: what it said was written is in the log, once."""

import os
import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context

from nescio.serving import KeptInput, open_log


def write_for_ever(where, name, one, said):
    """Write batches, and say their ids as soon as they are written."""
    with open_log(where) as log, os.fdopen(said, "w", buffering=1) as out:
        for number in range(1_000_000):
            size = number % 9 + 1
            batch = [replace(one, id=f"{name}-{number}-{row}/{size}") for row in range(size)]
            log.write(batch)
            out.write(" ".join(entry.id for entry in batch) + "\n")


def test_every_decision_that_was_said_is_in_the_log_once(where, entry):
    chance = random.Random(0)
    fork, said = get_context("fork"), []
    special = {"picked": True, "propensity": 1.0, "kept": KeptInput("npy", bytes(5000))}
    with open_log(where):
        pass
    for run in range(6):
        received, out = os.pipe()
        one = entry(replica=f"r{run}", **special)
        child = fork.Process(target=write_for_ever, args=(where, f"r{run}", one, out))
        child.start()
        os.close(out)
        with os.fdopen(received) as lines:
            said += lines.readline().split()  # it writes by now
            time.sleep(chance.uniform(0, 0.15))
            os.kill(child.pid, signal.SIGKILL)
            said += [id for line in lines.read().split("\n")[:-1] for id in line.split()]
        child.join(30)
        assert child.exitcode == -signal.SIGKILL
    with open_log(where, create=False) as log:
        found = Counter(one.id for one in log.decisions())
        assert len(said) > 6
        assert all(found[id] == 1 for id in said)
        assert set(found.values()) == {1}
        batches = Counter((id.rsplit("-", 1)[0], id.split("/")[1]) for id in found)
        assert all(count == int(size) for (_, size), count in batches.items())  # whole ones
        assert log.counts()["answer"] == len(found)
        assert all(log.kept(id) == special["kept"] for id in said[-50:])
        assert len(log.open_items(limit=10**6)) == len(found)
        for run in range(6):
            numbers = [int(one.id.split("-")[1]) for one in log.decisions(replica=f"r{run}")]
            assert numbers == sorted(numbers)
    if "://" not in where:
        with closing(sqlite3.connect(where)) as plain:
            assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert plain.execute("PRAGMA foreign_key_check").fetchall() == []
