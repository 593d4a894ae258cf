"""`nescio explain`: a run and a network of the user, test samples and labels."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from click.testing import Result

from nescio import data


def test_errors_of_a_run_and_its_suspicious_labels(
    folder: Path, nescio: Callable[..., Result]
) -> None:
    words = ["train", "single", "--data", "half_moons", "--run", "run", "--epochs", "2"]
    assert nescio(*words).exit_code == 0
    done = nescio("explain", "run", "--train", "half_moons", "--data", "half_moons", "--out", "e")
    assert done.exit_code == 0, done.output
    assert "helpful  training sample" in done.output
    found = json.loads((folder / "e" / "explain.json").read_text())
    assert len(found["samples"]) == 3
    assert all(one["label"] != one["predicted"] for one in found["samples"])
    assert (folder / "e" / "explain.png").read_bytes().startswith(b"\x89PNG")
    one = ["explain", "run", "--train", "half_moons", "--data", "half_moons", "--index", "4"]
    done = nescio(*one, "--count", "2", "--on", "confidence", "--out", "e")
    assert done.exit_code == 0, done.output
    assert "test sample 4:" in done.output
    done = nescio("explain", "run", "--train", "half_moons", "--labels", "--out", "l")
    assert done.exit_code == 0, done.output
    with (folder / "l" / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(data.half_moons().train[0])
    values = [float(row["self_influence"]) for row in rows]
    assert values == sorted(values, reverse=True)
    wrong = nescio("explain", "run", "--train", "half_moons", "--out", "e")
    assert wrong.exit_code == 1
    assert "say what to explain: --data" in wrong.output


def test_a_network_of_the_user(
    folder: Path, nescio: Callable[..., Result], own: Callable[..., str]
) -> None:
    x, y = data.half_moons().train
    np.savez(folder / "train.npz", x=x.numpy(), y=y.numpy())
    name = own(folder)
    done = nescio("explain", name, "--train", "train.npz", "--data", "half_moons", "--out", "e")
    assert done.exit_code == 0, done.output
    assert "harmful  training sample" in done.output
    np.savez(folder / "test.npz", x=x.numpy()[:50], y=1 - y.numpy()[:50])
    done = nescio("explain", name, "--train", "half_moons", "--data", "test.npz", "--out", "e")
    assert done.exit_code == 0, done.output
    done = nescio("explain", name, "--train", "train.npz", "--data", "./train.npz", "--out", "e")
    assert "are training samples" in done.output


def test_a_file_of_which_a_part_was_trained_on(folder: Path, nescio: Callable[..., Result]) -> None:
    """What the run was tested on must not be in the layer that is fitted."""
    x, y = data.half_moons(train=100).train
    np.savez(folder / "d.npz", x=x.numpy(), y=y.numpy())
    assert (
        nescio("train", "single", "--data", "d.npz", "--run", "run", "--epochs", "2").exit_code == 0
    )
    done = nescio("explain", "run", "--train", "d.npz", "--data", "d.npz", "--index", "0")
    assert done.exit_code == 0, done.output
    assert "are training samples" not in done.output
    assert "was trained on 80 of the 100 training samples" in done.output
