"""The command line, as a person calls it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import save_file
from torch import nn

from nescio import load
from nescio.cli.main import main
from nescio.core import registry

MODULE = """
from torch import nn
def make_net():
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
def needs(argument):
    return nn.Linear(2, 2)
def wrong():
    return 3
def three():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
def smooth():
    return nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 2))
class Named(nn.Sequential):
    def forward(self, x):
        return {"extra": x, "logits": super().forward(x)}
def named():
    return Named(*make_net())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a user's module, weights and data; the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"mymodule_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    torch.save(net.state_dict(), tmp_path / "w.pt")
    torch.save(net, tmp_path / "whole.pt")
    draw = np.random.default_rng(0)
    x = draw.normal(size=(60, 2)).astype(np.float32)
    np.savez(tmp_path / "test.npz", x=x, y=(x[:, 0] > 0).astype(np.int64))
    np.savez(tmp_path / "other.npz", x=x + 20)
    np.savez(tmp_path / "unlabeled.npz", x=x)
    (tmp_path / "module_name").write_text(name)
    return tmp_path


def nescio(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), catch_exceptions=False)


def own(folder: Path, factory: str = "make_net") -> str:
    return f"{(folder / 'module_name').read_text()}:{factory}"


def test_help_teaches() -> None:
    assert "nescio audit mymodule:make_net" in nescio("--help").output
    for command in (
        "audit",
        "compare",
        "pieces",
        "train",
        "predict",
        "reproduce",
        "search",
        "list",
    ):
        result = nescio(command, "--help")
        assert result.exit_code == 0
        assert len(result.output) > 200


def test_list_shows_every_part() -> None:
    output = nescio("list").output
    for kind in ("measures", "losses", "recipes", "predictors", "datasets", "metrics"):
        for name in getattr(registry, kind):
            assert name in output
    only = nescio("list", "losses").output
    assert "adversarial" in only
    assert "half_moons" not in only
    assert "unknown kind" in nescio("list", "lossses").output


@pytest.mark.parametrize("weights", ["w.safetensors", "w.pt"])
def test_audit_of_a_users_network(folder: Path, weights: str) -> None:
    words = ["audit", own(folder), "--weights", weights, "--data", "test.npz", "--out", "a"]
    result = nescio(*words, "--ood", "moved=other.npz", "--passes", "5", "--train", "test.npz")
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "a" / "audit.json").read_text())
    assert set(found["predictors"]) == {"network", "MC dropout"}
    assert found["sets"]["moved"] == 60
    assert "<svg" in (folder / "a" / "audit.html").read_text()


def test_compare_of_a_users_network(folder: Path) -> None:
    words = ["compare", own(folder), "--weights", "w.pt", "--data", "test.npz", "--out", "c"]
    words += ["--train", "test.npz", "--ood", "moved=other.npz", "--near", "uniform"]
    words += ["--near", "mixed=shuffled", "--detector", "knn,k=3", "--detector", "energy"]
    result = nescio(*words, "--passes", "4", "--tune", "permuted", "--resamples", "10")
    assert result.exit_code == 0, result.output
    assert "48 samples train, 6 test" in result.output
    found = json.loads((folder / "c" / "detectors.json").read_text())
    measures = ("log_odds", "predictive_entropy", "mutual_information")
    sampled = [f"MC dropout: {measure}" for measure in measures]
    names = ["knn,k=3", "energy", "odin, tuned on permuted", *sampled]
    assert list(found["detectors"]) == names
    assert found["groups"] == {
        "all": ["uniform", "mixed", "moved"], "near": ["uniform", "mixed"], "far": ["moved"],
    }  # fmt: skip
    assert found["sets"]["moved"]["samples"] == 60
    assert found["sets"]["mixed"]["samples"] == found["samples"] == 6
    assert found["detectors"]["odin, tuned on permuted"]["tuned"]["on"] == "permuted"
    assert (folder / "c" / "roc.png").stat().st_size > 10_000
    assert (folder / "c" / "histograms.png").stat().st_size > 10_000


def test_compare_of_a_network_that_returns_a_dictionary(folder: Path) -> None:
    words = ["compare", own(folder, "named"), "--weights", "w.pt", "--data", "test.npz"]
    words += ["--ood", "moved=other.npz", "--detector", "energy", "--resamples", "0"]
    assert nescio(*words, "--out", "e").exit_code == 0  # the key "logits" is found by itself
    result = nescio(*words, "--output", "logits", "--out", "c")
    assert result.exit_code == 0, result.output
    plain = ["compare", own(folder), *words[2:], "--out", "d"]
    assert nescio(*plain).exit_code == 0
    both = [json.loads((folder / out / "detectors.json").read_text()) for out in "cde"]
    areas = [one["detectors"]["energy"]["rows"]["moved"]["auroc"] for one in both]
    assert areas[0] == areas[1] == areas[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "--data", "x"], "these options need a NETWORK"),
        (["compare", "NET"], "say what to test on"),
        (["compare", "NET", "--data", "test.npz"], "say what the network does not know"),
        (["compare", "NET", "--data", "test.npz", "--ood", "permuted"], "give --train"),
        (["compare", "NET", "--data", "test.npz", "--ood", "unifrm"], "unknown data set"),
        (
            ["compare", "NET", "--data", "test.npz", "--ood", "uniform", "--detector", "nn"],
            "unknown detector or measure 'nn'",
        ),
    ],
)
def test_errors_of_compare_teach(folder: Path, words: list[str], message: str) -> None:
    result = nescio(*(own(folder) if word == "NET" else word for word in words))
    assert result.exit_code == 1
    assert message in result.output


def test_compare_of_digits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nescio.cli import demo

    monkeypatch.setitem(demo.compare_digits.__kwdefaults__, "epochs", 1)
    words = ["--detector", "energy", "--detector", "knn", "--resamples", "0", "--passes", "3"]
    result = nescio("compare", *words)
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "nescio-compare" / "detectors.json").read_text())
    assert found["groups"]["near"] == ["two digits in one", "quarters of digits"]
    assert len(found["detectors"]) == 5
    assert "MC dropout: mutual_information" in result.output


def test_predict_of_a_users_network(folder: Path) -> None:
    words = ["predict", own(folder), "--weights", "w.safetensors", "--data", "unlabeled.npz"]
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


def test_pieces_of_a_users_network(folder: Path) -> None:
    words = ["pieces", own(folder), "--weights", "w.safetensors", "--merge", "--out", "p"]
    result = nescio(*words, "--box", "-3", "3", "-1", "2", "--color", "confidence")
    assert result.exit_code == 0, result.output
    assert "box [-3, 3] x [-1, 2]" in result.output
    found = json.loads((folder / "p" / "pieces.json").read_text())
    with np.load(folder / "p" / "pieces.npz") as file:
        assert len(file["maps"]) == found["pictured"][0]["merged"] > 1
        assert file["areas"].sum() == pytest.approx(18.0)
    assert (folder / "p" / "pieces.png").stat().st_size > 10_000
    result = nescio(*words, "--data", "test.npz", "--samples", "0", "1", "2")
    assert "through samples 0, 1, 2" in result.output


def test_pieces_without_a_network(folder: Path) -> None:
    result = nescio("pieces", "--box", "-1", "1", "-1", "1", "--seed", "1")
    assert result.exit_code == 0, result.output
    assert "area of class 1" in result.output
    assert (folder / "nescio-pieces" / "pieces.png").exists()


def test_train_predict_and_audit_a_recipe(folder: Path) -> None:
    words = ["train", "deep_ensemble", "--data", "half_moons", "--run", "run", "--epochs", "3"]
    first = nescio(*words, "-o", "members=2", "--calibrate", "temperature")
    assert first.exit_code == 0, first.output
    assert "accuracy" in first.output
    stamp = (folder / "run" / "model.safetensors").read_bytes()
    assert nescio(*words, "-o", "members=2", "--calibrate", "temperature").exit_code == 0
    assert (folder / "run" / "model.safetensors").read_bytes() == stamp
    assert nescio("predict", "run", "--data", "test.npz", "--out", "p.npz").exit_code == 0
    with np.load(folder / "p.npz") as table:
        assert table["mutual_information"].max() > 0
    audit = nescio("audit", "run", "--data", "half_moons", "--out", "a")
    assert audit.exit_code == 0, audit.output
    pieces = nescio("pieces", "run", "--data", "half_moons", "--out", "p")
    assert pieces.exit_code == 0, pieces.output
    assert "member 1" in pieces.output
    other = nescio(*words, "-o", "members=3")
    assert other.exit_code == 1
    assert "belongs to another run" in other.output


def test_a_run_on_ones_own_network_is_used_with_net(folder: Path) -> None:
    net = own(folder)
    words = ["train", "single", "--data", "test.npz", "--net", net, "--run", "r", "--epochs", "2"]
    done = nescio(*words)
    assert done.exit_code == 0, done.output
    assert f"nescio predict r --net {net}" in done.output
    assert (
        "--net package.module:factory"
        in nescio("predict", "r", "--data", "test.npz", "--out", "p.csv").output
    )
    assert (
        nescio("predict", "r", "--net", net, "--data", "test.npz", "--out", "p.csv").exit_code == 0
    )
    audit = nescio("audit", "r", "--net", net, "--data", "test.npz", "--out", "a")
    assert audit.exit_code == 0, audit.output
    assert (
        "a run folder has its own"
        in nescio(
            "predict", "r", "--weights", "w.pt", "--data", "test.npz", "--out", "p.csv"
        ).output
    )


def test_train_regression_and_dropout(folder: Path) -> None:
    words = ["train", "anchored_ensemble", "--data", "cubic", "--run", "c", "--epochs", "5"]
    options = ["-o", "members=2", "-o", "noise=9", "-o", "prior_variance=2", "--standardize"]
    run = nescio(*words, *options)
    assert run.exit_code == 0, run.output
    assert "rmse" in run.output
    np.savez(folder / "x.npz", x=np.zeros((4, 1), np.float32))
    assert nescio("predict", "c", "--data", "x.npz", "--out", "p.csv").exit_code == 0
    header = (folder / "p.csv").read_text().splitlines()[0]
    assert header.startswith("sample,mean_0,variance_0")
    words = ["train", "dropout", "--data", "half_moons", "--run", "d", "--epochs", "2"]
    assert nescio(*words, "-o", "passes=7").exit_code == 0
    out = nescio("predict", "d", "--data", "half_moons", "--out", "p.npz").output
    assert "7 member(s)" in out


def test_train_a_remedy_and_audit_it_beside_a_plain_network(folder: Path) -> None:
    words = ["train", "single", "--data", "half_moons", "--run", "plain", "--epochs", "40"]
    assert nescio(*words, "--learning-rate", "0.01", "--standardize").exit_code == 0
    words = ["audit", "plain", "--data", "half_moons", "--train", "half_moons", "--out", "a"]
    words += ["--recipe", "acet,weight=2", "--recipe", "ceda", "--epochs", "40"]
    words += ["--rays", "0", "--attack-steps", "10", "--attack-radius", "0.1"]
    result = nescio(*words)
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "a" / "audit.json").read_text())["predictors"]
    assert list(found) == ["network", "ACET, weight=2", "CEDA"]
    row = "adversarial noise (radius 0.1, 10 steps)"
    assert row in result.output
    plain, acet, ceda = (part["ood"][row]["mean_max_confidence"] for part in found.values())
    assert acet < plain
    assert ceda < plain
    page = (folder / "a" / "audit.html").read_text()
    assert row in page
    kept = nescio("predict", "a/ceda", "--data", "half_moons", "--out", "p.csv")
    assert kept.exit_code == 0, kept.output
    again = nescio(*words)  # the trained recipes are there
    assert again.exit_code == 0, again.output
    assert json.loads((folder / "a" / "audit.json").read_text())["predictors"] == found


def test_a_remedy_has_the_users_own_network(folder: Path) -> None:
    words = ["audit", own(folder), "--weights", "w.pt", "--data", "test.npz", "--out", "a"]
    words += ["--train", "test.npz", "--recipe", "ceda", "--epochs", "1"]
    result = nescio(*words, "--rays", "0", "--attack-steps", "2", "--ood", "other.npz")
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "a" / "audit.json").read_text())
    assert found["sets"]["other.npz"] == 60
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
    assert load(folder / "a" / "ceda", net=net).members == 1


@pytest.mark.parametrize(("size", "net"), [(8, "digit_cnn"), (28, "small_cnn")])
def test_images_are_trained_with_convolutions_augmentation_and_outliers(
    folder: Path, size: int, net: str
) -> None:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (40, 3, size + 2, size + 2), dtype=np.uint8)
    np.savez("images.npz", x=images, y=np.arange(40) % 4)
    np.savez("others.npz", x=images[:, :1])
    words = ["train", "outlier_exposure", "--data", f"images.npz:gray:crop={size}", "--run", "r"]
    words += ["-o", f"ood=others.npz:crop={size}", "-o", "weight_decay=1e-4"]
    words += ["--epochs", "1", "--augment", "crops=2,mirrors", "--optimizer", "sgd"]
    result = nescio(*words)
    assert result.exit_code == 0, result.output
    notes = json.loads((folder / "r" / "manifest.json").read_text())
    assert notes["net"]["net"] == net
    assert notes["notes"]["augment"] == ["crops(2)", "mirrors()"]
    assert notes["notes"]["optimizer"] == "sgd"
    assert "others.npz" in notes["notes"]["loss"]
    assert "strength=0.0001" in notes["notes"]["loss"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["audit", "NET", "--data", "no.npz"], "no.npz"),
        (["audit", "NET"], "--data"),
        (["audit", "--data", "test.npz"], "need a NETWORK"),
        (["audit", "NET", "--data", "unlabeled.npz"], "no labels"),
        (["audit", "NET", "--data", "test.npz", "--weights", "none.pt"], "no weights file"),
        (["audit", "NET", "--data", "test.npz", "--weights", "test.npz"], "be read as weights"),
        (["audit", "NET", "--data", "test.npz", "--weights", "whole.pt"], "Save a state dict"),
        (["audit", "NET", "--data", "test.npz", "--ood", "x"], "unknown data set 'x'"),
        (["audit", "nomodule:make", "--data", "test.npz"], "cannot import"),
        (["audit", "NEEDS", "--data", "test.npz"], "without arguments"),
        (["audit", "WRONG", "--data", "test.npz"], "not an nn.Module"),
        (["audit", "MISSING", "--data", "test.npz"], "has no function"),
        (["audit", "nowhere", "--data", "test.npz"], "neither"),
        (["pieces", "--data", "test.npz"], "need a NETWORK"),
        (["pieces", "NET", "--box", "1", "-1", "0", "1"], "LOW below HIGH"),
        (["pieces", "NET", "--box", "1", "2"], "requires 4 arguments"),
        (["pieces", "NET", "--samples", "0", "1", "2"], "add --data"),
        (["pieces", "THREE"], "--data test.npz --samples 0 1 2"),
        (["pieces", "SMOOTH"], "gelu is not piecewise affine"),
        (["pieces", "NET", "--color", "red"], "'red' is not one of"),
        (["predict", "NET", "--data", "test.npz", "--out", "p.txt"], ".csv or .npz"),
        (
            ["train", "deep_ensembel", "--data", "digits", "--run", "r"],
            "did you mean 'deep_ensemble'",
        ),
        (["train", "single", "--data", "digit", "--run", "r"], "did you mean 'digits'"),
        (["train", "single", "--data", "digits", "--net", "mpl", "--run", "r"], "unknown network"),
        (["train", "single", "--data", "digits", "--run", "r", "-o", "x=1"], "no option 'x'"),
        (["train", "deep_ensemble", "--data", "digits", "--run", "r", "-o", "members=a"], "number"),
        (["train", "single", "--data", "digits", "--run", "r", "--calibrate", "heat"], "unknown"),
        (["train", "single", "--data", "digits", "--run", "test.npz/r"], "cannot make the folder"),
        (["audit", "NET", "--data", "test.npz", "--ood", "digits"], "no change of nescio"),
        (["audit", "NET", "--data", "test.npz", "--recipe", "acet"], "--train train.npz"),
        (["audit", "NET", "--data", "test.npz", "--recipe", "actt"], "did you mean 'acet'"),
        (["audit", "--recipe", "cedar"], "did you mean 'ceda'"),
        (["audit", "--recipe", "outlier-exposure"], "needs outliers"),
        (["audit", "NET", "--data", "test.npz", "--attack-radius", "3"], "leaves the box"),
        (["audit", "--attack-radius", "0"], "must be positive"),
        (["train", "acet", "--data", "half_moons", "--run", "r", "-o", "radius=9"], "the box"),
        (["train", "ceda", "--data", "cubic", "--run", "r"], "class logits"),
        (
            ["train", "dropout", "--data", "half_moons", "--net", "rbf", "--run", "r"],
            "rbf has none",
        ),
        (["train", "single", "--data", "digits", "--run", "r", "--augment", "crop"], "'crops'"),
        (["train", "single", "--data", "half_moons", "--run", "r", "--augment", "crops"], "images"),
        (
            ["train", "outlier_exposure", "--data", "digits", "--run", "r"],
            "needs outliers: ood=fashion_mnist",
        ),
        (
            ["train", "ceda", "--data", "digits", "--run", "r", "-o", "ood=unlabeled.npz"],
            "on the command line by NAME:gray:crop=28",
        ),
    ],
)
def test_bad_calls_say_what_to_do(folder: Path, words: list[str], said: str) -> None:
    kinds = ("needs", "wrong", "missing", "three", "smooth")
    factories = {"NET": "make_net", **{kind.upper(): kind for kind in kinds}}
    real = [own(folder, factories[word]) if word in factories else word for word in words]
    result = nescio(*real)
    assert result.exit_code != 0
    assert said in result.output
    assert "Traceback" not in result.output
    assert not (folder / "r").exists() or not list((folder / "r").iterdir())


@pytest.mark.parametrize("recipes", [[], ["--recipe", "acet"]])
def test_a_stopped_audit_says_whether_it_goes_on(
    folder: Path, recipes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*words: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nescio.cli.running.audit_files", stopped)
    result = nescio("audit", own(folder), "--data", "test.npz", *recipes)
    assert result.exit_code == 130
    assert "stopped" in result.output
    assert ("goes on where it stopped" in result.output) == bool(recipes)


def test_ctrl_c_stops_cleanly_and_the_run_goes_on(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "nescio", "train", "deep_ensemble", "--data", "half_moons",
             "--run", str(tmp_path / "r"), "--epochs", "100000", "-o", "members=2"]  # fmt: skip
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(words, stderr=file, stdout=file, env={**os.environ})
        for _ in range(600):
            if (tmp_path / "r").exists():
                break
            time.sleep(0.05)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert "goes on where it stopped" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert (tmp_path / "r" / "checkpoint.safetensors").exists()
