"""Findings as a file of tests: it reads as Python, holds the limits, and fails when they break."""

import ast
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn

import nescio
from nescio.report.written_tests import tests_of as written

COMMAND = ["nescio", "audit", "own:make_net", "--out", "a b", "--write-tests=t.py", "--data", "x's"]
QUICK = {"rays": 0, "attack_steps": 0, "alphas": (1.0, 10.0), "budget": "quick"}


@pytest.fixture(scope="module")
def audit():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(200, 2, generator=rng)
    net = nn.Linear(2, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[-8.0, 0.0], [8.0, 0.0]]))
    ood = {"let]ters' \n\"": x + 9}
    options = {"require": ["nll<1e-9", "accuracy>0.9", "brier<0.026"]}
    return nescio.audit(net, (x, (x[:, 0] > 0).long()), ood=ood, progress=False, **QUICK, **options)


def test_the_file_reads_as_python(audit):
    text = written(audit.verdict, COMMAND, name="t.py")
    tree = ast.parse(text)
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert (
        len(names)
        == len(set(names))
        == 1 + len([one for one in audit.verdict.findings if one.value is not None])
    )
    (command,) = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    assert ast.literal_eval(command) == ["audit", "own:make_net", "--data", "x's"]
    assert "assert_limit(audit, 'accuracy>0.9')" in text
    assert "xfail" in text[: text.index("def test_nll")].splitlines()[-1]


def test_the_tests_pass_today_and_fail_when_it_gets_worse(audit, tmp_path):
    audit.save(tmp_path / "out")
    (tmp_path / "test_it.py").write_text(written(audit.verdict, COMMAND, name="test_it.py"))
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    words += ["-o", "addopts=", "--nescio-audit"]

    def run(folder):
        command = [*words, f"{folder}/audit.json"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    today = run("out")
    assert today.returncode == 0, today.stdout
    assert "1 xfailed" in today.stdout
    found = audit.findings.predictors["network"]
    worse = replace(found, test=replace(found.test, accuracy=0.5))
    findings = replace(audit.findings, predictors={"network": worse})
    replace(audit, findings=findings).save(tmp_path / "worse")
    later = run("worse")
    assert later.returncode == 1
    assert "test_accuracy" in later.stdout
