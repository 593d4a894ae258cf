"""Decisions in files: all of them, in order, once, whatever happens on the way."""

import csv
import json
import multiprocessing
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import nescio
from nescio import nets
from nescio.core import NescioError
from nescio.data.readers import array_stream, open_stream
from nescio.guards import Guard, guard, resumable_table
from nescio.guards.resumable_table import summary_path
from nescio.guards.score import OWN, fingerprint, score

NAMES = ("left, or west", "right")


def blobs(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = np.random.default_rng(seed)
    y = draw.integers(0, 2, count)
    x = draw.normal(size=(count, 3)) + 2.5 * (2 * y - 1)[:, None] * np.array([1, 0, 0])
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


@pytest.fixture(scope="module")
def made() -> Guard:
    """Of a network that goes by the sign of the first number."""
    torch.manual_seed(0)
    net = nets.mlp(3, 2, widths=(8,))
    first, last = (layer for layer in net if isinstance(layer, nn.Linear))
    with torch.no_grad():
        first.weight[:2] = torch.tensor([[1.0, 0, 0], [-1, 0, 0]])
        last.weight[:, :2] = torch.tensor([[-1.0, 1], [1, -1]])
        last.weight[:, 2:] *= 0.1
    options = {"false_alarm": 0.02, "risk": 0.05, "batch_size": 16, "names": NAMES}
    return guard(net, blobs(800, 1), train=blobs(600, 0), detector="mahalanobis", **options)


@pytest.fixture(scope="module")
def inputs() -> np.ndarray:
    x = blobs(500, 2)[0].numpy().copy()
    x[7] += 40
    x[100, 1] = np.nan
    x[400] = np.inf
    return x


def written(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_do_not_change_a_byte(tmp_path, made, inputs, threads):
    """Each part has layers of its own to read from, with the weights of the guard."""
    before, weights = torch.get_num_threads(), [p for net in made.nets for p in net.parameters()]
    texts = []
    try:
        for count in (1, threads):
            torch.set_num_threads(count)
            out = tmp_path / f"{count}-{len(texts)}.csv"
            score(made, np.tile(inputs, (20, 1)), out, batch_bytes=1500)
            texts.append(out.read_bytes())
    finally:
        torch.set_num_threads(before)
    assert texts[0] == texts[1]
    assert all(p is q for p, q in zip(weights, made.nets[0].parameters(), strict=True))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_file_holds_the_decisions_of_the_guard_in_order(tmp_path, made, inputs, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / f"d.{ending}"
    found = score(made, inputs, out, batch_bytes=1000)
    with pytest.warns(UserWarning, match="of 500 inputs"):
        truth = made(inputs)
    rows = written(out)
    assert len(rows) == len(inputs) == found.inputs
    assert [int(row["sample"]) for row in rows] == list(range(500))
    columns = truth.columns()
    for name in ("decision", "label", "rule", "set"):
        assert [row[name] for row in rows] == columns[name].tolist()
    for name in ("probability", "p_value", "score"):
        given = [np.nan if row[name] in ("", None) else float(row[name]) for row in rows]
        np.testing.assert_allclose(given, columns[name], rtol=6e-9)
    counts = {name: columns["decision"].tolist().count(name) for name in found.decisions}
    assert found.decisions == counts
    assert found.not_finite == 2
    assert found.out_of_range == int((~truth.in_range).sum()) - 2
    beside = json.loads(summary_path(out).read_text())
    assert {name: beside[name] for name in counts} == counts
    assert beside["shares"]["answer"] == counts["answer"] / 500
    assert "WARNING" in str(found)
    assert sorted(path.name for path in tmp_path.iterdir()) == [out.name, summary_path(out).name]


class KilledError(Exception):
    pass


def until(made: Guard, calls: int) -> Guard:
    """A guard that dies after so many parts."""
    left = iter(range(calls))

    class Dying(Guard):
        def __call__(self, x, **options):
            if next(left, None) is None:
                raise KilledError
            return super().__call__(x, **options)

    return Dying(**{name: getattr(made, name) for name in made.__dataclass_fields__})


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(tmp_path, made, inputs, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    np.save(tmp_path / "x.npy", inputs)
    whole, out = tmp_path / f"whole.{ending}", tmp_path / f"d.{ending}"
    complete = score(made, tmp_path / "x.npy", whole, batch_bytes=400)
    for calls in (0, 1, 2):
        with pytest.raises(KilledError):
            score(until(made, calls), tmp_path / "x.npy", out, batch_bytes=400)
        assert not out.exists()
    (tmp_path / f"d.{ending}.parts" / f"00000003.{ending}").write_bytes(b"half a part")
    (tmp_path / f"d.{ending}.parts" / f".00000003.{ending}.new").write_bytes(b"half")
    last = score(made, tmp_path / "x.npy", out, batch_bytes=10_000)  # parts stay as they were
    assert out.read_bytes() == whole.read_bytes()
    assert (last.decisions, last.rules) == (complete.decisions, complete.rules)
    assert json.loads(summary_path(out).read_text()) == json.loads(summary_path(whole).read_text())
    assert score(made, tmp_path / "x.npy", out).seconds is None  # only read


@pytest.mark.parametrize("failing", ["writing_atomically", "save_manifest", "shutil"])
def test_a_crash_at_the_end_loses_nothing(tmp_path, made, inputs, monkeypatch, failing):
    out, whole = tmp_path / "d.csv", tmp_path / "whole.csv"
    score(made, inputs, whole, batch_bytes=1000)
    write = resumable_table.save_manifest

    def dying(path, *rest):
        if path.parent != tmp_path:  # the journal
            return write(path, *rest)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(resumable_table, failing, None if failing == "shutil" else dying)
        with pytest.raises((KilledError, AttributeError)):
            score(made, inputs, out, batch_bytes=1000)
    score(made, inputs, out, batch_bytes=1000)
    assert out.read_bytes() == whole.read_bytes()
    assert summary_path(out).read_text() == summary_path(whole).read_text()


@pytest.mark.parametrize("resume", [True, False])
def test_a_crash_while_parts_are_removed_loses_nothing(tmp_path, made, inputs, monkeypatch, resume):
    out, folder = tmp_path / "d.csv", tmp_path / "d.csv.parts"
    remove = resumable_table.shutil.rmtree

    def dying(path):
        (path / "00000000.csv").unlink()
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(resumable_table.shutil, "rmtree", dying)
        with pytest.raises(KilledError):
            score(made, inputs, out, batch_bytes=1000)
        if not resume:  # and again, where what is left is removed before a new run
            patch.setattr(resumable_table.shutil, "rmtree", remove)
            with pytest.raises(KilledError):
                score(until(made, 2), inputs, out, batch_bytes=1000, resume=False)
            patch.setattr(resumable_table.shutil, "rmtree", dying)
            with pytest.raises(KilledError):
                score(made, inputs, out, batch_bytes=1000, resume=False)
    assert folder.exists()
    assert score(made, inputs, out, batch_bytes=1000).inputs == 500
    assert not folder.exists()
    score(made, inputs, tmp_path / "whole.csv", batch_bytes=1000)
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_part_that_is_gone_is_named(tmp_path, made, inputs):
    out = tmp_path / "d.csv"
    with pytest.raises(KilledError):
        score(until(made, 4), inputs, out, batch_bytes=400)
    (tmp_path / "d.csv.parts" / "00000001.csv").unlink()
    with pytest.raises(NescioError, match=r"00000001.csv is missing.*--restart.*resume=False"):
        score(made, inputs, out, batch_bytes=400)
    assert score(made, inputs, out, batch_bytes=400, resume=False).inputs == 500


def test_changed_inputs_or_guards_are_refused(tmp_path, made, inputs):
    out = tmp_path / "d.csv"
    with pytest.raises(KilledError):
        score(until(made, 2), inputs, out, batch_bytes=1000)
    with pytest.raises(NescioError, match=r"another run .inputs:.*--restart.*resume=False"):
        score(made, inputs[::-1].copy(), out, batch_bytes=1000)
    other = replace(made, rules=(replace(made.rules[0], limit=made.rules[0].limit + 1),))
    with pytest.raises(NescioError, match="another run .guard:"):
        score(other, inputs, out, batch_bytes=1000)
    score(made, inputs, out)
    with pytest.raises(NescioError, match=r"another run .guard:.*--restart.*resume=False"):
        score(other, inputs, out)
    assert score(other, inputs, out, resume=False).seconds is not None
    (tmp_path / "mine.csv").write_text("something of mine")
    with pytest.raises(NescioError, match="there already"):
        score(made, inputs, tmp_path / "mine.csv")
    (tmp_path / "d.csv.json").write_text("{")
    with pytest.raises(NescioError, match="damaged"):
        score(made, inputs, out)


def test_what_changed_is_said_in_words(tmp_path, made, inputs):
    path, out = tmp_path / "a-name-that-takes-up-most-of-a-line-of-text.npy", tmp_path / "d.csv"
    np.save(path, inputs)
    score(made, path, out)
    before = path.stat().st_mtime_ns
    os.utime(path, ns=(0, before + 5))
    path = path.rename(tmp_path / "other.npy")
    assert score(made, path, out).seconds is None  # what it holds is what it is
    np.save(path, inputs + (np.arange(len(inputs)) == 77)[:, None].astype(np.float32))
    os.utime(path, ns=(0, before + 5))
    with pytest.raises(NescioError, match="another run") as caught:
        score(made, path, out)
    said = re.search(r"inputs: content: (.*) there, (.*) here\)", str(caught.value))
    assert said is not None
    assert said[1] != said[2]


def test_rows_that_are_done_are_counted(tmp_path, made, inputs):
    out = tmp_path / "d.csv"
    assert resumable_table.rows_done(out) == 0
    with pytest.raises(KilledError):
        score(until(made, 3), inputs, out, batch_bytes=400)
    journal = json.loads((tmp_path / "d.csv.parts" / "journal.json").read_text())
    assert resumable_table.rows_done(out) == journal["rows"] == 16 * len(journal["digests"]) > 0
    score(made, inputs, out)
    assert resumable_table.rows_done(out) == 0


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_kept_columns_stand_beside_the_decisions(tmp_path, made, inputs, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    rows = [",".join(["p, é" if i % 2 else f"q{i}", *map(str, x)]) for i, x in enumerate(inputs)]
    rows = [row.replace("p, é", '"p, é"') for row in rows]
    (tmp_path / "x.csv").write_text("\n".join(["patient,a,b,c", *rows]))
    stream = open_stream(tmp_path / "x.csv", keep="patient,a")
    assert stream.columns == ("b", "c")
    stream = open_stream(tmp_path / "x.csv", columns="a,b,c", keep="patient,a")
    whole, out = tmp_path / f"whole.{ending}", tmp_path / f"d.{ending}"
    score(made, stream, whole, batch_bytes=400)
    found = written(whole)
    assert list(found[0])[:4] == ["sample", "patient", "a", "decision"]
    assert {*found[0]} - {"patient", "a"} == {*OWN} - {"file"}
    truth = ["p, é" if i % 2 else f"q{i}" for i in range(500)]
    assert [row["patient"] for row in found] == truth
    assert found[3]["a"] == str(inputs[3, 0])
    with pytest.raises(KilledError):
        score(until(made, 2), stream, out, batch_bytes=400)
    score(made, open_stream(tmp_path / "x.csv", columns="a,b,c", keep="patient,a"), out)
    assert out.read_bytes() == whole.read_bytes()
    other = open_stream(tmp_path / "x.csv", columns="a,b,c", keep="patient")
    with pytest.raises(NescioError, match="another run .inputs: keep:"):
        score(made, other, out)
    renamed = (tmp_path / "x.csv").read_text().replace("patient", "label")
    (tmp_path / "y.csv").write_text(renamed)
    with pytest.raises(NescioError, match="have a column 'label' of their own; rename"):
        score(made, open_stream(tmp_path / "y.csv", keep="label"), tmp_path / f"z.{ending}")
    assert not (tmp_path / f"z.{ending}.parts").exists()


def test_images_that_cannot_be_read_are_ood(tmp_path):
    draw, photos = np.random.default_rng(0), tmp_path / "photos"
    photos.mkdir()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nets.mlp(4, 2, widths=(8,)))
    x = torch.from_numpy(draw.integers(0, 256, (300, 1, 2, 2), dtype=np.uint8))
    options = {"detector": "energy", "risk": 0.9, "false_alarm": 0.1, "batch_size": 4}
    own = guard(net, (x, torch.arange(300) % 2), calibration_map=None, **options)
    for place in range(20):
        Image.fromarray(x[place, 0].numpy()).save(photos / f"{place:02d}.png")
    (photos / "05.png").write_bytes(b"none")
    (photos / "11.png").write_bytes((photos / "11.png").read_bytes()[:30])
    whole, out = tmp_path / "whole.csv", tmp_path / "d.csv"
    found = score(own, photos, whole, batch_bytes=16)
    assert (found.unreadable, found.not_finite) == (2, 2)
    assert "2 of them are files that cannot be read" in str(found)
    rows = written(whole)
    assert [row["rule"] == "not finite" for row in rows] == [i in (5, 11) for i in range(20)]
    assert {rows[i]["decision"] for i in (5, 11)} == {"ood"}
    with pytest.raises(KilledError):
        score(until(own, 2), photos, out, batch_bytes=16)
    assert score(own, photos, out).unreadable == 2
    assert out.read_bytes() == whole.read_bytes()
    assert score(own, photos, out).unreadable == 2
    Image.fromarray(np.zeros((5, 5, 3), np.uint8)).save(tmp_path / "large.png")
    with pytest.raises(NescioError, match=f"; write {tmp_path}:size=2:mode=gray$"):
        score(own, open_stream(tmp_path, size=5, mode="color"), tmp_path / "e.csv")


def test_a_fingerprint_sees_what_decides(made):
    assert fingerprint(made) == fingerprint(replace(made, batch_size=64))
    other = {
        "nets": (nets.mlp(3, 2, widths=(8,)),),
        "names": ("a", "b"),
        "map": None,
        "sets": None,
        "detector": replace(made.detector, options={"shrinkage": 0.5}),
    }
    found = {fingerprint(replace(made, **{name: value})) for name, value in other.items()}
    assert len(found | {fingerprint(made)}) == 6


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("sets", {"options": {"never_empty": False}}),
        ("map", {"name": "platt"}),
        ("map", {"options": {"option": 1}}),
        ("head", {"options": {"option": 1}}),
        ("detector", {"about": {"pool": "max"}}),
        ("detector", {"about": {"output": "logits"}}),
    ],
)
def test_a_fingerprint_sees_options(made, part, changes):
    own = getattr(made, part)
    ((name, value),) = changes.items()
    changed = value if isinstance(value, str) else {**getattr(own, name), **value}
    other = replace(made, **{part: replace(own, **{name: changed})})
    assert fingerprint(other) != fingerprint(made)


def test_inputs_that_do_not_fit_are_refused(tmp_path, made, inputs):
    (tmp_path / "t.csv").write_text("a,b,c,y\n1,2,3,0\n")
    with pytest.raises(NescioError, match="without=.*"):
        score(made, tmp_path / "t.csv", tmp_path / "d.csv")
    assert score(made, open_stream(tmp_path / "t.csv", without="y"), tmp_path / "d.csv").inputs == 1
    with pytest.raises(NescioError, match=r"calibrated on \(3,\)"):
        score(made, inputs[:, :2].copy(), tmp_path / "e.csv")
    with pytest.raises(NescioError, match="written as .csv, .jsonl or .parquet"):
        score(made, inputs, tmp_path / "e.txt")
    for folder in (tmp_path, ".", ""):
        with pytest.raises(NescioError, match="is a folder; name a file in it"):
            score(made, inputs, folder)
    with pytest.raises(NescioError, match="batch_bytes"):
        score(made, inputs, tmp_path / "e.csv", batch_bytes=0)
    with pytest.raises(NescioError, match="made with groups"):
        score(replace(made, by="groups"), inputs, tmp_path / "e.csv")
    shrunk = replace(array_stream(inputs), total=501)
    with pytest.raises(NescioError, match="changed meanwhile"):
        score(made, shrunk, tmp_path / "e.csv")


class Slow(Guard):
    def __call__(self, x, **options):
        time.sleep(0.02)
        return super().__call__(x, **options)


def test_a_run_that_was_killed_goes_on_to_the_same_bytes(tmp_path, made, inputs):
    np.save(tmp_path / "x.npy", inputs)
    made.save(tmp_path / "g.safetensors", weights=True)
    loaded = nescio.load(tmp_path / "g.safetensors")
    slow = Slow(**{name: getattr(made, name) for name in made.__dataclass_fields__})
    names = [tmp_path / name for name in ("x.npy", "d.csv")]
    process = multiprocessing.get_context("fork").Process(
        target=score, args=(slow, *names), kwargs={"batch_bytes": 200}
    )
    process.start()
    journal = tmp_path / "d.csv.parts" / "journal.json"
    while not journal.exists() or len(json.loads(journal.read_text())["digests"]) < 4:
        assert process.is_alive()
        time.sleep(0.005)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    score(loaded, names[0], names[1], batch_bytes=200)
    score(loaded, names[0], tmp_path / "whole.csv", batch_bytes=200)
    assert names[1].read_bytes() == (tmp_path / "whole.csv").read_bytes()
