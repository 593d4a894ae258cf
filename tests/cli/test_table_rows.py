"""Raw tables on the command line: from training to scores, with text, empty cells and ids."""

import csv

import numpy as np
import pytest

import nescio
from nescio.core import NescioError
from nescio.models import encoding_of


def write(path, count, seed, *, skip=()):
    rng = np.random.default_rng(seed)
    ward, age = rng.choice(["A", "B", "C"], count), rng.normal(60, 10, count).round(5)
    sick = (ward == "A") ^ (age > 60)
    pressure = [("", "?", str(v))[min(i % 9, 2)] for i, v in enumerate(rng.normal(130, 9, count))]
    columns = {
        "patient": [f"P{seed}-{i}" for i in range(count)],
        "ward": ward,
        "age": age,
        "pressure": pressure,
        "outcome": np.where(sick, "sick", "well"),
    }
    kept = {name: column for name, column in columns.items() if name not in skip}
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(kept)
        writer.writerows(zip(*kept.values(), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for seed, (name, count) in enumerate({"train": 400, "cal": 300, "test": 200}.items()):
        write(folder / f"{name}.csv", count, seed)
    write(folder / "new.csv", 50, 9, skip=("outcome",))
    from click.testing import CliRunner

    from nescio.cli.main import main

    def command(*words):
        found = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
        judged = (0, 2, 3) if words[0] == "audit" else (0,)
        assert found.exit_code in judged, found.output
        return found.output

    out = command("train", "single", "--data", folder / "train.csv", "--target", "outcome",
                  "--run", folder / "run", "--epochs", 15)  # fmt: skip
    assert "left out as ids, since they only tell rows apart: patient" in out
    command("guard", folder / "run", "--calibration", folder / "cal.csv", "--train",
            folder / "train.csv", "--risk", 0.1, "--out", folder / "g.safetensors")  # fmt: skip
    return folder, command


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_the_model_holds_what_was_learned(folder):
    columns = encoding_of(nescio.load(folder[0] / "run"))
    assert columns.names == ("ward", "age", "pressure")
    assert columns.ids == ("patient",)
    assert (columns.target, columns.classes) == ("outcome", ("sick", "well"))


def test_predictions_have_the_ids_and_the_classes(folder):
    path, command = folder
    command("predict", path / "run", "--data", path / "test.csv", "--out", path / "p.csv")
    found, given = rows(path / "p.csv"), rows(path / "test.csv")
    assert [row["patient"] for row in found] == [row["patient"] for row in given]
    right = [a["class"] == b["outcome"] for a, b in zip(found, given, strict=True)]
    assert np.mean(right) > 0.9


def test_scores_have_the_ids_and_parquet_scores_alike(folder):
    from pyarrow import csv as reader
    from pyarrow import parquet

    path, command = folder
    table = reader.read_csv(path / "new.csv")
    parquet.write_table(table, path / "new.parquet")
    for kind in ("csv", "parquet"):
        command(
            "score", path / "g.safetensors", path / f"new.{kind}", "--out", path / f"{kind}.csv"
        )
    assert (path / "csv.csv").read_text() == (path / "parquet.csv").read_text()
    assert rows(path / "csv.csv")[7]["patient"] == "P9-7"
    assert {row["label"] for row in rows(path / "csv.csv")} <= {"sick", "well", ""}


def test_the_audit_of_the_training_file_takes_its_test_rows(folder):
    path, command = folder
    out = command("audit", path / "run", "--data", path / "train.csv", "--rays", 0,
                  "--attack-steps", 0, "--out", path / "audit")  # fmt: skip
    assert "only its 40 test samples count" in out


def test_comparing_and_monitoring(folder):
    path, command = folder
    out = command("compare", path / "run", "--data", path / "test.csv", "--ood",
                  f"new={path / 'new.csv'}", "--detector", "energy", "--resamples", 0,
                  "--out", path / "compare")  # fmt: skip
    assert "energy" in out
    out = command(
        "monitor", path / "g.safetensors", path / "new.csv", "--state", path / "m.safetensors"
    )
    assert "50 scores" in out


def test_a_table_that_does_not_fit_is_refused(folder):
    path, _ = folder
    from nescio.cli.data_names import guarded_stream

    guard = nescio.load(path / "g.safetensors")
    write(path / "short.csv", 20, 4, skip=("age",))
    with pytest.raises(NescioError, match="unknown column 'age'"):
        guarded_stream(str(path / "short.csv"), guard)
    lines = (path / "new.csv").read_text().splitlines()
    cells = lines[3].split(",")
    cells[2] = "sixty"
    (path / "bad.csv").write_text("\n".join([*lines[:3], ",".join(cells), *lines[4:]]))
    with pytest.raises(NescioError, match=r"'age' is continuous, but row 2 \(line 4 of the file\)"):
        list(guarded_stream(str(path / "bad.csv"), guard).blocks(16))


def test_options_of_a_table_need_one(folder):
    from nescio.cli.work.train import run_recipe

    with pytest.raises(NescioError, match="--target is about a .csv or .parquet file"):
        run_recipe("single", "digits", None, folder[0] / "x", table={"target": "num"})
    with pytest.raises(NescioError, match="say which column .* its columns: patient, ward, age"):
        run_recipe("single", str(folder[0] / "train.csv"), None, folder[0] / "x")


def test_an_input_of_the_network_is_not_its_target(folder):
    from click.testing import CliRunner

    from nescio.cli.main import main

    path, _ = folder
    words = ["audit", str(path / "run"), "--data", str(path / "test.csv"), "--target", "ward"]
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 1
    assert "ward is an input of the network; it predicts 'outcome'" in found.output


def test_an_array_in_place_of_the_table_is_refused(folder):
    model = nescio.load(folder[0] / "run")
    with pytest.raises(NescioError, match=r"columns of a table \(ward, age.*got an array \(4, 3\)"):
        model(np.zeros((4, 3)))
