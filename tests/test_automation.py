"""What runs the audit elsewhere: the GitHub action, the pre-commit hooks, and their examples."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from torch import nn

from nescio.cli.main import COMMANDS, main

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
EXAMPLES = [
    yaml.safe_load(text)
    for text in re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs" / "guide" / "ci.md").read_text(), re.DOTALL
    )
]
MODULE = """
from torch import nn

def make_net():
    return nn.Linear(2, 2)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a project")
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(60, 2, generator=rng)
    np.savez(folder / "test.npz", x=x.numpy(), y=(x[:, 0] > 0).long().numpy())
    net = nn.Linear(2, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[-8.0, 0.0], [8.0, 0.0]]))
    save_file(net.state_dict(), folder / "w.safetensors")
    (folder / "own.py").write_text(MODULE)
    return folder


ARGUMENTS = 'own:make_net --weights w.safetensors --data "test.npz" --budget quick --rays 0 '
ARGUMENTS += "--attack-steps 0"


def run(place, arguments, fail_on, out):
    """The step of the action that audits, as its runner would run it."""
    (step,) = [one for one in ACTION["runs"]["steps"] if one.get("id") == "audit"]
    given = {"arguments": arguments, "fail-on": fail_on, "out": out}
    env = {k: given[re.search(r"inputs\.([\w-]+)", v)[1]] for k, v in step["env"].items()}
    files = {"GITHUB_STEP_SUMMARY": f"{out}.md", "GITHUB_OUTPUT": f"{out}.txt"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=place,
        env={**os.environ, **env, **files, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return done, (place / f"{out}.txt").read_text()


def test_the_action_audits_and_writes_the_summary_of_the_job(place):
    done, output = run(place, f"{ARGUMENTS} --require 'nll<1e-9'", "fail", "one")
    assert done.returncode == 3, done.stderr
    assert output == "status=fail\n"
    summary = (place / "one.md").read_text()
    assert "negative log-likelihood" in summary
    assert json.loads((place / "one" / "audit.json").read_text())["status"] == "fail"


def test_the_action_lets_attention_pass_and_tells_an_error(place):
    done, output = run(place, ARGUMENTS, "never", "two")
    assert done.returncode == 0, done.stderr
    assert output in ("status=attention\n", "status=fail\n", "status=pass\n")
    done, output = run(
        place, "own:make_net --weights w.safetensors --data nowhere.npz", "fail", "three"
    )
    assert done.returncode == 1
    assert output == "status=error\n"
    assert "nowhere.npz" in done.stderr


@pytest.mark.parametrize("arguments", ["own:make_net --data 'test.npz", " "])
def test_the_action_never_audits_something_else(place, arguments):
    done, output = run(place, arguments, "never", "four")
    assert done.returncode == 1
    assert set(output.split()) == {"status=error"}
    assert "arguments" in done.stderr
    assert not (place / "four").exists()


def test_every_step_names_its_inputs():
    text = (ROOT / "action.yml").read_text()
    used = set(re.findall(r"inputs\.([\w-]+)", text))
    assert used == set(ACTION["inputs"])
    scripts = [step.get("run", "") for step in ACTION["runs"]["steps"]]
    assert not any("${{" in script for script in scripts)  # inputs never become code


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_runs_a_command_that_there_is(hook):
    program, command, *options = hook["entry"].split()
    assert program == "nescio"
    assert command in COMMANDS
    assert hook["language"] == "python"
    text = CliRunner().invoke(main, [command, "--help"]).output
    assert all(option in text for option in options if option.startswith("-"))


def test_the_hook_fails_a_push_whose_network_fails(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    monkeypatch.delitem(sys.modules, "own", raising=False)
    (hook,) = [one for one in HOOKS if one["id"] == "nescio-audit"]
    words = [*hook["entry"].split()[1:], *ARGUMENTS.replace('"', "").split(), "--out", "hooked"]
    done = CliRunner().invoke(main, [*words, "--require", "nll<1e-9"])
    sys.modules.pop("own", None)
    assert done.exit_code == 3, done.output


def test_the_examples_of_the_documentation_fit():
    workflow, hooks = EXAMPLES
    (step,) = [one for one in workflow["jobs"]["audit"]["steps"] if "nescio" in one.get("uses", "")]
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert {name for name, one in ACTION["inputs"].items() if one.get("required")} <= set(
        step["with"]
    )
    used = {hook["id"] for repo in hooks["repos"] for hook in repo["hooks"]}
    assert used == {hook["id"] for hook in HOOKS}
