"""nescio in pytest: limits, guarantees, and audits that are run or read once."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import nescio
from nescio.core import NescioError
from nescio.integrations import assert_guarded, assert_limit
from nescio.integrations.pytest_plugin import Auditing, _findings

QUICK = {"rays": 0, "attack_steps": 0, "alphas": (1.0, 10.0), "budget": "quick"}
MODULE = """
from torch import nn

def make_net():
    return nn.Linear(2, 2)
"""


def samples(count, seed=0):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 2, generator=rng)
    return x, (x[:, 0] > 0).long()


@pytest.fixture(scope="module")
def net():
    made = nn.Linear(2, 2)
    with torch.no_grad():
        made.weight.copy_(torch.tensor([[-8.0, 0.0], [8.0, 0.0]]))
        made.bias.zero_()
    return made


@pytest.fixture(scope="module")
def audit(net):
    return nescio.audit(net, samples(200), progress=False, **QUICK)


def test_a_limit_that_is_kept_and_one_that_is_not(audit):
    assert_limit(audit, "accuracy>=0.9")
    with pytest.raises(AssertionError, match=r"fail: .*\(nll\): .*; below 1e-09"):
        assert_limit(audit, "nll<1e-9")
    with pytest.raises(AssertionError, match="attention"):
        assert_limit(audit, "accuracy>=0.999")  # 200 samples cannot show it
    assert_limit(audit, "accuracy>=0.999", at_worst="attention")
    assert [one.required for one in _findings(audit, "accuracy>=0.9")] == ["accuracy>=0.9"]
    with pytest.raises(NescioError, match="unknown number"):
        assert_limit(audit, "acuracy>0.9")
    with pytest.raises(AssertionError, match="fail"):
        assert_limit(audit, " nll < 1e-9 ")


def test_a_number_that_was_not_measured_keeps_no_limit(audit):
    for limit in ("smallest_change>=0.1", "abstained[nothing]>=0.5"):
        with pytest.raises(AssertionError, match="not measured|there is no"):
            assert_limit(audit, limit, at_worst="attention")


def test_a_guard_whose_guarantees_hold_and_one_whose_do_not(net):
    with nescio.core.quiet():
        guard = nescio.guard(net, samples(2000, 1), train=samples(500, 2), risk=0.05)
    x, y = samples(1000, 3)
    assert_guarded(guard, (x, y))
    with pytest.raises(AssertionError, match=r"answers are wrong.*at most 5.0%"):
        assert_guarded(guard, (x, 1 - y))
    with pytest.raises(AssertionError, match="are called OOD"):
        assert_guarded(guard, (x * 3, y))
    with pytest.raises(NescioError, match="a guard of classes or of numbers, got int"):
        assert_guarded(3, (x, y))


def test_a_guard_without_a_guarantee_is_not_taken_for_one(net):
    x, y = samples(400, 1)
    flipped = torch.where(torch.arange(400) % 3 == 0, 1 - y, y)
    with nescio.core.quiet():
        guard = nescio.guard(net, (x, flipped), train=samples(100, 2), risk=0.01)
    assert not guard.rules[0].coverage.holds
    with pytest.raises(AssertionError, match="guarantees no error rate"):
        assert_guarded(guard, (x, y))


def test_the_fixture_audits_a_network(nescio_audit, net):
    found = nescio_audit(net, samples(60), **QUICK)
    assert found.verdict.status in ("pass", "attention", "fail")


def test_a_command_runs_once_and_a_file_takes_its_place(tmp_path, monkeypatch, net):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(MODULE)
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    x, y = samples(60)
    np.savez(tmp_path / "test.npz", x=x.numpy(), y=y.numpy())
    words = ["audit", "own:make_net", "--weights", "w.safetensors", "--data", "test.npz"]
    words += ["--budget", "quick", "--rays", "0", "--attack-steps", "0"]
    folders = iter([tmp_path / "one"])
    run = Auditing(lambda: next(folders), None)
    found = run.command(words)
    assert run.command(words) is found  # a second run would ask for a second folder
    assert found.findings.predictors["network"].test.accuracy == 1.0
    assert_limit(found, "accuracy>=0.9")
    read = Auditing(lambda: tmp_path, str(tmp_path / "one" / "audit" / "audit.json"))
    assert read.command(["audit", "whatever"]).findings.samples == 60
    bad = Auditing(lambda: tmp_path / "two", None)
    with pytest.raises(pytest.fail.Exception, match="nowhere.npz"):
        bad.command([*words[:5], "nowhere.npz"])
