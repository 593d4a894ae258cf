"""Sequences of the archives by name: made-up files, and the published counts."""

import lzma
import os

import pytest

from nescio.core import NescioError
from nescio_papers.data import gun_point, italy_power_demand, japanese_vowels

TEXT = "# about\n@problemName own\n@data\n1,2,3:4,5,6:b\n\n7,8:9,10:a\n"


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


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no files")
@pytest.mark.parametrize(
    ("load", "shape", "counts", "classes", "shortest"),
    [
        (japanese_vowels, (13, 29), (270, 370), 9, 7),
        (gun_point, (2, 150), (50, 150), 2, 150),
        (italy_power_demand, (2, 24), (67, 1029), 2, 24),
    ],
)
def test_published_counts(load, shape, counts, classes, shortest):
    found = load()
    assert found.features == shape
    assert (len(found.train[0]), len(found.test[0])) == counts
    assert found.classes == classes
    assert found.train[0][:, -1].sum(1).min() >= shortest
