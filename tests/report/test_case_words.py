"""Worst cases, label errors and duplicates in words: rows to copy, names as they are."""

import pytest

from nescio.evaluation import (
    Cases,
    Duplicate,
    Duplicates,
    LabelErrors,
    Repeats,
    SuspectLabel,
    TrainingNeighbor,
    WorstCase,
)
from nescio.evaluation.label_errors import PlantedErrors
from nescio.evaluation.worst_cases import SampleView
from nescio.metrics import Interval
from nescio.report.render import table_lines
from nescio.report.sections import cases_words, duplicates_words, label_errors_words

SHARE = Interval(0.9, 0.8, 0.95)
PNG = SampleView(picture="data:image/png;base64,AAAA")


class Named:
    class_names = ("zero", "one")


class Unnamed:
    class_names = None


def case(**changes):
    near = TrainingNeighbor(sample=7, distance=0.25, label=1, view=PNG)
    facts = {"data": "test", "sample": 812, "answer": 1, "label": 0, "confidence": 0.99999}
    return WorstCase(**{**facts, "view": PNG, "neighbors": (near,), **changes})


def text_of(section):
    return "\n".join(line for table in section.tables for line in table_lines(table, 200))


def test_cases_have_a_table_pictures_and_rows_to_copy():
    found = Cases(samples=9, errors=(case(),), error_rows=tuple(range(60)), error_count=60,
                  ood=(case(data="letters", label=None),), abstained_count=0)  # fmt: skip
    section = cases_words(found, Named)
    text = text_of(section)
    assert "test, row 812" in text
    assert "over 99.99 %" in text
    assert "7 (one)" in text
    assert [one.title for one in section.pictures] == [
        "confident error: test, row 812", "confident OOD input: letters, row 812"
    ]  # fmt: skip
    first, near = section.pictures[0].items
    assert first.lines == ("test, row 812", "is zero", "answered one, over 99.99 %")
    assert near.lines == ("training row 7", "is one", "distance 0.25")
    rows = dict(section.remarks)["rows of the errors, the most confident first"]
    assert rows.startswith("0, 1, 2,")
    assert rows.endswith("49 and 10 more, in audit.json")


def test_a_regression_shows_values_and_words():
    row = SampleView(words="age = 41")
    one = case(answer=2.5, label=7.25, confidence=None, deviation=0.5, view=row, neighbors=())
    found = Cases(samples=9, errors=(one,), error_rows=(812,), error_count=1, no_neighbors="why")
    section = cases_words(found, Unnamed)
    assert "surprise" in section.tables[0].title
    assert section.tables[0].rows[0][1] == ["7.25", "2.5", "0.5", "-", "-", "age = 41"]
    assert not section.pictures
    assert ("no neighbors", "why") in section.remarks


def test_no_error_is_said():
    found = Cases(samples=9, errors=(), error_rows=(), error_count=0)
    assert ("no error", "all 9 test samples are answered correctly") in cases_words(
        found, Named
    ).remarks


@pytest.mark.parametrize("precision", [SHARE, None])
def test_label_errors_say_how_far_to_trust_them(precision):
    planted = PlantedErrors(changed=20, found=SHARE, listed=30, precision=precision)
    one = SuspectLabel(sample=5, label=0, predicted=1, confidence=0.9, probability=0.01, score=3.0)
    found = LabelErrors(
        samples=99, count=1, suspects=(one,), rows=(5,), neighbors=True, planted=planted
    )
    section = label_errors_words(found, Named)
    assert "zero" in text_of(section)
    said = dict(section.remarks)["how far to trust the list"]
    assert "of 20 labels that were changed" in said
    assert ("are the changed ones" in said) == (precision is not None)


def test_duplicates_say_what_the_accuracy_is_without_them():
    pair = Duplicate(sample=3, other=44, exact=False, label=0, other_label=1)
    leaks = Repeats(
        exact=2, near=1, rows=(1, 2, 3), pairs=(pair,), conflicts=1, looked_at=9, among=50
    )
    own = Repeats(exact=0, near=None, rows=(), pairs=(), looked_at=9, among=9, skipped="tokens")
    found = Duplicates(samples=9, in_training=leaks, in_test=own, accuracy=SHARE,
                       accuracy_without=Interval(0.85, 0.7, 0.9))  # fmt: skip
    section = duplicates_words(found, Named)
    assert "zero and one" in text_of(section)
    said = dict(section.remarks)
    assert said["without those in the training data"].startswith("the accuracy is 85.0 %")
    assert said["their rows"] == "1, 2, 3"
    assert said["near-duplicates in the test data not looked for"] == "tokens"
