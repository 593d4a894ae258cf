"""`nescio score`: decisions in a file, by any reader, resumed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from PIL import Image
from torch import nn

from nescio import load as nescio_load
from nescio.guards.resumable_table import Table

NAME = "guarded_module_of_tests"
DEFAULT = f"{NAME}:make_net"


def test_score_writes_a_row_an_input(
    home: Path,
    guard: Path,
    nescio: Callable[..., Result],
    rows_of: Callable[..., Any],
    net_of: Callable[[], nn.Module],
) -> None:
    net = ["--net", DEFAULT]
    result = nescio("score", guard, "new.npy", *net, "--out", "d.csv", "--batch-mb", "0.004")
    assert result.exit_code == 0, result.output
    assert "900 inputs" in result.output
    made = nescio_load(guard, net=net_of())
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


def test_scored_columns_are_those_of_the_guard_also_where_some_are_named(
    home: Path,
    nescio: Callable[..., Result],
    draw: Callable[..., Any],
    table_guard: Callable[..., Result],
    write_csv: Callable[..., None],
) -> None:
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
        words = ["score", "c.safetensors", name, "--net", DEFAULT]
        result = nescio(*words, "--out", f"c{number}.csv")
        assert result.exit_code == 0, result.output
        written.append((home / f"c{number}.csv").read_bytes())
    assert len(set(written)) == 1
    words = ["score", "c.safetensors", "other.csv:without=b", "--net", DEFAULT]
    assert "unknown column 'b'" in nescio(*words, "--out", "x.csv").output


def test_a_scaled_ensemble_of_ones_own_network_is_scored(
    home: Path, nescio: Callable[..., Result]
) -> None:
    net = DEFAULT
    words = ["train", "deep_ensemble", "--data", "half_moons", "--net", net, "--run", "own"]
    done = nescio(*words, "--epochs", "1", "--standardize", "-o", "members=2")
    assert done.exit_code == 0, done.output
    words = ["guard", "own", "--net", net, "--calibration", "half_moons", "--detector", "energy"]
    made = nescio(*words, "--risk", "0.5", "--false-alarm", "0.1", "--out", "own.safetensors")
    assert made.exit_code == 0, made.output
    assert f"INPUTS --net {net} --out" in made.output
    words = ["score", "own.safetensors", "half_moons", "--net", net, "--out", "own.csv"]
    done = nescio(*words)
    assert done.exit_code == 0, done.output


def test_text_and_odd_cells_are_named_with_their_line(
    home: Path,
    nescio: Callable[..., Result],
    write_words: Callable[..., None],
    words_guard: Callable[..., Result],
) -> None:
    write_words(home / "words.csv", 1)
    text = words_guard("words.csv", "--class-names", "west,east")
    assert "encode it (docs/guide/tables.md) or leave it out: words.csv:without=patient" in (
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


def test_decisions_keep_the_keys_of_the_user(
    home: Path,
    guard: Path,
    nescio: Callable[..., Result],
    rows_of: Callable[..., Any],
    write_words: Callable[..., None],
) -> None:
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
    home: Path,
    guard: Path,
    monkeypatch: pytest.MonkeyPatch,
    nescio: Callable[..., Result],
    rows_of: Callable[..., Any],
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
    assert "going on at row 256" in done.output
    assert len(rows_of(home / "s.csv")) == 900


def test_an_image_that_cannot_be_read_stops_nothing(
    home: Path, nescio: Callable[..., Result], rows_of: Callable[..., Any]
) -> None:
    draw, photos = np.random.default_rng(0), home / "photos"
    photos.mkdir()
    x = draw.integers(0, 256, (300, 8, 8), dtype=np.uint8)
    np.savez(home / "gray.npz", x=x[:, None], y=np.arange(300) % 10)
    words = ["train", "single", "--data", "digits", "--run", "digits_run", "--epochs", "1"]
    assert nescio(*words).exit_code == 0
    words = [
        "guard",
        "digits_run",
        "--calibration",
        "gray.npz",
        "--detector",
        "energy",
        "--risk",
        "0.95",
    ]
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["guard", "NET", "--calibration", "held.npz", "--out", "g.txt"],
            "must end in .safetensors",
        ),
        (
            ["guard", "NET", "--calibration", "held.csv"],
            "--target NAME; its columns: id, b, class, a",
        ),
        (["guard", "NET", "--calibration", "held.csv", "--target", "x"], "unknown column 'x'"),
        (["guard", "NET", "--calibration", "held.csv", "--target", "a"], "must hold classes"),
        (["guard", "NET", "--calibration", "held.npz", "--target", "a"], "is none"),
        (["guard", "NET", "--calibration", "new.npy"], "new.npy"),
        (["guard", "NET", "--calibration", "held.npz", "--train", "held.npz"], "are among"),
        (["guard", "NET", "--calibration", "held.npz", "--risk", "2"], "risk"),
        (["guard", "NET", "--calibration", "held.npz", "--detector", "knnn"], "did you mean 'knn'"),
        (["score", "none.safetensors", "new.npy", "--out", "x.csv"], "no file"),
        (["score", "w.safetensors", "new.npy", "--out", "x.csv"], "not written by nescio"),
        (["score", "cut.safetensors", "new.npy", "--out", "x.csv"], "damaged"),
        (["score", "newer.safetensors", "new.npy", "--out", "x.csv"], "newer nescio"),
        (["score", "GUARD", "new.npy", "--out", "x.csv"], "--net package.module:factory"),
        (["score", "GUARD", "new.npy", "--net", "NET", "--out", "x.txt"], "written as .csv"),
        (["score", "GUARD", "new.npy", "--net", "OTHER", "--out", "x.csv"], "is not the one that"),
        (["score", "GUARD", "new.csv", "--net", "NET", "--out", "x.csv"], "choose the columns"),
        (["score", "GUARD", "a/no.npy", "--net", "NET", "--out", "x.csv"], "no file a/no.npy"),
        (["score", "GUARD", "no.csv", "--net", "NET", "--out", "x.csv"], "no file no.csv"),
        (["score", "GUARD", "no.npz", "--net", "NET", "--out", "x.csv"], "no file no.npz"),
        (["score", "GUARD", "no.parquet:columns=a", "--net", "NET", "--out", "x.csv"], "no file"),
        (["score", "GUARD", "lone.jsonl", "--net", "NET", "--out", "x.csv"], "cannot tell what"),
        (["score", "GUARD", "new.npy", "--net", "NET", "--out", "."], "is a folder"),
        (
            ["score", "held.csv", "GUARD", "--out", "x.csv"],
            "held.csv is not a guard file; the guard",
        ),
        (["score", ".", "GUARD", "--out", "x.csv"], ". is not a guard file; the guard comes first"),
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
def test_bad_calls_say_what_to_do(
    home: Path, guard: Path, words: list[str], said: str, nescio: Callable[..., Result]
) -> None:
    whole = guard.read_bytes()
    (home / "cut.safetensors").write_bytes(whole[: len(whole) // 2])
    newer = whole.replace(b'\\"format\\": 2', b'\\"format\\": 9')
    (home / "newer.safetensors").write_bytes(newer)
    np.save(home / "scores.npy", np.arange(100.0))
    (home / "lone.jsonl").write_text("{}\n")
    (home / "empty.jsonl").write_text("")
    (home / "broken.npy").write_bytes(b"none")
    np.save(home / "words.npy", np.array(["a", "b"]))
    real = {"NET": DEFAULT, "OTHER": f"{NAME}:other", "GUARD": str(guard)}
    weights = ["--weights", "w.safetensors"] if words[0] == "guard" else []
    result = nescio(*(real.get(word, word) for word in words), *weights)
    assert result.exit_code not in (0, 3)
    assert said in result.output
    assert "Traceback" not in result.output
    assert not (home / "x.csv").exists()
