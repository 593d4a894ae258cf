"""Every reader gives the same numbers in the same blocks, from any case on."""

import gzip
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from nescio.core import NescioError
from nescio.data import read_table
from nescio.data.readers import array_stream, columns_of, csv, is_streamed, open_stream, row_of

X = np.random.default_rng(0).normal(size=(103, 5)).astype(np.float32)


def write(folder: Path, kind: str, x: np.ndarray = X) -> Path:
    path = folder / f"x.{kind}"
    if kind == "npy":
        np.save(path, x)
    elif kind == "npz":
        np.savez(path, y=np.arange(len(x)), x=x)
    elif kind == "packed.npz":
        np.savez_compressed(path, y=np.arange(len(x)), x=x)
    elif kind == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        pa = pytest.importorskip("pyarrow")
        columns = {f"c{i}": x[:, i] for i in range(x.shape[1])}
        parquet.write_table(pa.table(columns), path, row_group_size=20)
    else:
        lines = [",".join(f"c{i}" for i in range(x.shape[1]))]
        lines += [",".join(f"{value:.9g}" for value in row) for row in x]
        content = ("\n".join(lines) + "\n").encode()
        path.write_bytes(gzip.compress(content) if kind.endswith(".gz") else content)
    return path


KINDS = ["npy", "npz", "packed.npz", "csv", "csv.gz", "parquet"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "start"), [(1, 100), (10, 0), (10, 37), (103, 0), (200, 5)])
def test_blocks_are_the_rows_in_order(tmp_path, kind, size, start):
    found = open_stream(write(tmp_path, kind))
    assert found.shape == (5,)
    blocks = list(found.blocks(size, start=start))
    assert [first for first, _ in blocks] == list(range(start, 103, size))
    assert all(len(block) == size for _, block in blocks[:-1])
    assert torch.cat([block for _, block in blocks]).equal(torch.from_numpy(X[start:]))
    assert list(found.blocks(size, start=103)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_total_and_identity(tmp_path, kind):
    path = write(tmp_path, kind)
    found = open_stream(path)
    assert found.total == (None if "csv" in kind else 103)
    assert found.identity == open_stream(path).identity
    assert found.sample_bytes == 20
    assert is_streamed(path)
    write(tmp_path, kind, X[:-1])
    assert found.identity != open_stream(path).identity


def test_arrays_in_memory_are_known_by_their_contents():
    other = X.copy()
    other[50, 2] += 1
    assert array_stream(X).identity == array_stream(torch.from_numpy(X)).identity
    assert array_stream(X).identity == array_stream(X.copy()).identity
    assert array_stream(X).identity != array_stream(other).identity
    _, block = next(array_stream(X).blocks(7, start=3))
    assert block.equal(torch.from_numpy(X[3:10]))


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(
        st.lists(st.sampled_from(["1.5", "-2", "", "NA", "3e2", '"4"']), min_size=2, max_size=2),
        min_size=1,
        max_size=30,
    ),
    ends=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    size=st.integers(1, 9),
    start=st.integers(0, 31),
    chunk=st.integers(3, 60),
)
def test_a_table_of_any_form_is_read_as_value_by_value(
    tmp_path_factory, rows, ends, last, size, start, chunk
):
    path = tmp_path_factory.mktemp("any") / "t.csv"
    lines = ["a,b", *(",".join(row) for row in rows)]
    path.write_bytes((ends.join(lines) + (ends if last else "")).encode())
    values = {"1.5": 1.5, "-2": -2.0, "3e2": 300.0, '"4"': 4.0}
    truth = np.array([[values.get(cell, np.nan) for cell in row] for row in rows], np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv, "CHUNK", chunk)
        blocks = [block.numpy() for _, block in open_stream(path).blocks(size, start=start)]
    found = np.concatenate([np.empty((0, 2), np.float32), *blocks])
    np.testing.assert_array_equal(found, truth[start:])


@pytest.mark.parametrize("without", [True, False], ids=["numpy", "as installed"])
def test_columns_are_chosen_by_name(tmp_path, monkeypatch, without):
    if without:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "t.csv"
    path.write_text("name;b;a\nx;1;2\ny;3;4\n\nz;5;6\n")
    picked = open_stream(path, columns="a,b")
    assert picked.columns == ("a", "b")
    assert next(picked.blocks(9))[1].tolist() == [[2, 1], [4, 3], [6, 5]]
    assert next(open_stream(path, without="name").blocks(9))[1].tolist() == [[1, 2], [3, 4], [5, 6]]
    path.write_text("1,2\n3,4\n")
    assert open_stream(path).columns == ("0", "1")
    assert next(open_stream(path, columns=1).blocks(9))[1].tolist() == [[2], [4]]
    assert next(open_stream(path, header=True).blocks(9))[1].tolist() == [[3, 4]]


def test_line_ends_within_quotes_end_no_row(tmp_path, monkeypatch):
    monkeypatch.setattr(csv, "CHUNK", 8)
    path = tmp_path / "t.csv"
    path.write_text('note,a\n"one\ntwo\nthree",1\nplain,2\n"x, y",3\n')
    found = open_stream(path, columns="a")
    assert torch.cat([block for _, block in found.blocks(1)])[:, 0].tolist() == [1, 2, 3]
    assert next(found.blocks(5, start=1))[1][:, 0].tolist() == [2, 3]


def test_images_are_the_files_in_the_order_of_their_paths(tmp_path):
    draw = np.random.default_rng(1)
    pixels = {}
    for name in ("b/1.png", "a.png", "b/0.png"):
        pixels[name] = draw.integers(0, 256, (6, 4), dtype=np.uint8)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(pixels[name]).save(tmp_path / name)
    found = open_stream(tmp_path)
    assert list(found.files) == ["a.png", "b/0.png", "b/1.png"]
    assert (found.shape, found.total) == ((1, 6, 4), 3)
    blocks = [block for _, block in found.blocks(2)]
    truth = np.stack([pixels[name] for name in found.files])[:, None]
    assert torch.cat(blocks).equal(torch.from_numpy(truth))
    assert open_stream(tmp_path, size=3).shape == (1, 3, 3)
    cropped = found.changed(lambda x: x[:, :, :2], "cropped")
    assert cropped.shape == (1, 2, 4)
    Image.fromarray(np.zeros((5, 5), np.uint8)).save(tmp_path / "c.png")
    with pytest.raises(NescioError, match="size=32"):
        list(open_stream(tmp_path).blocks(1))


def test_a_file_name_of_other_letters_is_shown_with_their_bytes(tmp_path):
    name = os.fsdecode(b"caf\xe9.png")
    try:
        Image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / name)
    except OSError:
        pytest.skip("this file system takes no such name")
    found = open_stream(tmp_path)
    assert list(found.files) == ["caf\\xe9.png"]
    assert next(found.blocks(1))[1].shape == (1, 1, 2, 2)
    (tmp_path / name).rename(tmp_path / os.fsdecode(b"caf\xe8.png"))
    assert open_stream(tmp_path).identity != found.identity


def test_names_of_columns_are_read_without_the_columns(tmp_path):
    (tmp_path / "t.csv").write_text("name,a\nx,1\n")
    assert columns_of(tmp_path / "t.csv") == ("name", "a")
    assert columns_of(tmp_path / "t.csv", header=False) == ("0", "1")
    parquet, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    parquet.write_table(pa.table({"name": ["x"], "a": [1]}), tmp_path / "t.parquet")
    assert columns_of(tmp_path / "t.parquet") == ("name", "a")
    assert columns_of(write(tmp_path, "npy")) is None
    with pytest.raises(NescioError, match="no file"):
        columns_of(tmp_path / "none.csv")


def test_bytes_of_images_stay_and_others_are_refused(tmp_path):
    np.save(tmp_path / "images.npy", np.full((3, 1, 2, 2), 255, np.uint8))
    images = open_stream(tmp_path / "images.npy")
    assert next(images.blocks(3))[1].dtype == torch.uint8
    assert images.sample_bytes == 4
    np.save(tmp_path / "rows.npy", np.full((3, 2), 51, np.uint8))
    with pytest.raises(NescioError, match="only images"):
        next(open_stream(tmp_path / "rows.npy").blocks(3))


@pytest.mark.parametrize(
    ("name", "content", "options", "said"),
    [
        ("t.csv", "", {}, "is empty"),
        ("t.csv", "a,b\n", {}, "no rows"),
        ("t.csv", "a,b\n1,2\n3\n", {}, r"row 1 \(line 3 of the file\) has 1 values, expected 2"),
        ("t.csv", "a,b\n1,2\n3,x\n", {}, "column 'b' .* holds 'x' in row 1.*without=b"),
        ("t.csv", "a,b\n1,2\n", {"columns": "a,c"}, "unknown column 'c'"),
        ("t.csv", "a,b\n1,2\n", {"columns": "a", "without": "b"}, "not both"),
        ("t.csv", "a,b\n1,2\n", {"without": "a,b"}, "no column left"),
        ("t.csv", "a,a\n1,2\n", {}, "two columns of one name"),
        ("t.csv", "a,b\n1,2\n", {"size": 3}, "no option size; its options: columns"),
        ("t.csv.gz", "a,b\n1,2\n", {}, "cannot read"),
        ("t.npy", "garbage", {}, "damaged, cut off or not written by numpy"),
        ("t.npz", "garbage", {}, "damaged, cut off or not written by numpy"),
        ("t.txt", "1 2", {}, "cannot tell what"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, name, content, options, said):
    (tmp_path / name).write_text(content)
    with pytest.raises(NescioError, match=said):
        list(open_stream(tmp_path / name, **options).blocks(4))


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(NescioError, match="no file"):
        open_stream(tmp_path / "none.npy")
    np.savez(tmp_path / "other.npz", images=X)
    with pytest.raises(NescioError, match="lacks x; found images"):
        open_stream(tmp_path / "other.npz")
    assert open_stream(tmp_path / "other.npz", array="images").total == 103
    np.save(tmp_path / "t.npy", np.asfortranarray(X))
    with pytest.raises(NescioError, match="ascontiguousarray"):
        open_stream(tmp_path / "t.npy")
    np.save(tmp_path / "t.npy", np.array(["a"]))
    with pytest.raises(NescioError, match="real numbers"):
        open_stream(tmp_path / "t.npy")
    for odd, said in {
        (103,): r"one row per sample, got \(103,\); .*x\[:, None\]",
        (0, 5): r"is empty, shape \(0, 5\); expected \(N, ...\)",
    }.items():
        np.save(tmp_path / "t.npy", np.zeros(odd))
        with pytest.raises(NescioError, match=said) as caught:
            open_stream(tmp_path / "t.npy")
        assert "ascontiguousarray" not in str(caught.value)
    np.save(tmp_path / "t.npy", X)
    whole = (tmp_path / "t.npy").read_bytes()
    (tmp_path / "t.npy").write_bytes(whole[:-100])
    with pytest.raises(NescioError, match="it ends in sample 98"):
        list(open_stream(tmp_path / "t.npy").blocks(10))


def test_parquet_without_its_package_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(NescioError, match=r"pip install nescio\[scale\]"):
        open_stream(tmp_path / "t.parquet")


def test_parquet_takes_numbers_and_says_what_is_none(tmp_path):
    parquet, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    parquet.write_table(
        pa.table({"a": [1, None, 3], "b": [True, False, True], "n": [*"xyz"]}), path
    )
    with pytest.raises(NescioError, match="column 'n' .*without=n"):
        open_stream(path)
    rows = next(open_stream(path, without="n").blocks(5))[1].numpy()
    np.testing.assert_array_equal(rows, [[1, 1], [np.nan, 0], [3, 1]])
    path.write_bytes(b"none")
    with pytest.raises(NescioError, match="as Parquet"):
        open_stream(path)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize(("size", "start"), [(10, 0), (7, 37), (200, 5)])
def test_columns_of_text_are_copied_through(tmp_path, monkeypatch, kind, size, start):
    monkeypatch.setattr(csv, "CHUNK", 50)
    keys, path = [f"p{i}, {'é' * (i % 3)}" for i in range(103)], tmp_path / f"t.{kind}"
    if kind == "parquet":
        parquet, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        columns = {"key": keys, "a": X[:, 0], "n": list(range(103))}
        parquet.write_table(pa.table(columns), path, row_group_size=20)
    else:
        rows = [f'"{keys[i]}",{X[i, 0]:.9g},{i}' for i in range(103)]
        content = "\n".join(["key,a,n", *rows]).encode()
        path.write_bytes(gzip.compress(content) if kind.endswith(".gz") else content)
    found = open_stream(path, keep="n,key")
    assert found.columns == ("a",)
    assert found.identity != open_stream(path, columns="a").identity
    for first, block in found.blocks(size, start=start):
        kept = found.kept(first, len(block))
        assert list(kept) == ["n", "key"]
        assert kept["n"].tolist() == list(map(str, range(first, first + len(block))))
        assert kept["key"].tolist() == keys[first : first + len(block)]
        assert block[:, 0].numpy().tolist() == X[first : first + len(block), 0].tolist()
    assert found.kept(0, 2)["key"].tolist() == keys[:2]
    assert open_stream(path, columns="n,a", keep="n").columns == ("n", "a")
    assert open_stream(path, columns="a").kept is None


def test_lines_of_rows_are_counted_in_the_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('note,a\n"one\ntwo",1\n\nplain,2\r\n"x",3\n')
    assert [row_of(path, row) for row in (0, 1, 2)] == [
        f"row {row} (line {line} of the file)" for row, line in enumerate((2, 5, 6))
    ]
    path.write_text("1,2\n3,4\n")
    assert row_of(path, 1) == "row 1 (line 2 of the file)"


def test_a_cell_that_is_no_number_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,f1,g\n" + "".join(f"{i},{i}.5,{i}\n" for i in range(8)) + "8,abc-0.43,1\n")
    with pytest.raises(NescioError, match=r"row 8 \(line 10 .*\): 'abc-0.43' is not a number "
                       r"in column 'f1' .*fix"):  # fmt: skip
        list(open_stream(path, columns="g,f1").blocks(4))
    with pytest.raises(NescioError, match=r"guide/tables.md.* leave it out: .*:without=id,f1$"):
        list(open_stream(path, without="id").blocks(4))


def test_all_missing_columns_are_named_and_letters_are_compared(tmp_path):
    (tmp_path / "t.csv").write_text("F0,f40,y\n1,2,3\n")
    with pytest.raises(NescioError, match="unknown column 'f0'.*did you mean 'F0' for 'f0'"):
        open_stream(tmp_path / "t.csv", columns="f0")
    names = ",".join(f"c{i}" for i in range(26))
    with pytest.raises(NescioError, match="lacks 26 columns, c0, c1, .*c9 and 16 more. Known: F0"):
        open_stream(tmp_path / "t.csv", columns=names)


def test_an_image_that_cannot_be_read_is_not_finite(tmp_path):
    draw = np.random.default_rng(1)
    pixels = draw.integers(0, 256, (4, 3, 3), dtype=np.uint8)
    for place in range(4):
        Image.fromarray(pixels[place]).save(tmp_path / f"{place}.png")
    for name in ("0.png", "2.png"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:30])
    found = open_stream(tmp_path)
    assert (found.shape, found.total) == ((1, 3, 3), 4)
    whole = torch.cat([block for _, block in found.blocks(4)])
    assert whole[[0, 2]].isnan().all()
    truth = torch.from_numpy(pixels[[1, 3]])[:, None].float() / 255
    assert whole[[1, 3]].equal(truth)
    assert sorted(found.unreadable) == [0, 2]
    assert "2.png" in found.unreadable[2]
    assert [block.dtype for _, block in found.blocks(1)][1] == torch.uint8
    cropped = found.changed(lambda x: x[:, :, :2], "cropped")
    assert next(cropped.blocks(4))[1][2].isnan().all()
    for place in (1, 3):
        (tmp_path / f"{place}.png").write_bytes(b"none")
    with pytest.raises(NescioError, match="cannot read the image"):
        open_stream(tmp_path)


@pytest.mark.parametrize("arrow", [True, False])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_blank_lines_of_one_column_are_missing(tmp_path, monkeypatch, arrow, ending):
    if not arrow:
        monkeypatch.setattr("nescio.data.readers.csv._arrow", lambda *_, **__: None)
    path = tmp_path / "one.csv"
    path.write_bytes(ending.join(["v", "1", "", "3", "", "", "6", ""]).encode())
    (block,) = [block for _, block in open_stream(path).blocks(10)]
    np.testing.assert_array_equal(block[:, 0], [1, np.nan, 3, np.nan, np.nan, 6])
    np.testing.assert_array_equal(read_table(path)["v"], [1, np.nan, 3, np.nan, np.nan, 6])
    path.write_text('v\n1\n\n"x"\n')
    with pytest.raises(NescioError, match=r"row 2 \(line 4 of the file\)"):
        list(open_stream(path).blocks(10))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3", r"row 1 \(line 3 of the file\) has 1 values, expected 2 \(a, b\): is the"),
        (
            "a,b\n1,2,3\n",
            r"row 0 \(line 2 of the file\) has 3 values, .*: quote values",
        ),
        ('a,b\n1,2\n3,"4\n5,6\n', "unexpected end of data; is it damaged or cut off"),
        ("\na,b\n1,2\n", "begins with a blank line"),
    ],
)
def test_ragged_and_cut_files_say_where(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(NescioError, match=message):
        list(open_stream(path).blocks(10))
    with pytest.raises(NescioError, match=message):
        read_table(path)


def bad_images(folder):
    """Files that hold no image which can be used, among two that do."""
    for name in ("a.png", "z.png"):
        Image.new("L", (4, 4), 7).save(folder / name)
    (folder / "cut.png").write_bytes((folder / "a.png").read_bytes()[:40])
    (folder / "link.png").symlink_to(folder / "nowhere.png")
    os.mkfifo(folder / "pipe.png")
    Image.new("I;16", (4, 4)).save(folder / "sixteen.png")
    (folder / "x.png").mkdir()
    Image.new("1", (4000, 4000)).save(folder / "huge.png")


def test_bad_images_do_not_end_a_folder(tmp_path, monkeypatch):
    bad_images(tmp_path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000_000)
    stream = open_stream(tmp_path)
    blocks = [block for _, block in stream.blocks(100)]
    assert [len(block) for block in blocks] == [7]
    names = [stream.files[index] for index in stream.unreadable]
    assert names == ["cut.png", "huge.png", "link.png", "pipe.png", "sixteen.png"]
    reasons = "\n".join(stream.unreadable.values())
    for word in (
        "exceeds limit",
        "a link to nothing",
        "a pipe",
        "stored as I",
    ):  # I;16, or I with Pillow 10
        assert word in reasons
