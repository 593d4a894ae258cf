"""`nescio stability`: words, tables, JSON and pictures, of images and of other inputs."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from click.testing import Result
from sklearn.datasets import load_digits


def test_a_run_on_images(folder: Path, nescio: Callable[..., Result]) -> None:
    words = ["train", "single", "--data", "digits", "--run", "run", "--epochs", "2"]
    assert nescio(*words).exit_code == 0
    words = ["stability", "run", "--data", "digits", "--samples", "6", "--steps", "2", "--patch"]
    done = nescio(*words, "--out", "s")
    assert done.exit_code == 0, done.output
    assert "correct answers were flipped" in done.output
    assert "The Lipschitz constant of its logits (linf)" in done.output
    assert "under warping" in done.output
    assert "gray patch in the same view" in done.output
    found = json.loads((folder / "s" / "stability.json").read_text())
    assert found["norm"] == "linf"
    assert set(found["deformations"]) == {"rotation", "translation", "warping"}
    assert found["lipschitz"]["sampled"] <= found["lipschitz"]["product"]
    assert max(found["lipschitz"]["local"]) <= found["lipschitz"]["product"]
    for name in ("adversarial", "deformations", "patch", "patched"):
        assert (folder / "s" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    x, y = load_digits(return_X_y=True)  # from 0 to 16: no patch, but all else
    np.savez(folder / "test.npz", x=x[:100].reshape(-1, 1, 8, 8).astype(np.float32), y=y[:100])
    words = ["stability", "run", "--data", "test.npz", "--samples", "6", "--steps", "2", "--patch"]
    done = nescio(*words, "--out", "t")
    assert done.exit_code == 0, done.output
    assert "correct answers were flipped" in done.output
    assert "Not computed, patch: the images range from 0 to 16" in done.output


def test_inputs_that_are_not_images_have_no_pictures(
    folder: Path, nescio: Callable[..., Result], own: Callable[..., str]
) -> None:
    done = nescio("stability", own(folder), "--data", "half_moons", "--samples", "10", "--out", "s")
    assert done.exit_code == 0, done.output
    assert "correct answers were flipped" in done.output
    assert [path.name for path in (folder / "s").iterdir()] == ["stability.json"]
    wrong = nescio("stability", own(folder), "--data", "half_moons", "--patch", "--samples", "2")
    assert wrong.exit_code == 1
    assert "--patch needs images" in wrong.output
    wrong = nescio("stability", own(folder), "--out", "s")
    assert wrong.exit_code == 1
    assert "say on what: --data" in wrong.output
