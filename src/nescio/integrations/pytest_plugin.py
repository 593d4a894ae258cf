"""nescio in pytest: the fixture `nescio_audit`, `assert_limit` and `assert_guarded`.

The plugin is there wherever nescio is installed, and loads nothing until a test asks for it.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from nescio.evaluation import Audit, Finding


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --nescio-audit audit.json`."""
    group = parser.getgroup("nescio")
    group.addoption(
        "--nescio-audit",
        metavar="FILE",
        help="read this audit.json in place of running audits again (nescio_audit.command)",
    )


class Auditing:
    """What the fixture `nescio_audit` returns: it runs or reads audits, each of them once."""

    def __init__(self, folder: Callable[[], Path], given: str | None) -> None:
        self._folder, self._given = folder, given
        self._done: dict[tuple[str, ...], Audit] = {}

    def __call__(self, net: Any, data: Any, **options: Any) -> "Audit":
        """Audit a network: `nescio.audit`, without a progress bar."""
        from nescio.evaluation import audit

        return audit(net, data, **{"progress": False, **options})

    def command(self, words: Sequence[str]) -> "Audit":
        """Run a command such as `["audit", "mymodule:make_net", "--data", "test.npz"]`.

        It runs once for all tests, in the folder of pytest; `--nescio-audit FILE` reads a file
        instead.
        """
        if self._given is not None:
            return self.load(self._given)
        key = tuple(words)
        if key not in self._done:
            self._done[key] = _run(list(words), self._folder() / "audit")
        return self._done[key]

    def load(self, path: str | Path) -> "Audit":
        """Read an `audit.json`."""
        from nescio.core import load

        found: Audit = load(path, kind="audit")
        return found


def _run(words: list[str], out: Path) -> "Audit":
    from nescio.core import load

    command = [sys.executable, "-m", "nescio", *words, "--out", str(out)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if not (out / "audit.json").exists():
        said = (result.stderr or result.stdout).strip()
        pytest.fail(f"`nescio {shlex.join(words)}` failed:\n{said}", pytrace=False)
    found: Audit = load(out / "audit.json", kind="audit")
    return found


@pytest.fixture(scope="session")
def nescio_audit(request: pytest.FixtureRequest) -> Auditing:
    """Audits networks: `nescio_audit(net, (x, y))`, `.command([...])`, `.load("audit.json")`."""
    factory = request.getfixturevalue("tmp_path_factory")
    return Auditing(lambda: factory.mktemp("nescio"), request.config.getoption("--nescio-audit"))


def assert_limit(audit: Any, limit: str, *, at_worst: str = "pass") -> None:
    """Fail unless a number of an audit keeps a limit such as `ece<0.05`.

    The whole interval must keep it. A number that was not measured keeps no limit.

    audit: an audit; `nescio.load` reads one from its file.
    limit: the limit, such as `"ece<0.05"` or `"abstained[letters]>0.9"`.
    at_worst: `"attention"` also passes where the interval holds the limit, so that the data do not
      tell.
    """
    for one in _findings(audit, limit):
        unclear = at_worst == "attention" and one.status == "attention" and one.value is not None
        assert one.status == "pass" or unclear, _said(one)


def _findings(audit: Any, limit: str) -> "list[Finding]":
    from dataclasses import replace

    from nescio.evaluation import requirements, verdict_of

    wanted = requirements(limit)
    found = verdict_of(replace(audit.findings, required=wanted)).findings
    return [one for one in found if one.required is not None]


def _said(one: "Finding") -> str:
    from nescio.report import limit_of, number_of

    number = f"{one.title} ({one.label}): {number_of(one)}; {limit_of(one)}"
    return f"{one.status}: {number}. {one.advice}".strip()


def assert_guarded(guard: Any, data: Any) -> None:
    """Fail if labeled data break a guarantee of a guard more clearly than chance allows.

    It fails by chance in at most 1 of 1,000 runs for each guarantee.

    guard: a guard of classes or of numbers, or its file.
    data: inputs and labels `(x, y)` that the guard was not calibrated on.
    """
    from nescio.core import NescioError, load, quiet
    from nescio.data import door
    from nescio.evaluation import broken_by

    found = load(guard, kind="guard") if isinstance(guard, (str, Path)) else guard
    if not hasattr(found, "rules"):
        raise NescioError(
            f"assert_guarded takes a guard of classes or of numbers, got {type(found).__name__}"
        )
    if not found.rules[0].coverage.holds:
        raise AssertionError(
            f"the guard answers, but guarantees no error rate of {found.risk:g}: calibrate it with "
            "more samples, or with a larger risk"
        )
    x, y = door.read(data, name="data")
    with quiet():
        decisions = found(x)
    summary, answered = decisions.summary(y), int(decisions.answered.sum())
    errors = int(summary.get("errors", summary.get("misses", 0)))
    counts = {"samples": len(decisions), "answered": answered, "errors": errors}
    broken = broken_by(found, ood=round(len(decisions) * summary["ood"]), **counts)
    assert not broken.risk, (
        f"{errors} of {answered} answers are wrong, {errors / max(answered, 1):.1%}; the guard "
        f"guarantees at most {found.risk:.1%}: these data are not like the calibration data, or "
        "the network has changed"
    )
    assert not broken.false_alarm, (
        f"{summary['ood']:.1%} of {len(decisions)} samples are called OOD; the guard guarantees at "
        f"most {found.false_alarm:.1%}: these data are not like the calibration data"
    )
