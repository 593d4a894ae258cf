"""Sections: isolation, leaving out, budgets, kept parts, and the contract of the registry."""

from dataclasses import dataclass, fields, is_dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.core import NescioError
from nescio.core.registry import audit_sections
from nescio.evaluation.audit import (
    audit_classes,
    examination,
    far_field_section,
    ood_section,
    sections,
)
from nescio.evaluation.audit.kept_parts import FOLDER, KeptParts
from nescio.evaluation.audit.sections import BUDGETS, PARTS, AuditPlan, in_order, read_sections

QUICK = {"rays": 0, "attack_steps": 0, "alphas": (1.0, 10.0), "progress": False}


@pytest.fixture(scope="module")
def data():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, generator=rng)
    return x, (x[:, 0] > 0).long()


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))


@dataclass(frozen=True)
class Counted:
    value: int


def made(monkeypatch, **parts):
    """Sections of these functions alone."""
    shown = [
        sections.AuditSection(
            name=name,
            title=name,
            make=make,
            place=k,
            budgets=BUDGETS,
            tasks=("classification", "regression"),
        )
        for k, (name, make) in enumerate(parts.items())
    ]
    monkeypatch.setattr(sections, "in_order", lambda: shown)


def test_a_section_that_fails_loses_nothing_else(monkeypatch, net, data):
    def broken(material) -> Counted:
        raise RuntimeError("out of tricks\nsecond line")

    def sound(material) -> Counted:
        return Counted(len(material.y))

    made(monkeypatch, broken=broken, sound=sound)
    found = nescio.audit(net, data, **QUICK).findings
    assert found.sections == {"sound": Counted(60)}
    assert found.not_run["broken"] == "it failed with RuntimeError: out of tricks"
    assert found.predictors["network"].test.accuracy is not None


@pytest.mark.parametrize("part", ["calibration", "along_ray", "histogram"])
def test_a_part_of_a_predictor_that_fails_is_named(monkeypatch, net, data, part):
    def broken(*_, **__):
        raise ZeroDivisionError("by nothing")

    if part == "histogram":  # the answers themselves: nothing could be said without them
        monkeypatch.setattr(examination, part, broken)
        with pytest.raises(ZeroDivisionError):
            nescio.audit(net, data, **QUICK)
        return
    monkeypatch.setattr(examination, part, broken)
    found = nescio.audit(net, data, **QUICK).findings
    name = "scaled inputs" if part == "along_ray" else part
    assert found.not_run[name] == "it failed with ZeroDivisionError: by nothing"
    assert found.predictors["network"].ood["uniform noise"].mean_max_confidence is not None


def test_parts_are_left_out_by_name(net, data):
    names = ["far-field", "scaled_inputs", *(p for p in PARTS if p not in ("far field",))]
    options = {**QUICK, "rays": 2, "attack_steps": 2}
    found = nescio.audit(net, data, skip=names, **options).findings
    assert {name for name in PARTS if found.not_run.get(name) == sections.SKIPPED} == set(PARTS)
    one = found.predictors["network"]
    assert one.calibration is one.failure is one.far_field is one.scaling is found.shift is None
    assert one.ood == {}
    assert found.guard.skipped == sections.SKIPPED
    every = nescio.audit(net, data, skip=list(audit_sections), **QUICK).findings
    assert every.sections == {}


def test_names_that_are_unknown_are_refused_before_the_work(net, data):
    with pytest.raises(NescioError, match="did you mean 'far field'"):
        nescio.audit(net, data, skip=["far fild"])
    with pytest.raises(NescioError, match="skip and also both name stability"):
        nescio.audit(net, data, skip=["stability"], also=["stability"])
    with pytest.raises(NescioError, match="one of quick, standard, thorough, got 'fast'"):
        nescio.audit(net, data, budget="fast")


def test_budgets(net, data):
    plan = AuditPlan.of("quick")
    plan.sections(SimpleNamespace(task="classification"))
    assert "not part of the quick budget" in plan.not_run["stability"]
    assert "--also" in plan.not_run["stability"]
    quick = nescio.audit(net, data, budget="quick", **{**QUICK, "rays": None}).findings
    assert quick.budget == "quick"
    rays = quick.predictors["network"].far_field.rays
    assert {one.count for one in rays.values()} == {20}


def test_a_killed_audit_goes_on_to_the_same_result(monkeypatch, net, data, tmp_path):
    calls = []

    def first(material) -> Counted:
        calls.append("first")
        return Counted(1)

    def killed(material) -> Counted:
        raise KeyboardInterrupt

    def last(material) -> Counted:
        calls.append("last")
        return Counted(2)

    options = {**QUICK, "rays": 3, "attack_steps": 2}
    made(monkeypatch, first=first, second=killed)
    with pytest.raises(KeyboardInterrupt):
        nescio.audit(net, data, run=tmp_path, **options)
    kept = sorted(path.suffix for path in (tmp_path / FOLDER).iterdir())
    assert kept == [".json", ".json", ".json", ".safetensors"]  # section, far field, shift; attack
    made(monkeypatch, first=first, second=last)
    whole = nescio.audit(net, data, **options)
    calls.clear()

    def unreachable(*_, **__):
        raise AssertionError("made again")

    monkeypatch.setattr(audit_classes, "shifted", unreachable)
    monkeypatch.setattr(far_field_section, "far_away", unreachable)
    monkeypatch.setattr(ood_section, "pgd", unreachable)
    again = nescio.audit(net, data, run=tmp_path, **options)
    assert calls == ["last"]
    assert again.to_json() == whole.to_json()
    again.save(tmp_path)
    assert not (tmp_path / FOLDER).exists()


def test_kept_parts_are_those_of_one_audit(tmp_path):
    one, other = (KeptParts.of(tmp_path, {"w": torch.full((2,), w)}, ("a", 3)) for w in (1.0, 2.0))
    assert one.kept("part", Counted, lambda: Counted(1)) == Counted(1)
    assert one.kept("part", Counted, lambda: Counted(7)) == Counted(1)
    assert other.kept("part", Counted, lambda: Counted(2)) == Counted(2)


def test_a_damaged_part_is_made_again(tmp_path):
    parts = KeptParts.of(tmp_path, "one")
    assert parts.kept("accuracy", float, lambda: 0.5) == 0.5
    (path,) = (tmp_path / FOLDER).iterdir()
    path.write_text(path.read_text()[:40])
    assert parts.kept("accuracy", float, lambda: 0.25) == 0.25
    assert parts.kept("accuracy", float, lambda: 0.75) == 0.25


def test_groups_and_names_must_fit(net, data):
    with pytest.raises(NescioError, match="each of the 60 test samples in their order, got 2"):
        nescio.audit(net, data, groups={"site": ["a", "b"]})
    with pytest.raises(NescioError, match="2 names of columns"):
        nescio.audit(net, data, columns=["a", "b"])
    found = nescio.audit(net, data, columns=["a", "b", "c"], class_names=["no", "yes"], **QUICK)
    assert found.findings.columns == ("a", "b", "c")
    assert found.to_json()["class_names"] == ["no", "yes"]


@pytest.mark.parametrize("one", in_order(), ids=lambda one: one.name)
def test_the_contract_of_a_section(one):
    assert one.name == one.name.lower().replace("_", " ").replace("-", " ")
    assert one.title
    assert one.__doc__
    assert set(one.budgets) <= set(BUDGETS)
    assert "thorough" in one.budgets
    assert is_dataclass(one.kind)
    assert fields(one.kind)
    assert one.kind.__dataclass_params__.frozen


def test_every_section_has_words():
    from nescio.report.sections import section_words

    assert set(audit_sections) <= set(section_words._words)


def test_sections_are_read_back_and_what_cannot_be_read_is_said():
    found, unread = read_sections({"unknown": {}, "answers": [1]}, "here")
    assert found == {}
    assert "does not know" in unread["unknown"]
    assert "'answers' of here" in unread["answers"]


@pytest.mark.parametrize("stored", [{"unknown": {}}, {"groups": {"samples": "many"}}])
def test_a_section_that_was_judged_must_be_read(stored):
    with pytest.raises(NescioError, match="cannot be judged without"):
        read_sections(stored, "here", set(stored))


def test_kept_parts_know_the_groups(monkeypatch, net, tmp_path):
    rng = torch.Generator().manual_seed(1)
    x = torch.randn(1200, 3, generator=rng)
    pair = x, (x[:, 0] > 0).long()

    def groups(material) -> Counted:
        return Counted(material.groups["site"].count("b"))

    made(monkeypatch, groups=groups)
    sites = np.array(["a"] * 1200)  # numpy prints the ends of a long array alone
    first = nescio.audit(net, pair, groups={"site": sites}, run=tmp_path, **QUICK)
    assert first.findings.sections == {"groups": Counted(0)}
    sites[600] = "b"
    again = nescio.audit(net, pair, groups={"site": sites}, run=tmp_path, **QUICK)
    assert again.findings.sections == {"groups": Counted(1)}


def test_data_are_hashed_only_where_parts_are_kept(monkeypatch, net, data):
    def unreachable(*_):
        raise AssertionError("hashed")

    monkeypatch.setattr(audit_classes, "audited", unreachable)
    assert nescio.audit(net, data, **QUICK).findings.samples == 60
