"""Labels as files: images as the guard reads them, rows that are no table, numbers."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("sqlalchemy")

from nescio.core import NescioError
from nescio.serving.decision_log import Entry, KeptInput, Label, open_log
from nescio.serving.label_exports import write_label_table, write_training_data


def entry(at, kept):
    own = {"replica": "0", "guard": "g", "version": "v", "digest": "", "label": "=1+1"}
    own |= {"decision": "unsure", "probability": 0.5, "p_value": 0.5, "score": 0.0}
    own |= {"failure_score": 0.0, "rule": "r", "in_range": True, "set": None, "more": None}
    return Entry(id=f"d{at}", time=0.0, picked=True, propensity=1.0, kept=kept, **own)


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return KeptInput("image", file.getvalue())


def written(folder, kept, labels, **about):
    log = open_log(folder / "log.db")
    log.register("g", "v", about)
    log.write([entry(at, one) for at, one in enumerate(kept)])
    own = {"reviewer": "anna", "kind": "label", "time": 0.0}
    log.add_labels([Label(decision=f"d{at}", label=one, **own) for at, one in enumerate(labels)])
    return log


def test_images_are_numbers_from_0_to_1(tmp_path):
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8)
    about = {"classes": ["a", "b"], "input": {"shape": [1, 8, 8], "columns": None}}
    with written(tmp_path, [png(pixels), png(pixels.T.copy())], ["b", "a"], **about) as log:
        found = write_training_data(log, tmp_path / "labels.csv")
    assert {Path(name).name: count for name, count in found.items()} == {
        "labels.csv": 2,
        "labels.npz": 2,
    }
    arrays = np.load(tmp_path / "labels.npz")
    np.testing.assert_allclose(arrays["x"][0, 0], pixels / 255, atol=1e-7)
    np.testing.assert_allclose(arrays["x"][1, 0], pixels.T / 255, atol=1e-7)
    assert arrays["y"].tolist() == [1, 0]


def test_numbers_of_a_regression(tmp_path):
    file = io.BytesIO()
    np.save(file, np.ones(3, np.float32))
    kept = [KeptInput("npy", file.getvalue())] * 2
    with written(tmp_path, kept, ["1.5", "-2"], classes=None, targets=["price"]) as log:
        write_training_data(log, tmp_path / "labels.csv")
    assert np.load(tmp_path / "labels.npz")["y"].tolist() == [1.5, -2.0]


def test_inputs_that_are_not_one_table_are_refused(tmp_path):
    several = KeptInput("row", b'{"image": [[1, 2]], "age": [3]}')
    with (
        written(tmp_path, [several], ["a"], classes=["a", "b"]) as log,
        pytest.raises(NescioError, match="several arrays"),
    ):
        write_training_data(log, tmp_path / "labels.csv")


def test_no_spreadsheet_runs_a_cell(tmp_path):
    with written(tmp_path, [KeptInput("row", b"{}")], ["=2+2"], classes=["=2+2"]) as log:
        assert write_label_table(log, tmp_path / "all.csv") == 1
    line = (tmp_path / "all.csv").read_text().splitlines()[1]
    assert ",'=1+1," in line
    assert ",'=2+2," in line
