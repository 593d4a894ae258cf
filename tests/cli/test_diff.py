"""`nescio diff`: two audits of the command line, side by side."""

import json
import shutil
import sys

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

import nescio as library
from nescio.cli.main import main

AUDIT = ("--budget", "quick", "--rays", "0", "--attack-steps", "0", "--skip", "shift")


@pytest.fixture(scope="module")
def audits(guarded, tmp_path_factory):
    """Audits of a network and of a worse one, on the same data."""
    home = tmp_path_factory.mktemp("diff") / "home"
    shutil.copytree(guarded, home)
    patch = pytest.MonkeyPatch()
    patch.chdir(home)
    patch.setattr(sys, "path", [str(home), *sys.path])
    state = load_file("w.safetensors")
    state["2.bias"] = state["2.bias"] + torch.tensor([3.0, 0.0])
    save_file(state, "worse.safetensors")
    for weights, out in (("w.safetensors", "good"), ("worse.safetensors", "worse")):
        net = ("guarded_module_of_tests:make_net", "--weights", weights, "--out", out)
        data = ("--data", "new.npz", "--train", "train.npz")
        done = CliRunner().invoke(main, ["audit", *net, *data, *AUDIT])
        assert done.exit_code in (0, 2, 3), done.output
    patch.undo()
    return home


@pytest.fixture
def here(audits, monkeypatch):
    monkeypatch.chdir(audits)
    return audits


def test_a_worse_network_is_called_worse(here, nescio):
    done = nescio("diff", "good/audit.json", "worse", "--html", "d.html", "--markdown", "d.md")
    assert done.exit_code == 3, done.output
    assert "Worse: " in done.output
    assert "accuracy" in done.output
    assert "900 test samples, the same input and label, are in both audits" in " ".join(
        done.output.split()
    )
    page, text = (here / "d.html").read_text(), (here / "d.md").read_text()
    assert text.startswith("### Worse")
    assert "| accuracy (%)" in text
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert 'class="status fail"' in page


def test_the_other_way_round_it_is_better_and_the_same_is_neither(here, nescio):
    done = nescio("diff", "worse", "good", "--only", "accuracy", "--only", "NLL")
    assert done.exit_code == 0
    assert done.output.splitlines()[1].startswith("Better: accuracy")
    assert "coverage" not in done.output
    done = nescio("diff", "worse", "good", "--only", "acuracy")
    assert done.exit_code == 1
    assert "accuracy" in done.output
    done = nescio("diff", "good", "good")
    assert done.exit_code == 0
    assert "No number is shown to have changed" in done.output


def test_numbers_are_those_of_the_audits(here):
    audits = [library.load(name) for name in ("good", "worse")]
    found = library.evaluation.diff(*(audit.findings for audit in audits))
    accuracy = next(one for one in found.changes if one.name == "accuracy")
    wanted = [audit.results.value("network", "test", "accuracy") for audit in audits]
    assert [accuracy.before, accuracy.after] == pytest.approx(wanted)
    ece = next(one for one in found.changes if one.name == "ECE")
    assert ece.before == pytest.approx(audits[0].results.value("network", "test", "ece"), abs=1e-6)


def test_names_from_outside_are_not_markup(here, nescio):
    evil = '<img src=x onerror="alert(1)">|'
    for name in ("good", "worse"):
        said = json.loads((here / name / "audit.json").read_text())
        ood = said["sections"]["answers"]["ood"]
        ood[evil] = ood.pop("uniform noise")
        (here / f"{name}-evil").mkdir(exist_ok=True)
        (here / f"{name}-evil" / "audit.json").write_text(json.dumps(said))
    done = nescio("diff", "good-evil", "worse-evil", "--html", "d.html", "--markdown", "d.md")
    assert done.exit_code == 3, done.output
    assert "<img" not in (here / "d.html").read_text()
    assert "&lt;img" in (here / "d.html").read_text()
    assert "<img" not in (here / "d.md").read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format_version": 99}, "version 99"),
        ({"format": "other"}, "no manifest"),
        ({"predictors": 3}, "damaged"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(here, nescio, change, words):
    said = json.loads((here / "good" / "audit.json").read_text())
    (here / "odd.json").write_text(json.dumps({**said, **change}))
    done = nescio("diff", "good", "odd.json")
    assert done.exit_code == 1
    assert words in done.output


def test_audits_without_answers_say_what_to_do(here, nescio):
    said = json.loads((here / "good" / "audit.json").read_text())
    del said["sections"]["answers"]
    (here / "bare.json").write_text(json.dumps(said))
    done = nescio("diff", "bare.json", "worse")
    assert done.exit_code == 1
    assert "the first audit stores no answers" in done.output
