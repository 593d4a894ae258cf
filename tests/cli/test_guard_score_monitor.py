"""From a network to a guard, from a guard to decisions, and from decisions to an alarm."""

import csv
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

from nescio.cli import running
from nescio.cli.main import main
from nescio.evaluation import Audit
from nescio.guards import Guard
from nescio.guards import guard as make_guard
from nescio.guards.resumable_table import Table

MODULE = """
from torch import nn
def make_net():
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = make_net()
    def forward(self, x):
        return {"features": x, "logits": self.net(x)}
def two():
    return Two()
def other():
    return nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
"""
NAME = "guarded_module_of_tests"
DEFAULT = f"{NAME}:make_net"


def nescio(*words: str) -> Result:
    return CliRunner().invoke(main, list(map(str, words)), catch_exceptions=False)


def draw(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    x = rng.normal(size=(count, 2)) + np.stack([4 * y - 2, 0 * y], axis=1)
    return x.astype(np.float32), y


def write_csv(path: Path, x: np.ndarray, y: np.ndarray) -> None:
    rows = [
        f"{i},{b:.9g},{label},{a:.9g}" for i, ((a, b), label) in enumerate(zip(x, y, strict=True))
    ]
    path.write_text("\n".join(["id,b,class,a", *rows]) + "\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network, its weights, data, and a guard made on the command line."""
    home = tmp_path_factory.mktemp("home")
    (home / f"{NAME}.py").write_text(MODULE)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    with torch.no_grad():  # by the sign of the first number
        net[0].weight[:2] = torch.tensor([[1.0, 0], [-1, 0]])
        net[2].weight[:, :2] = torch.tensor([[-1.0, 1], [1, -1]])
        net[2].weight[:, 2:] *= 0.1
    x, y = draw(800, 0)
    save_file(net.state_dict(), home / "w.safetensors")
    np.savez(home / "train.npz", x=x, y=y)
    for seed, name in ((1, "held"), (2, "new")):
        x, y = draw(900, seed)
        np.savez(home / f"{name}.npz", x=x, y=y)
        write_csv(home / f"{name}.csv", x, y)
    np.save(home / "new.npy", x)
    np.save(home / "far.npy", x * 0.3 + 6)
    return home


@pytest.fixture(autouse=True)
def in_dist(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "path", [str(home), *sys.path])


@pytest.fixture(scope="module")
def guard(home: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setattr(sys, "path", [str(home), *sys.path])
        words = ["guard", f"{NAME}:make_net", "--weights", "w.safetensors", "--data", "held.npz"]
        words += ["--train", "train.npz", "--test", "new.npz", "--false-alarm", "0.02"]
        words += ["--risk", "0.08", "--class-names", "west,east", "--out", "g.safetensors"]
        result = nescio(*words)
    assert result.exit_code == 0, result.output
    assert "refused as outside with probability at most 2 %" in result.output
    assert "tried on new.npz" in result.output
    assert f"nescio score g.safetensors INPUTS --net {NAME}:make_net" in result.output
    return home / "g.safetensors"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("command", ["guard", "score", "monitor"])
def test_help_teaches_with_an_example(command: str) -> None:
    result = nescio(command, "--help")
    assert result.exit_code == 0
    assert f"nescio {command} " in result.output.split("Options")[0].split("\n\n", 2)[2]
    assert f"nescio {command} " in nescio("--help").output


def test_a_guard_from_the_command_line_is_that_of_python(home: Path, guard: Path) -> None:
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    net.load_state_dict(load_file(home / "w.safetensors"))
    made = Guard.load(guard, net=net)
    assert (made.false_alarm, made.risk, made.names) == (0.02, 0.08, ("west", "east"))
    beside = json.loads((home / "g.safetensors.json").read_text())
    assert beside["guarantees"] == list(made.guarantees)
    x, y = draw(900, 2)
    truth = made(x).summary(y)
    assert beside["test"] == pytest.approx(truth)
    assert beside["groups"][0]["samples"] == len(made.rules[0].scores)


def test_score_writes_a_row_an_input(home: Path, guard: Path) -> None:
    net = ["--net", f"{NAME}:make_net"]
    result = nescio("score", guard, "new.npy", *net, "--out", "d.csv", "--batch-mb", "0.004")
    assert result.exit_code == 0, result.output
    assert "900 inputs" in result.output
    made = Guard.load(guard, net=_net(home))
    truth = made(np.load("new.npy")).columns()
    rows = rows_of(home / "d.csv")
    assert [row["decision"] for row in rows] == truth["decision"].tolist()
    assert [row["label"] for row in rows] == truth["label"].tolist()
    again = nescio("score", guard, "new.npy", *net, "--out", "d.csv")
    assert "there already" in again.output
    for name in ("new.npz", "new.csv:columns=a,b"):
        done = nescio("score", guard, name, *net, "--weights", "w.safetensors", "--out", "e.csv",
                      "--restart")  # fmt: skip
        assert done.exit_code == 0, done.output
        assert (home / "e.csv").read_bytes() == (home / "d.csv").read_bytes()


def _net(home: Path) -> nn.Module:
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    net.load_state_dict(load_file(home / "w.safetensors"))
    return net


def test_a_guard_from_a_table_takes_its_columns_by_name(home: Path) -> None:
    net, out = f"{NAME}:make_net", "t.safetensors"
    words = ["guard", net, "--weights", "w.safetensors", "--data", "held.csv:columns=a,b"]
    words += ["--target", "class", "--detector", "mahalanobis", "--out", out, "--risk", "0.08"]
    result = nescio(*words, "--no-weights")
    assert result.exit_code == 0, result.output
    words = ["score", out, "new.csv", "--net", net, "--weights", "w.safetensors", "--out", "t.csv"]
    result = nescio(*words)
    assert result.exit_code == 0, result.output
    made = Guard.load(home / out, net=_net(home))
    assert made.notes["columns"] == ["a", "b"]
    truth = made(draw(900, 2)[0]).columns()["decision"].tolist()
    assert [row["decision"] for row in rows_of(home / "t.csv")] == truth
    Path("lacks.csv").write_text("a,c\n1,2\n")
    words = ["score", out, "lacks.csv", "--net", net, "--weights", "w.safetensors"]
    assert "unknown column 'b'" in nescio(*words, "--out", "u.csv").output


def table_guard(*words: str) -> Result:
    start = ["guard", f"{NAME}:make_net", "--weights", "w.safetensors", "--data"]
    end = ["--target", "class", "--detector", "mahalanobis", "--risk", "0.08"]
    return nescio(*start, *words, *end)


def test_train_and_test_take_the_columns_of_data_by_name(home: Path) -> None:
    for seed, name in ((0, "train"), (2, "test")):
        x, y = draw(800, seed)
        write_csv(home / f"{name}.csv", x, y)  # id, b, class, a
        rows = np.column_stack([x, np.zeros(800), y])
        np.savetxt(home / f"{name}2.csv", rows, "%.9g", ",", header="a,b,more,class", comments="")
    found = []
    for train, test in (("train.csv", "test.csv"), ("train2.csv", "test2.csv:without=more")):
        words = ["held.csv:columns=a,b", "--train", train, "--test", test, "--out", "n.safetensors"]
        result = table_guard(*words)
        assert result.exit_code == 0, result.output
        found.append(json.loads((home / "n.safetensors.json").read_text()))
    assert found[0]["test"] == found[1]["test"]
    assert found[0]["groups"] == found[1]["groups"]
    assert found[0]["test"]["risk"] < 0.08
    (home / "less.csv").write_text("a,class\n1,0\n2,1\n")
    for option in ("--train", "--test"):
        result = table_guard("held.csv:columns=a,b", option, "less.csv", "--out", "y.safetensors")
        assert "less.csv: unknown column 'b'" in result.output
    assert not (home / "y.safetensors").exists()


def test_scored_columns_are_those_of_the_guard_also_where_some_are_named(home: Path) -> None:
    result = table_guard("held.csv:columns=a,b", "--out", "c.safetensors")
    assert result.exit_code == 0, result.output
    x, y = draw(900, 2)
    write_csv(home / "other.csv", x, y)
    text = (home / "other.csv").read_text()
    (home / "renamed.csv").write_text(text.replace("id,b,class,a", "id,second,class,first"))
    written = []
    for number, name in enumerate(
        ["other.csv", "other.csv:without=id", "other.csv:columns=b,a",
         "renamed.csv:columns=first,second"]
    ):  # fmt: skip
        words = ["score", "c.safetensors", name, "--net", f"{NAME}:make_net"]
        result = nescio(*words, "--out", f"c{number}.csv")
        assert result.exit_code == 0, result.output
        written.append((home / f"c{number}.csv").read_bytes())
    assert len(set(written)) == 1
    words = ["score", "c.safetensors", "other.csv:without=b", "--net", f"{NAME}:make_net"]
    assert "unknown column 'b'" in nescio(*words, "--out", "x.csv").output


def test_a_parquet_with_text_can_calibrate(home: Path) -> None:
    parquet, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    x, y = draw(900, 1)
    columns = {"name": [f"p{i}" for i in range(900)], "a": x[:, 0], "b": x[:, 1], "class": y}
    parquet.write_table(pa.table(columns), home / "held.parquet")
    result = table_guard("held.parquet:without=name", "--out", "q.safetensors")
    assert result.exit_code == 0, result.output
    start = ["guard", f"{NAME}:make_net", "--weights", "w.safetensors", "--data", "held.parquet"]
    assert "its columns: name, a, b, class" in nescio(*start).output


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("dropout", ["-o", "passes=2", "--calibrate", "temperature"]),
        ("deep_ensemble", ["-o", "members=2", "--calibrate", "temperature"]),
        ("bayes_by_backprop", ["-o", "passes=2"]),
    ],
)
def test_a_run_of_any_recipe_knows_its_training_data(
    home: Path, recipe: str, options: list[str]
) -> None:
    words = ["train", recipe, "--data", "half_moons", "--run", recipe, "--epochs", "1", *options]
    assert nescio(*words).exit_code == 0
    words = ["guard", recipe, "--data", "half_moons", "--detector", "energy", "--risk", "0.5"]
    words += ["--false-alarm", "0.1", "--no-weights", "--out", f"{recipe}.safetensors"]
    refused = nescio(*words, "--part", "train")
    assert "are among the data the model was trained on" in refused.output
    made = nescio(*words, "--part", "test")
    assert made.exit_code == 0, made.output
    assert f"INPUTS --net {recipe} --out" in made.output
    words = ["score", f"{recipe}.safetensors", "half_moons", "--out", f"{recipe}.csv"]
    lone = nescio(*words)
    assert "holds no weights; say where they are: --net RUN_FOLDER" in lone.output
    done = nescio(*words, "--net", recipe)
    assert done.exit_code == 0, done.output


def test_a_scaled_ensemble_of_ones_own_network_is_scored(home: Path) -> None:
    net = f"{NAME}:make_net"
    words = ["train", "deep_ensemble", "--data", "half_moons", "--net", net, "--run", "own"]
    done = nescio(*words, "--epochs", "1", "--standardize", "-o", "members=2")
    assert done.exit_code == 0, done.output
    words = ["guard", "own", "--net", net, "--data", "half_moons", "--detector", "energy"]
    made = nescio(*words, "--risk", "0.5", "--false-alarm", "0.1", "--out", "own.safetensors")
    assert made.exit_code == 0, made.output
    assert f"INPUTS --net {net} --out" in made.output
    words = ["score", "own.safetensors", "half_moons", "--net", net, "--out", "own.csv"]
    done = nescio(*words)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("ending", ["csv", "jsonl", "ndjson", "parquet"])
def test_monitor_reads_what_score_writes(home: Path, guard: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    x = np.load(home / "new.npy")
    x[3] = np.nan
    np.save(home / "holes.npy", x)
    net = ["--net", f"{NAME}:make_net"]
    for words in (["holes.npy", *net], [f"w.{ending}"]):
        if len(words) == 1:
            out = nescio("score", guard, "holes.npy", *net, "--out", f"w.{ending}")
            assert out.exit_code == 0, out.output
        state = f"{ending}{len(words)}.safetensors"
        result = nescio("monitor", guard, *words, "--state", state)
        assert result.exit_code == 0, result.output
        assert "900 scores" in result.output
    one, two = ((home / f"{ending}{n}.safetensors.json").read_text() for n in (1, 3))
    assert one == two


def test_lines_of_scores_may_be_the_reference(home: Path) -> None:
    rng = np.random.default_rng(1)
    for name, count in (("u", 5000), ("v", 300)):
        lines = [
            json.dumps({"sample": i, "score": s}) for i, s in enumerate(rng.normal(size=count))
        ]
        (home / f"{name}.jsonl").write_text("\n".join(lines))
    result = nescio("monitor", "u.jsonl", "v.jsonl", "--state", "u.safetensors")
    assert result.exit_code == 0, result.output
    assert "300 scores" in result.output


def test_monitor_is_quiet_on_the_same_and_fires_on_another(home: Path, guard: Path) -> None:
    net = ["--net", f"{NAME}:make_net"]
    assert nescio("score", guard, "new.npy", *net, "--out", "m.csv").exit_code == 0
    quiet = nescio("monitor", guard, "m.csv", "--state", "s.safetensors")
    assert quiet.exit_code == 0, quiet.output
    assert "900 scores, 900 of them new" in quiet.output
    assert "no alarm" in quiet.output
    words = ["monitor", guard, "far.npy", *net, "--state", "s.safetensors", "--plot", "s.png"]
    fired = nescio(*words)
    assert fired.exit_code == 3, fired.output
    assert "1800 scores, 900 of them new" in fired.output
    beside = json.loads((home / "s.safetensors.json").read_text())
    assert 900 <= beside["alarm"] < 1000
    assert f"ALARM at score {beside['alarm']}" in fired.output
    assert (home / "s.png").read_bytes().startswith(b"\x89PNG")
    other = nescio(*words, "--false-alarm", "0.1")
    assert "belongs to another reference" in other.output


def test_monitor_reads_plain_scores(home: Path) -> None:
    rng = np.random.default_rng(0)
    np.save("usual.npy", rng.normal(size=1000))
    np.save("odd.npy", np.append(rng.normal(size=200), [np.nan, np.inf]))
    result = nescio("monitor", "usual.npy", "odd.npy", "--state", "p.safetensors")
    assert result.exit_code == 0, result.output
    assert "202 scores" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["guard", "NET", "--data", "held.npz", "--out", "g.txt"], "must end in .safetensors"),
        (["guard", "NET", "--data", "held.csv"], "--target NAME; its columns: id, b, class, a"),
        (["guard", "NET", "--data", "held.csv", "--target", "x"], "unknown column 'x'"),
        (["guard", "NET", "--data", "held.csv", "--target", "a"], "must hold classes"),
        (["guard", "NET", "--data", "held.npz", "--target", "a"], "is none"),
        (["guard", "NET", "--data", "new.npy"], "new.npy"),
        (["guard", "NET", "--data", "held.npz", "--train", "held.npz"], "are among"),
        (["guard", "NET", "--data", "held.npz", "--risk", "2"], "risk"),
        (["guard", "NET", "--data", "held.npz", "--detector", "knnn"], "did you mean 'knn'"),
        (["score", "none.safetensors", "new.npy", "--out", "x.csv"], "no file"),
        (["score", "w.safetensors", "new.npy", "--out", "x.csv"], "not written by nescio"),
        (["score", "cut.safetensors", "new.npy", "--out", "x.csv"], "damaged"),
        (["score", "newer.safetensors", "new.npy", "--out", "x.csv"], "newer nescio"),
        (["score", "GUARD", "new.npy", "--out", "x.csv"], "--net package.module:factory"),
        (["score", "GUARD", "new.npy", "--net", "NET", "--out", "x.txt"], "written as .csv"),
        (["score", "GUARD", "new.npy", "--net", "OTHER", "--out", "x.csv"], "not the network"),
        (["score", "GUARD", "new.csv", "--net", "NET", "--out", "x.csv"], "choose the columns"),
        (["score", "GUARD", "a/no.npy", "--net", "NET", "--out", "x.csv"], "no file a/no.npy"),
        (["score", "GUARD", "no.csv", "--net", "NET", "--out", "x.csv"], "no file no.csv"),
        (["score", "GUARD", "no.npz", "--net", "NET", "--out", "x.csv"], "no file no.npz"),
        (["score", "GUARD", "no.parquet:columns=a", "--net", "NET", "--out", "x.csv"], "no file"),
        (["score", "GUARD", "lone.jsonl", "--net", "NET", "--out", "x.csv"], "cannot tell what"),
        (["score", "GUARD", "new.npy", "--net", "NET", "--out", "."], "is a folder"),
        (["score", "held.csv", "GUARD", "--out", "x.csv"], "held.csv is no guard file; the guard"),
        (["score", ".", "GUARD", "--out", "x.csv"], ". is no guard file; the guard comes first"),
        (["score", "GUARD", "digits", "--net", "NET", "--out", "x.csv"], "calibrated on (2,)"),
        (["monitor", "GUARD", "lone.jsonl", "--state", "x"], "lone.jsonl holds no scores from"),
        (["monitor", "GUARD", "empty.jsonl", "--state", "x"], "at least one line"),
        (["monitor", "empty.jsonl", "scores.npy", "--state", "x"], "at least one line"),
        (["monitor", "GUARD", "none.jsonl", "--state", "x"], "none.jsonl"),
        (["monitor", "GUARD", "broken.npy", "--state", "x"], "cannot read broken.npy"),
        (["monitor", "GUARD", "words.npy", "--state", "x"], "must hold real numbers"),
        (["monitor", "scores.npy", "scores.npy", "--state", "held.csv"], "choose another --state"),
        (["monitor", "scores.npy", "held.csv", "--state", "x"], "holds no scores"),
    ],
)
def test_bad_calls_say_what_to_do(home: Path, guard: Path, words: list[str], said: str) -> None:
    whole = guard.read_bytes()
    (home / "cut.safetensors").write_bytes(whole[: len(whole) // 2])
    newer = whole.replace(b'\\"format\\": 1', b'\\"format\\": 9')
    (home / "newer.safetensors").write_bytes(newer)
    np.save(home / "scores.npy", np.arange(100.0))
    (home / "lone.jsonl").write_text("{}\n")
    (home / "empty.jsonl").write_text("")
    (home / "broken.npy").write_bytes(b"none")
    np.save(home / "words.npy", np.array(["a", "b"]))
    real = {"NET": f"{NAME}:make_net", "OTHER": f"{NAME}:other", "GUARD": str(guard)}
    result = nescio(*(real.get(word, word) for word in words))
    assert result.exit_code not in (0, 3)
    assert said in result.output
    assert "Traceback" not in result.output
    assert not (home / "x.csv").exists()


def write_words(path: Path, seed: int, header: str = "patient,a,b,way") -> None:
    x, y = draw(900, seed)
    rows = [f"p{i},{a:.9g},{b:.9g},{['west', 'east'][y[i]]}" for i, (a, b) in enumerate(x)]
    path.write_text("\n".join([header, *rows]) + "\n")


def words_guard(data: str, *words: str) -> Result:
    start = ["guard", DEFAULT, "--weights", "w.safetensors", "--data", data, "--target", "way"]
    return nescio(*start, "--detector", "mahalanobis", "--risk", "0.08", *words)


def test_classes_may_be_words(home: Path) -> None:
    write_words(home / "words.csv", 1)
    lone = words_guard("words.csv:without=patient")
    assert "column 'way' of words.csv holds" in lone.output
    assert "in row 0 (line 2 of the file); write classes as 0, 1, ..., or name them" in lone.output
    assert "--class-names east,west" in lone.output
    assert "leave it out" not in lone.output
    wrong = words_guard("words.csv:without=patient", "--class-names", "west,north")
    assert "holds 'east' in row" in wrong.output
    assert "expected one of --class-names west, north" in wrong.output
    made = words_guard(
        "words.csv:without=patient", "--class-names", "west,east", "--out", "v.safetensors"
    )
    assert made.exit_code == 0, made.output
    same = table_guard(
        "held.csv:columns=a,b", "--class-names", "west,east", "--out", "u.safetensors"
    )
    assert same.exit_code == 0, same.output
    one, two = (json.loads((home / f"{n}.safetensors.json").read_text())["groups"] for n in "uv")
    assert one == two


def test_text_and_odd_cells_are_named_with_their_line(home: Path) -> None:
    write_words(home / "words.csv", 1)
    text = words_guard("words.csv", "--class-names", "west,east")
    assert "encode it (docs/tables-and-shift.md) or leave it out: words.csv:without=patient" in (
        text.output
    )
    made = words_guard("words.csv:columns=a,b", "--class-names", "west,east", "--out",
                       "v.safetensors")  # fmt: skip
    assert made.exit_code == 0, made.output
    (home / "odd.csv").write_text("a,b\n" + "1,2\n" * 8 + "abc-0.43,1\n")
    words = ["score", "v.safetensors", "odd.csv", "--net", DEFAULT, "--out", "x.csv"]
    said = nescio(*words).output
    assert "row 8 (line 10 of the file): 'abc-0.43' is not a number in column 'a'" in said
    leaking = words_guard("words.csv:columns=a,b,way", "--class-names", "west,east")
    assert "'way' holds the class" in leaking.output


def test_decisions_keep_the_keys_of_the_user(home: Path, guard: Path) -> None:
    write_words(home / "keys.csv", 2)
    words = ["score", guard, "keys.csv:columns=a,b:keep=patient,way", "--net", DEFAULT]
    result = nescio(*words, "--out", "keyed.csv")
    assert result.exit_code == 0, result.output
    rows = rows_of(home / "keyed.csv")
    assert [row["patient"] for row in rows] == [f"p{i}" for i in range(900)]
    assert {row["way"] for row in rows} == {"west", "east"}
    assert "columns are taken in this order: a, b; this guard was not made from a table" in (
        result.output
    )


def test_a_stopped_run_says_where_it_goes_on(
    home: Path, guard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["score", guard, "new.npy", "--net", DEFAULT, "--out", "s.csv", "--batch-mb", "0.004"]
    add, left = Table.add, iter(range(1))

    def dying(self: Table, *rest: Any) -> Table:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return add(self, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Table, "add", dying)
        assert nescio(*words).exit_code == 130
    done = nescio(*words)
    assert done.exit_code == 0, done.output
    assert "going on at row 512" in done.output
    assert len(rows_of(home / "s.csv")) == 900


def test_an_image_that_cannot_be_read_stops_nothing(home: Path) -> None:
    draw, photos = np.random.default_rng(0), home / "photos"
    photos.mkdir()
    x = draw.integers(0, 256, (300, 8, 8), dtype=np.uint8)
    np.savez(home / "gray.npz", x=x[:, None], y=np.arange(300) % 10)
    words = ["train", "single", "--data", "digits", "--run", "digits_run", "--epochs", "1"]
    assert nescio(*words).exit_code == 0
    words = ["guard", "digits_run", "--data", "gray.npz", "--detector", "energy", "--risk", "0.95"]
    made = nescio(*words, "--false-alarm", "0.1", "--out", "i.safetensors")
    assert made.exit_code == 0, made.output
    for place in range(6):
        Image.fromarray(x[place]).save(photos / f"{place}.png")
    (photos / "3.png").write_bytes(b"none")
    result = nescio("score", "i.safetensors", "photos", "--out", "i.csv")
    assert result.exit_code == 0, result.output
    assert "1 of them are files that cannot be read" in result.output
    assert "cannot read the image photos/3.png" in result.output
    assert rows_of(home / "i.csv")[3]["rule"] == "not finite"
    for path in photos.iterdir():
        Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(path)
    result = nescio("score", "i.safetensors", "photos", "--out", "j.csv")
    assert "write photos:size=8:mode=gray" in result.output


def test_a_guard_of_a_network_with_several_outputs(home: Path) -> None:
    save_file(
        {f"net.{n}": t for n, t in load_file(home / "w.safetensors").items()},
        home / "w2.safetensors",
    )
    words = ["guard", f"{NAME}:two", "--weights", "w2.safetensors", "--data", "held.npz"]
    words += ["--train", "train.npz", "--risk", "0.08", "--detector", "mahalanobis"]
    made = nescio(*words, "--output", "logits", "--out", "two.safetensors")
    assert made.exit_code == 0, made.output
    words = ["score", "two.safetensors", "new.npy", "--net", f"{NAME}:two", "--out", "two.csv"]
    done = nescio(*words)
    assert done.exit_code == 0, done.output
    assert len(rows_of(home / "two.csv")) == 900


def test_an_audit_of_a_network_with_several_outputs(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {f"net.{n}": t for n, t in load_file(home / "w.safetensors").items()}
    save_file(state, home / "w2.safetensors")
    seen: dict[str, Any] = {}

    def audit(predictors: Any, test: Any, **_: Any) -> Audit:
        net = predictors["network"]
        seen["logits"] = net(test[0])
        made = make_guard(net, test, detector="mahalanobis", risk=0.08, train=draw(500, 5))
        seen["decisions"] = made(draw(50, 9)[0])
        return Audit({"guard": {}}, made)

    monkeypatch.setattr(running, "audit", audit)
    monkeypatch.setattr(Audit, "__str__", lambda self: "")
    monkeypatch.setattr(
        Audit, "save", lambda self, folder: self.guard.save("h2.safetensors", weights=True)
    )
    words = ["audit", f"{NAME}:two", "--weights", "w2.safetensors", "--data", "held.npz"]
    result = nescio(*words, "--output", "logits")
    assert result.exit_code == 0, result.output
    truth = _net(home)(torch.from_numpy(draw(900, 1)[0]))
    torch.testing.assert_close(seen["logits"], truth)
    np.save("fifty.npy", draw(50, 9)[0])
    words = ["score", "h2.safetensors", "fifty.npy", "--net", f"{NAME}:two", "--out", "h2.csv"]
    done = nescio(*words)
    assert done.exit_code == 0, done.output
    columns = seen["decisions"].columns()
    assert [row["decision"] for row in rows_of(home / "h2.csv")] == columns["decision"].tolist()
    run = nescio("audit", ".", "--data", "held.npz", "--output", "logits")
    assert run.exit_code == 1


def test_what_is_printed_is_for_people(home: Path) -> None:
    x, y = draw(900, 2)
    x[0] = 1e6
    np.savez(home / "wide.npz", x=x, y=y)
    words = ["guard", DEFAULT, "--weights", "w.safetensors", "--data", "held.npz", "--test"]
    words += ["wide.npz", "--detector", "mahalanobis", "--risk", "0.08", "--out", "p.safetensors"]
    with warnings.catch_warnings(record=True) as caught:  # none comes through as such
        warnings.simplefilter("always")
        result = nescio(*words)
    assert not [one for one in caught if issubclass(one.category, UserWarning)]
    assert result.exit_code == 0, result.output
    assert "without --train it was not checked whether --data are training samples" in result.output
    assert "WARNING: 1 of 900 inputs" in result.output
    assert ".py:" not in result.output
    shown = dict(line.split() for line in result.output.split("tried on")[1].splitlines()[1:10])
    summary = json.loads((home / "p.safetensors.json").read_text())["test"]
    for name in ("answer", "risk", "set_coverage"):
        assert shown[name] == f"{summary[name]:.2%}"
    assert shown["inputs"] == "900"
    with_train = nescio(*words, "--train", "train.npz")
    assert "it was not checked" not in with_train.output


def test_monitor_counts_rows_without_a_score(home: Path) -> None:
    rng = np.random.default_rng(0)
    np.save("usual.npy", rng.normal(size=1000))
    np.save("odd.npy", np.append(rng.normal(size=200), [np.nan, np.nan, np.inf]))
    result = nescio("monitor", "usual.npy", "odd.npy", "--state", "h.safetensors")
    assert "2 of the new rows had no score" in result.output
    np.save("far_off.npy", np.full(5000, 1e3))
    drifted = nescio("monitor", "usual.npy", "far_off.npy", "--state", "k.safetensors")
    assert drifted.exit_code == 3
    assert "p-value of no drift: < 1e-300" in drifted.output


def test_a_dot_for_a_colon_is_seen(home: Path) -> None:
    for command in ("guard", "audit"):
        words = [command, f"{NAME}.make_net", "--weights", "w.safetensors", "--data", "held.npz"]
        assert f"did you mean {NAME}:make_net?" in nescio(*words).output


def test_audit_reads_tables(home: Path, guard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def audit(predictors: Any, test: Any, **options: Any) -> Audit:
        seen.update(options, test=test)
        return Audit({"guard": {}}, Guard.load(guard, net=_net(home)))

    def save(self: Audit, folder: str) -> Path:
        seen["columns"] = self.guard.notes["columns"]
        return Path(folder)

    monkeypatch.setattr(running, "audit", audit)
    monkeypatch.setattr(Audit, "save", save)
    monkeypatch.setattr(Audit, "__str__", lambda self: "")
    write_words(home / "words.csv", 1)
    x, y = draw(900, 3)
    write_csv(home / "valid.csv", x, y)
    np.savetxt(home / "strange.csv", x[:50] * 9, "%.9g", ",", header="b,a", comments="")
    words = ["audit", DEFAULT, "--weights", "w.safetensors", "--out", "audited"]
    table = ["--data", "words.csv:without=patient", "--target", "way", "--class-names", "west,east"]
    (home / "valid2.csv").write_text((home / "valid.csv").read_text().replace("class", "way"))
    more = ["--validation", "valid2.csv", "--ood", "odd=strange.csv"]
    result = nescio(*words, *table, *more)
    assert result.exit_code == 0, result.output
    for part, own in (("test", draw(900, 1)), ("validation", (x, y))):
        np.testing.assert_allclose(seen[part][0], own[0], rtol=1e-6)
        assert seen[part][1].tolist() == own[1].tolist()
    np.testing.assert_allclose(seen["ood"]["odd"], x[:50, ::-1] * 9, rtol=1e-6)  # by name
    assert seen["columns"] == ["a", "b"]
    assert "--target NAME" in nescio(*words, "--data", "words.csv").output
    one = [*words, "--data", "valid.csv", "--target", "class", "--recipe", "ceda"]
    assert "are one file" in nescio(*one, "--train", "valid.csv").output
    assert "are one file" in nescio(*one[:-2], "--validation", "valid.csv").output
    (home / "flat").mkdir()
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(home / "flat" / "a.png")
    assert "flat/0/a.png and flat/1/b.png" in nescio(*words, "--data", "flat").output
