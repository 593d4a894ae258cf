"""The published schema describes what audits write, and refuses what they do not."""

import copy
import json
from importlib import resources
from typing import Any

import pytest
import torch
from torch import nn

import nescio

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads(resources.files("nescio.report").joinpath("audit.schema.json").read_text())
FEW: dict[str, Any] = {"rays": 3, "attack_steps": 1, "alphas": (1.0, 10.0), "progress": False}


def stored(audit: nescio.Audit) -> dict[str, Any]:
    """What a file gives back."""
    found: dict[str, Any] = json.loads(json.dumps(audit.to_json(), allow_nan=False))
    return found


def labeled(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(count, 2, generator=torch.Generator().manual_seed(count))
    return x, (x[:, 0] > 0).long()


def linear(outputs: int) -> nn.Module:
    net = nn.Linear(2, outputs)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[-3.0, 0.0], [3.0, 0.0]])[:outputs])
        net.bias.zero_()
    return net


@pytest.fixture(scope="module")
def classes() -> dict[str, Any]:
    """With a guard, an OOD set and a limit."""
    ood = {"far": 9 + torch.zeros(5, 2)}
    require = ["ece<0.2", "abstained[far]>0.5"]
    return stored(
        nescio.audit(linear(2), labeled(700), train=labeled(300), ood=ood, require=require, **FEW)
    )


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_an_audit_of_classes(classes):
    jsonschema.validate(classes, SCHEMA)
    assert classes["required"] == ["ece<0.2", "abstained[far]>0.5"]
    assert classes["guard"]["test"]["samples"] == 350


def test_an_audit_of_two_samples():
    found = stored(nescio.audit(linear(2), labeled(2), **FEW))
    jsonschema.validate(found, SCHEMA)
    assert found["status"] == "attention"
    assert "guard" in found["not_run"]


def test_an_audit_of_a_regression():
    x, _ = labeled(60)
    found = stored(nescio.audit(linear(2), (x, x[:, :1]), head="gaussian", **FEW))
    jsonschema.validate(found, SCHEMA)
    assert found["task"] == "regression"
    assert {one["name"] for one in found["findings"]} >= {"interval_coverage", "rmse_over_baseline"}


def test_an_audit_of_arrays():
    x, y = labeled(60)
    found = stored(nescio.audit(None, nescio.recorded(3 * x, labels=y), progress=False))
    jsonschema.validate(found, SCHEMA)
    assert "far field" in found["not_run"]


def test_a_class_that_the_test_data_lack():
    x, y = labeled(60)
    zero = (x[y == 0], y[y == 0])
    found = stored(nescio.audit(linear(2), zero, **FEW))
    jsonschema.validate(found, SCHEMA)
    assert found["samples"] == int((y == 0).sum())


def test_logits_that_are_not_numbers_are_an_error_in_words():
    net = linear(2)
    with torch.no_grad():
        net.bias[0] = torch.nan
    with pytest.raises(nescio.NescioError, match="contains NaN; check the network's inputs"):
        nescio.audit(net, labeled(60), **FEW)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "another"},
        {"format_version": 2},
        {"status": "good"},
        {"findings": [{"name": "ece"}]},
        {"predictors": {}},
    ],
)
def test_what_is_no_audit_is_refused(classes, change):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**copy.deepcopy(classes), **change}, SCHEMA)
