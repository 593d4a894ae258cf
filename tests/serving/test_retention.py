"""Retention: what is old goes, what is young stays, whatever the clock of the computer says."""

import json
import sqlite3
import threading
import time
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nescio.core import NescioError
from nescio.serving import (
    Client,
    KeptInput,
    Label,
    Retention,
    ServiceSettings,
    open_log,
    retain,
    retention,
)
from nescio.serving.retention import DAY, moved

NOW = time.time()


def old(entry, number, days, **special):
    special = {"kept": KeptInput("npy", b"secret %d" % number), **special}
    return entry(number, decision="ood", picked=True, time=NOW - days * DAY, **special)


def kept(log):
    return [int(one.id[1:7]) for one in log.decisions() if log.kept(one.id) is not None]


def there(log):
    return [int(one.id[1:7]) for one in log.decisions()]


def test_inputs_go_and_decisions_stay(log, entry):
    log.write([old(entry, number, days) for number, days in enumerate([40, 31, 29, 1, 35])])
    done = retain(log)
    assert (done.inputs, done.decisions, done.labels) == (3, 0, 0)
    assert str(done) == "retention deleted 3 inputs, 0 decisions and 0 labels"
    assert kept(log) == [2, 3]
    assert there(log) == [0, 1, 2, 3, 4]
    assert retain(log).inputs == 0


def test_decisions_take_all_that_belongs_to_them(log, entry):
    log.write([old(entry, number, days) for number, days in enumerate([400, 10, 366, 364])])
    label = {"reviewer": "anna", "kind": "label", "label": "x", "time": NOW}
    log.add_labels([Label(decision=entry(number).id, **label) for number in range(3)])
    done = retain(log, keep_inputs=None, keep_decisions=365)
    assert (done.inputs, done.decisions, done.labels) == (2, 2, 2)
    assert there(log) == kept(log) == [1, 3]
    assert [one.decision for _, one in log.labels()] == [entry(1).id]
    assert [one.id for one in log.open_items()] == [entry(3).id]
    assert log.counts()["ood"] == 4  # all that were ever written
    with pytest.raises(NescioError, match="not in the log"):
        log.add_labels([Label(decision=entry(0).id, **label)])


def test_numbers_are_not_used_again(log, entry):
    log.write([old(entry, 1, 400)])
    (one,) = log.decisions()
    retain(log, keep_decisions=1)
    log.write([entry(2)])
    (two,) = log.decisions()
    assert two.seq > one.seq


def test_what_was_deleted_is_recorded(log, entry):
    log.write([old(entry, 1, 50)])
    retain(log)
    retain(log)  # which deletes nothing
    ((_, action),) = log.actions()
    details = json.loads(action.details)
    assert (action.who, action.what) == ("nescio", "retention")
    assert (details["inputs"], details["decisions"], details["keep_inputs"]) == (1, 0, 30.0)


def test_nothing_goes_without_settings(log, entry):
    log.write([old(entry, 1, 5000)])
    done = retain(log, keep_inputs=None, keep_decisions=None)
    assert (done.inputs, done.decisions) == (0, 0)
    assert kept(log) == [1]


def test_days_that_are_no_days(log):
    for name in ("keep_inputs", "keep_decisions"):
        for days in (-1, float("nan"), float("inf")):
            with pytest.raises(NescioError, match=name):
                retain(log, **{name: days})


def test_in_small_transactions(log, entry, monkeypatch):
    monkeypatch.setattr(retention, "INPUTS", 3)
    monkeypatch.setattr(retention, "BYTES", 20)  # of two inputs
    monkeypatch.setattr(retention, "DECISIONS", 4)
    log.write([old(entry, number, 60.5 + number) for number in range(20)])
    assert retain(log, keep_inputs=70).inputs == 10
    assert retain(log, keep_inputs=None, keep_decisions=65).decisions == 15
    assert there(log) == kept(log) == [0, 1, 2, 3, 4]
    monkeypatch.setattr(retention, "BYTES", 2)  # less than one
    assert retain(log, keep_inputs=0).inputs == 5


def test_a_clock_that_leaps_ahead_deletes_a_day(log, entry, monkeypatch):
    log.write([old(entry, number, days) for number, days in enumerate([29.9, 28.5, 1, 0])])
    retain(log)
    assert kept(log) == [0, 1, 2, 3]
    monkeypatch.setattr(time, "time", lambda: NOW + 3650 * DAY)
    done = retain(log)
    assert kept(log) == [1, 2, 3]
    assert "3649 days ahead" in str(done)
    assert "retain(log, now=time.time())" in str(done)
    retain(log)
    assert kept(log) == [1, 2, 3]
    monkeypatch.setattr(time, "time", lambda: NOW + 0.01 * DAY)  # it is set right again
    retain(log)
    assert kept(log) == [1, 2, 3]


def test_a_time_that_is_vouched_for(log, entry, monkeypatch):
    log.write([old(entry, 0, 1)])
    monkeypatch.setattr(time, "time", lambda: NOW + 60 * DAY)
    assert retain(log).inputs == 0
    assert retain(log, now=NOW + 60 * DAY).inputs == 1


def test_a_log_that_was_made_in_the_future(nowhere, entry, monkeypatch):
    """With a clock that was ahead: what is written after it was set right is not old."""
    monkeypatch.setattr(time, "time", lambda: NOW + 3650 * DAY)
    with open_log(nowhere) as log:
        monkeypatch.setattr(time, "time", lambda: NOW)
        log.write([old(entry, 0, 0), old(entry, 1, 31)])
        for _ in range(3):
            retain(log)
        assert kept(log) == [0]


STEPS = st.lists(st.floats(-1e9, 1e9), max_size=30)


@given(STEPS)
def test_the_clock_of_the_log_never_leaps(steps):
    clock = seen = now = 1.7e9
    for step in steps:
        now += step
        new = moved(clock, seen, now)
        assert abs(new - clock) <= min(DAY, 2 * max(step, 0)) + 1e-3
        assert abs(now - new) <= abs(now - clock) + 1e-3  # and never away from the computer's
        clock, seen = new, now


def test_the_clock_of_the_log_follows_that_of_the_computer():
    clock = seen = 1.7e9
    for hour in range(1, 1000):
        now = 1.7e9 + 3600 * hour
        clock, seen = moved(clock, seen, now), now
        assert clock == now
    clock = moved(clock, seen, seen + 30 * DAY)  # a month without the service
    seen, behind = seen + 30 * DAY, [29 * DAY]
    for _ in range(29 * 24):
        clock, seen = moved(clock, seen, seen + 3600), seen + 3600
        behind.append(seen - clock)
    assert behind[1] == pytest.approx(29 * DAY - 3600)
    assert behind[-1] == pytest.approx(0, abs=1)


def test_deleted_inputs_are_not_in_the_file_and_its_room_is_used_again(tmp_path, entry):
    path = tmp_path / "decisions.db"
    body = KeptInput("npy", b"the face of a customer" * 5000)
    with open_log(path) as log:
        log.write([old(entry, number, 50, kept=body) for number in range(100)])
    large = path.stat().st_size
    assert body.body[:500] in path.read_bytes()
    with open_log(path) as log:
        assert retain(log).inputs == 100
    assert b"the face of a customer" not in path.read_bytes()
    assert path.stat().st_size < large / 2
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_service_retains_every_hour(log, entry):
    log.write([old(entry, 0, 50)])
    said, more = [], threading.Event()

    def say(text):
        said.append(text)
        more.set()

    running = Retention(log, say=say, every=0.01)
    assert more.wait(30)
    more.clear()
    log.write([old(entry, 1, 50)])
    assert more.wait(30)
    running.stop()
    assert said == ["retention deleted 1 inputs, 0 decisions and 0 labels"] * 2
    log.write([old(entry, 2, 50)])
    assert kept(log) == [2]


def test_a_service_retains_when_the_log_is_back(tmp_path, entry):
    path, said = tmp_path / "decisions.db", []
    with open_log(path) as log:
        log.write([old(entry, 0, 50)])
    with open_log(path) as log:
        path.rename(tmp_path / "away.db")
        tried = threading.Event()

        def say(text):
            said.append(text)
            tried.set()

        running = Retention(log, say=say, every=0.01)
        assert tried.wait(30)
        (tmp_path / "away.db").rename(path)
        while "deleted 1 inputs" not in said[-1]:
            time.sleep(0.01)
        running.stop()
    assert "gone" in said[0]


def test_a_service_goes_on_after_any_error(log, entry, monkeypatch):
    """Of the driver itself, too: a thread that ended would keep inputs for ever."""
    said, tries = [], []
    deleted = retention._give_back

    def once_locked(log):
        tries.append(1)
        if len(tries) == 1:
            raise sqlite3.OperationalError("database is locked")
        deleted(log)

    monkeypatch.setattr(retention, "_give_back", once_locked)
    log.write([old(entry, 0, 50)])
    running = Retention(log, say=said.append, every=0.01)
    while not said:
        time.sleep(0.01)
    log.write([old(entry, 1, 50)])
    while len(said) < 2:
        time.sleep(0.01)
    running.stop()
    assert "locked" in said[0]
    assert "deleted 1 inputs" in said[1]


def test_a_service_with_wrong_settings(log):
    with pytest.raises(NescioError, match="keep_inputs"):
        Retention(log, keep_inputs=-1)


def test_a_service_deletes_what_is_old(served, moon_files, tmp_path, entry):
    with open_log(tmp_path / "log.db") as log:
        log.write([old(entry, 0, 50), old(entry, 1, 5), old(entry, 2, 500)])
        served({"moons": moon_files[0]}, input_days=20, decision_days=365)
        end = time.monotonic() + 30
        while there(log) != [0, 1] or kept(log) != [1]:
            assert time.monotonic() < end
            time.sleep(0.02)


@pytest.mark.parametrize(
    ("options", "share"),
    [({}, "review"), ({"all_inputs": True}, "all"), ({"keep_inputs": False}, "none")],
)
def test_which_inputs_a_service_keeps(served, moon_files, moon_rows, tmp_path, options, share):
    with Client(served(moon_files[0], sample=1e-9, **options).url) as client:
        client.predict(moon_rows)
    with open_log(tmp_path / "log.db") as log:
        every = list(log.decisions())
        found = [log.kept(one.id) is not None for one in every]
        picked = [one.picked for one in every]
    assert any(picked)
    assert not all(picked)
    assert found == {"review": picked, "all": [True] * 64, "none": [False] * 64}[share]


def test_settings_of_a_service_that_cannot_be():
    for wrong in (
        {"input_days": -1},
        {"decision_days": float("nan")},
        {"keep_inputs": False, "all_inputs": True},
    ):
        with pytest.raises(NescioError, match="days|none"):
            ServiceSettings(**wrong)
