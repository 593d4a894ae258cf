"""Sequences of the .ts format: made-up files, and the published counts."""

import lzma
import os

import numpy as np
import pytest

from nescio.core import NescioError
from nescio_papers.data import japanese_vowels, read_ts

TEXT = "# about\n@problemName own\n@data\n1,2,3:4,5,6:b\n\n7,8:9,10:a\n"


def test_samples_of_any_length(tmp_path):
    path = tmp_path / "own.ts"
    path.write_text(TEXT)
    sequences, labels = read_ts(path)
    assert labels == ["b", "a"]
    np.testing.assert_array_equal(sequences[0], [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(sequences[1], [[7, 8], [9, 10]])


def test_a_data_set_is_padded_and_marked(tmp_path):
    where = tmp_path / "sequences"
    where.mkdir()
    with lzma.open(where / "JapaneseVowels_TRAIN.ts.xz", "wt") as file:
        file.write(TEXT)
    with pytest.raises(NescioError, match="lacks JapaneseVowels_TEST.ts"):
        japanese_vowels(folder=str(tmp_path))
    (where / "JapaneseVowels_TEST.ts").write_text(TEXT)
    found = japanese_vowels(folder=str(tmp_path))
    assert found.train[0].tolist()[1] == [[7, 8, 0], [9, 10, 0], [1, 1, 0]]
    assert found.train[1].tolist() == [1, 0]
    assert found.classes == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@data\n", "has no samples"),
        ("@data\n1,2:3:a\n", "line 2 of"),
        ("@data\n1,x:a\n", "could not convert"),
        ("@data\n1,nan:a\n", "values that are missing"),
        ("@data\n1,2:a\n1,2:3,4:a\n", "different numbers of channels"),
    ],
)
def test_what_is_refused(tmp_path, text, words):
    path = tmp_path / "own.ts"
    path.write_text(text)
    with pytest.raises(NescioError, match=words):
        read_ts(path)


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no files")
def test_published_counts():
    found = japanese_vowels()
    assert (found.train[0].shape, found.test[0].shape) == ((270, 13, 29), (370, 13, 29))
    assert found.classes == 9
    lengths = found.train[0][:, -1].sum(1)
    assert lengths.min() >= 7
