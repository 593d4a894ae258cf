"""`nescio compare`: which detectors, on which data, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

NAME = "guarded_module_of_tests"
DEFAULT = f"{NAME}:make_net"


def test_compare_of_a_users_network(
    folder: Path, nescio: Callable[..., Result], own: Callable[..., str]
) -> None:
    words = ["compare", own(folder), "--weights", "w.pt", "--data", "test.npz", "--out", "c"]
    words += ["--train", "test.npz", "--ood", "moved=other.npz", "--near", "uniform"]
    words += ["--near", "mixed=shuffled", "--detector", "knn,k=3", "--detector", "energy"]
    result = nescio(*words, "--passes", "4", "--tune", "permuted", "--resamples", "10")
    assert result.exit_code == 0, result.output
    assert "48 samples train, 6 test" in result.output
    found = json.loads((folder / "c" / "comparison.json").read_text())
    measures = ("log_odds", "predictive_entropy", "mutual_information")
    sampled = [f"MC dropout: {measure}" for measure in measures]
    names = ["knn,k=3", "energy", "odin, tuned on permuted", *sampled]
    subjects = {one["name"]: one for one in found["subjects"]}
    sets = {one["name"]: one for one in found["sets"]}
    assert list(subjects) == names
    assert {name: one["of"] for name, one in sets.items() if one["of"]} == {
        "mean, all": ["uniform", "mixed", "moved"], "mean, near": ["uniform", "mixed"],
        "mean, far": ["moved"],
    }  # fmt: skip
    assert sets["moved"]["samples"] == 60
    assert sets["mixed"]["samples"] == found["samples"] == 6
    assert subjects["odin, tuned on permuted"]["tuned"]["on"] == "permuted"
    assert (folder / "c" / "roc.png").stat().st_size > 10_000
    assert (folder / "c" / "histograms.png").stat().st_size > 10_000


def test_compare_of_a_network_that_returns_a_dictionary(
    folder: Path, nescio: Callable[..., Result], own: Callable[..., str]
) -> None:
    words = ["compare", own(folder, "named"), "--weights", "w.pt", "--data", "test.npz"]
    words += ["--ood", "moved=other.npz", "--detector", "energy", "--resamples", "0"]
    assert nescio(*words, "--out", "e").exit_code == 0  # the key "logits" is found by itself
    result = nescio(*words, "--output", "logits", "--out", "c")
    assert result.exit_code == 0, result.output
    plain = ["compare", own(folder), *words[2:], "--out", "d"]
    assert nescio(*plain).exit_code == 0
    both = [json.loads((folder / out / "comparison.json").read_text()) for out in "cde"]
    areas = [[r for r in one["rows"] if r["metric"] == "auroc"] for one in both]
    assert areas[0] == areas[1] == areas[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "--data", "x"], "--data: without a NETWORK"),
        (["compare", "NET"], "say what to test on"),
        (["compare", "NET", "--data", "test.npz"], "say what the network does not know"),
        (["compare", "NET", "--data", "test.npz", "--ood", "permuted"], "give --train"),
        (
            ["compare", "NET", "--data", "test.npz", "--ood", "uniform", "--near", "uniform"],
            "'uniform' is named twice among --ood and --near",
        ),
        (["compare", "NET", "--data", "test.npz", "--ood", "unifrm"], "unknown data set"),
        (
            ["compare", "NET", "--data", "test.npz", "--ood", "uniform", "--detector", "nn"],
            "unknown detector or measure 'nn'",
        ),
    ],
)
def test_errors_of_compare_teach(
    folder: Path,
    words: list[str],
    message: str,
    nescio: Callable[..., Result],
    own: Callable[..., str],
) -> None:
    net = [own(folder), "--weights", "w.pt"]
    result = nescio(*(part for word in words for part in (net if word == "NET" else [word])))
    assert result.exit_code == 1
    assert message in result.output


def test_compare_of_digits(
    folder: Path, monkeypatch: pytest.MonkeyPatch, nescio: Callable[..., Result]
) -> None:
    from nescio.cli import demo

    monkeypatch.setitem(demo.compare_digits.__kwdefaults__, "epochs", 1)
    words = ["--detector", "energy", "--detector", "knn", "--resamples", "0", "--passes", "3"]
    result = nescio("compare", *words)
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "nescio-compare" / "comparison.json").read_text())
    near = [one["name"] for one in found["sets"] if one["kind"] == "near"]
    assert near == ["two digits in one", "quarters of digits"]
    assert len(found["subjects"]) == 5
    assert "MC dropout: mutual_information" in result.output


def test_compare_has_three_tasks(
    folder: Path, nescio: Callable[..., Result], own: Callable[..., str]
) -> None:
    words = ["compare", own(folder), "--weights", "w.pt", "--data", "test.npz", "--resamples", "9"]
    errors = nescio(*words, "--task", "errors", "--detector", "energy", "--out", "e")
    assert errors.exit_code == 0, errors.output
    assert "maximum probability" in errors.output
    sure = nescio(*words, "--task", "confidence", "--ood", "moved=other.npz", "--out", "c")
    assert sure.exit_code == 0, sure.output
    saved = (folder / "c" / "comparison.json").read_text()
    assert json.loads(saved)["task"] == "confidence", saved[:300]
    assert "no --ood" in nescio(*words, "--task", "errors", "--ood", "moved=other.npz").output
    assert "--tune goes with" in nescio(*words, "--task", "errors", "--tune", "uniform").output
    assert "--task: without a NETWORK" in nescio("compare", "--task", "errors").output
