"""The five examples of CONTRIBUTING.md, each written to one file of a temporary package, work."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
EXAMPLES = dict(re.findall(r"^`src/([\w/]+)\.py`[^`]*(?:`[^`]+`[^`]*)*?^```python\n(.*?)^```",
                           TEXT, re.DOTALL | re.MULTILINE))  # fmt: skip
STEMS = {Path(path).name: code for path, code in EXAMPLES.items()}
KINDS = {
    "logit_gap": "detectors",
    "entropy_bonus": "losses",
    "noisy_weights": "predictors",
    "rings": "datasets",
    "softmax_limits": "experiments",
}
USED = """
import json, torch, nescio, nescio_papers, toys
from nescio.core import registry

rings = nescio.data.load("rings")
loss = toys.entropy_bonus.entropy_bonus(nescio.losses.nll())
model = nescio.train(lambda: nescio.nets.mlp(2, 2), rings.train, loss=loss, epochs=3)
members = registry.predictors["noisy_weights"](model.member(0), passes=4)
assert members(rings.test[0]).members == 4
far = nescio.geometry.far_field(members, *nescio.geometry.through_origin(rings.test[0][:5]))
assert far.slope.shape == (4, 5, 2)  # geometry reads the members without knowing the source
detector = registry.detectors["logit_gap"]()
activations = nescio.observe(model, rings.test, progress=False)
guard = nescio.guard(
    model, rings.validation, train=rings.train, detector="logit_gap", risk=0.5, progress=False
)
assert len(guard(rings.test[0])) == len(detector(activations)) == 300
from nescio_papers import named, run_experiment
page = run_experiment(named("softmax-limits"), "run", show=False)
assert "holds" in page.read_text() and (page.parent / "ray.png").exists()
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package `toys` with one file per example, and a line for each in its `__init__`."""
    folder = tmp_path_factory.mktemp("contributing")
    (folder / "toys").mkdir()
    for stem, code in STEMS.items():
        (folder / "toys" / f"{stem}.py").write_text(code)
    lines = [f"from toys import {stem} as {stem}\n" for stem in STEMS]
    (folder / "toys" / "__init__.py").write_text("".join(lines))
    return folder


def run(package: Path, *arguments: str) -> str:
    """The output of Python with the toy package on its path; it must succeed."""
    path = os.pathsep.join([str(package), str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=package,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_is_an_example_of_each_kind() -> None:
    assert set(STEMS) == set(KINDS)
    for path, code in EXAMPLES.items():
        assert f"def {Path(path).name}(" in code
        assert (ROOT / "src" / path).parent.is_dir()
        assert not (ROOT / "src" / f"{path}.py").exists()


def test_the_parts_are_listed(package: Path) -> None:
    code = "import toys, nescio_papers; from nescio.cli.main import main; main(['list'])"
    listed = run(package, "-c", code)
    for name in KINDS:
        assert name in listed


def test_the_parts_are_used_by_name(package: Path) -> None:
    run(package, "-c", USED)


def test_the_parts_are_contract_tested(package: Path) -> None:
    """The registry's and the rooms' contract tests find the new parts by themselves."""
    tests = ("core/test_registry.py", "losses/test_contract.py", "detectors/test_contract.py")
    said = run(
        package,
        *("-m", "pytest", "-vv", "--import-mode=importlib", "-p", "toys", "-p", "no:cacheprovider"),
        *("-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}", "-o", "addopts="),
        *(str(ROOT / "tests" / test) for test in tests),
        *("-k", f"({' or '.join(KINDS)}) and not every_option"),
    )
    for name, kind in KINDS.items():
        assert f"[{kind}-{name}]" in said
    assert said.count("PASSED") > 20
