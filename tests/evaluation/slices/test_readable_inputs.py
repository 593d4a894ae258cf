"""What is told of inputs."""

import numpy as np
import torch

from nescio.core import Bundle
from nescio.data import learn_columns, read_table
from nescio.evaluation import describe_inputs


def test_tables_have_their_columns():
    x = torch.arange(6.0).reshape(3, 2)
    assert list(describe_inputs(x, ["age", "dose"])) == ["age", "dose"]
    assert describe_inputs(x)["column 1"].tolist() == [1, 3, 5]
    assert describe_inputs(None) == {}
    assert describe_inputs(torch.ones(3, 5, dtype=torch.long)) == {}  # tokens


def test_statistics_of_images():
    images = torch.zeros(4, 1, 8, 8)
    images[1] = 1.0  # bright
    images[2, :, 2:6, 2:6] = 1.0  # a square in the middle
    images[3, :, 1:3, 1:3] = 1.0  # a small one in a corner
    found = describe_inputs(images)
    assert list(found) == ["brightness", "contrast", "sharpness", "foreground", "off center"]
    np.testing.assert_allclose(found["brightness"], [0, 1, 16 / 64, 4 / 64])
    np.testing.assert_allclose(
        found["contrast"], [0, 0, np.sqrt(3) / 4, np.sqrt(15) / 16], rtol=1e-6
    )
    np.testing.assert_allclose(found["foreground"], [0, 0, 16 / 64, 4 / 64])
    np.testing.assert_allclose(found["off center"][:3], 0, atol=1e-6)
    assert found["off center"][3] > 0.5
    assert found["sharpness"][0] == found["sharpness"][1] == 0 < found["sharpness"][2]


def test_bytes_and_colors():
    images = torch.zeros(3, 3, 8, 8, dtype=torch.uint8)
    images[0, 0] = 255  # red
    images[1] = 255  # white
    found = describe_inputs(images)
    np.testing.assert_allclose(found["saturation"], [1, 0, 0])
    np.testing.assert_allclose(found["brightness"], [1 / 3, 1, 0])


def test_other_inputs():
    assert list(describe_inputs(torch.rand(4, 20, 3))) == ["mean", "spread"]
    assert list(describe_inputs(torch.rand(4, 2000))) == ["mean", "spread"]
    parts = Bundle({"image": torch.rand(3, 1, 2, 2), "row": torch.rand(3, 1)})
    assert list(describe_inputs(parts)) == [
        "image: brightness", "image: contrast", "row: column 0",
    ]  # fmt: skip


def test_encoded_tables_are_read_as_they_were():
    table = read_table({
        "age": [31.5, 47.25, np.nan, 62.0, 55.5, 20.125],
        "ward": ["A", "B", "A", "", "C", "B"],
        "grade": ["low", "high", "low", "mid", "", "mid"],
    })  # fmt: skip
    kinds = {"age": "continuous", "ward": "categorical", "grade": "ordinal"}
    columns = learn_columns(table, kinds, levels={"grade": ["low", "mid", "high"]})
    found = describe_inputs(columns.encode(table).x, columns.features, encoding=columns)
    np.testing.assert_array_equal(found["age"], table["age"])
    assert found["ward"].tolist() == ["A", "B", "A", "", "C", "B"]
    assert found["grade"].tolist() == ["low", "high", "low", "mid", "", "mid"]
