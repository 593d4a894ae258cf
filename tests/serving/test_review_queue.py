"""The review queue: what waits, what a reviewer may know, corrections, disputes, the record."""

import json

import pytest

pytest.importorskip("sqlalchemy")

from nescio.core import NescioError
from nescio.serving.decision_log import Entry, KeptInput, Label, open_log
from nescio.serving.review_queue import Reviewer, ReviewItem, ReviewQueue

ANNA, BEN, EVE = Reviewer("anna"), Reviewer("ben"), Reviewer("eve")
ADMIN = Reviewer("zoe", "admin")


def entry(id, **changed):
    own = {"time": 0.0, "replica": "0", "guard": "g", "version": "v", "digest": "", "label": "cat"}
    own |= {"decision": "unsure", "probability": 0.5, "p_value": 0.5, "score": 0.0}
    own |= {"failure_score": 0.0, "rule": "r", "in_range": True, "set": None, "more": None}
    kept = KeptInput("row", b'{"age": 3}')
    return Entry(**{"id": id, **own, "picked": True, "propensity": 1.0, "kept": kept, **changed})


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "log.db") as made:
        made.register("g", "v", {"classes": ["cat", "dog"], "task": "classification"})
        made.register("h", "v", {"classes": None, "targets": ["price"], "task": "regression"})
        made.write(
            [
                entry("1"),
                entry("2", decision="answer", propensity=0.1),
                entry("3", decision="ood"),
                entry("4", decision="answer", picked=False, propensity=0.1, kept=None),
                entry("5", guard="h"),
            ]
        )
        yield made


def test_items_come_oldest_first_and_nothing_says_what_was_decided(log):
    queue = ReviewQueue(log)
    found = queue.waiting(ANNA)
    assert [one.id for one in found] == ["1", "2", "3", "5"]
    assert [one.id for one in ReviewQueue(log, guard="g").waiting(ANNA)] == ["1", "2", "3"]
    fields = set(ReviewItem.__dataclass_fields__)
    assert not fields & {"decision", "rule", "propensity", "p_value", "label", "score", "version"}
    assert found[0].classes == ("cat", "dog")
    assert found[3].targets == 1
    one, two = (vars(item) | {"id": ""} for item in found[:2])  # an abstention and an answer
    assert one == two


def test_a_correction_is_a_new_label_and_the_last_counts(log):
    queue = ReviewQueue(log, now=lambda: 86_400 * 10 + 5.0)
    queue.give("1", ANNA, "cat")
    assert queue.next(ANNA).id == "2"
    queue.give("1", ANNA, "dog", guess_seen=True)
    assert [one.label for _, one in log.labels(decision="1")] == ["cat", "dog"]
    assert queue.standing("1").label == "dog"
    assert queue.own_label("1", ANNA).label == "dog"
    progress = queue.progress(ANNA)
    assert (progress.waiting, progress.today, progress.agreed, progress.disputed) == (3, 1, 1, 0)
    assert queue.progress(BEN).today == 0


def test_a_skip_leaves_an_item_to_others_and_takes_a_label_back(log):
    queue = ReviewQueue(log)
    queue.give("1", ANNA, None, kind="skip")
    assert queue.next(ANNA).id == "2"
    assert queue.next(BEN).id == "1"
    assert [one.id for one in queue.skipped(ANNA)] == ["1"]
    queue.give("2", ANNA, "cat")
    assert queue.next(BEN).id == "1"
    queue.give("1", BEN, "cat")
    assert queue.next(BEN).id == "3"
    assert queue.skipped(ANNA) == []  # somebody else labeled it
    queue.give("2", ANNA, None, kind="skip")
    assert queue.next(BEN).id == "2"
    assert queue.standing("2").state == "open"


def test_two_reviewers_are_asked_and_their_dispute_is_settled(log):
    queue = ReviewQueue(log, reviews=2)
    queue.give("1", ANNA, "cat")
    assert queue.next(ANNA).id == "2"
    assert queue.next(BEN).id == "1"
    queue.give("1", BEN, "dog")
    assert queue.next(EVE).id == "2"
    (found,) = queue.disagreements()
    assert [(one.reviewer, one.label) for one in found.votes] == [("anna", "cat"), ("ben", "dog")]
    with pytest.raises(NescioError, match="third person"):
        queue.settle("1", ANNA, "cat")
    assert queue.settle("1", EVE, "dog").state == "agreed"
    assert queue.disagreements() == []
    with pytest.raises(NescioError, match="nobody disagrees"):
        queue.settle("1", ADMIN, "dog")


def test_disagreements_come_oldest_first(log):
    queue = ReviewQueue(log, reviews=2)
    for name in ("3", "1", "2"):
        queue.give(name, ANNA, "cat")
        queue.give(name, BEN, "dog")
    for one in (queue, ReviewQueue(log, reviews=2)):
        assert [found.decision for found in one.disagreements()] == ["1", "2", "3"]
        assert list(one.standings()) == ["3", "1", "2"]  # as they were labeled


def test_a_queue_in_postgresql(postgresql_url):
    with open_log(postgresql_url) as log:
        log.register("g", "v", {"classes": ["cat", "dog"], "task": "classification"})
        log.write([entry("1"), entry("2", decision="ood"), entry("3", picked=False)])
        queue = ReviewQueue(log, reviews=2)
        assert [one.id for one in queue.waiting(ANNA)] == ["1", "2"]
        queue.give("1", ANNA, "cat")
        queue.give("1", BEN, "dog")
        queue.give("2", BEN, None, kind="skip")
        assert queue.next(ANNA).id == "2"
        assert [one.id for one in queue.skipped(BEN)] == ["2"]
        assert [one.decision for one in ReviewQueue(log, reviews=2).disagreements()] == ["1"]
        assert queue.settle("1", ADMIN, "dog").label == "dog"
        assert [one.what for _, one in log.actions()][-1] == "settle"


def test_an_admin_settles_even_against_both(log):
    queue = ReviewQueue(log, reviews=2)
    queue.give("1", ANNA, "cat")
    queue.give("1", BEN, "dog")
    found = queue.settle("1", ADMIN, None, kind="none")
    assert (found.state, found.kind, found.label) == ("agreed", "none", None)
    assert len(found.votes) == 2
    assert ReviewQueue(log, reviews=2, guard="h").disagreements() == []


def test_what_is_refused(log):
    queue = ReviewQueue(log)
    for give, words in {
        lambda: queue.give("1", ANNA, "cats"): "cat",
        lambda: queue.give("1", ANNA, " "): "empty",
        lambda: queue.give("1", ANNA, "cat", kind="maybe"): "kind of label",
        lambda: queue.give("4", ANNA, "cat"): "not in the review queue",
        lambda: queue.give("9", ANNA, "cat"): "no decision",
        lambda: queue.give("5", ANNA, "cheap"): "must be a number",
        lambda: queue.give("5", ANNA, "1 2"): "must be a number",
        lambda: queue.give("5", ANNA, "inf"): "must be a number",
        lambda: queue.give("1", Reviewer(""), "cat"): "name",
        lambda: ReviewQueue(log, reviews=0): "at least one",
    }.items():
        with pytest.raises(NescioError, match=words):
            give()
    assert list(log.labels()) == []
    assert queue.give("5", ANNA, "1.50").label == "1.5"


def test_every_action_is_recorded(log):
    queue = ReviewQueue(log)
    assert queue.guess("3", ANNA).decision == "ood"
    queue.give("3", ANNA, None, kind="none", guess_seen=True)
    queue.give("1", ANNA, "cat")
    queue.give("2", ANNA, None, kind="skip")
    queue.add([label("2", "ben", "dog")], ANNA, "import", "done.json")
    found = [(one.who, one.role, one.what, one.about) for _, one in log.actions()]
    assert found == [
        ("anna", "review", "guess", "3"),
        ("anna", "review", "none", "3"),
        ("anna", "review", "label", "1"),
        ("anna", "review", "skip", "2"),
        ("anna", "review", "import", "done.json"),
    ]
    details = [json.loads(one.details) for _, one in log.actions()]
    assert details[1] == {"guess_seen": True, "label": None}
    assert details[4] == {"known": 0, "labels": 1}


def label(decision, reviewer, text):
    return Label(decision=decision, reviewer=reviewer, kind="label", label=text, time=0.0)


def test_many_labels_are_taken_all_or_none_and_once(log):
    queue = ReviewQueue(log)
    good, bad = label("1", "x", "cat"), label("2", "x", "bird")
    with pytest.raises(NescioError, match="bird"):
        queue.add([good, bad], ANNA, "import", "f")
    assert list(log.labels()) == []
    assert len(queue.add([good], ANNA, "import", "f")) == 1
    assert queue.add([good], ANNA, "import", "f") == []
    assert len(queue.add([label("1", "x", "dog")], ANNA, "import", "f")) == 1
