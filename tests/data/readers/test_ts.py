"""The .ts format: made-up files."""

import pytest
import torch

from nescio import data
from nescio.core import NescioError
from nescio.data import readers
from nescio.data.readers.ts import parse_ts

TEXT = "# about\n@problemName own\n@data\n1,2,3:4,5,6:b\n\n7,8:9,10:a\n"
LISTED = TEXT.replace("@data", "@classLabel true a b\n@data")


def written(path, text=TEXT):
    path.write_text(text)
    return str(path)


def test_samples_of_any_length_are_padded_and_marked(tmp_path):
    path = written(tmp_path / "own.ts", LISTED)
    assert parse_ts(path).labels == ["b", "a"]
    x, y = data.read_ts(path)
    assert x.tolist()[0] == [[1, 2, 3], [4, 5, 6], [1, 1, 1]]
    assert x.tolist()[1] == [[7, 8, 0], [9, 10, 0], [1, 1, 0]]
    assert y.tolist() == [1, 0]
    longer, _ = data.read_ts(path, length=5)
    assert longer.shape == (2, 3, 5)
    assert torch.equal(longer[:, :, :3], x)
    assert not longer[:, :, 3:].any()
    with pytest.raises(NescioError, match="more than length=2"):
        data.read_ts(path, length=2)


def test_classes_are_in_the_order_of_the_head(tmp_path):
    listed = TEXT.replace("@data", "@classLabel true b a c\n@data")
    assert data.read_ts(written(tmp_path / "own.ts", listed))[1].tolist() == [0, 1]


def test_classes_that_are_not_listed_have_no_numbers_of_their_own(tmp_path):
    path = written(tmp_path / "own.ts", "@data\n1,2,3:c\n")  # of a, b and c, say
    with pytest.raises(NescioError, match="does not list its classes"):
        data.read_ts(path)
    assert readers.open_stream(path).total == 1  # inputs alone need no numbers


def test_a_file_may_have_no_classes(tmp_path):
    path = written(tmp_path / "new.ts", "@classLabel false\n@data\n1,2,3:4,5,6\n7,8:9,10\n")
    x, y = data.read_ts(path)
    assert y is None
    assert x.shape == (2, 3, 3)
    assert readers.open_stream(path).shape == (3, 3)
    with pytest.raises(NescioError, match="no classes to learn"):
        data.load(path)


def test_a_file_to_train_on_brings_the_one_to_test_on(tmp_path):
    path = written(tmp_path / "own_TRAIN.ts")
    written(tmp_path / "own_TEST.ts", "@data\n1,2,3,4:1,2,3,4:c\n")
    found = data.load(path)
    assert (found.name, found.classes, found.features) == ("own", 3, (3, 4))
    assert found.train[1].tolist() == [1, 0]
    assert found.test[1].tolist() == [2]


def test_another_file_is_split(tmp_path):
    lines = "".join(f"{i},1:{i % 2}\n" for i in range(20))
    found = data.load(written(tmp_path / "own.ts", "@data\n" + lines))
    assert [len(part[0]) for part in (found.train, found.validation, found.test)] == [16, 2, 2]


def test_inputs_come_in_blocks(tmp_path):
    stream = readers.open_stream(written(tmp_path / "own.ts"), length=4)
    assert (stream.shape, stream.total) == ((3, 4), 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@data\n", "has no samples"),
        ("@data\n1,2:3:a\n", r"line 2 of .* channels of different lengths, \[1, 2\]"),
        ("@data\n1,2:3,4:a\n::b\n", "line 3 of .* a sequence of length 0"),
        ("@data\n1,x:a\n", "are not numbers"),
        ("@data\n1,?:a\n", "values that are missing"),
        ("@data\n1,nan:a\n", "values that are missing"),
        ("@data\n1,2:a\n1,2:3,4:a\n", "different numbers of channels"),
        ("@classLabel true a\n@data\n1,2:b\n", "does not list"),
        ("@targetLabel true\n@data\n1,2:0.5\n", "not classes"),
    ],
)
def test_what_is_refused(tmp_path, text, words):
    with pytest.raises(NescioError, match=words):
        data.read_ts(written(tmp_path / "own.ts", text))
