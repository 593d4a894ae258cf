"""`nescio review`: a terminal, a pipe, Label Studio both ways, and files for training."""

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("sqlalchemy")

from nescio.cli.half_blocks import half_blocks
from nescio.cli.main import main
from nescio.serving.decision_log import Entry, KeptInput, open_log

ROW = b'{"age": 3, "name": "Bo\\u001b[31m"}'


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return KeptInput("npy", file.getvalue())


def entry(at, kept, **changed):
    own = {"replica": "0", "guard": "g", "version": "v", "digest": "", "label": "cat"}
    own |= {"decision": "unsure", "probability": 0.5, "p_value": 0.5, "score": 0.0}
    own |= {"failure_score": 0.0, "rule": "r", "in_range": True, "set": None, "more": None}
    own |= {"picked": True, "propensity": 1.0, "kept": kept}
    return Entry(**{"id": f"d{at}", "time": float(at), **own, **changed})


def written(path, kept, **about):
    with open_log(path) as log:
        log.register("g", "v", {"classes": ["cat", "dog"], **about})
        log.write([entry(at, one) for at, one in enumerate(kept)])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def review(*words, say=""):
    return CliRunner().invoke(main, ["review", "log.db", "--reviewer", "anna", *words], input=say)


def labels():
    with open_log("log.db") as log:
        return [(one.decision, one.reviewer, one.kind, one.label) for _, one in log.labels()]


def test_a_pipe_labels_skips_goes_back_and_quits(folder):
    written("log.db", 5 * [KeptInput("row", ROW)])
    done = review(say="1\nu\ndog\nn\ns\ng\nbird\n2\nq\n")
    assert done.exit_code == 0, done.output
    assert labels() == [
        ("d0", "anna", "label", "cat"),
        ("d0", "anna", "label", "dog"),
        ("d1", "anna", "none", None),
        ("d2", "anna", "skip", None),
        ("d3", "anna", "label", "dog"),
    ]
    assert "age   3" in done.output
    assert "\x1b" not in done.output
    assert done.output.count("guess: cat (unsure, probability 0.500)") == 1
    assert "unknown class 'bird'" in done.output
    assert "4 labeled now" in done.output
    assert "1 wait" in done.output
    again = review("--skipped", say="1\n")
    assert "[1 of 1]" in again.output
    assert labels()[-1] == ("d2", "anna", "label", "cat")
    assert "0 labeled now" in review(say="").output  # the end of the input is a quit


def test_pictures_are_files_in_a_pipe_and_blocks_in_a_terminal(folder, monkeypatch):
    picture = npy(np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 8, 8))
    written("log.db", [picture, KeptInput("row", b'{"text": "hello"}'), None])
    done = review(say="1\n1\n1\n")
    path = next(line for line in done.output.splitlines() if line.startswith("picture: "))
    assert path.endswith(".png")
    assert not Path(path.removeprefix("picture: ")).exists()  # gone afterwards
    assert "hello" in done.output
    assert "no longer kept" in done.output
    from nescio.serving.review_items import shown_input

    text = half_blocks(shown_input(picture).png, 8)
    lines = text.plain.rstrip("\n").split("\n")
    assert len(lines) == 4
    assert {len(line) for line in lines} == {8}
    assert str(text.spans[0].style) == "#000000 on #202020"  # the pixels 0 and 8 of 63


def test_a_terminal_reads_single_keys(folder, monkeypatch):
    written("log.db", 2 * [KeptInput("row", ROW)])
    from nescio.cli.work import review as work

    keys = iter("2\x04")
    monkeypatch.setattr(work, "is_terminal", lambda _: True)
    monkeypatch.setattr("click.getchar", lambda: next(keys))
    done = review()
    assert done.exit_code == 0
    assert labels() == [("d0", "anna", "label", "dog")]


def test_label_studio_both_ways_keeps_annotators_apart(folder):
    written("log.db", 4 * [KeptInput("row", ROW)])
    done = review("--export", "tasks.json")
    assert done.exit_code == 0, done.output
    tasks = json.loads(Path("tasks.json").read_text())
    assert [one["data"]["id"] for one in tasks] == ["d0", "d1", "d2", "d3"]
    assert [one["predictions"] for one in tasks] == 4 * [[]]  # nobody is led
    assert "unsure" not in Path("tasks.json").read_text()
    assert '<Choice value="not one of these"/>' in Path("tasks.xml").read_text()

    def said(word, by):
        value = {"from_name": "label", "to_name": "item", "type": "choices"}
        result = [{**value, "value": {"choices": [word]}}] if word else []
        return {"was_cancelled": not word, "result": result, "completed_by": by}

    ben = {"email": "ben@example.org", "id": 4}
    tasks[0]["annotations"] = [said("cat", 1), said("dog", ben)]
    tasks[1]["annotations"] = [said("not one of these", 1)]
    tasks[2]["annotations"] = [said("", 1)]
    Path("done.json").write_text(json.dumps(tasks))
    done = review("--import", "done.json")
    assert "4 new labels by label-studio-1, ben@example.org; 0 known already" in done.output
    assert "disagree about 1 decision;" in done.output
    assert labels() == [
        ("d0", "label-studio-1", "label", "cat"),
        ("d0", "ben@example.org", "label", "dog"),
        ("d1", "label-studio-1", "none", None),
        ("d2", "label-studio-1", "skip", None),
    ]
    assert "0 new labels" in review("--import", "done.json").output
    assert "d0: label-studio-1 cat, ben@example.org dog" in review("--disagreements").output
    assert review("--settle", "d0=dog").exit_code == 0
    assert json.loads(review("--disagreements", "--json").output) == []
    tasks[3]["annotations"] = [said("bird", 1)]
    Path("done.json").write_text(json.dumps(tasks))
    before = labels()
    refused = review("--import", "done.json")
    assert refused.exit_code == 1
    assert "unknown class 'bird'" in refused.output
    assert labels() == before
    review("--export", "tasks.json", "--with-guess")
    tasks = json.loads(Path("tasks.json").read_text())
    assert tasks[0]["predictions"][0]["result"][0]["value"]["choices"] == ["cat"]
    with open_log("log.db") as log:
        found = [one.what for _, one in log.actions()]
    assert found == ["export", "import", "import", "settle", "guess", "guess", "export"]


def test_status_and_the_table_of_labels(folder):
    written("log.db", 3 * [KeptInput("row", ROW)])
    review(say="1\nn\n")
    done = review("--status", "--json")
    found = json.loads(done.output)
    assert (found["waiting"], found["agreed"], found["disputed"]) == (1, 2, 0)
    assert found["none_of_the_classes"] == 1
    assert found["reviewers"] == {"anna": 2}
    said = review("--status").output
    assert "waiting              1" in said
    assert "labeled today by you " in said
    assert review("--csv", "labels.csv").exit_code == 0
    rows = list(csv.DictReader(Path("labels.csv").read_text().splitlines()))
    assert [row["label"] for row in rows] == ["cat", "not one of these"]
    assert rows[0]["votes"] == "anna: cat"


def test_arrays_go_to_training_and_to_a_pool(folder):
    draws = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = (draws.normal(size=(60, 2)) * 0.3 + 2 * y[:, None]).astype(np.float32)
    written("log.db", [npy(row) for row in x], input={"shape": [2], "columns": None})
    review(say="".join(f"{1 + one}\n" for one in y[:-2]) + "n\nn\n")
    done = review("--export-labels", "labels.csv")
    assert done.exit_code == 0, done.output
    found = np.load("labels.npz")
    np.testing.assert_array_equal(found["x"], x[:-2])
    np.testing.assert_array_equal(found["y"], y[:-2])
    np.testing.assert_array_equal(np.load("labels-none.npz")["x"], x[-2:])
    for command in (
        "train single --data labels.npz --run run --epochs 1",
        "label start pool labels.npz --class-names cat,dog --test-size 10 --updates 20",
        "label import pool labels.csv",
    ):
        done = CliRunner().invoke(main, command.split())
        assert done.exit_code == 0, f"{command}\n{done.output}"
    assert "58 answers, 58 of them new" in done.output


def test_rows_go_to_training_and_to_a_pool(folder):
    rows = [json.dumps({"age": 10 * at, "smoker": "yes" if at % 3 else None}) for at in range(60)]
    written("log.db", [KeptInput("row", row.encode()) for row in rows])
    review(say="".join("2\n" if at >= 30 else "1\n" for at in range(60)))
    assert review("--export-labels", "labels.csv").exit_code == 0
    found = list(csv.DictReader(Path("labels-rows.csv").read_text().splitlines()))
    assert found[31] == {"id": "31", "age": "310", "smoker": "yes", "label": "dog"}
    for command in (
        "train single --data labels-rows.csv:keep=id --target label --run run --epochs 1",
        "label start pool labels-rows.csv:keep=id:without=label --class-names cat,dog "
        "--test-size 10 --updates 20",
        "label import pool labels.csv",
    ):
        done = CliRunner().invoke(main, command.split())
        assert done.exit_code == 0, f"{command}\n{done.output}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json"], "--json goes with"),
        (["--with-guess"], "--with-guess goes with"),
        (["--settle", "d0"], "ID=CLASS"),
        (["--settle", "d0=cat"], "nobody disagrees"),
        (["--export", "tasks.txt"], ".json"),
        (["--export-labels", "labels.csv"], "has a label yet"),
        (["--export-labels", "labels.npz"], ".csv"),
        (["--import", "nothing.json"], "no file"),
        (["--guard", "other", "--export", "tasks.json"], "nothing waits"),
    ],
)
def test_what_is_wrong_is_said(folder, words, said):
    written("log.db", [KeptInput("row", ROW)])
    done = review(*words)
    assert done.exit_code == 1
    assert said in done.output


def test_a_log_that_is_not_there_is_not_made(folder):
    done = review("--status")
    assert done.exit_code == 1
    assert not Path("log.db").exists()


def test_help_needs_no_database():
    before = set(sys.modules)
    assert CliRunner().invoke(main, ["review", "--help"]).exit_code == 0
    assert "sqlalchemy" in before or "sqlalchemy" not in set(sys.modules) - before
