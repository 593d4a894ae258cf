"""An audit from its file is the audit that was saved."""

import json

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError
from nescio.core.files import NewerError, WrongKindError

QUICK = {"rays": 0, "attack_steps": 0, "budget": "quick", "progress": False}


@pytest.fixture(scope="module")
def classes():
    moons = nescio.data.half_moons()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    return nescio.audit(net, moons.test, train=moons.train, validation=moons.validation, **QUICK)


def numbers():
    torch.manual_seed(0)
    x = torch.randn(700, 2)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    return nescio.audit(net, (x, x[:, :1] + 0.1 * torch.randn(700, 1)), head="gaussian", **QUICK)


def test_an_audit_of_classes_is_read_back(classes, tmp_path):
    classes.save(tmp_path)
    for path in (tmp_path, tmp_path / "audit.json"):
        again = nescio.load(path)
        written = json.loads((tmp_path / "audit.json").read_text())
        assert json.loads(json.dumps(again.to_json())) == written
    assert again.results == classes.results
    assert str(again.verdict) == str(classes.verdict)


def test_an_audit_of_numbers_is_read_back(tmp_path):
    made = numbers()
    made.save(tmp_path)
    again = nescio.load(tmp_path / "audit.json")
    assert type(again.findings) is type(made.findings)
    written = json.loads((tmp_path / "audit.json").read_text())
    assert json.loads(json.dumps(again.to_json())) == written


def test_saving_a_loaded_audit_leaves_its_guard(classes, tmp_path):
    assert classes.guard is not None
    classes.save(tmp_path)
    page = (tmp_path / "audit.html").read_text()
    nescio.load(tmp_path).save(tmp_path)
    assert (tmp_path / "guard.safetensors").exists()
    assert (tmp_path / "audit.html").read_text() == page


def test_other_files_are_refused(classes, tmp_path):
    classes.save(tmp_path)
    path = tmp_path / "audit.json"
    with pytest.raises(WrongKindError, match="holds an audit"):
        nescio.load(path, kind="guard")
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "format_version": 2}))
    with pytest.raises(NewerError, match="upgrade nescio"):
        nescio.load(path)
    path.write_text('{"format": "nescio audit"}')
    with pytest.raises(NescioError, match="damaged"):
        nescio.load(path)
    path.write_text("[1, 2")
    with pytest.raises(NescioError):
        nescio.load(path)


def changed(path, said, **changes):
    path.write_text(json.dumps({**said, **changes}))
    return path


def test_what_cannot_be_read_is_left_out_or_refused(classes, tmp_path):
    classes.save(tmp_path)
    path = tmp_path / "audit.json"
    said = json.loads(path.read_text())
    more = {**said["sections"], "answers": {"test": "none"}, "of a later nescio": {}}
    again = nescio.load(changed(path, said, sections=more))
    assert {"answers", "of a later nescio"} <= again.verdict.not_run.keys()
    assert again.verdict.status == classes.verdict.status
    judged = [*said["findings"], {**said["findings"][0], "section": "answers"}]
    with pytest.raises(NescioError, match="cannot be judged without its section 'answers'"):
        nescio.load(changed(path, said, sections=more, findings=judged))
    with pytest.raises(NescioError, match="names no predictor"):
        nescio.load(changed(path, said, predictors={}))
    with pytest.raises(NescioError, match="expected int, got 'many'"):
        nescio.load(changed(path, said, samples="many"))
