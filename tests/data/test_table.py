"""Tables: from CSV, dicts and structured arrays; what is missing, what is refused."""

import gzip
import lzma

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.data import Table, read_table
from nescio.data.readers import open_stream

TEXT = 'age,sex,"note, long"\n63, F ,a\n?,M,\n\n41.5,?,"b,c"\n'


@pytest.mark.parametrize(
    ("suffix", "opener"), [(".csv", open), (".csv.gz", gzip.open), (".csv.xz", lzma.open)]
)
def test_a_csv_file_plain_or_packed(tmp_path, suffix, opener):
    path = tmp_path / f"t{suffix}"
    with opener(path, "wt") as file:
        file.write(TEXT)
    table = read_table(path)
    assert table.names == ("age", "sex", "note, long")
    assert len(table) == 3
    np.testing.assert_array_equal(table["age"], [63, np.nan, 41.5])
    assert table["sex"].tolist() == ["F", "M", ""]
    assert table["note, long"].tolist() == ["a", "", "b,c"]
    assert repr(table) == "Table(3 rows; age, sex, note, long)"


def test_a_file_without_a_header_and_with_other_marks(tmp_path):
    path = tmp_path / "t.data"
    path.write_text("1,None\n-9,x\n")
    table = read_table(path, names=["a", "b"], missing=["-9"])
    np.testing.assert_array_equal(table["a"], [1, np.nan])
    assert table["b"].tolist() == ["None", "x"]


@pytest.mark.parametrize(
    ("text", "header", "names", "rows"),
    [
        ("0,1,2\n5,6,7\n", None, ("0", "1", "2"), [[5, 6, 7]]),  # pandas, without names
        (",0,1\n0,6,7\n", None, ("", "0", "1"), [[0, 6, 7]]),  # and with its index
        ("0,1\n5,6\n", False, ("0", "1"), [[0, 1], [5, 6]]),
        ("1,0\n5,6\n", None, ("0", "1"), [[1, 0], [5, 6]]),
        (",0\n5,6\n", None, ("0", "1"), [[np.nan, 0], [5, 6]]),
        ("2019,2020\n5,6\n", None, ("0", "1"), [[2019, 2020], [5, 6]]),
        ("2019,2020\n5,6\n", True, ("2019", "2020"), [[5, 6]]),
        ("0\n5\n", None, ("0",), [[0], [5]]),
    ],
)
def test_both_readers_agree_on_what_a_header_is(tmp_path, text, header, names, rows):
    path = tmp_path / "t.csv"
    path.write_text(text)
    table, stream = read_table(path, header=header), open_stream(path, header=header)
    assert table.names == stream.columns == names
    np.testing.assert_array_equal(np.stack([table[name] for name in names], axis=1), rows)
    np.testing.assert_array_equal(next(stream.blocks(9))[1].numpy(), rows)


def test_names_are_for_files_without_a_header(tmp_path):
    (tmp_path / "t.csv").write_text("0,1\n2,3\n")
    assert read_table(tmp_path / "t.csv", names=["a", "b"])["b"].tolist() == [1, 3]
    with pytest.raises(NescioError, match="not both"):
        read_table(tmp_path / "t.csv", names=["a", "b"], header=True)
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(NescioError, match="is empty"):
        read_table(tmp_path / "t.csv", names=["a"])


def test_dicts_and_structured_arrays_are_the_same():
    kinds = [("a", "i4"), ("b", "U3"), ("c", "?")]
    rows = np.array([(1, "x", True), (2, "?", False)], kinds)
    one = read_table(rows)
    two = read_table({"a": [1, 2], "b": ["x", None], "c": [True, False]})
    for table in (one, two):
        assert table["a"].tolist() == [1.0, 2.0]
        assert table["b"].tolist() == ["x", ""]
        assert table["c"].tolist() == [1.0, 0.0]


def test_rows_and_columns_can_be_chosen_and_changed():
    table = read_table({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]})
    assert table.rows(table["a"] > 1)["b"].tolist() == ["y", "z"]
    assert table.rows(slice(1))["a"].tolist() == [1.0]
    assert table.only("b").names == ("b",)
    assert table.without("b").names == ("a",)
    assert table.changed(a=[4, 5, 6], c=list("uvw")).names == ("a", "b", "c")
    assert table["a"].tolist() == [1, 2, 3]
    with pytest.raises(NescioError, match=r"unknown column 'c'\. Known: a, b"):
        table.without("c")


def test_a_column_without_any_value_holds_nan():
    assert np.isnan(read_table({"a": ["?", None]})["a"]).all()


def test_what_is_refused(tmp_path):
    for text, words in {
        "": "is empty",
        "a,b\n": "header but no rows",
        "a,a\n1,2\n": "two columns of one name",
        "a,b\n1,2\n3\n": "row 1 .line 3 of the file. has 1 values, expected 2",
    }.items():
        path = tmp_path / "t.csv"
        path.write_text(text)
        with pytest.raises(NescioError, match=words):
            read_table(path)
    (tmp_path / "t.csv.xz").write_text("a\n1\n")
    with pytest.raises(NescioError, match="cannot read"):
        read_table(tmp_path / "t.csv.xz")
    with pytest.raises(NescioError, match="no file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(NescioError, match="must be structured"):
        read_table(np.zeros((2, 2)))
    with pytest.raises(NescioError, match="got list"):
        read_table([1, 2])
    with pytest.raises(NescioError, match="infinity .first in row 1"):
        read_table({"a": [1.0, np.inf]})
    with pytest.raises(NescioError, match="one length"):
        Table({"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(NescioError, match="at least one column"):
        read_table({})
    with pytest.raises(NescioError, match="must be .N,., got shape"):
        read_table({"a": np.zeros((2, 2))})
    with pytest.raises(NescioError, match="make a table with read_table"):
        Table({"a": [1, 2]})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]"), "of dates make numbers"),
        (np.array([1j]), "must hold numbers or text"),
        (np.array([{}, {}], dtype=object), "unhashable"),
        (np.array([b"\xff", b"a"]), "codec"),
        ([[1], [1, 2]], "one value per row"),
        (torch.ones(2, requires_grad=True), "one value per row"),
    ],
)
def test_columns_of_other_things_are_refused(values, words):
    with pytest.raises(NescioError, match=f"column 'a'.*{words}"):
        read_table({"a": values})


def test_a_packed_file_with_a_wrong_byte_is_refused(tmp_path):
    packed = bytearray(gzip.compress(b"a,b\n" + b"1,2\n" * 1000))
    packed[30] ^= 0xFF
    (tmp_path / "t.csv.gz").write_bytes(packed)
    with pytest.raises(NescioError, match="cannot read"):
        read_table(tmp_path / "t.csv.gz")


def test_truth_values_are_the_same_with_and_without_holes():
    whole = read_table({"smokes": np.array([True, False, True])})["smokes"]
    holes = read_table({"smokes": [True, None, False]})["smokes"]
    np.testing.assert_array_equal(whole, [1, 0, 1])
    np.testing.assert_array_equal(holes, [1, np.nan, 0])


def test_a_range_with_an_underscore_is_a_text():
    assert read_table({"age": ["12_17", "18_25"]})["age"].tolist() == ["12_17", "18_25"]


def test_a_null_among_categories_of_arrow_is_missing(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    coded = arrow.array(["x", None, "y", "z"]).dictionary_encode()
    assert read_table(arrow.table({"a": coded}))["a"].tolist() == ["x", "", "y", "z"]


def test_two_columns_of_one_name_are_refused(tmp_path):
    with pytest.raises(NescioError, match="two columns of one name"):
        read_table({1: [1.0], "1": [2.0]})
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    table = arrow.Table.from_arrays([arrow.array([1]), arrow.array([2])], names=["a", "a"])
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    with pytest.raises(NescioError, match="two columns of one name"):
        read_table(path)


def test_the_text_of_the_mark_of_pandas_is_missing():
    assert read_table({"a": ["<NA>", "x"]})["a"].tolist() == ["", "x"]
