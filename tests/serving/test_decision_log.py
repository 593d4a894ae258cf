"""The decision log: what is written is read back, once, in its order, by all who ask."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nescio.core import NescioError
from nescio.serving import Action, KeptInput, Label, Logged, open_log
from nescio.serving.decision_log import RepeatedDecisionError


def test_what_is_written_is_read_back(log, entry):
    kept = KeptInput("npy", bytes(range(256)))
    first = entry(1, decision="ood", picked=True, propensity=1.0, kept=kept, p_value=None)
    second = entry(2, set="seven nine", more=json.dumps({"low": 1.5}), in_range=False)
    log.write([first, second])
    one, two = log.decisions()
    assert one == Logged(**{**asdict(first), "kept": None}, seq=one.seq)
    assert two == Logged(**asdict(second), seq=two.seq)
    assert one.seq < two.seq
    assert log.decision(first.id) == one
    assert log.decision("none") is None
    assert log.kept(first.id) == kept
    assert log.kept(second.id) is None
    assert log.kept("none") is None


def test_text_of_any_kind_and_numbers_to_the_last_bit(log, entry):
    label = "7'\"; DROP TABLE entries; -- ? %s :x 例 🙂\n"
    log.write([entry(score=0.1 + 0.2, probability=1e-300, label=label, time=1.7e9 + 1 / 3)])
    (one,) = log.decisions()
    assert (one.score, one.probability, one.label) == (0.1 + 0.2, 1e-300, label)
    assert one.time == 1.7e9 + 1 / 3


def test_numbers_that_are_not_finite_are_missing(log, entry):
    log.write([entry(score=float("nan"), failure_score=float("inf"), probability=None)])
    (one,) = log.decisions()
    assert (one.score, one.failure_score, one.probability) == (None, None, None)


def test_a_decision_occurs_once_and_a_batch_is_all_or_nothing(log, entry):
    log.write([entry(1)])
    with pytest.raises(RepeatedDecisionError, match="already"):
        log.write([entry(2), entry(1, label="other")])
    with pytest.raises(RepeatedDecisionError):
        log.write([entry(3, kept=KeptInput("row", b"{}")), entry(3)])
    assert [one.id for one in log.decisions()] == ["r000001-0"]
    assert log.counts() == {"answer": 1, "unsure": 0, "ood": 0}
    log.write([entry(2)])
    assert log.counts()["answer"] == 2


@pytest.mark.parametrize(
    "special",
    [
        {"decision": "maybe"},
        {"time": float("nan")},
        {"time": float("inf")},
        {"propensity": 1.5},
        {"label": None},
        {"label": "\ud800"},
        {"replica": None},
    ],
)
def test_what_is_not_an_entry_is_refused(log, entry, special):
    with pytest.raises(NescioError):
        log.write([entry(1), entry(2, **special)])
    assert list(log.decisions()) == []
    log.write([entry(1)])
    assert log.counts()["answer"] == 1


def test_nothing_is_written_for_nothing(log):
    log.write([])
    log.add_labels([])
    assert list(log.decisions()) == []


def test_filters_against_a_plain_loop(log, entry):
    every = [
        entry(
            number,
            guard="ab"[number % 2],
            version="vw"[number // 2 % 2],
            replica="01"[number // 4 % 2],
            decision=("answer", "answer", "unsure", "ood")[number * 7 % 4],
            picked=number % 3 == 0,
            time=1000.0 + number * 37 % 50,
        )
        for number in range(50)
    ]
    log.write(every[:20])
    log.write(every[20:])
    seqs = [one.seq for one in log.decisions()]
    assert [one.id for one in log.decisions()] == [one.id for one in every]
    for filters in _filters():
        after = seqs[filters["after"]] if "after" in filters else 0
        expected = [
            one.id
            for one, seq in zip(every, seqs, strict=True)
            if seq > after and _passes(one, filters)
        ]
        expected = expected[::-1] if filters.get("newest_first") else expected
        asked = {**filters, "after": after}
        assert [one.id for one in log.decisions(**asked)] == expected[: filters.get("limit")]


def _passes(one, filters):
    names = ("guard", "version", "replica", "decision", "picked")
    same = all(getattr(one, name) == filters[name] for name in names if name in filters)
    return same and one.time >= filters.get("since", 0)


def _filters():
    """Each filter with each of the others, both ways."""
    values = {
        "guard": "a",
        "version": "w",
        "replica": "1",
        "decision": "ood",
        "picked": True,
        "since": 1020.0,
        "after": 13,
        "limit": 4,
        "newest_first": True,
    }
    for first, one in values.items():
        for second, two in values.items():
            yield {first: one, second: two}
    yield {"picked": False, "decision": "answer"}
    yield {"guard": "nobody"}
    yield {"guard": "nobody", "picked": True}
    yield {"since": 5000.0}


def test_many_sources_are_read_together(log, entry, monkeypatch):
    monkeypatch.setattr("nescio.serving.log_reading.APART", 3)
    log.write([entry(number, replica=str(number % 5)) for number in range(20)])
    ids = [one.id for one in log.decisions(guard="digits")]
    assert ids == [entry(number).id for number in range(20)]


def test_reading_goes_on_from_chunk_to_chunk(log, entry, monkeypatch):
    monkeypatch.setattr("nescio.serving.log_reading.CHUNK", 7)
    every = [entry(number, guard="ab"[number % 2]) for number in range(40)]
    log.write(every)
    ids = [one.id for one in every]
    assert [one.id for one in log.decisions()] == ids
    assert [one.id for one in log.decisions(newest_first=True)] == ids[::-1]
    assert [one.id for one in log.decisions(guard="b", limit=9)] == ids[1:19:2]
    log.add_labels([_label(one) for one in ids])
    assert [one.decision for _, one in log.labels()] == ids


def test_counts(log, entry):
    kinds = ["answer"] * 5 + ["ood"] * 2 + ["unsure"]
    log.write([entry(n, decision=kind, time=100.0 + n) for n, kind in enumerate(kinds)])
    log.write([entry(9, guard="other", version="v2", replica="1", time=50.0)])
    assert log.counts() == {"answer": 6, "unsure": 1, "ood": 2}
    assert log.counts(guard="digits") == {"answer": 5, "unsure": 1, "ood": 2}
    assert log.counts(version="v2", replica="1") == {"answer": 1, "unsure": 0, "ood": 0}
    assert log.counts(since=103.0) == {"answer": 2, "unsure": 1, "ood": 2}
    assert log.counts(guard="none") == {"answer": 0, "unsure": 0, "ood": 0}


def _label(decision, reviewer="anna", kind="label", label="nine", time=1.0):
    return Label(decision=decision, reviewer=reviewer, kind=kind, label=label, time=time)


def test_labels(log, entry):
    log.write([entry(1), entry(2)])
    given = [_label("r000001-0"), _label("r000001-0", label="one"), _label("r000002-0", "ben")]
    log.add_labels(given)
    numbers, found = zip(*log.labels(), strict=True)
    assert list(found) == given
    assert [one for _, one in log.labels(decision="r000001-0")] == given[:2]
    assert [one for _, one in log.labels(after=numbers[1])] == given[2:]


@pytest.mark.parametrize(
    "label",
    [
        _label("nobody"),
        _label("r000001-0", kind="maybe"),
        _label("r000001-0", label=None),
        _label("r000001-0", kind="skip"),
    ],
)
def test_labels_that_are_refused(log, entry, label):
    log.write([entry(1, picked=True)])
    with pytest.raises(NescioError, match="a label is of kind|nobody"):
        log.add_labels([_label("r000001-0"), label])
    assert list(log.labels()) == []
    assert len(log.open_items()) == 1


def test_open_items_need_labels_of_others(log, entry):
    log.write([entry(number, picked=number != 3, guard="ab"[number % 2]) for number in range(6)])

    def ids(**filters):
        return [int(one.id[1:7]) for one in log.open_items(**filters)]

    assert ids() == [0, 1, 2, 4, 5]
    assert ids(guard="b") == [1, 5]
    assert ids(limit=2) == [0, 1]
    log.add_labels([_label("r000000-0"), _label("r000001-0", kind="skip", label=None)])
    log.add_labels([_label("r000002-0", kind="none", label=None)])
    assert ids() == [1, 4, 5]  # a skip is not a label
    assert ids(reviewer="anna") == [4, 5]
    assert ids(reviewer="ben") == [1, 4, 5]
    assert ids(reviews=2) == [0, 1, 2, 4, 5]
    assert ids(reviews=2, reviewer="anna") == [4, 5]
    log.add_labels([_label("r000000-0", label="a correction")])
    assert ids(reviews=2, reviewer="ben") == [0, 1, 2, 4, 5]  # two labels of one reviewer
    log.add_labels([_label("r000000-0", reviewer="ben")])
    assert ids(reviews=2) == [1, 2, 4, 5]
    assert ids(reviews=3) == [0, 1, 2, 4, 5]
    log.add_labels([_label("r000000-0", reviewer="ben", kind="skip", label=None)])
    assert ids(reviews=2) == [0, 1, 2, 4, 5]  # which takes the label back


def test_questions_that_make_no_sense(log):
    with pytest.raises(NescioError, match="answer, unsure, ood"):
        log.decisions(decision="maybe")
    with pytest.raises(NescioError, match="limit"):
        log.decisions(limit=-1)
    with pytest.raises(NescioError, match="reviews"):
        log.open_items(reviews=0)
    assert list(log.decisions(limit=0)) == log.open_items(limit=0) == []


def test_actions(log):
    one = Action(time=1.0, who="eve", role="admin", what="swap", about="digits", details="{}")
    two = replace(one, time=0.5, what="rollback")
    log.record(one)
    log.record(two)
    (number, first), (_, second) = log.actions()
    assert (first, second) == (one, two)
    assert [action for _, action in log.actions(number)] == [two]


def test_of_first_states_the_first_is_kept(log):
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda n: log.first_state("secret", bytes([n])), range(8)))
    assert found == {log.state("secret")[1]}


def test_states_replace_those_before(log):
    assert log.state("drift/a") is None
    log.save_state("drift/a", 3, b"\0\1")
    log.save_state("drift/a", 4, b"\2")
    log.save_state("drift_b", 5, b"")
    log.save_state("DRIFT/c", 6, b"")
    assert log.state("drift/a") == (4, b"\2")
    assert log.states("drift/") == {"drift/a": (4, b"\2")}
    assert set(log.states("")) == {"drift/a", "drift_b", "DRIFT/c"}


def test_guards_that_were_served(log):
    log.register("digits", "v1", {"file": "a.safetensors"})
    log.register("digits", "v2", {"file": "b.safetensors"})
    log.register("digits", "v1", {"file": "c.safetensors"})
    first, second = log.guards()
    assert (first["name"], first["version"], first["file"]) == ("digits", "v1", "c.safetensors")
    assert second["version"] == "v2"
    assert first["time"] <= second["time"]


def test_many_threads_write_and_read(log, entry):
    def work(name):
        for number in range(10):
            log.write([entry(id=f"{name}-{number}-{row}", replica=name) for row in range(5)])
            list(log.decisions(replica=name, newest_first=True, limit=3))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = list(log.decisions())
    assert len(every) == len({one.id for one in every}) == 200
    for name in "abcd":  # of each writer, in its order
        ids = [one.id for one in log.decisions(replica=name)]
        assert ids == [f"{name}-{number}-{row}" for number in range(10) for row in range(5)]


def _write_alone(name, where, one):
    """Write many small batches, in a process that shares nothing."""
    with open_log(where) as log:
        for number in range(60):
            log.write([replace(one, id=f"{name}-{number}-{row}") for row in range(3)])


def test_two_processes_write_to_one_log(where, entry):
    fork = get_context("fork")  # which need not load torch again
    writers = [
        fork.Process(target=_write_alone, args=(name, where, entry(replica=name))) for name in "ab"
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    with open_log(where) as log:
        assert log.counts() == {"answer": 360, "unsure": 0, "ood": 0}
        for name in "ab":
            ids = [one.id for one in log.decisions(replica=name)]
            assert ids == [f"{name}-{number}-{row}" for number in range(60) for row in range(3)]


def test_a_log_is_opened_again(where, entry):
    with open_log(where) as log:
        log.write([entry(1)])
    with open_log(where, create=False) as log:
        log.write([entry(2)])
        assert [one.id for one in log.decisions()] == ["r000001-0", "r000002-0"]
        assert log.counts()["answer"] == 2


def test_a_clock_that_goes_back_does_not_change_the_order(log, entry):
    times = [100.0, 50.0, 1e9, 75.0]
    for number, time in enumerate(times):
        log.write([entry(number, time=time)])
    assert [one.time for one in log.decisions()] == times
    last = list(log.decisions())[1].seq
    assert [one.time for one in log.decisions(after=last)] == times[2:]


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.integers(0, 30), max_size=4), max_size=8))
def test_batches_are_written_whole_or_not_at_all(tmp_path_factory, entry, batches):
    known = []
    with open_log(tmp_path_factory.mktemp("log") / "decisions.db") as log:
        for batch in batches:
            new = len(set(batch)) == len(batch) and not set(batch) & set(known)
            try:
                log.write([entry(number) for number in batch])
            except RepeatedDecisionError:
                assert not new
            else:
                assert new
                known += batch
        assert [one.id for one in log.decisions()] == [entry(number).id for number in known]
        assert log.counts()["answer"] == len(known)


def test_a_new_file_is_its_owners_alone(tmp_path):
    with open_log(tmp_path / "new" / "decisions.db") as log:
        log.write([])
    for path in (tmp_path / "new").iterdir():
        assert os.stat(path).st_mode & 0o077 == 0
