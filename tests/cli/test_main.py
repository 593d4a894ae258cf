"""The command as a whole: help, wrong calls, Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from nescio.cli.main import COMMANDS, reference

NAME = "guarded_module_of_tests"
DEFAULT = f"{NAME}:make_net"


def test_help_teaches(nescio: Callable[..., Result]) -> None:
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["audit", "NET", "--data", "no.npz"], "no.npz"),
        (["audit", "NET"], "--data"),
        (["audit", "--data", "test.npz"], "--data: without a NETWORK"),
        (["audit", "--net", "NET", "--class-names", "a,b"], "--net, --class-names: without a"),
        (["audit", "--passes", "0"], "--passes: without a NETWORK"),
        (["compare", "--pool", "max"], "--pool: without a NETWORK"),
        (["pieces", "--net", "NET"], "--net: without a NETWORK"),
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
        (["pieces", "--data", "test.npz"], "--data: without a NETWORK"),
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
def test_bad_calls_say_what_to_do(
    folder: Path,
    words: list[str],
    said: str,
    nescio: Callable[..., Result],
    own: Callable[..., str],
) -> None:
    kinds = ("needs", "wrong", "missing", "three", "smooth")
    factories = {"NET": "make_net", **{kind.upper(): kind for kind in kinds}}
    real = [own(folder, factories[word]) if word in factories else word for word in words]
    result = nescio(*real)
    assert result.exit_code != 0
    assert said in result.output
    assert "Traceback" not in result.output
    assert not (folder / "r").exists() or not list((folder / "r").iterdir())


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_a_scheduler_stop_cleanly_and_the_run_goes_on(
    sent: signal.Signals, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "nescio", "train", "deep_ensemble", "--data", "half_moons",
             "--run", str(tmp_path / "r"), "--epochs", "100000", "-o", "members=2"]  # fmt: skip
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(words, stderr=file, stdout=file, env={**os.environ})
        for _ in range(600):
            if (tmp_path / "r").exists():
                break
            time.sleep(0.05)
        time.sleep(2.0)
        process.send_signal(sent)
        assert process.wait(timeout=60) == 130
    assert "goes on where it stopped" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert (tmp_path / "r" / "checkpoint.safetensors").exists()


def test_a_dot_for_a_colon_is_seen(home: Path, nescio: Callable[..., Result]) -> None:
    for command, data in (("guard", "--calibration"), ("audit", "--data")):
        words = [command, f"{NAME}.make_net", "--weights", "w.safetensors", data, "held.npz"]
        assert f"did you mean {NAME}:make_net?" in nescio(*words).output


def test_the_reference_has_every_command_with_its_group_and_its_help() -> None:
    pages = {one.name: one for one in reference()}
    assert {name for name in pages if " " not in name} == set(COMMANDS)
    assert {"label start", "data download"} <= set(pages)
    for name, page in pages.items():
        assert page.group == COMMANDS[name.split()[0]].group
        assert page.help.startswith(f"Usage: nescio {name} ")
