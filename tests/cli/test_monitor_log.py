"""`nescio monitor --log`: what the watch of a service knows, from its log."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

pytest.importorskip("sqlalchemy", reason="the extra serve is not installed")
from nescio.cli.networks import load_guard
from nescio.serving.decision_log import Entry, Label, open_log
from nescio.serving.served_guards import version_of
from nescio.serving.watch import Watch
from nescio.serving.watch_settings import WatchSettings

DEFAULT = "guarded_module_of_tests:make_net"


def entries(guard, x, version, replica):
    """Decisions of the guard as the service writes them; every answer goes to review."""
    columns = guard(x).columns()
    none = dict.fromkeys(("set", "more"))
    return [
        Entry(
            id=f"{replica}-{i:05d}", time=time.time(), replica=replica, guard="moons",
            version=version, digest="", decision=str(columns["decision"][i]),
            label=str(columns["label"][i]), probability=float(columns["probability"][i]),
            p_value=0.5, score=float(columns["score"][i]), failure_score=0.0, rule="",
            in_range=True, picked=True, propensity=1.0, **none,
        )
        for i in range(len(columns["label"]))
    ]  # fmt: skip


@pytest.mark.parametrize("replicas", [("0",), ("0/2", "1/2")])
def test_the_log_of_a_service(
    home: Path, guard: Path, nescio: Callable[..., Result], replicas: tuple[str, ...]
) -> None:
    made = load_guard(str(guard), DEFAULT, None)
    version, x = version_of(made), np.load(home / "new.npy").astype(np.float32)
    where = home / f"log{len(replicas)}.db"
    words = ("monitor", guard, "--net", DEFAULT, "--log", where.name)
    with open_log(where) as log:
        watches = [Watch(log, "moons", version, made, WatchSettings(replica=r)) for r in replicas]
        for watch, rows in zip(watches, np.array_split(x, len(replicas)), strict=True):
            watch.save()
            made_now = entries(made, rows, version, watch.settings.replica)
            log.write(made_now)
            watch.add(made_now)
        right = [
            Label(decision=one.id, reviewer="a", kind="label", label=one.label, time=time.time())
            for one in log.decisions(decision="answer")
        ]
        log.add_labels(right)
        quiet = nescio(*words)
        assert quiet.exit_code == 0, quiet.output
        assert "No alarm in 900 decisions" in quiet.output
        for watch in watches:
            watch.follow()
        watches[0].join(watches[1:])
        written = json.loads(Path(f"{where}.watch.json").read_text())["guards"]
        assert written == [json.loads(json.dumps(watches[0].status()))]
        assert written[0]["risk"]["labels"] == len(right)
        log.write([one.__class__(**{**vars(one), "id": f"far-{one.id}", "score": 1e6})
                   for one in entries(made, x[:200], version, replicas[0])])  # fmt: skip
        alarm = nescio(*words)
        assert alarm.exit_code == 3, alarm.output
        assert "ALARM" in alarm.output


@pytest.mark.parametrize("wrong", [False, True])
def test_replicas_of_different_settings(
    home: Path, guard: Path, nescio: Callable[..., Result], wrong: bool
) -> None:
    """They are not merged, which the words say; what has decided nothing does not count."""
    made = load_guard(str(guard), DEFAULT, None)
    version, x = version_of(made), np.load(home / "new.npy").astype(np.float32)
    where = home / f"different{wrong:d}.db"
    with open_log(where) as log:
        for replica, budget, rows in (("0/3", 0.05, 300), ("1/3", 0.5, 300), ("2/3", 0.25, 0)):
            settings = WatchSettings(replica=replica, budget=budget)
            Watch(log, "moons", version, made, settings).save()
            log.write(entries(made, x[:rows], version, replica) if rows else [])
        said = [
            Label(decision=one.id, reviewer="a", kind="label", time=time.time(),
                  label="9" if wrong and one.replica == "1/3" else one.label)
            for one in log.decisions(decision="answer")
        ]  # fmt: skip
        log.add_labels(said)
        found = nescio("monitor", guard, "--net", DEFAULT, "--log", where.name)
    assert found.exit_code == (3 if wrong else 0), found.output
    assert "No alarm in 600 decisions" in found.output
    assert "replica 0/3, counted here, has --sample 0.05; replica 1/3 has --sample 0.5 (" in (
        found.output
    )
    assert ("ALARM, at least" in found.output) == wrong
    assert "2/3" not in found.output
    assert "accuracy:" in found.output


def test_wrong_words_are_refused(home: Path, guard: Path, nescio: Callable[..., Result]) -> None:
    with open_log(home / "empty.db"):
        pass
    net = ("--net", DEFAULT)
    none = nescio("monitor", guard, *net, "--log", "empty.db")
    assert none.exit_code == 1
    assert "no decisions of this guard" in none.output
    both = nescio("monitor", guard, "x.csv", *net, "--log", "empty.db")
    assert both.exit_code == 1
    neither = nescio("monitor", guard)
    assert neither.exit_code == 1
    assert "--log" in neither.output
    gone = nescio("monitor", guard, *net, "--log", "gone.db")
    assert gone.exit_code == 1
    assert not (home / "gone.db").exists()
