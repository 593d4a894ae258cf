"""`nescio guard --from-log`: labels of a service make the next guard."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("sqlalchemy")

import nescio
from nescio.cli.main import main
from nescio.serving.decision_log import Entry, KeptInput, Label, open_log

SIMULATION = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "from_log.py"))
MODULE = """
import torch
from torch import nn
def make_net():
    made = nn.Sequential(nn.Linear(2, 2))
    made.load_state_dict({"0.weight": torch.tensor([[-1.0, 0], [1, 0]]), "0.bias": torch.zeros(2)})
    return made
"""
GUARD = "guard logged_module_of_tests:make_net --from-log log.db --detector mahalanobis"


def run(text):
    return CliRunner().invoke(main, text.split())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "logged_module_of_tests.py").write_text(MODULE)
    return tmp_path


def test_labels_of_arrays_make_a_guard_whose_risk_holds(folder):
    with open_log("log.db") as log:
        SIMULATION["served"](0, log, SIMULATION["first_guard"](), 3000)
    fresh = SIMULATION["stream"](np.random.default_rng(9), 5000)
    np.savez("fresh.npz", x=fresh[0], y=fresh[1])
    done = run(f"{GUARD} --risk 0.05 --data fresh.npz --out new.safetensors")
    assert done.exit_code == 0, done.output
    about = json.loads(Path("new.safetensors.json").read_text())
    counted = about["log"]
    assert counted["least"] == 0.05
    assert counted["calibrating"] + counted["none"] + counted["thinned"] == counted["labeled"]
    assert f"{counted['calibrating']} calibrate. 0 (0.0%) are none of the classes" in done.output
    assert f"{counted['thinned']} of them are left out at random" in done.output
    assert '/v1/guards/g/load: {"path": "new.safetensors"}' in done.output
    assert about["test"]["risk"] <= 0.05
    assert about["test"]["answer"] > 0.5
    net = runpy.run_path("logged_module_of_tests.py")["make_net"]()
    made = nescio.load("new.safetensors", net=net)
    assert made.names is None
    few = run(f"{GUARD} --risk 0.001")
    assert few.exit_code == 1
    assert "takes at least 2995" in few.output  # log(0.05) / log(1 - 0.001) = 2994.2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--calibration x.npz", "--calibration does not go with --from-log"),
        ("--passes 3", "--passes does not go with --from-log"),
        ("--served other", "there is no guard 'other'"),
        ("--since yesterday", "--since takes a date"),
        ("--since 2100-01-01", "no labeled decision"),
    ],
)
def test_what_is_wrong_is_said(folder, more, said):
    with open_log("log.db") as log:
        log.register("g", "v", {"classes": ["0", "1"]})
    done = run(f"{GUARD} {more}")
    assert done.exit_code == 1
    assert said in done.output
    assert not Path("guard.safetensors").exists()


def patient(at, draws):
    age, smoker = int(draws.integers(20, 90)), ("yes", "no", None)[int(draws.integers(3))]
    died = "yes" if age + 20 * (smoker == "yes") + 8 * draws.normal() > 65 else "no"
    return {"age": age, "smoker": smoker}, died


def entry(at, row, **changed):
    own = {"replica": "0", "guard": "ward", "version": "v", "digest": "", "label": "yes"}
    own |= {"decision": "unsure", "probability": 0.5, "p_value": 0.5, "score": 0.0}
    own |= {"failure_score": 0.0, "rule": "r", "in_range": True, "set": None, "more": None}
    kept = KeptInput("row", json.dumps(row).encode())
    own |= {"picked": True, "propensity": 1.0, "kept": kept}
    return Entry(**{"id": f"d{at}", "time": float(at), **own, **changed})


def test_labels_of_rows_reach_a_network_that_reads_tables(folder):
    draws = np.random.default_rng(0)
    people = [patient(at, draws) for at in range(500)]
    lines = [f"{row['age']},{row['smoker'] or ''},{died}" for row, died in people]
    Path("people.csv").write_text("\n".join(["age,smoker,died", *lines]) + "\n")
    trained = run("train single --data people.csv --target died --run run --epochs 5")
    assert trained.exit_code == 0, trained.output
    later = [patient(at, draws) for at in range(300)]
    with open_log("log.db") as log:
        log.register("ward", "v", {"classes": ["no", "yes"], "input": {"shape": None}})
        log.write([entry(at, row) for at, (row, _) in enumerate(later)])
        log.add_labels([
            Label(decision=f"d{at}", reviewer="anna", kind="label", label=died, time=0.0)
            if at % 6
            else Label(decision=f"d{at}", reviewer="anna", kind=("none", "skip")[at % 12 > 0],
                label=None, time=0.0)
            for at, (_, died) in enumerate(later)
        ])  # fmt: skip
    done = run("guard run --from-log log.db --risk 0.3 --repeats --detector mahalanobis")
    assert done.exit_code == 0, done.output
    assert "250 calibrate. 25 (9.1%) are none of the classes" in done.output
    assert "25 open" in done.output
    assert "WARNING: the guarantees assume" in done.output
    assert nescio.load("guard.safetensors").names == ("no", "yes")
