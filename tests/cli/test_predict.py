"""`nescio predict`: the tables it writes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from click.testing import Result

NAME = "guarded_module_of_tests"
DEFAULT = f"{NAME}:make_net"


def test_predict_of_a_users_network(
    folder: Path, nescio: Callable[..., Result], own: Callable[..., str]
) -> None:
    words = ["predict", own(folder), "--weights", "w.safetensors", "--data", "unlabeled.npz"]
    asked = nescio(*words, "--out", "p.csv")
    assert asked.exit_code == 1
    assert "gaussian: Mean and variance" in asked.output
    words += ["--head", "categorical"]
    assert nescio(*words, "--out", "p.csv").exit_code == 0
    lines = (folder / "p.csv").read_text().splitlines()
    header = lines[0].split(",")
    assert header[:4] == ["sample", "label", "probs_0", "probs_1"]
    assert {"predictive_entropy", "mutual_information"} <= set(header)
    assert len(lines) == 61
    assert nescio(*words, "--out", "p.npz").exit_code == 0
    with np.load(folder / "p.npz") as file:
        table = dict(file)
    row = dict(zip(header, map(float, lines[1].split(",")), strict=True))
    assert row["probs_1"] == table["probs"][0, 1]
    assert row["predictive_entropy"] == table["predictive_entropy"][0]
