"""Arrays on the command line: guard, score and compare of a network that runs elsewhere."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import nescio
from nescio.cli.main import main

GUARD = ["guard", "--logits", "z.npy", "--features", "f.npy", "--labels", "y.npy"]
TRAIN = ["--train-logits", "zt.npy", "--train-features", "ft.npy", "--train-labels", "yt.npy"]
WISH = ["--risk", "0.3", "--false-alarm", "0.05"]
NEW = ["--logits", "zn.npy", "--features", "fn.npy"]


def run(*words: str) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with arrays: calibration, training, new ones, far ones."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(4, 3))
    for end, count, shift in (("", 500, 0.0), ("t", 400, 0.0), ("n", 300, 0.0), ("o", 200, 9.0)):
        y = rng.integers(3, size=count)
        features = rng.normal(size=(count, 4)) + 2 * np.eye(4)[y] + shift
        logits = features @ mix + 3 * np.eye(3)[y]
        arrays = {"z": logits, "f": features, "y": y}
        for name, array in arrays.items():
            np.save(f"{name}{end}.npy", array)
    return tmp_path


def test_a_guard_of_arrays_scores_new_arrays(home: Path) -> None:
    made = run(*GUARD, *TRAIN, *WISH)
    assert made.exit_code == 0, made.output
    assert "nescio score guard.safetensors --logits new.npy --features" in made.output
    assert json.loads((home / "guard.safetensors.json").read_text())["train"] == 400
    done = run("score", "guard.safetensors", *NEW, "--out", "d.csv", "--batch-mb", "0.02")
    assert done.exit_code == 0, done.output
    guard = nescio.load("guard.safetensors")
    new = nescio.recorded(np.load("zn.npy"), features=np.load("fn.npy"))
    truth = guard(new).columns()
    rows = [line.split(",") for line in (home / "d.csv").read_text().splitlines()[1:]]
    assert [row[1] for row in rows] == truth["decision"].tolist()
    assert [int(row[2]) for row in rows] == truth["label"].tolist()
    far = run("score", "guard.safetensors", "--logits", "zo.npy", "--features", "fo.npy",
              "--out", "far.csv")  # fmt: skip
    assert far.exit_code == 0, far.output
    decided = [line.split(",")[1] for line in (home / "far.csv").read_text().splitlines()[1:]]
    assert decided.count("ood") > 150
    drift = run("monitor", "guard.safetensors", "far.csv", "--state", "drift.safetensors")
    assert drift.exit_code == 3
    assert "ALARM" in drift.output


def test_a_row_that_is_not_finite_is_ood(home: Path) -> None:
    assert run(*GUARD, *WISH).exit_code == 0
    logits = np.load("zn.npy")
    logits[7] = np.nan
    np.save("zn.npy", logits)
    done = run("score", "guard.safetensors", *NEW, "--out", "d.csv")
    assert done.exit_code == 0, done.output
    assert "1 are, or lead to, NaN or infinite numbers: OOD" in done.output
    assert ",ood," in (home / "d.csv").read_text().splitlines()[8]


def test_probabilities_in_an_archive(home: Path) -> None:
    logits = np.load("z.npy")
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.savez("all.npz", logits=probs, features=np.load("f.npy"), labels=np.load("y.npy"))
    files = ["--logits", "all.npz", "--features", "all.npz", "--labels", "all.npz"]
    made = run("guard", *files, "--probabilities", *WISH)
    assert made.exit_code == 0, made.output
    plain = nescio.load("guard.safetensors")
    assert run(*GUARD, *WISH).exit_code == 0
    same = nescio.load("guard.safetensors")
    assert plain.rules[0].limit == same.rules[0].limit


def test_training_features_are_enough_where_the_last_layer_is_shown(home: Path) -> None:
    for end in ("", "t", "n"):
        np.save(f"z{end}.npy", np.load(f"f{end}.npy") @ np.eye(4)[:, :3] + 1)
    assert run(*GUARD, *TRAIN, *WISH).exit_code == 0
    whole = nescio.load("guard.safetensors")
    found = run(*GUARD, *TRAIN[2:], *WISH)
    assert found.exit_code == 0, found.output
    short = nescio.load("guard.safetensors")
    assert short.rules[0].limit == pytest.approx(whole.rules[0].limit, rel=1e-4)


def test_compare_arrays(home: Path) -> None:
    ood = ["--ood-logits", "far=zo.npy", "--ood-features", "far=fo.npy"]
    words = ["compare", "--labels", "yn.npy", *NEW, *TRAIN]
    found = run(*words, *ood, "--detector", "knn,k=5", "--resamples", "0", "--out", "c")
    assert found.exit_code == 0, found.output
    assert "knn,k=5" in found.output
    assert (home / "c" / "comparison.json").exists()
    errors = run(*words, "--task", "errors", "--resamples", "20", "--out", "e")
    assert errors.exit_code == 0, errors.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["guard"], "give NETWORK and --calibration DATA; or"),
        (["guard", "--labels", "y.npy"], "--labels goes with --logits"),
        (["audit", "--probabilities", "z.npy", "--labels", "y.npy"], "--logits names the file of"),
        (["guard", "mine:net", *GUARD[1:]], "in place of a network"),
        ([*GUARD, "--layer", "a"], "--layer: with --logits there is no NETWORK"),
        ([*GUARD, "--train-labels", "yt.npy"], "--train-labels goes with --train-logits"),
        ([*GUARD, "--train-features", "ft.npy"], "ft.npy: logits cannot be computed"),
        (["guard", "--logits", "z.npy", "--labels", "yt.npy"], "z.npy, yt.npy: 500 inputs"),
        (["guard", "--logits", "z.npy"], "need labels"),
        (["guard", "--logits", "z.csv", "--labels", "y.npy"], "takes an .npy or .npz file"),
        (["guard", "--logits", "no.npy", "--labels", "y.npy"], "there is no file no.npy"),
        (["compare", "--logits", "z.npy", "--labels", "y.npy"], "say what the network does not"),
        (["compare", "--logits", "z.npy", "--ood-logits", "zo.npy"], "takes NAME=FILE"),
        (["compare", "--logits", "z.npy", "--ood-features", "a=fo.npy"], "goes with --ood-logits"),
        (["compare", "--ood-logits", "a=zo.npy"], "go with --logits"),
        (["score", "g.safetensors", "--logits", "z.npy", "--out", "d.csv"], "g.safetensors"),
    ],
)
def test_what_does_not_fit_is_said(words: list[str], said: str) -> None:
    found = run(*words)
    assert found.exit_code not in (0, 3), found.output
    assert said in found.output


def test_files_of_new_samples_must_fit() -> None:
    assert run(*GUARD, *WISH).exit_code == 0
    for words, said in (
        (["--logits", "zn.npy"], "inputs of shape (3,)"),
        (["--logits", "zn.npy", "--features", "fo.npy"], "200 samples and zn.npy 300"),
        ([], "give INPUTS, or --logits"),
        (["new.npy", "--features", "fn.npy"], "go with --logits"),
    ):
        found = run("score", "guard.safetensors", *words, "--out", "d.csv")
        assert found.exit_code not in (0, 3), found.output
        assert said in found.output
