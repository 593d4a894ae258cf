"""`nescio label`: a person in the loop, from the first question to the plan."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from PIL import Image

from nescio import NescioError, load
from nescio.applications.active_learning import Pool
from nescio.cli import label_pool
from nescio.cli.label_words import paired_change

QUICK = ["--recipe", "deep_ensemble", "-o", "members=2", "--updates", "20", "--net", "mlp"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Items, of two classes by the sign of their first number, and labels to test on."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(260, 2)).astype(np.float32)
    np.savez("pool.npz", x=x[:60])
    np.savez("test.npz", x=x[60:], y=(x[60:, 0] > 0).astype(np.int64))
    return tmp_path


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: str, table: list[dict[str, str]]) -> None:
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0])
        writer.writeheader()
        writer.writerows(table)


def answered(path: str, out: str = "answers.csv", **changes: str) -> list[dict[str, str]]:
    """What a person fills in: the sign of x0."""
    table = [{**row, "label": str(int(float(row["x0"]) > 0)), **changes} for row in rows(path)]
    write(out, table)
    return table


def pixels(path: str) -> Any:
    with Image.open(path) as image:
        return np.asarray(image)


def ok(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.output


def refused(result: Result, said: str) -> None:
    assert result.exit_code == 1, result.output
    assert said in " ".join(result.output.split()), result.output


def started(nescio: Callable[..., Result], *more: str) -> None:
    ok(nescio("label", "start", "pool", "pool.npz", *QUICK, *(more or ("--test", "test.npz"))))


def test_from_the_first_question_to_a_plan(here: Path, nescio: Callable[..., Result]) -> None:
    said = ok(nescio("label", "start", "pool", "pool.npz", "--test", "test.npz", *QUICK))
    assert "60 items, 200 test samples, classes 0, 1" in said
    assert "no model yet" in ok(nescio("label", "status", "pool"))
    refused(nescio("label", "plan", "pool", "--error", "0.05"), "has no model yet")
    for step in range(4):
        ok(
            nescio(
                "label", "next", "pool", "--out", "ask.csv", "--size", "5", "--acquisition", "bald"
            )
        )
        table = rows("ask.csv")
        assert len(table) == 5
        assert {"id", "label", "guess", "confidence", "why", "x0", "x1", "pool"} == set(table[0])
        assert all(row["label"] == "" for row in table)
        assert (table[0]["guess"] in "01") == (step > 0) or step == 0
        assert ("no model yet" in table[0]["why"]) == (step == 0)
        if step == 3:
            refused(nescio("label", "plan", "pool", "--error", "0.05"), "at least 4")
        answered("ask.csv")
        said = ok(nescio("label", "add", "answers.csv"))
        assert "5 answers, 5 of them new" in said
        assert f"{5 * step + 5} labels to train on" in said
        assert "on 200 samples" in said
        assert ("change of the test error" in said) == (step > 0)
        assert ("differ from the model's guess" in said) == (step > 0)
    assert "error rate of 0.3" in ok(nescio("label", "plan", "pool", "--error", "0.3"))
    said = ok(nescio("label", "plan", "pool", "--guarantee", "0.2", "--coverage", "0.5"))
    assert "calibration labels" in said
    assert len(ok(nescio("label", "status", "pool")).splitlines()) == 6
    steps = label_pool.Project.open("pool").curve
    assert [step["labels"] for step in steps] == [5, 10, 15, 20]
    (model,) = (here / "pool" / "models").iterdir()  # the newest alone
    prediction = load(model)(np.load("test.npz")["x"])
    wrong = (prediction.labels.numpy() != np.load("test.npz")["y"]).nonzero()[0]
    assert wrong.tolist() == steps[-1]["wrong"]


def test_bad_answers_are_refused_and_change_nothing(
    here: Path, nescio: Callable[..., Result]
) -> None:
    started(nescio)
    ok(nescio("label", "next", "pool", "--out", "ask.csv", "--size", "4"))
    table = answered("ask.csv")
    free = next(str(n) for n in range(60) if str(n) not in {row["id"] for row in table})

    def add(*changed: dict[str, str], **more: Any) -> Result:
        write("bad.csv", [*table[:2], *changed])
        return nescio("label", "add", "bad.csv", **more)

    refused(add({**table[2], "id": free}), "were not asked")
    refused(add({**table[2], "id": "no such item"}), "does not have")
    refused(add({**table[2], "label": "2"}), "unknown class '2'")
    refused(add(table[2], {**table[2], "label": str(1 - int(table[2]["label"]))}), "answered twice")
    refused(add({**table[2], "pool": "/elsewhere"}), "rows of 2 pools")
    refused(nescio("label", "add", "ask.csv"), "every label is blank")
    write("bad.csv", [{"id": row["id"], "label": row["label"]} for row in table])
    refused(nescio("label", "add", "bad.csv"), "does not name its pool")
    write("bad2.csv", [{"id": row["id"], "answer": row["label"]} for row in table])
    refused(nescio("label", "add", "pool", "bad2.csv"), "no column 'label'")
    refused(nescio("label", "add", "nowhere", "bad.csv"), "holds no pool")
    assert not Pool.open("pool").answers
    x = np.load("pool.npz")["x"]
    np.savez("pool.npz", x=x + (np.arange(60) == 7)[:, None])
    refused(nescio("label", "add", "answers.csv"), "the pool changed since")
    np.savez("pool.npz", x=x)
    said = ok(nescio("label", "add", "pool", "bad.csv"))  # with the pool given
    assert "4 answers, 4 of them new" in said
    other = [{**row, "label": str(1 - int(row["label"]))} for row in table[:1]]
    write("other.csv", other)
    refused(nescio("label", "add", "other.csv"), "was answered before")
    assert "1 of them new" in ok(nescio("label", "add", "other.csv", "--correct"))


def test_a_pool_needs_items_and_classes(here: Path, nescio: Callable[..., Result]) -> None:
    refused(nescio("label", "start", "pool", "pool.npz"), "--class-names")
    np.savez("empty.npz", x=np.zeros((0, 2), np.float32))
    assert nescio("label", "start", "p", "empty.npz", "--class-names", "a,b").exit_code == 1
    many = nescio("label", "start", "p", "pool.npz", "--class-names", "a,b", "--test-size", "60")
    refused(many, "leaves nothing")
    both = ["--test", "test.npz", "--test-size", "5"]
    refused(nescio("label", "start", "p", "pool.npz", *both), "not both")
    started(nescio)
    refused(nescio("label", "start", "pool", "pool.npz", "--test", "test.npz"), "holds a pool")
    refused(nescio("label", "plan", "pool"), "one of the two")
    refused(nescio("label", "next", "pool", "--out", "ask.txt"), "must end in .csv or .json")


def test_answers_come_in_parts_and_questions_can_be_written_again(
    here: Path, nescio: Callable[..., Result]
) -> None:
    started(nescio, "--class-names", "0,1", "--test-size", "10")
    refused(nescio("label", "next", "pool", "--again"), "waits for an answer")
    ok(nescio("label", "next", "pool", "--out", "ask.csv", "--size", "6", "--no-guess"))
    table = answered("ask.csv")
    assert len(table) == 16
    assert "guess" not in table[0]
    for row in table[5:]:
        row["label"] = ""
    write("some.csv", table)
    said = ok(nescio("label", "add", "some.csv"))
    assert "11 items have no answer yet" in said
    ok(nescio("label", "next", "pool", "--again", "--out", "rest.csv"))
    assert {row["id"] for row in rows("rest.csv")} == {row["id"] for row in table[5:]}
    answered("rest.csv", "rest.csv")
    said = ok(nescio("label", "add", "rest.csv"))
    assert "6 labels to train on" in said
    assert "10 of 10 labels to test on" in said
    assert "on 10 samples" in said


def stopped(*_: Any, **__: Any) -> None:
    raise NescioError("no more time")


def test_a_killed_training_is_resumed_to_the_same_result(
    here: Path, nescio: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    started(nescio)
    ok(nescio("label", "next", "pool", "--out", "ask.csv"))
    answered("ask.csv")
    with monkeypatch.context() as patch:
        patch.setattr(label_pool, "fit_recipe", stopped)
        refused(nescio("label", "add", "answers.csv"), "no more time")
    assert len(Pool.open("pool").answers) == 10  # before anything was trained
    ok(nescio("label", "next", "pool", "--out", "ask2.csv"))  # trains first
    first = label_pool.Project.open("pool").curve
    ok(nescio("label", "start", "twin", "pool.npz", "--test", "test.npz", *QUICK))
    ok(nescio("label", "import", "twin", "answers.csv"))
    assert label_pool.Project.open("twin").curve == first
    assert "0 of them new" in ok(nescio("label", "add", "answers.csv"))


def test_images_have_thumbnails_and_a_sheet(here: Path, nescio: Callable[..., Result]) -> None:
    draw = np.random.default_rng(0)
    for name, shift in (("dark", 0), ("light", 150)):
        Path("seen", name).mkdir(parents=True)
        Path("photos").mkdir(exist_ok=True)
        for number in range(12):
            image = Image.fromarray((draw.integers(0, 100, (8, 8)) + shift).astype(np.uint8))
            image.save(f"seen/{name}/{number}.png")
            image.save(f"photos/{name}-{number}.png")
    Path("photos/broken.png").write_text("not an image")
    said = ok(nescio("label", "start", "pool", "photos", "--test", "seen", *QUICK[:-2]))
    assert "24 items, 24 test samples, classes dark, light" in said
    ok(nescio("label", "next", "pool", "--out", "ask.csv", "--size", "5"))
    table = rows("ask.csv")
    shown, whole = pixels(table[0]["image"]), pixels(f"photos/{table[0]['id']}")
    assert np.abs(shown[::14, ::14].astype(int) - whole).max() <= 1
    assert pixels("ask.png").shape[1] > 300
    write("a.csv", [{**row, "label": row["id"].split("-")[0]} for row in table])
    assert "on 24 samples" in ok(nescio("label", "add", "a.csv"))


def test_tables_show_their_rows(here: Path, nescio: Callable[..., Result]) -> None:
    draw = np.random.default_rng(0)
    table = [
        {"name": f"p{n}", "age": str(age), "job": "cook" if age > 40 else "smith"}
        for n, age in enumerate(draw.integers(20, 60, 60).tolist())
    ]
    write("people.csv", table)
    write("seen.csv", [{**row, "rich": "yes" if int(row["age"]) > 40 else "no"} for row in table])
    words = ["--class-names", "no,yes", "--test", "seen.csv", "--target", "rich"]
    ok(nescio("label", "start", "pool", "people.csv:keep=name", *words, *QUICK))
    ok(nescio("label", "next", "pool", "--out", "ask.csv"))
    asked = rows("ask.csv")
    by_name = {row["name"]: row for row in table}
    assert all(by_name[row["id"]]["job"] == row["job"] for row in asked)
    assert all(by_name[row["id"]]["age"] == row["age"] for row in asked)
    write("a.csv", [{**row, "label": "yes" if int(row["age"]) > 40 else "no"} for row in asked])
    assert "on 60 samples" in ok(nescio("label", "add", "a.csv"))
    ok(nescio("label", "next", "pool", "--out", "ask.csv", "--acquisition", "entropy"))
    assert rows("ask.csv")[0]["guess"] in ("no", "yes")


def test_label_studio_there_and_back(here: Path, nescio: Callable[..., Result]) -> None:
    started(nescio)
    said = ok(nescio("label", "next", "pool", "--out", "tasks.json", "--size", "4"))
    assert "with tasks.xml as the labeling interface" in said
    assert "<Choices" in Path("tasks.xml").read_text()
    tasks = json.loads(Path("tasks.json").read_text())
    assert all(task["predictions"] == [] for task in tasks)
    x = np.load("pool.npz")["x"]
    for place, task in enumerate(tasks[:3]):
        chosen = str(int(x[int(task["data"]["id"]), 0] > 0)) if place else "1"
        result = [{"type": "choices", "from_name": "label", "to_name": "item"}]
        result[0]["value"] = {"choices": [chosen]}  # type: ignore[assignment]
        task["annotations"] = [{"result": result, "was_cancelled": False}]
    tasks[3]["annotations"] = [{"result": [], "was_cancelled": True}]
    Path("export.json").write_text(json.dumps(tasks))
    said = ok(nescio("label", "add", "export.json"))
    assert "3 answers, 3 of them new; 1 items have no answer yet" in said
    assert "needs labels of two classes" not in said
    ok(nescio("label", "next", "pool", "--out", "tasks.json", "--size", "4"))
    (prediction,) = json.loads(Path("tasks.json").read_text())[0]["predictions"]
    assert prediction["model_version"] == "nescio, 3 labels"
    assert 0.5 <= prediction["score"] <= 1
    ok(nescio("label", "export", "pool", "--format", "label-studio", "--out", "all.json"))
    ok(nescio("label", "start", "twin", "pool.npz", "--test", "test.npz", *QUICK))
    ok(nescio("label", "import", "twin", "all.json"))
    assert Pool.open("twin").answers == Pool.open("pool").answers
    ok(nescio("label", "export", "twin", "--out", "labels.csv"))
    assert {r["id"]: r["label"] for r in rows("labels.csv")} == Pool.open("pool").answers
    write("wrong.csv", [{"id": "0", "label": "purple"}])
    refused(nescio("label", "import", "twin", "wrong.csv"), "unknown class 'purple'")


def test_a_guard_keeps_ood_items_out(here: Path, nescio: Callable[..., Result]) -> None:
    x = np.load("pool.npz")["x"]
    far = np.arange(60) % 3 == 0
    np.savez("pool.npz", x=np.where(far[:, None], x + 100, x))
    started(nescio)
    table = [{"id": str(n), "label": str(int(x[n, 0] > 0))} for n in np.flatnonzero(~far)[:10]]
    write("seen.csv", table)
    ok(nescio("label", "import", "pool", "seen.csv"))
    (model,) = (here / "pool" / "models").iterdir()
    words = ["--calibration", "test.npz", "--risk", "0.5", "--false-alarm", "0.05"]
    ok(nescio("guard", str(model), *words))
    said = ok(nescio("label", "next", "pool", "--guard", "guard.safetensors", "--size", "20"))
    asked = [int(row["id"]) for row in rows("ask.csv")]
    assert len(asked) == 20
    assert not far[asked].any()
    assert "the guard calls them OOD" in said


def test_the_interval_of_a_change_covers_it() -> None:
    """Against the published example of Tango's interval, and in draws of several kinds."""
    found = paired_change(range(7), [7], 21)
    assert found == pytest.approx((-6 / 21, -0.517, -0.026), abs=5e-4)
    change, low, high = paired_change([1], [1], 10)
    assert (change, low) == (0.0, -high)
    assert high == pytest.approx(1.96**2 / (10 + 1.96**2), abs=1e-3)  # no sample tells them apart
    assert paired_change(range(5), [], 5)[:2] == (-1.0, -1.0)
    draw = np.random.default_rng(0)
    for tested, worse, better in ((100, 0.0, 0.05), (600, 0.01, 0.06), (100, 0.02, 0.3)):
        counts = draw.multinomial(tested, [worse, better, 1 - worse - better], 500)[:, :2]
        found = [paired_change(range(b), range(b, b + w), tested) for w, b in counts.tolist()]
        assert sum(low <= worse - better <= high for _, low, high in found) >= 0.925 * 500


def test_a_corrected_test_label_is_tested_again(here: Path, nescio: Callable[..., Result]) -> None:
    started(nescio, "--class-names", "0,1", "--test-size", "10")
    ok(nescio("label", "next", "pool", "--out", "ask.csv", "--size", "6"))
    answered("ask.csv")
    ok(nescio("label", "add", "answers.csv"))
    project = label_pool.Project.open("pool")
    before, name = project.curve[-1], str(project.about["test_index"][0])
    write("c.csv", [{"id": name, "label": str(1 - int(project.pool.answers[name]))}])
    ok(nescio("label", "add", "pool", "c.csv", "--correct"))
    after = label_pool.Project.open("pool").curve[-1]
    assert after["model"] == before["model"]
    assert set(after["wrong"]) ^ set(before["wrong"]) == {0}


def test_items_to_test_on_are_asked_whatever_an_acquisition_says(
    here: Path, nescio: Callable[..., Result]
) -> None:
    started(nescio, "--class-names", "0,1", "--test-size", "10")
    tests = set(map(str, label_pool.Project.open("pool").about["test_index"]))
    x = np.load("pool.npz")["x"]
    free = [n for n in range(60) if str(n) not in tests]
    write("seen.csv", [{"id": str(n), "label": str(int(x[n, 0] > 0))} for n in free[:12]])
    ok(nescio("label", "import", "pool", "seen.csv"))  # there is a model before the first question
    ok(nescio("label", "next", "pool", "--out", "ask.csv", "--size", "5"))
    table = rows("ask.csv")
    assert {row["id"] for row in table[:10]} == tests
    assert len(table) == 15
    assert all("to test on" in row["why"] for row in table[:10])
    answered("ask.csv")
    said = ok(nescio("label", "add", "answers.csv"))
    assert "17 labels to train on" in said
    assert "10 of 10 labels to test on" in said


def test_answers_to_other_items_are_refused(here: Path, nescio: Callable[..., Result]) -> None:
    started(nescio)
    ok(nescio("label", "next", "pool", "--out", "ask.csv"))
    answered("ask.csv")
    np.savez("other.npz", x=np.load("pool.npz")["x"][::-1])
    ok(nescio("label", "start", "other", "other.npz", "--test", "test.npz", *QUICK))
    pool = Pool.open("other")
    pool.ask(range(60))  # the same ids
    refused(nescio("label", "add", "other", "answers.csv"), "items of another pool")
    assert not pool.answers
    Path("pool").rename("moved")
    refused(nescio("label", "add", "answers.csv"), "holds no pool")
    assert "10 of them new" in ok(nescio("label", "add", "moved", "answers.csv"))


def test_classes_that_a_spreadsheet_would_run_come_back(
    here: Path, nescio: Callable[..., Result]
) -> None:
    started(nescio, "--class-names", "+,-")
    write("seen.csv", [{"id": str(n), "label": "+-"[n % 2]} for n in range(6)])
    ok(nescio("label", "import", "pool", "seen.csv"))
    ok(nescio("label", "export", "pool", "--out", "labels.csv"))
    assert {row["label"] for row in rows("labels.csv")} == {"'+", "'-"}
    assert "6 answers, 0 of them new" in ok(nescio("label", "add", "labels.csv"))


def test_guesses_are_hidden_from_label_studio_too(
    here: Path, nescio: Callable[..., Result]
) -> None:
    started(nescio)
    write("seen.csv", [{"id": str(n), "label": str(n % 2)} for n in range(6)])
    ok(nescio("label", "import", "pool", "seen.csv"))
    ok(nescio("label", "next", "pool", "--out", "tasks.json", "--no-guess"))
    tasks = json.loads(Path("tasks.json").read_text())
    assert all(task["predictions"] == [] and not task["data"]["why"] for task in tasks)
