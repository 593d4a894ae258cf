"""The table that people fill in: written, opened by spreadsheets, read back."""

import csv

import pytest

from nescio import NescioError
from nescio.applications.active_learning import LabelQuestion, read_answers, write_questions

QUESTIONS = [
    LabelQuestion(id="1", guess="cat", confidence=0.51234, why='"odd"', picture="ask/1.png"),
    LabelQuestion(id="=2", picture="ask/2.png"),
]


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_questions_are_written_with_an_empty_label(tmp_path):
    write_questions(tmp_path / "ask.csv", QUESTIONS, pool="/p")
    first, second = rows(tmp_path / "ask.csv")
    assert list(first) == ["id", "label", "guess", "confidence", "why", "image", "pool"]
    assert first["label"] == ""
    assert first["confidence"] == "0.512"
    assert first["pool"] == "/p"
    assert first["why"] == '"odd"'
    assert second["guess"] == ""
    assert second["id"] == "'=2"  # no spreadsheet runs it
    found = read_answers(tmp_path / "ask.csv", ["1", "=2"])
    assert found.pairs == ()
    assert found.blank == ("1", "=2")
    assert found.pool == "/p"


def test_guesses_can_be_hidden_and_columns_of_the_row_keep_their_names(tmp_path):
    asked = [LabelQuestion(id="1", guess="cat", row={"age": "3", "label": "x"})]
    write_questions(tmp_path / "ask.csv", asked, pool="p", guesses=False)
    assert rows(tmp_path / "ask.csv") == [
        {"id": "1", "label": "", "age": "3", "label (row)": "x", "pool": "p"}
    ]


@pytest.mark.parametrize(
    "text",
    [
        "id,label\n1,cat\n2,\n",
        "\ufeffid;label;note\r\n1; cat ;x\r\n2;;\r\n",
        'label\tid\n"cat"\t"1"\n\t2\n',
    ],
)
def test_files_of_spreadsheets_are_read(tmp_path, text):
    path = tmp_path / "answers.csv"
    path.write_bytes(text.encode())
    found = read_answers(path)
    assert found.pairs == (("1", "cat"),)
    assert found.blank == ("2",)
    assert found.pool is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,answer\n1,cat\n", "no column 'label'"),
        ("label\ncat\n", "no column 'id'"),
        ("id,label\n", "no rows"),
        ("", "is empty"),
        ("id,label\n1,cat,x\n", "has 3 values"),
        ("id,label\n,cat\n", "a label and no id"),
        ("id,label,pool\n1,cat,/a\n2,dog,/b\n", "rows of 2 pools"),
    ],
)
def test_other_files_are_refused(tmp_path, text, said):
    path = tmp_path / "answers.csv"
    path.write_text(text)
    with pytest.raises(NescioError, match=said):
        read_answers(path)
