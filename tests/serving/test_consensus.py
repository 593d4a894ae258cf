"""What several reviewers say together: every case by hand, and the same by brute force."""

from itertools import product

import pytest

pytest.importorskip("sqlalchemy")

from nescio.core import NescioError
from nescio.serving.consensus import (
    RESOLVED,
    check_reviewer,
    final_label,
    final_labels,
    standing,
    standings,
)
from nescio.serving.decision_log import Entry, Label, open_log


def label(reviewer, said, decision="d"):
    """A label: a class, "none" or "skip"."""
    kind = said if said in ("none", "skip") else "label"
    text = said if kind == "label" else None
    return Label(decision=decision, reviewer=reviewer, kind=kind, label=text, time=0.0)


def entry(id, **changed):
    own = {"time": 0.0, "replica": "0", "guard": "g", "version": "v", "digest": "", "label": "cat"}
    own |= {"decision": "unsure", "probability": 0.5, "p_value": 0.5, "score": 0.0}
    own |= {"failure_score": 0.0, "rule": "", "in_range": True, "set": None, "more": None}
    return Entry(**{"id": id, **own, "picked": True, "propensity": 1.0, **changed})


CASES = [
    ([], 1, "open", None),
    ([("a", "cat")], 1, "agreed", "cat"),
    ([("a", "cat")], 2, "open", None),
    ([("a", "cat"), ("a", "cat")], 2, "open", None),  # one person twice is one person
    ([("a", "cat"), ("b", "cat")], 2, "agreed", "cat"),
    ([("a", "cat"), ("b", "dog")], 2, "disputed", None),
    ([("a", "cat"), ("b", "dog")], 1, "disputed", None),
    ([("a", "cat"), ("b", "none")], 2, "disputed", None),
    ([("a", "none"), ("b", "none")], 2, "agreed", None),
    ([("a", "cat"), ("b", "dog"), ("b", "cat")], 2, "agreed", "cat"),  # a correction
    ([("a", "cat"), ("b", "dog"), ("b", "skip")], 2, "open", None),  # taken back
    ([("a", "cat"), ("b", "dog"), ("c", "dog")], 2, "agreed", "dog"),  # a third person
    ([("a", "cat"), ("b", "dog"), ("c", "bird")], 2, "disputed", None),
    ([("a", "cat"), ("b", "dog"), ("c", "dog")], 3, "disputed", None),
    ([("a", "cat"), ("b", "dog"), (f"{RESOLVED}z", "bird")], 2, "agreed", "bird"),
    ([("a", "skip")], 1, "open", None),
]


@pytest.mark.parametrize(("given", "reviews", "state", "said"), CASES)
def test_cases_by_hand(given, reviews, state, said):
    found = standing("d", [label(*one) for one in given], reviews=reviews)
    assert (found.state, found.label) == (state, said)
    assert found.kind == (None if state != "agreed" else "label" if said else "none")


def test_the_order_of_reviewers_does_not_matter():
    for said in product(["cat", "dog", "none", "skip"], repeat=3):
        given = [label(name, one) for name, one in zip("abc", said, strict=True)]
        for reviews in (1, 2, 3):
            one = standing("d", given, reviews=reviews)
            two = standing("d", given[::-1], reviews=reviews)
            assert (one.state, one.kind, one.label) == (two.state, two.kind, two.label)
            counted = [word for word in said if word != "skip"]
            if one.state == "agreed":  # more than half said it
                assert 2 * counted.count(one.label or "none") > len(counted) >= reviews


def test_final_labels_come_once_and_again_after_a_correction(tmp_path):
    with open_log(tmp_path / "log.db") as log:
        log.write([entry(id) for id in ("one", "two", "three")])
        log.add_labels([label("a", "cat", "one"), label("a", "none", "two")])
        log.add_labels([label("a", "cat", "three"), label("b", "dog", "three")])
        assert list(final_labels(log)) == [("one", "label", "cat"), ("two", "none", None)]
        last = max(number for number, _ in log.labels())
        assert list(final_labels(log, last)) == []
        log.add_labels([label("a", "dog", "one")])
        assert list(final_labels(log, last)) == [("one", "label", "dog")]
        assert list(final_labels(log, reviews=2)) == []
        assert final_label(log, "three").state == "disputed"
        assert {name: one.state for name, one in standings(log).items()} == {
            "one": "agreed",
            "two": "agreed",
            "three": "disputed",
        }


@pytest.mark.parametrize("name", ["", " a", "a\n", f"{RESOLVED}a", 201 * "a"])
def test_names_that_no_reviewer_has(name):
    with pytest.raises(NescioError):
        check_reviewer(name)
