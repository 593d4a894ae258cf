"""A folder or a pattern of Parquet files is one table, in the order of their names."""

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.data.readers import columns_of, is_table, is_there, open_stream

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def write(path, first, count, **more):
    numbers = np.arange(first, first + count, dtype=np.float64)
    columns = {"x": numbers, "y": -numbers, "name": [f"n{int(n)}" for n in numbers], **more}
    parquet.write_table(arrow.table(columns), path, row_group_size=4)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "rows"
    place.mkdir()
    write(place / "b.parquet", 10, 1)
    write(place / "a.parquet", 0, 10)
    write(place / "c.parquet", 11, 14)
    write(place / "_metadata.parquet", 100, 3)
    (place / "_SUCCESS").touch()
    return place


@pytest.mark.parametrize(("size", "start"), [(25, 0), (3, 0), (4, 9), (7, 10), (5, 11), (2, 24)])
@pytest.mark.parametrize("pattern", ["", "*.parquet"])
def test_rows_come_in_the_order_of_the_names(folder, size, start, pattern):
    stream = open_stream(folder / pattern, without="name")
    assert (stream.total, stream.shape, stream.columns) == (25, (2,), ("x", "y"))
    blocks = list(stream.blocks(size, start=start))
    assert [first for first, _ in blocks] == list(range(start, 25, size))
    assert all(len(block) == size for _, block in blocks[:-1])
    assert torch.equal(torch.cat([b for _, b in blocks])[:, 0], torch.arange(float(start), 25))


def test_kept_columns_follow_the_rows(folder):
    stream = open_stream(folder, keep="name")
    for first, count in ((0, 5), (5, 6), (20, 5), (9, 4)):
        assert stream.kept(first, count)["name"].tolist() == [
            f"n{row}" for row in range(first, first + count)
        ]


def test_a_changed_file_is_another_table(folder):
    before = dict(open_stream(folder, without="name").identity)
    write(folder / "b.parquet", 12, 1)
    after = dict(open_stream(folder, without="name").identity)
    assert before["files"] == after["files"] == 3
    assert before["digest"] != after["digest"]


def test_a_folder_is_a_table(folder, tmp_path):
    assert is_table(folder)
    assert is_table(folder / "*.parquet")
    assert columns_of(folder) == ("x", "y", "name")
    assert is_there(folder / "*.parquet")
    assert not is_there(folder / "d*.parquet")
    assert not is_table(tmp_path)


def test_files_with_other_columns_are_refused(folder):
    write(folder / "d.parquet", 30, 2, z=[1.0, 2.0])
    with pytest.raises(NescioError, match="d.parquet has other columns than .*a.parquet: 'z'"):
        open_stream(folder, without="name")


def test_a_pattern_of_nothing_and_a_file_that_changes_are_told(folder):
    with pytest.raises(NescioError, match="there is no file"):
        open_stream(folder / "d*.parquet")
    stream = open_stream(folder, without="name")
    write(folder / "c.parquet", 11, 15)
    with pytest.raises(NescioError, match="has 15 rows and had 14"):
        list(stream.blocks(5))
    (folder / "c.parquet").unlink()
    with pytest.raises(NescioError, match="all machines that work on it must see it"):
        list(stream.blocks(5))
